"""Messages of membership: they come back, within their caps; all else is BadDatagram."""

import contextlib
import tracemalloc
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.config.shared import MAX_ITEM, MAX_ITEMS, MAX_KEY, MAX_ROWS, Rows
from groupcomm.config.view import MAX_DAEMONS, MAX_RINGS, Incarnation
from groupcomm.errors import BadDatagram
from groupcomm.wire.control import MAX_PARTS, ControlPacket, cut_message, decode_control_untrusted
from groupcomm.wire.membership import (
    MAX_HELD_RANGES,
    MAX_MISSING,
    MAX_NOTICES,
    Ask,
    Beacon,
    Commit,
    ControlKind,
    ControlMessage,
    Heard,
    Holding,
    Join,
    Leave,
    Links,
    Past,
    Proposal,
    Relayed,
    Repair,
    RosterNotice,
    Seat,
    Settings,
    ShortBeacon,
    ShortCommit,
    ShortJoin,
    Span,
    decode_message_untrusted,
    digest_of,
    encode_message,
)
from tests.groupcomm.wire.packets import KEY, U64

Said = TypeVar("Said", Beacon, Join)

COUNTS = U64.map(lambda count: min(count, 2**64 - 2**32 - 1))
KEYS = st.binary(min_size=16, max_size=16)
HEARD = st.lists(st.tuples(U64, U64), max_size=4).map(tuple)
SPANS = st.lists(U64.filter(bool), max_size=8, unique=True).map(
    lambda edges: tuple(zip(sorted(edges)[::2], sorted(edges)[1::2], strict=False))
)
HOLDINGS = st.builds(
    Holding,
    forgotten=U64,
    spans=SPANS,
    notices=st.lists(st.tuples(U64, U64), max_size=3).map(tuple),
    frontier=U64,
)
PASTS = st.builds(
    Past,
    view=KEYS,
    holdings=st.lists(HOLDINGS, min_size=1, max_size=3).map(tuple),
    obligation=st.lists(U64, max_size=3).map(tuple),
)
SPOKEN = st.tuples(st.integers(1, 3), st.integers(3, 9), U64) | st.tuples(
    st.just(1), st.just(1), U64, U64
)
JOINS = st.builds(
    Join,
    attempt=COUNTS,
    name=st.sampled_from(["a", "größe", "x" * 255]),
    digests=KEYS,
    heard=HEARD,
    reading=COUNTS,
    clock=COUNTS,
    counter=COUNTS,
    mark=U64,
    past=st.none() | PASTS,
    spoken=SPOKEN,
)


@st.composite
def proposals(draw: st.DrawFn) -> Proposal:
    numbers = sorted(draw(st.sets(U64, min_size=1, max_size=9)))
    size = (len(numbers) + 7) // 8
    bits = st.binary(min_size=size, max_size=size)
    return Proposal(tuple(Seat(n, draw(U64), draw(U64), draw(U64), draw(bits)) for n in numbers))


def without_list(message: Said) -> Said:
    """Return a beacon or a join as its short form has it."""
    return msgspec.structs.replace(message, heard=())


