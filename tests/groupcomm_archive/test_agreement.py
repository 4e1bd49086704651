"""Archives compare their digests, and tell what differs."""

from collections.abc import Sequence

import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_archive import agreement as module
from groupcomm_archive.agreement import CLAIM_S, Agreement, Difference
from groupcomm_archive.comparing import (
    Ask,
    Claim,
    Claims,
    Compact,
    Report,
    decode_comparing_untrusted,
    encode_comparing,
)
from groupcomm_archive.digests import SPAN_US, Digest, Range
from groupcomm_client.history.frames import ARCHIVES, Interval
from groupcomm_client.history.places import just_before

ANN, BOB, CAT = MemberId("#ann#a", 1), MemberId("#bob#b", 2), MemberId("#cat#c", 3)
VIEW = ViewId(5, "a", 7)


def place(span: int, offset: int = 0) -> Position:
    return Position(VIEW, span * SPAN_US + offset, 0, 0, 0)


class Archives:
    """Archives that hear each other."""

    def __init__(self, *members: MemberId) -> None:
        self.now = 0.0
        self.all = {member: Agreement() for member in members}
        for member, each in self.all.items():
            each.begin_session(member)
            each.is_live = True
        self.join()

    def join(self) -> None:
        view = GroupView(
            group=ARCHIVES,
            id=place(0),
            members=tuple(self.all),
            cause=Cause.JOIN,
            changed=(),
            vs_set=(),
            own=False,
        )
        for each in self.all.values():
            each.handle(view)

    def holds(
        self, member: MemberId, ranges: Sequence[bytes], intervals: Sequence[Interval] = ()
    ) -> None:
        """Let an archive hold digests of the ranges from 0; the last one is still open."""
        entries = [
            ("g", Range(VIEW, span), Digest(1, place(span, 9), value))
            for span, value in enumerate(ranges)
            if value
        ]
        last = place(len(ranges) - 1, 9)
        held = {"g": intervals or [(just_before(place(0)), last)]}
        self.all[member].update(held, {"g": last}, entries[:-1], entries[-1:])

    def talk(self) -> None:
        """Let time pass, and pass the messages on."""
        for _ in range(3):
            self.now += CLAIM_S
            for each in self.all.values():
                each.wake(self.now)
            for _ in range(3):
                self.pass_on()

    def pass_on(self) -> None:
        for sender, each in self.all.items():
            for action in each.pop_actions():
                message = Message(sender, 1, (action.to,), ServiceLevel.FIFO, 0, action.data, None)
                for member, other in self.all.items():
                    if action.to in (ARCHIVES, member.name):
                        other.handle(message)

    def compared(self, member: MemberId) -> dict[str, tuple[Position | None, int, int]]:
        """Return up to where an archive agrees with others, and the numbers of ranges."""
        self.all[member].handle(
            Message(
                CAT, 1, (ARCHIVES,), ServiceLevel.FIFO, 0, encode_comparing(Ask(1, ("g",))), None
            )
        )
        (action,) = self.all[member].pop_actions()
        report = decode_comparing_untrusted(action.data)
        assert isinstance(report, Report)
        (group,) = report.groups
        return {
            each.archive: (each.upto, each.ranges, len(each.differing)) for each in group.compared
        }


def test_archives_with_the_same_digests_agree_up_to_the_last_event() -> None:
    archives = Archives(ANN, BOB)
    archives.holds(ANN, [b"one", b"two", b"three"])
    archives.holds(BOB, [b"one", b"two", b"three"])
    archives.talk()
    for member, other in ((ANN, BOB), (BOB, ANN)):
        assert archives.compared(member) == {other.name: (place(2, 9), 3, 0)}
        assert archives.all[member].pop_differences() == []


