"""Flooding: the receivers, the new messages, and the assembly of messages from their parts."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import SAFE_PACKET_BYTES, Incarnation, Start
from groupcomm.membership.flood import MAX_UNFINISHED, MOST_BETWEEN, Flood
from groupcomm.names import daemon_number
from groupcomm.security.layout import ReplayWindow
from groupcomm.wire.control import ControlPacket, decode_control_untrusted
from groupcomm.wire.membership import (
    ControlMessage,
    Leave,
    Repair,
    decode_message_untrusted,
)
from tests.groupcomm.membership.stage import join_of

SITES = (("a", "b", "c"), ("d",), ("e", "f"))


def flood(name: str, limit: int = 1340, sites: tuple[tuple[str, ...], ...] = SITES) -> Flood:
    start = Start(name=name, incarnation=Incarnation(3, ord(name)))
    return Flood(CoreConfig(sites=sites, packet_limit=limit), start)


def taken(sender: Flood) -> list[tuple[str | None, ControlPacket]]:
    sent = [(target, decode_control_untrusted(packet)) for target, packet in sender.out]
    sender.out.clear()
    return sent


def parts_of(
    message: ControlMessage, limit: int, sender: Flood | None = None
) -> list[ControlPacket]:
    one = sender or flood("d", limit)
    one.send_to("a", message)
    return [packet for _, packet in taken(one)]


@pytest.mark.parametrize(
    ("name", "targets"),
    [("a", [None, "d", "e", "f"]), ("d", ["a", "b", "c", "e", "f"]), ("f", [None, *"abcd"])],
)
def test_all_are_notified_by_one_multicast_in_the_site_and_unicasts_to_others(
    name: str, targets: Sequence[str | None]
) -> None:
    sender = flood(name)
    sender.send_all(Leave())
    sent = taken(sender)
    assert [target for target, _ in sent] == list(targets)
    assert {packet.origin for _, packet in sent} == {daemon_number(name)}
    assert {packet.incarnation for _, packet in sent} == {Incarnation(3, ord(name))}
    assert len({packet.sequence for _, packet in sent}) == 1


@pytest.mark.parametrize(
    ("numbers", "targets"),
    [("bc", [None]), ("b", ["b"]), ("d", ["d"]), ("bd", ["b", "d"]), ("bcde", [None, "e"])],
)
def test_where_relays_pass_messages_on_one_for_several_of_other_sites_goes_to_all(
    numbers: str, targets: list[str | None]
) -> None:
    """One daemon of another site is told directly: it may be the only one that lacks something."""
    sender = flood("a")
    sender.targets = lambda: ["e"]
    sender.send_some(Leave(), [daemon_number(name) for name in numbers])
    assert [target for target, _ in taken(sender)] == targets
    sender.send_all(Leave())
    assert [target for target, _ in taken(sender)] == [None, "e"]


def test_a_daemon_alone_tells_nobody() -> None:
    sender = flood("a", sites=(("a",),))
    sender.send_all(Leave())
    assert sender.out == []


def test_each_message_has_a_sequence_of_its_own_that_rises() -> None:
    sender = flood("a")
    sequences = []
    for _ in range(3):
        sender.send_to("b", Leave())
        sender.send_all(Leave())
        sequences.append([packet.sequence for _, packet in taken(sender)])
    flat = [one for row in sequences for one in row]
    assert flat == sorted(flat)
    assert len(set(flat)) == 6, "what goes to one daemon only is a message too"


@pytest.mark.parametrize(
    ("lacking", "targets"),
    [("", []), ("b", ["b"]), ("bc", [None]), ("bcd", [None, "d"]), ("bf", ["b", "f"]), ("z", [])],
)
def test_a_message_is_passed_on_as_it_came_to_those_who_lack_it(
    lacking: str, targets: Sequence[str | None]
) -> None:
    (packet,) = parts_of(Leave(), 1340)
    one = flood("a")
    one.pass_on(packet, map(daemon_number, lacking))
    assert sorted(one.out, key=str) == sorted(((t, packet.raw) for t in targets), key=str)


LONG = Repair(bytes(16), bytes(range(256)) * 4)


@given(st.permutations(range(13)), st.data())
def test_a_message_in_parts_is_put_together_in_any_order_and_each_part_is_new_once(
    order: list[int], data: st.DataObject
) -> None:
    parts = parts_of(LONG, 140)
    assert len(parts) == 13
    receiver, seen = flood("a"), ReplayWindow()
    for count, index in enumerate(order, 1):
        again = parts[data.draw(st.sampled_from(order[:count]))]
        assert receiver.is_new(seen, parts[index], own=True)
        body = receiver.assemble(parts[index], seen, own=True)
        if count < len(parts):
            assert body is None
            assert not receiver.is_new(seen, again, own=True), (
                "a copy of a part is not passed on again"
            )
    assert body is not None
    assert decode_message_untrusted(parts[0].kind, body) == LONG
    assert receiver._parts == {}
    assert not any(receiver.is_new(seen, part, own=True) for part in parts)


def test_parts_of_two_messages_or_of_two_starts_do_not_mix() -> None:
    first = flood("d", 140)
    second = Flood(
        CoreConfig(sites=SITES, packet_limit=140), Start(name="d", incarnation=Incarnation(4, 99))
    )
    other = Repair(bytes(16), b"x" * 1024)
    rows = [parts_of(LONG, 140, first), parts_of(other, 140, first), parts_of(other, 140, second)]
    receiver = flood("a")
    windows = [ReplayWindow() for _ in rows]
    bodies = [
        receiver.assemble(part, seen, own=True)
        for row in zip(*rows, strict=True)
        for part, seen in zip(row, windows, strict=True)
    ]
    assert bodies[:-3] == [None] * (len(bodies) - 3)
    messages = [decode_message_untrusted(4, body) for body in bodies[-3:] if body is not None]
    assert messages == [LONG, other, other]


def test_only_so_many_unfinished_messages_are_kept_and_the_oldest_goes_first() -> None:
    sender, receiver, seen = flood("d", 140), flood("a"), ReplayWindow()
    rows = [parts_of(LONG, 140, sender) for _ in range(MAX_UNFINISHED + 5)]
    for row in rows:
        assert receiver.assemble(row[0], seen, own=True) is None
    assert len(receiver._parts) == MAX_UNFINISHED
    last = [receiver.assemble(part, seen, own=True) for part in rows[-1][1:]][-1]
    assert last is not None


def test_what_was_given_up_is_not_passed_on_again() -> None:
    """Two daemons that forgot what they had passed on would send it to each other for ever."""
    sender, receiver, seen = flood("d", 140), flood("a"), ReplayWindow()
    rows = [parts_of(LONG, 140, sender) for _ in range(3 * MAX_UNFINISHED)]
    passed_on = 0
    for _ in range(5):
        for row in rows:
            if receiver.is_new(seen, row[0], own=False):
                passed_on += 1
                assert receiver.assemble(row[0], seen, own=False) is None
    assert passed_on == len(rows)


def repetitions(
    sender: Flood, message: ControlMessage, count: int, *, direct: bool = True
) -> list[list[ControlPacket]]:
    rows = []
    for _ in range(count):
        sender.send_some(message, [daemon_number("a")], direct=direct)
        rows.append([packet for _, packet in taken(sender)])
    return rows


def test_repetitions_of_a_large_message_complete_each_other_and_begin_elsewhere() -> None:
    sender = flood("d", 140)
    rows = repetitions(sender, LONG, 7)
    assert [row[0].sequence for row in rows] == [1, 2, 2, 3, 3, 3, 3]
    assert [row[0].part for row in rows] == [0, 0, 6, 0, 3, 6, 9]
    assert all({packet.part for packet in row} == set(range(13)) for row in rows)
    for share, tries in ((13, 1), (7, 3), (4, 7)):  # so many parts pass, of each repetition
        receiver, seen = flood("a"), ReplayWindow()
        bodies = [
            receiver.assemble(packet, seen, own=True)
            for row in rows[:tries]
            for packet in row[:share]
            if receiver.is_new(seen, packet, own=True)
        ]
        body = bodies[-1]
        assert body is not None
        assert decode_message_untrusted(4, body) == LONG


def test_of_what_is_passed_on_only_every_third_repetition_completes_the_one_before() -> None:
    """Parts are passed on once: who passed them on in vain does so again with the next message."""
    sender = flood("d", 140)
    rows = repetitions(sender, LONG, 7, direct=False)
    assert [row[0].sequence for row in rows] == [1, 2, 2, 3, 4, 4, 5]
    assert [row[0].part for row in rows] == [0, 0, 6, 0, 0, 6, 0]


def test_repetitions_of_others_and_of_small_messages_are_messages_of_their_own() -> None:
    sender, small = flood("d", 140), Repair(bytes(16), b"small")
    assert [row[0].sequence for row in repetitions(sender, small, 4)] == [1, 2, 3, 4]
    other = Repair(bytes(16), b"x" * 1024)
    first, second = repetitions(sender, LONG, 1), repetitions(sender, other, 1)
    assert [row[0].sequence for row in first + second] == [5, 6]


def test_repetitions_with_parts_of_another_size_are_messages_of_their_own() -> None:
    sender = flood("d", 140)
    repetitions(sender, LONG, 2)
    sender.use_config(CoreConfig(sites=SITES, packet_limit=150))
    (row,) = repetitions(sender, LONG, 1)
    assert (row[0].sequence, row[0].part) == (3, 0)


def test_a_repetition_after_many_others_is_a_message_of_its_own() -> None:
    """Receivers have no place for its number any more, and take who sends it for broken."""
    sender = flood("d", 140)
    repetitions(sender, LONG, 2)
    for _ in range(MOST_BETWEEN):
        sender.send_all(Leave())
    last = taken(sender)[-1][1].sequence
    rows = repetitions(sender, LONG, 3)
    assert [row[0].sequence for row in rows] == [last + 1, last + 2, last + 2]
    assert [row[0].part for row in rows] == [6, 0, 3]


def test_repetitions_of_only_so_many_large_messages_are_known() -> None:
    sender = flood("d", 140)
    for number in range(3 * MAX_UNFINISHED):
        sender.send_some(Repair(bytes(16), b"%d" % number * 1024), [daemon_number("a")])
    assert len(sender._tries) == MAX_UNFINISHED


def test_a_message_of_one_part_leaves_nothing_behind() -> None:
    receiver, seen = flood("a"), ReplayWindow()
    (part,) = parts_of(Leave(), 1340)
    assert receiver.assemble(part, seen, own=True) == part.payload
    assert not receiver.is_new(seen, part, own=True)
    assert receiver._parts == {}


def test_the_longest_join_fits_into_a_message() -> None:
    """What a daemon may hold of a view is bounded, so it can always be told."""
    heard = tuple((number, 2**64 - 1) for number in range(1024))
    join = msgspec.structs.replace(join_of("d", 1), heard=heard)
    parts = parts_of(join, 1340)
    assert 1 < len(parts) < 20


def test_no_packet_to_other_sites_is_longer_than_what_passes_every_path() -> None:
    repair = Repair(bytes(16), bytes(7000))
    alone, one = flood("a", 8000, SITES[:1]), flood("a", 8000)
    alone.send_all(repair)
    assert len(alone.out) == 1, "the packets of one site are as large as is configured"
    one.send_all(repair)
    assert max(len(packet) for _, packet in one.out) == SAFE_PACKET_BYTES
