"""The effects of filters on messages, without any daemon."""

import zlib
from collections.abc import Sequence
from pathlib import Path as FolderPath

import msgspec
import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.errors import LocalProtocolError
from groupcomm.events import Cause, GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm.trace.steps import AlgorithmStep, OfReceived, StampedSent
from groupcomm_client.filters import (
    CannotUndo,
    Factory,
    Filter,
    Manager,
    Newcomer,
    Outgoing,
    Path,
    ReceiveFilter,
    SendFilter,
    SystemEvent,
    Unfiltered,
    Way,
    application_of,
    causal,
    compression,
    default,
    delay,
    select_received,
    select_sent,
    set_default,
    shared,
    traced,
)
from groupcomm_client.filters.causal_order.group import CausalGroup
from groupcomm_client.filters.causal_order.stamps import (
    Stamp,
    decode_mark_untrusted,
    decode_stamp_untrusted,
    encode_stamp,
)
from groupcomm_client.filters.compressing import decompress_untrusted
from groupcomm_client.filters.envelope import MAGIC, open_envelope_untrusted
from groupcomm_client.filters.filtering import Filtering
from groupcomm_client.filters.newcomers import newcomers

ANN, BOB = MemberId("#ann#a", 1), MemberId("#bob#b", 1)
FIFO, AGREED = ServiceLevel.FIFO, ServiceLevel.AGREED


class Session:
    """A session of which the test sees both ends; its clock stands still until it is moved."""

    def __init__(self, filters: Sequence[Factory], member: MemberId = ANN) -> None:
        self.member = member
        self.groups: dict[str, GroupView] = {}
        self.is_open = True
        self.sent: list[tuple[Outgoing, bytes]] = []
        self.given: list[Message | Unfiltered] = []
        self.now = 0.0
        self.filtering = Filtering(self, filters, lambda: self.now)
        self.filtering.start()

    def send_below(self, message: Outgoing, data: bytes) -> int:
        self.sent.append((message, data))
        return len(self.sent)

    def give(self, event: Message | Unfiltered) -> None:
        self.given.append(event)

    def send(self, data: bytes, level: ServiceLevel = AGREED, type: int = 0) -> bytes:
        """Send a message; return the data of the last one that went out."""
        message = Outgoing(groups=("g",), data=data, level=level, type=type)
        self.filtering.send(message)
        return self.sent[-1][1] if self.sent else b""

    def come(
        self,
        data: bytes,
        sender: MemberId = BOB,
        level: ServiceLevel = AGREED,
        type: int = 0,
        number: int = 1,
    ) -> None:
        self.filtering.receive(Message(sender, number, ("g",), level, type, data, None))

    def view(self, *members: MemberId, vs: Sequence[MemberId] = ()) -> None:
        place = Position(ViewId(1, 1, 1), 0, 0, 0, 0)  # type: ignore[arg-type]
        self.groups["g"] = view = GroupView(
            group="g",
            id=place,
            members=members,
            cause=Cause.JOIN,
            changed=members[-1:],
            vs_set=tuple(vs),
            own=False,
        )
        self.filtering.notified(view)

    @property
    def data(self) -> list[bytes]:
        """Return the data of the messages that the program got."""
        return [event.data for event in self.given if isinstance(event, Message)]


class Shout(SendFilter):
    def process(self, message: Outgoing, path: Path) -> None:
        path.send_on(msgspec.structs.replace(message, data=message.data.upper()))


class Whisper(ReceiveFilter):
    def process(self, message: Message, path: Path) -> None:
        path.receive_on(msgspec.structs.replace(message, data=message.data.lower()))


class Fails(ReceiveFilter):
    def process(self, message: Message, path: Path) -> None:
        raise ValueError("no")


def shouting() -> Filter:
    return Filter("shout", Shout(), Whisper())


# ---- chains ----