COMMITS = st.builds(
    Commit,
    attempt=U64,
    proposal=proposals(),
    recovered=st.booleans(),
    installed=st.booleans(),
    missing=st.lists(SPANS, max_size=3).map(tuple),
)
ROWS = st.lists(
    st.tuples(st.text(max_size=9), st.lists(st.text(max_size=9), max_size=3).map(tuple)),
    max_size=4,
).map(tuple)
BEACONS = st.builds(
    Beacon,
    counter=U64,
    view=KEYS,
    heard=HEARD,
    digests=KEYS,
    used=COUNTS,
    mark=U64,
    write_us=U64,
    spoken=SPOKEN,
)
PRESENT = st.binary(max_size=128)
MESSAGES: Final[dict[ControlKind, st.SearchStrategy[ControlMessage]]] = {
    ControlKind.BEACON: BEACONS,
    ControlKind.JOIN: JOINS,
    ControlKind.COMMIT: COMMITS,
    ControlKind.REPAIR: st.builds(Repair, view=KEYS, packet=st.binary(max_size=50)),
    ControlKind.LEAVE: st.just(Leave()),
    ControlKind.LINKS: st.builds(
        Links, view=KEYS, lost=st.lists(st.tuples(U64, U64), max_size=9).map(tuple)
    ),
    ControlKind.SETTINGS: st.builds(
        Settings,
        name=st.sampled_from(["a", "größe"]),
        digests=KEYS,
        required=ROWS,
        advised=ROWS,
    ),
    ControlKind.ROSTER: st.builds(
        RosterNotice,
        name=st.sampled_from(["a", "größe"]),
        counts=st.booleans(),
        roster=st.binary(max_size=50),
    ),
    ControlKind.SHORT_BEACON: st.builds(
        ShortBeacon, present=PRESENT, digest=KEYS, beacon=BEACONS.map(without_list)
    ),
    ControlKind.SHORT_JOIN: st.builds(
        ShortJoin, present=PRESENT, digest=KEYS, join=JOINS.map(without_list)
    ),
    ControlKind.SHORT_COMMIT: st.builds(
        ShortCommit,
        attempt=U64,
        proposal=KEYS,
        recovered=st.booleans(),
        installed=st.booleans(),
        missing=st.lists(SPANS, max_size=3).map(tuple),
    ),
    ControlKind.ASK: st.builds(Ask, kind=U64),
    ControlKind.RELAYED: st.builds(Relayed, deflated=st.binary(max_size=50)),
}
ANY = st.one_of(*MESSAGES.values())
each_kind = pytest.mark.parametrize("kind", ControlKind)


def test_there_are_messages_of_every_kind() -> None:
    assert MESSAGES.keys() == set(ControlKind)


@each_kind
@given(data=st.data())
def test_a_message_comes_back(kind: ControlKind, data: st.DataObject) -> None:
    message = data.draw(MESSAGES[kind])
    assert encode_message(message)[0] == kind
    assert decode_message_untrusted(*encode_message(message)) == message


@given(message=JOINS, heard=HEARD, mark=U64)
def test_a_join_says_anew_whom_it_hears_and_what_is_reserved_and_nothing_else(
    message: Join, heard: tuple[tuple[int, int], ...], mark: int
) -> None:
    again = message.updated(heard, mark)
    assert (again.heard, again.mark) == (heard, mark)
    assert again.updated(message.heard, message.mark) == message
    assert again.updated(heard, mark) is again


@given(kind=st.integers(0, 255), body=st.binary(max_size=80))
def test_any_bytes_are_a_message_or_bad(kind: int, body: bytes) -> None:
    with contextlib.suppress(BadDatagram):
        message = decode_message_untrusted(kind, body)
        assert decode_message_untrusted(*encode_message(message)) == message