@pytest.mark.parametrize("theirs", [b"other", b""])
def test_a_difference_is_told_once_and_by_both(theirs: bytes) -> None:
    archives = Archives(ANN, BOB)
    archives.holds(ANN, [b"one", b"two", b"three"])
    archives.holds(BOB, [b"one", theirs, b"three"])
    archives.talk()
    archives.talk()
    span = Range(VIEW, 1)
    assert archives.all[BOB].pop_differences() == [
        Difference(
            archive=ANN.name,
            group="g",
            after=span.first,
            upto=span.last,
            own=1 if theirs else 0,
            other=1,
        )
    ]
    assert len(archives.all[ANN].pop_differences()) == (1 if theirs else 0)
    assert archives.compared(BOB)[ANN.name] == (place(2, 9), 2, 1)


def test_what_one_does_not_hold_is_not_compared() -> None:
    archives = Archives(ANN, BOB)
    archives.holds(ANN, [b"one", b"two", b"three"])
    archives.holds(BOB, [b"half", b"two", b"three"], [(place(0, 5), place(2, 9))])
    archives.talk()
    assert archives.compared(BOB)[ANN.name] == (place(2, 9), 2, 0)
    assert archives.compared(ANN)[BOB.name] == (place(2, 9), 2, 0)


def test_an_archive_compares_once_it_has_come_as_far() -> None:
    archives = Archives(ANN, BOB)
    archives.holds(ANN, [b"one", b"two", b"three"])
    archives.holds(BOB, [b"one"])
    archives.talk()
    assert archives.compared(BOB)[ANN.name] == (None, 0, 0)
    archives.holds(BOB, [b"one", b"two", b"three"])
    assert archives.compared(BOB)[ANN.name] == (place(2, 9), 3, 0)


def test_an_open_range_is_not_compared_with_more_events() -> None:
    archives = Archives(ANN, BOB)
    archives.holds(ANN, [b"one", b"two"])
    archives.talk()
    archives.holds(BOB, [b"one", b"two and more", b"three"])
    archives.talk()
    assert archives.all[BOB].pop_differences() == []


def test_many_digests_come_in_several_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLAIMS", 3)
    archives = Archives(ANN, BOB)
    values = [b"%d" % number for number in range(20)]
    archives.holds(ANN, values)
    archives.holds(BOB, values)
    archives.talk()
    assert archives.compared(BOB)[ANN.name] == (place(19, 9), 20, 0)


def test_an_archive_that_left_is_forgotten() -> None:
    archives = Archives(ANN, BOB)
    archives.holds(ANN, [b"one", b"two"])
    archives.holds(BOB, [b"one", b"two"])
    archives.talk()
    del archives.all[BOB]
    archives.join()
    assert archives.compared(ANN) == {}


@pytest.mark.parametrize("span", [-1, -(2**62), 2**40 - 1, 2**63])
def test_claims_of_impossible_ranges_are_refused(span: int) -> None:
    """Their places would not fit into a report."""
    last = place(0)
    good, bad = (Claim("g", VIEW, each, True, 1, last, b"one") for each in (0, span))
    assert decode_comparing_untrusted(encode_comparing(Claims(False, (good,)))) is not None
    assert decode_comparing_untrusted(encode_comparing(Claims(False, (good, bad)))) is None
    assert encode_comparing(Compact("g", Range(VIEW, 2**40 - 2).last))


def test_a_report_has_each_group_once_however_often_it_is_asked_for() -> None:
    archives = Archives(ANN)
    archives.holds(ANN, [b"one", b"two"])
    archives.all[ANN].handle(
        Message(
            CAT, 1, (ARCHIVES,), ServiceLevel.FIFO, 0, encode_comparing(Ask(1, ("g",) * 9)), None
        )
    )
    (action,) = archives.all[ANN].pop_actions()
    report = decode_comparing_untrusted(action.data)
    assert isinstance(report, Report)
    assert [each.group for each in report.groups] == ["g"]


def test_a_difference_is_not_taken_over_and_stays() -> None:
    archives = Archives(ANN, BOB)
    archives.holds(ANN, [b"one", b"two", b"three"])
    archives.holds(BOB, [b"one", b"other", b"three"])
    for _ in range(3):
        archives.talk()
    for member, other in ((ANN, BOB), (BOB, ANN)):
        assert len(archives.all[member].pop_differences()) == 1
        assert archives.compared(member)[other.name] == (place(2, 9), 2, 1)