def test_what_goes_out_passes_from_the_program_down_and_back_up() -> None:
    class Append(SendFilter):
        def __init__(self, letter: bytes) -> None:
            self.letter = letter

        def process(self, message: Outgoing, path: Path) -> None:
            path.send_on(msgspec.structs.replace(message, data=message.data + self.letter))

    def factory(letter: bytes) -> Factory:
        return lambda: Filter("append", Append(letter))

    session = Session([factory(b"1"), factory(b"2"), shouting])
    assert session.send(b"a") == b"A12"
    session.come(b"HI")
    assert session.data == [b"hi"]


def test_only_filters_that_must_be_undone_put_a_message_into_an_envelope() -> None:
    session = Session([shouting, compression, causal])
    opened = open_envelope_untrusted(session.send(b"a"))
    assert opened is not None
    assert (opened.names, opened.origin) == (("zlib", "causal"), 0)
    assert Session([shouting]).send(b"a") == b"A"


def test_a_message_without_filters_passes_those_that_undo_nothing() -> None:
    session = Session([compression, shouting, causal])
    for level in (AGREED, FIFO):
        session.come(b"PLAIN", level=level)
    assert session.data == [b"plain", b"plain"]


def test_a_message_of_other_filters_comes_as_it_is_and_says_which_are_missing() -> None:
    session = Session([causal])
    data = Session([compression, causal]).send(b"a")
    session.come(data)
    (event,) = session.given
    assert isinstance(event, Unfiltered)
    assert (event.missing, event.message.data) == (("zlib",), data)
    assert "zlib, causal" in event.why
    assert "set_filters" in event.why


@pytest.mark.parametrize("rest", [b"", b"\x00", b"\x05ab", b"\x02\xff\xff"])
def test_what_only_begins_like_an_envelope_is_a_plain_message(rest: bytes) -> None:
    session = Session([causal])
    session.come(MAGIC + rest)
    assert session.data == [MAGIC + rest]


def test_a_filter_that_fails_gives_the_message_and_the_reason() -> None:
    session = Session([lambda: Filter("fails", receive=Fails())])
    session.come(b"a")
    (event,) = session.given
    assert isinstance(event, Unfiltered)
    assert (event.message.data, "fails: it has failed" in event.why) == (b"a", True)


class FailsAlways(Manager):
    """Fails in each call, and is to be woken for ever."""

    deadline = 0.0

    def notified(self, event: SystemEvent, path: Path) -> None:
        raise ValueError("not this one")

    def delivered(self, message: Message, path: Path) -> None:
        raise ValueError("nor this one")

    def sent(self, message: Outgoing, number: int, path: Path) -> None:
        raise ValueError("nor that")

    def wake(self, path: Path) -> None:
        raise ValueError("leave me asleep")


def test_a_manager_that_fails_affects_no_event_and_no_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    session = Session([lambda: Filter("fails", manager=FailsAlways()), compression])
    session.view(ANN)
    session.come(b"a")
    session.send(b"b")
    assert session.filtering.wake_in_s == 0.0
    session.filtering.wake()
    assert session.filtering.deadline is None, "it is not woken without end"
    assert session.data == [b"a"]
    assert len(session.sent) == 1
    said = {record.getMessage() for record in caplog.records}
    assert said == {"the manager of the filter fails has failed"}
    assert len(caplog.records) == 4


@pytest.mark.parametrize("name", ["", "a b", "a,b", "é", "x" * 65])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(LocalProtocolError, match="letters"):
        Session([lambda: Filter(name)])


def test_one_filter_twice_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="same name in causal, causal"):
        Session([causal, causal])


def test_a_filter_that_is_not_on_the_wire_may_send_nothing() -> None:
    class Talks(Manager):
        def start(self, path: Path) -> None:
            path.multicast("g", b"", AGREED)

    with pytest.raises(LocalProtocolError, match="on_wire=True"):
        Session([lambda: Filter("talks", manager=Talks())])


