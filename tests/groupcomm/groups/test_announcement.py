"""Announcements: what daemons bring along comes whole, and who was together says so twice."""

import zlib
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import MemberId
from groupcomm.groups.announcement import (
    NOTHING,
    Announcement,
    Announcements,
    announce,
    cut_announcement,
    decode_announcement,
)
from groupcomm.groups.table import GroupTable
from groupcomm.names import private_name
from groupcomm.wire.bundle import (
    Bundle,
    body_payload,
    decode_bundles_untrusted,
    encode_bundles,
    state_bundle,
)

START = Position(ViewId(1, "d0", 1), 0, 0, 0, 0)
KEY_A, KEY_B = b"a" * 16, b"b" * 16
U64 = st.integers(0, 2**64 - 1)
LONG_NAME = "x" * 200


@st.composite
def announcements(draw: st.DrawFn) -> Announcement:
    """Any that a daemon may make."""
    connections = draw(st.lists(U64, max_size=20, unique=True))
    groups = draw(st.lists(st.sampled_from(["g", "größe", "x" * 255, "news"]), unique=True))
    some = st.lists(st.sampled_from(connections), min_size=1, unique=True).map(tuple)
    users = [f"u{number}" if number % 3 else f"{LONG_NAME}{number}" for number in connections]
    return Announcement(
        draw(st.sampled_from([b"", KEY_A])),
        tuple(draw(st.lists(st.tuples(U64, U64), max_size=9))),
        tuple(zip(connections, users, strict=True)),
        tuple((group, draw(some)) for group in groups) if connections else (),
    )


def through_packets(bundles: list[Bundle]) -> list[Bundle]:
    return [decode_bundles_untrusted(encode_bundles(b"", [bundle]), 0)[0] for bundle in bundles]


@given(announcements(), st.integers(60, 2000), st.booleans(), st.randoms(use_true_random=False))
def test_an_announcement_comes_whole_in_parts_of_any_order(
    announcement: Announcement, room: int, packed: bool, random: Random
) -> None:
    bundles = through_packets(cut_announcement(announcement, room, packed=packed))
    assert all(bundle.size <= room for bundle in bundles)
    random.shuffle(bundles)
    held = Announcements(["a"])
    for bundle in bundles[:-1]:
        held.accept(0, bundle)
        assert not held.complete
    held.accept(0, bundles[-1])
    assert held.complete
    assert held.whole == {0: announcement}


def test_a_long_announcement_is_compressed_where_all_know_that() -> None:
    sessions = tuple((number, f"program-{number}") for number in range(1, 2001))
    groups = tuple((f"sensors/{number}", (number,)) for number in range(1, 2001))
    announcement = Announcement(KEY_A, (), sessions, groups)
    plain = cut_announcement(announcement, 1300)
    packed = cut_announcement(announcement, 1300, packed=True)
    assert 3 * len(packed) < len(plain)
    body = b"".join(bytes(body_payload(bundle.body)) for bundle in packed)
    assert decode_announcement(body, "a") == announcement


@pytest.mark.parametrize(
    "body",
    [
        b"\0",
        b"\0nothing",
        b"\0" + zlib.compress(msgspec.msgpack.encode(NOTHING))[:-1],
        b"\0" + zlib.compress(msgspec.msgpack.encode(NOTHING)) + b"x",
        b"\0" + zlib.compress(bytes(1000)),
    ],
)
def test_a_broken_compressed_announcement_counts_as_empty(body: bytes) -> None:
    assert decode_announcement(body, "a") == NOTHING


def test_an_announcement_that_grows_beyond_all_measure_counts_as_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("groupcomm.groups.announcement.MAX_ANNOUNCEMENT_BYTES", 1000)
    sessions = tuple((number, f"program-{number}") for number in range(1, 101))
    body = b"\0" + zlib.compress(msgspec.msgpack.encode(Announcement(b"", (), sessions, ())))
    assert decode_announcement(body, "a") == NOTHING


def test_all_must_be_here_and_each_is_its_own_daemons() -> None:
    held = Announcements("abc")
    other = Announcement(KEY_A, (), ((1, "u"),), ())
    for daemon, announcement in ((2, NOTHING), (0, other)):
        (bundle,) = cut_announcement(announcement, 1000)
        held.accept(daemon, bundle)
        assert not held.complete
    held.accept(1, bundle)
    assert held.complete
    assert held.whole == {0: other, 1: other, 2: NOTHING}


MANY = tuple((number, f"u{number}") for number in range(30))


def test_a_part_that_comes_twice_changes_nothing() -> None:
    held = Announcements(["a"])
    bundles = cut_announcement(Announcement(KEY_A, (), MANY, ()), 100)
    assert len(bundles) > 2
    for bundle in (*bundles[:1] * 3, *bundles[1:], *bundles):
        held.accept(0, bundle)
    assert held.whole[0].sessions == MANY


def taken(body: bytes) -> Announcement:
    held = Announcements("a")
    held.accept(0, state_bundle(body, 0, 1))
    return held.whole[0]