@given(message=ANY, data=st.data())
def test_a_changed_message_is_a_message_or_bad(
    message: ControlMessage, data: st.DataObject
) -> None:
    kind, body = encode_message(message)
    changed = bytearray(body)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed)))
        changed[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    with contextlib.suppress(BadDatagram):
        again = decode_message_untrusted(kind, bytes(changed))
        assert decode_message_untrusted(*encode_message(again)) == again


@given(message=ANY)
def test_a_message_cut_or_lengthened_or_of_another_kind_is_refused(message: ControlMessage) -> None:
    kind, body = encode_message(message)
    for size in range(0, len(body), max(1, len(body) // 20)):
        with pytest.raises(BadDatagram):
            decode_message_untrusted(kind, body[:size])
    with pytest.raises(BadDatagram):
        decode_message_untrusted(kind, body + b"\0")
    for other in (0, max(ControlKind) + 1, 255):
        with pytest.raises(BadDatagram) as caught:
            decode_message_untrusted(other, body)
        assert caught.value.reason == "kind"


# ---- caps and rules ----

EMPTY: Final = Holding(0, (), (), 0)
JOIN: Final = Join(
    attempt=1,
    name="a",
    digests=KEY,
    heard=(),
    reading=1,
    clock=1,
    counter=1,
    mark=2,
    past=None,
    spoken=(1, 1, 0),
)
ONE: Final = Proposal((Seat(5, 1, 1, 1, b"\0"),))
SETTINGS: Final = Settings("a", KEY, (("timing.linger_s", ("0.001",)),), ())
COMMIT: Final = Commit(attempt=1, proposal=ONE, recovered=False, installed=False, missing=())


def spans(count: int) -> tuple[Span, ...]:
    return tuple((2 * index + 1, 2 * index + 1) for index in range(count))


def join_with(**changes: Any) -> Join:
    holding = msgspec.structs.replace(EMPTY, **changes)
    return msgspec.structs.replace(JOIN, past=Past(KEY, (holding,), ()))


def seats(count: int, size: int) -> Proposal:
    return Proposal(tuple(Seat(number, 1, 1, 1, bytes(size)) for number in range(count)))


def commit_with(**changes: Any) -> Commit:
    return msgspec.structs.replace(COMMIT, **changes)


def settings_with(required: Rows) -> Settings:
    return msgspec.structs.replace(SETTINGS, required=required)


def heard(count: int) -> tuple[tuple[int, int], ...]:
    return ((1, 1),) * count


CAPS: Final[dict[str, Callable[[int], ControlMessage]]] = {
    "heard by a beacon": lambda more: Beacon(
        1, KEY, heard(MAX_DAEMONS + more), KEY, 1, 2, 3, (1, 1, 0)
    ),
    "heard by a join": lambda more: JOIN.updated(heard(MAX_DAEMONS + more), 2),
    "ranges": lambda more: join_with(spans=spans(MAX_HELD_RANGES + more)),
    "notices": lambda more: join_with(notices=((1, 1),) * (MAX_NOTICES + more)),
    "rings": lambda more: msgspec.structs.replace(
        JOIN, past=Past(KEY, (EMPTY,) * (MAX_RINGS + more), ())
    ),
    "obligation": lambda more: msgspec.structs.replace(
        JOIN, past=Past(KEY, (EMPTY,), (0,) * (MAX_DAEMONS + more))
    ),
    "seats": lambda more: commit_with(
        proposal=seats(MAX_DAEMONS + more, (MAX_DAEMONS + more + 7) // 8)
    ),
    "required settings": lambda more: settings_with((("k", ()),) * (MAX_ROWS + more)),
    "items of a setting": lambda more: settings_with((("k", ("",) * (MAX_ITEMS + more)),)),
    "an item of a setting": lambda more: settings_with((("k", ("x" * (MAX_ITEM + more),)),)),
    "the key of a setting": lambda more: settings_with((("k" * (MAX_KEY + more), ()),)),
    "advised settings": lambda more: msgspec.structs.replace(
        SETTINGS, advised=(("k", ()),) * (MAX_ROWS + more)
    ),
    "missing of one ring": lambda more: commit_with(missing=(spans(MAX_MISSING + more),)),
    "missing of rings": lambda more: commit_with(missing=((),) * (MAX_RINGS + more)),
    "the name": lambda more: msgspec.structs.replace(JOIN, name="x" * (255 + more)),
}


@pytest.mark.parametrize("what", CAPS)
def test_each_list_has_a_cap_that_is_reached_and_not_passed(what: str) -> None:
    full = CAPS[what](0)
    assert decode_message_untrusted(*encode_message(full)) == full
    with pytest.raises(BadDatagram):
        decode_message_untrusted(*encode_message(CAPS[what](1)))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (join_with(spans=((0, 3),)), "range"),
        (join_with(spans=((5, 4),)), "range"),
        (join_with(spans=((1, 5), (5, 6))), "range"),
        (join_with(spans=((7, 8), (1, 2))), "range"),
        (commit_with(missing=(((1, 2),), ((4, 3),))), "range"),
        (commit_with(missing=(((1, 2), (2, 2)),)), "range"),
        (msgspec.structs.replace(JOIN, past=Past(KEY, (), ())), "control"),
        (msgspec.structs.replace(JOIN, past=Past(KEY[:15], (EMPTY,), ())), "control"),
        (msgspec.structs.replace(JOIN, name=""), "control"),
        (msgspec.structs.replace(JOIN, name="a#b"), "name"),
        (msgspec.structs.replace(JOIN, spoken=(1, 2)), "control"),
        (msgspec.structs.replace(JOIN, spoken=(0, 2, 0)), "versions"),
        (Beacon(1, KEY, (), KEY, 1, 2, 3, (0, 1, 0)), "versions"),
        (msgspec.structs.replace(JOIN, spoken=(3, 2, 0)), "versions"),
        (msgspec.structs.replace(JOIN, name="a\n"), "name"),
        (msgspec.structs.replace(JOIN, name="ü" * 200), "name"),
        (msgspec.structs.replace(JOIN, counter=-1), "control"),
        (msgspec.structs.replace(JOIN, counter=2**64 - 1), "count"),
        (msgspec.structs.replace(JOIN, reading=2**64 - 2**32), "count"),
        (Beacon(1, KEY + b"x", (), KEY, 1, 2, 3, (1, 1, 0)), "control"),
        (Beacon(1, KEY, (), KEY[:8], 1, 2, 3, (1, 1, 0)), "control"),
        (Beacon(1, KEY, (), KEY, 2**64 - 2**32, 2, 3, (1, 1, 0)), "count"),
        (msgspec.structs.replace(SETTINGS, name="a#b"), "name"),
        (msgspec.structs.replace(SETTINGS, digests=b""), "control"),
        (commit_with(proposal=Proposal(())), "control"),
        (commit_with(proposal=Proposal(ONE.seats * 2)), "proposal"),
        (commit_with(proposal=Proposal(seats(2, 1).seats[::-1])), "proposal"),
        (commit_with(proposal=seats(9, 1)), "proposal"),
        (commit_with(proposal=seats(8, 2)), "proposal"),
    ],
)
def test_a_message_that_breaks_a_rule_is_refused(message: ControlMessage, reason: str) -> None:
    with pytest.raises(BadDatagram) as caught:
        decode_message_untrusted(*encode_message(message))
    assert caught.value.reason == reason


@pytest.mark.parametrize("body", [b"\xdd" + b"\xff" * 4, b"\x91" * 3000, b"\xc6" + b"\xff" * 4])
@each_kind
def test_counts_that_lie_and_deep_nesting_cost_nothing(kind: ControlKind, body: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(BadDatagram):
        decode_message_untrusted(kind, body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


# ---- parts ----

HEAD = len(cut_message(0, Incarnation(0, 0), 0, 0, b"", 100)[0])


@given(body=st.binary(max_size=300), room=st.integers(1, 40), numbers=st.tuples(*[U64] * 4))
def test_a_message_is_cut_into_parts_that_fill_their_packets(
    body: bytes, room: int, numbers: tuple[int, int, int, int]
) -> None:
    origin, restarts, random_id, sequence = numbers
    start = Incarnation(restarts, random_id)
    packets = cut_message(origin, start, sequence, 3, body, HEAD + room)
    parts = [decode_control_untrusted(packet) for packet in packets]
    assert b"".join(part.payload for part in parts) == body
    assert [part.part for part in parts] == list(range(len(parts)))
    assert len(parts) == max(1, -(-len(body) // room))
    assert all(len(packet) == HEAD + room for packet in packets[:-1])
    for part, packet in zip(parts, packets, strict=True):
        assert (part.origin, part.incarnation, part.sequence) == (origin, start, sequence)
        assert (part.kind, part.parts, part.raw) == (3, len(parts), packet)


def test_a_message_has_so_many_parts_at_most() -> None:
    start = Incarnation(0, 0)
    assert len(cut_message(0, start, 0, 0, bytes(MAX_PARTS), HEAD + 1)) == MAX_PARTS
    with pytest.raises(AssertionError):
        cut_message(0, start, 0, 0, bytes(MAX_PARTS + 1), HEAD + 1)


@pytest.mark.parametrize(("part", "parts"), [(0, 0), (1, 1), (5, 2), (0, MAX_PARTS + 1)])
def test_a_part_of_no_message_is_refused(part: int, parts: int) -> None:
    packet = ControlPacket(
        origin=1,
        incarnation=Incarnation(1, 1),
        sequence=1,
        kind=1,
        part=part,
        parts=parts,
        payload=b"",
    )
    with pytest.raises(BadDatagram, match="count"):
        decode_control_untrusted(packet.encode())


def test_a_short_form_has_no_list() -> None:
    join = msgspec.structs.replace(JOIN, heard=((1, 2),))
    body = encode_message(ShortJoin(b"", KEY, join))
    with pytest.raises(BadDatagram) as caught:
        decode_message_untrusted(*body)
    assert caught.value.reason == "heard"


@given(one=HEARD, other=HEARD)
def test_a_digest_stands_for_one_list(one: Heard, other: Heard) -> None:
    assert (digest_of(one) == digest_of(other)) == (one == other)