def test_factories_make_one_filter_each_time_or_share_one() -> None:
    made: list[Filter] = []

    def counting() -> Filter:
        made.append(Filter("counted"))
        return made[-1]

    Session([counting])
    Session([counting])
    assert len(made) == 2
    one = Filter("one")
    assert shared(one)() is shared(one)() is one


def test_the_default_is_what_was_set() -> None:
    assert default() == ()
    set_default([causal])
    try:
        assert default() == (causal,)
    finally:
        set_default([])


def test_sent_and_received_filters_are_selected_apart() -> None:
    """Each selector forwards by default, and holds for connections that are made after it."""
    assert default() == ()
    before = Session(default())
    select_sent(Shout)
    try:
        sending = Session(default())
        select_received(Whisper)
        both = Session(default())
        select_sent()
        receiving = Session(default())
    finally:
        select_sent()
        select_received()
    heard = {}
    for name, session in (
        ("before", before),
        ("sending", sending),
        ("both", both),
        ("receiving", receiving),
    ):
        out = session.send(b"Hi")
        session.come(b"Hi")
        heard[name] = out, session.data
    assert heard == {
        "before": (b"Hi", [b"Hi"]),
        "sending": (b"HI", [b"Hi"]),
        "both": (b"HI", [b"hi"]),
        "receiving": (b"Hi", [b"hi"]),
    }
    assert default() == ()


def test_what_is_selected_stands_behind_the_default() -> None:
    set_default([causal])
    select_sent(Shout)
    try:
        assert [make().name for make in default()] == ["causal", "selected"]
    finally:
        set_default([])
        select_sent()


# ---- changes ----


def test_other_filters_are_in_use_from_the_next_view_on() -> None:
    session = Session([])
    session.filtering.change([compression])
    assert session.send(b"a") == b"a"
    session.view(ANN)
    assert session.send(b"a").startswith(MAGIC)


def test_what_still_comes_through_the_filters_of_before_is_undone() -> None:
    late = Session([compression]).send(b"late")
    session = Session([compression])
    session.filtering.change([])
    session.view(ANN)
    session.come(late)
    session.come(b"new")
    assert session.data == [b"late", b"new"]
    assert session.send(b"a") == b"a"


def test_a_change_lets_go_what_waits_for_a_time() -> None:
    session = Session([delay(5.0)])
    session.come(b"held")
    session.filtering.change([])
    session.view(ANN)
    assert (session.data, session.filtering.deadline) == ([b"held"], None)


def test_filters_that_stay_keep_their_state() -> None:
    session = Session([causal])
    session.view(ANN, BOB)
    session.send(b"1", FIFO)
    session.filtering.change([causal, delay(1.0)])
    session.view(ANN, BOB, vs=(ANN, BOB))
    opened = open_envelope_untrusted(session.send(b"2", FIFO))
    assert opened is not None
    assert decode_stamp_untrusted(opened.data, 1)[0].own == 2


@pytest.mark.parametrize("level", set(ServiceLevel) - {FIFO})
def test_the_causal_filter_leaves_other_levels_alone(level: ServiceLevel) -> None:
    session = Session([causal])
    session.view(ANN, BOB)
    opened = open_envelope_untrusted(session.send(b"a", level))
    assert opened is not None
    assert opened.data == b"a"


def test_who_sends_no_mark_is_awaited_for_a_time_only() -> None:
    cal = MemberId("#cal#c", 1)
    sender, session = Session([causal], BOB), Session([causal], ANN)
    sender.view(ANN, BOB, cal)
    session.view(ANN, BOB, cal)
    session.come(sender.sent[-1][1], BOB)  # the mark of the message's sender
    other = Session([causal], cal)
    other.view(ANN, BOB, cal)
    sender.come(other.send(b"cause", FIFO), cal, FIFO)
    session.come(sender.send(b"effect", FIFO), BOB, FIFO)
    assert b"effect" not in session.data
    assert session.filtering.deadline == 2.0
    session.now = 2.0
    session.filtering.wake()
    assert session.data[-1] == b"effect"
    assert session.filtering.deadline is None


