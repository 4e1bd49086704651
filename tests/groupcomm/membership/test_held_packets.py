"""Packets that wait to be passed on: each daemon's latest join and commit, and all the rest."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from groupcomm.config.view import Incarnation
from groupcomm.membership.relays import MOST_HELD, Held
from groupcomm.wire.control import ControlPacket
from groupcomm.wire.membership import ControlKind
from tests.examples import examples

JOIN, COMMIT = ControlKind.JOIN, ControlKind.COMMIT
ALIKE: dict[int, int] = {
    ControlKind.JOIN: JOIN,
    ControlKind.SHORT_JOIN: JOIN,
    ControlKind.COMMIT: COMMIT,
    ControlKind.SHORT_COMMIT: COMMIT,
}
"""The kinds of which only the latest message of a daemon waits."""

KINDS = [*ALIKE, ControlKind.LEAVE, ControlKind.REPAIR, 200]


def packet(
    origin: int = 1, kind: int = JOIN, sequence: int = 7, part: int = 0, start: int = 1
) -> ControlPacket:
    return ControlPacket(
        origin=origin,
        incarnation=Incarnation(start, start),
        sequence=sequence,
        kind=kind,
        part=part,
        parts=3,
        payload=b"",
    )


def numbered(origin: int, sequence: int, part: int) -> ControlPacket:
    """Return a packet whose kind its sequence says: a daemon gives each message another one."""
    return packet(origin, KINDS[sequence % len(KINDS)], sequence, part)


PACKETS = st.lists(
    st.builds(numbered, st.integers(1, 2), st.integers(1, 2 * len(KINDS)), st.integers(0, 2)),
    max_size=20,
    unique_by=lambda each: (each.origin, each.sequence, each.part),
)


def held(packets: Iterable[ControlPacket]) -> Held:
    found = Held()
    for each in packets:
        found.add(each)
    return found


def names(packets: Iterable[ControlPacket]) -> list[tuple[int, int, int]]:
    """Return what tells packets apart, sorted."""
    return sorted((each.origin, each.sequence, each.part) for each in packets)


def of_one_sort(one: ControlPacket, other: ControlPacket) -> bool:
    """Return whether of the messages of two packets only the later one waits."""
    kinds = ALIKE.get(one.kind), ALIKE.get(other.kind)
    return one.origin == other.origin and kinds[0] == kinds[1] is not None


@examples(300)
@given(packets=PACKETS)
def test_of_each_daemon_the_latest_join_and_commit_wait_and_all_other_messages(
    packets: list[ControlPacket],
) -> None:
    """However they come, in all their parts."""
    left = [
        each
        for each in packets
        if not any(of_one_sort(each, one) and one.sequence > each.sequence for one in packets)
    ]
    waiting = held(packets)
    assert names(waiting.pop()) == names(left)
    assert waiting.pop() == [], "and are forgotten"


@examples(300)
@given(packets=PACKETS, told=PACKETS)
def test_what_others_have_passed_on_waits_no_more(
    packets: list[ControlPacket], told: list[ControlPacket]
) -> None:
    """A message goes part by part, and with it all earlier ones of its sort."""

    def is_needless(each: ControlPacket, one: ControlPacket) -> bool:
        later = of_one_sort(each, one) and one.sequence > each.sequence
        return later or names([each]) == names([one])

    waiting = held(packets)
    before = held(packets).pop()
    for one in told:
        waiting.drop(one)
    left = [each for each in before if not any(is_needless(each, one) for one in told)]
    assert names(waiting.pop()) == names(left)


def test_an_earlier_message_does_not_come_back() -> None:
    waiting = held([packet(sequence=9), packet(sequence=8)])
    assert names(waiting.pop()) == names([packet(sequence=9)])


def test_a_short_form_is_as_late_as_the_message_that_it_stands_for() -> None:
    later = packet(kind=ControlKind.SHORT_COMMIT, sequence=8)
    assert names(held([packet(kind=COMMIT), later]).pop()) == names([later])


def test_messages_of_another_start_count_for_themselves() -> None:
    """The first message of a start has a low sequence again."""
    anew = packet(sequence=1, start=2)
    assert held([packet(sequence=9), anew]).pop() == [anew]


def test_what_others_pass_on_of_an_earlier_start_says_nothing_of_this_one() -> None:
    anew = packet(sequence=1, start=2)
    waiting = held([anew])
    waiting.drop(packet(sequence=9))
    assert waiting.pop() == [anew]


def test_of_too_many_messages_the_oldest_goes() -> None:
    found = held(packet(kind=ControlKind.LEAVE, sequence=each) for each in range(MOST_HELD + 2))
    assert [each.sequence for each in found.pop()] == list(range(2, MOST_HELD + 2))