@pytest.mark.parametrize(
    ("sessions", "groups"),
    [
        (((1, "u"), (1, "v")), ()),
        (((1, "u"), (2, "u")), ()),
        (((1, "u#"),), ()),
        (((1, ""),), ()),
        (((1, "ü" * 127),), ()),  # with its daemon's name this is one byte too many
        (((1, "u"),), (("g", (2,)),)),
        (((1, "u"),), (("g", ()),)),
        (((1, "u"),), (("g", (1, 1)),)),
        (((1, "u"),), (("g", (1,)), ("g", (1,)))),
        (((1, "u"),), (("#u#a", (1,)),)),
    ],
)
def test_an_announcement_that_breaks_a_rule_counts_as_nothing(
    sessions: tuple[tuple[int, str], ...], groups: tuple[tuple[str, tuple[int, ...]], ...]
) -> None:
    """All daemons see the same bytes, so it is nothing to all of them."""
    fine = Announcement(KEY_A, (), ((1, "ü" * 126),), (("g", (1,)),))
    assert taken(msgspec.msgpack.encode(fine)) == fine
    broken = Announcement(KEY_A, ((7, 8),), sessions, groups)
    assert taken(msgspec.msgpack.encode(broken)) == NOTHING


@given(st.binary(max_size=60))
def test_any_bytes_are_an_announcement_or_nothing(body: bytes) -> None:
    for raw in (body, b"\x94" + body, b"\x94\xc4\0\x90" + body):
        announcement = taken(raw)
        assert taken(msgspec.msgpack.encode(announcement)) == announcement


PARTS = st.tuples(st.integers(0, 3), st.integers(1, 4), st.binary(max_size=12))


@given(st.lists(PARTS, max_size=8))
def test_parts_that_do_not_fit_together_do_no_harm(parts: list[tuple[int, int, bytes]]) -> None:
    held = Announcements("ab")
    for index, count, payload in parts:
        held.accept(0, state_bundle(payload, index, max(count, index + 1)))
    assert not held.complete
    assert held.whole.keys() <= {0}


# ---- from the table ----


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 5)), unique=True),
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["g", "h", "i"])), max_size=20),
)
def test_a_daemon_announces_its_own_sessions_and_their_groups_in_the_order_of_their_joins(
    sessions: list[tuple[int, int]], joins: list[tuple[int, str]]
) -> None:
    table = GroupTable(1)
    members = {}
    for daemon, number in sessions:
        name = private_name(f"u{number}", "ab"[daemon])
        members[daemon, number] = table.connect(daemon, MemberId(name, number))
    joined: dict[str, list[int]] = {}
    for place, group in joins:
        if not sessions:
            break
        daemon, number = sessions[place % len(sessions)]
        member = members[daemon, number]
        if group in member.groups:
            table.leave(member, group, START)
            if daemon == 1:
                joined[group].remove(number)
        else:
            table.join(member, group, START)
            if daemon == 1:
                joined.setdefault(group, []).append(number)
    announced = announce(table, KEY_A, [(7, 8)])
    own = sorted(number for daemon, number in sessions if daemon == 1)
    assert announced.sessions == tuple((number, f"u{number}") for number in own)
    expected = [(group, tuple(joined[group])) for group in sorted(joined) if joined[group]]
    assert list(announced.groups) == expected
    assert (announced.completed, announced.together) == (KEY_A, ((7, 8),))


def test_before_its_first_view_a_daemon_brings_nothing() -> None:
    assert announce(None, b"", []) == NOTHING


# ---- who was together ----

KEYS = [(10, 1), (20, 2), (30, 3)]


def together(*said: tuple[bytes, tuple[int, ...]]) -> list[frozenset[int]]:
    """Per daemon with whom it is together; each says its last view and with whom it came."""
    held = Announcements("abc"[: len(said)])
    for daemon, (completed, fellows) in enumerate(said):
        held.whole[daemon] = Announcement(completed, tuple(KEYS[f] for f in fellows), (), ())
    return [held.together(me, KEYS) for me in range(len(said))]


def test_those_who_come_from_one_view_and_name_each_other_are_together() -> None:
    assert together((KEY_A, (0, 1)), (KEY_A, (0, 1)), (KEY_B, (2,))) == [{0, 1}, {0, 1}, {2}]


@pytest.mark.parametrize(
    "other",
    [(KEY_B, (0, 1)), (KEY_A, (1,)), (KEY_A, ()), (b"", (0, 1))],
    ids=["another view", "does not name it", "names nobody", "completed none"],
)
def test_both_must_say_so(other: tuple[bytes, tuple[int, ...]]) -> None:
    assert together((KEY_A, (0, 1)), other) == [{0}, {1}]


def test_who_completed_no_view_is_together_with_itself_only() -> None:
    assert together((b"", (0, 1)), (b"", (0, 1))) == [{0}, {1}]


def test_a_new_start_of_a_fellow_is_somebody_else() -> None:
    held = Announcements("ab")
    held.whole[0] = Announcement(KEY_A, ((10, 1), (20, 99)), (), ())
    held.whole[1] = Announcement(KEY_A, ((10, 1), (20, 2)), (), ())
    assert held.together(0, KEYS) == {0}


@given(
    st.lists(
        st.tuples(st.sampled_from([b"", KEY_A, KEY_B]), st.sets(st.integers(0, 2)).map(tuple)),
        min_size=3,
        max_size=3,
    )
)
def test_it_is_mutual(said: list[tuple[bytes, tuple[int, ...]]]) -> None:
    sets = together(*said)
    assert all(me in sets[me] for me in range(3))
    assert all(
        (one in sets[other]) == (other in sets[one]) for one in range(3) for other in range(3)
    )