def test_stamps_come_back_as_they_were_and_end_in_time() -> None:
    stamp = Stamp(300, 2, (0, 129, 2**40))
    data = encode_stamp(stamp)
    assert decode_stamp_untrusted(data + b"rest", 0) == (stamp, len(data))
    assert len(encode_stamp(Stamp(5, 1, (3, 0, 0)))) == 4
    for bad in (b"", data[:-1], b"\xff" * 20, b"\x00\x01\x00"):
        with pytest.raises(CannotUndo):
            decode_stamp_untrusted(bad, 0)
    with pytest.raises(CannotUndo):
        decode_mark_untrusted(b"\x93\x00")


# ---- compression ----


def test_a_message_is_compressed_if_that_makes_it_smaller() -> None:
    session = Session([compression])
    long, short = b"ab" * 1000, bytes(range(70))
    assert len(session.send(long)) < 100
    assert len(session.send(short)) == len(short) + len(MAGIC) + len("?zlib??")
    for data in (long, short):
        session.come(session.send(data))
    assert session.data == [long, short]


def test_a_bomb_and_what_does_not_decompress_come_as_they_are() -> None:
    bomb = zlib.compress(bytes(10_000))
    with pytest.raises(CannotUndo, match="more than 9999 bytes"):
        decompress_untrusted(bomb, 9_999)
    assert decompress_untrusted(bomb, 10_000) == bytes(10_000)
    head = Session([compression]).send(b"")[:-1]
    for packed in (b"\x01" + bomb[:-4], b"\x01" + bomb + b"x", b"\x01junk", b"\x07", b""):
        session = Session([compression])
        session.come(head + packed)
        (event,) = session.given
        assert isinstance(event, Unfiltered)
        assert event.message.data == packed
        assert "filter zlib" in event.why


def test_a_delay_holds_the_messages_that_it_is_asked_to() -> None:
    session = Session([delay(2.0, sender=BOB.name, type=7)])
    session.come(b"late", type=7)
    session.come(b"type", type=8)
    session.come(b"sender", ANN, type=7)
    assert (session.data, session.filtering.wake_in_s) == ([b"type", b"sender"], 2.0)
    session.now = 2.0
    session.filtering.wake()
    assert session.data[-1] == b"late"


def test_a_delay_keeps_the_order_of_a_sender_if_asked() -> None:
    session = Session([delay(2.0, type=7, keep_order=True)])
    session.come(b"first", type=7)
    session.come(b"second")
    session.come(b"other", ANN)
    session.now = 2.0
    session.filtering.wake()
    assert session.data == [b"other", b"first", b"second"]


def test_a_delay_of_what_goes_out_ends_with_the_session() -> None:
    session = Session([delay(2.0, way=Way.OUT)])
    session.send(b"a")
    assert session.sent == []
    session.filtering.finish()
    assert [data for _, data in session.sent] == [b"a"]


def test_a_mark_does_not_overtake_what_a_delay_holds() -> None:
    session = Session([causal, delay(2.0, way=Way.OUT)])
    session.view(ANN)
    session.send(b"a", FIFO)
    session.view(ANN, BOB, vs=(ANN,))
    assert session.sent == []
    session.now = 2.0
    session.filtering.wake()
    assert [message.level for message, _ in session.sent] == [FIFO, AGREED]


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_a_delay_has_an_end(seconds: float) -> None:
    with pytest.raises(LocalProtocolError, match="delay of"):
        delay(seconds)


# ---- trace ----


def test_a_trace_says_what_passes_and_what_the_causal_filter_does(tmp_path: FolderPath) -> None:
    bob, session = Session([causal], BOB), Session([causal, traced(tmp_path)])
    for each in (bob, session):
        each.view(ANN, BOB)
    session.come(bob.sent[-1][1], BOB)
    first, second = bob.send(b"1", FIFO), bob.send(b"2", FIFO)
    session.come(second, BOB, FIFO, number=2)
    session.come(first, BOB, FIFO, number=1)
    session.send(b"3", FIFO)
    session.filtering.end()
    (file,) = tmp_path.iterdir()
    decoder = msgspec.json.Decoder(AlgorithmStep)
    steps = [decoder.decode(line) for line in file.read_bytes().splitlines()]
    names = " ".join(str(step.__struct_config__.tag) for step in steps)
    assert names == (
        "pass vector pass pass member"  # the view, the own mark, bob's mark
        " in buffer in buffer next take give next take give tick out"
    )
    assert {step.p for step in steps} == {str(ANN)}
    first_stamp = len(encode_stamp(Stamp(1, 1, ()))) + 1
    assert {(step.m, step.stamp, step.bytes) for step in steps if isinstance(step, OfReceived)} == {
        (1, f"{BOB} 1", first_stamp),
        (2, f"{BOB} 2", first_stamp),
    }
    (sent,) = (step for step in steps if isinstance(step, StampedSent))
    assert (sent.stamp, sent.bytes) == (f"{ANN} 1, {BOB} 2", first_stamp + 1)


def test_a_trace_before_the_causal_filter_has_its_steps_without_stamps(
    tmp_path: FolderPath,
) -> None:
    session = Session([traced(tmp_path), causal])
    session.view(ANN, BOB)
    session.send(b"1", FIFO)
    session.filtering.end()
    (file,) = tmp_path.iterdir()
    last = msgspec.json.decode(file.read_bytes().splitlines()[-1])
    assert (last["e"], last["stamp"], last["bytes"]) == ("out", "", 0)


def test_a_stamp_whose_table_is_not_known_is_reported_as_it_is() -> None:
    group = CausalGroup(ANN)
    assert group.text_of(BOB, Stamp(3, 2, (1, 0))) == f"{BOB} 3, epoch 2, slots [1, 0]"


# ---- newcomers ----

CHAT_EVE, CHAT_DAN = MemberId("#chat-eve#c", 1), MemberId("#chat-dan#d", 1)


class Host(Manager):
    def __init__(self) -> None:
        self.came: list[Newcomer] = []

    def joined(self, newcomer: Newcomer, path: Path) -> None:
        self.came.append(newcomer)


def test_a_newcomer_is_announced_with_its_session_its_application_and_all_users() -> None:
    host = Host()
    session = Session([lambda: Filter("host", manager=host)])
    session.view(ANN)
    session.view(ANN, CHAT_EVE, vs=[ANN])
    session.view(ANN, CHAT_EVE, CHAT_DAN, BOB, vs=[ANN, CHAT_EVE])
    told = [(one.member, one.new_session, one.new_application) for one in host.came]
    assert told == [
        (ANN, True, True),
        (CHAT_EVE, False, True),
        (CHAT_DAN, False, False),
        (BOB, False, False),  # names without a dash are one application
    ]
    assert [one.users for one in host.came[:2]] == [(ANN,), (ANN, CHAT_EVE)]
    assert {one.group for one in host.came} == {"g"}


def test_who_joins_is_notified_of_its_own_coming_only() -> None:
    place = Position(ViewId(1, "a", 1), 0, 0, 0, 0)
    view = GroupView(
        group="g",
        id=place,
        members=(BOB, ANN),
        cause=Cause.JOIN,
        changed=(ANN,),
        vs_set=(ANN,),
        own=True,
    )
    assert [(one.member, one.new_session) for one in newcomers(view)] == [(ANN, False)]


def test_an_application_is_what_stands_before_a_dash() -> None:
    names = ("#chat-ann#a", "#ann#a", "#-ann#a", "#a-b-c#d")
    assert [application_of(MemberId(name, 1)) for name in names] == ["chat", "", "", "a"]
