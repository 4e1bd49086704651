"""Announcements: what daemons bring along comes whole, and who was together says so twice."""

import zlib
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.config.versions import PACKED, SPOKEN, Versions
from groupcomm.events import MemberId
from groupcomm.groups.announcement import (
    NOTHING,
    SECTION_ROWS,
    Announcement,
    Announcements,
    Rows,
    cut_announcement,
    decode_announcement_untrusted,
    decode_rows_untrusted,
    encode_announcement,
    part_bytes,
    rows_of,
)
from groupcomm.groups.table import GroupTable
from groupcomm.names import private_name
from groupcomm.wire.bundle import (
    Bundle,
    decode_bundles_untrusted,
    encode_bundles,
    state_bundle,
)
from tests.groupcomm.groups.announced import sectioned, sections_of

START = Position(ViewId(1, "d0", 1), 0, 0, 0, 0)
KEY_A, KEY_B = b"a" * 16, b"b" * 16
U64 = st.integers(0, 2**64 - 1)
LONG_NAME = "x" * 200
PLAIN, OLDER = Versions(highest=PACKED - 1), Versions(highest=PACKED)


@st.composite
def some_rows(draw: st.DrawFn) -> Rows:
    """Any that a daemon may have."""
    connections = draw(st.lists(U64, max_size=20, unique=True))
    groups = draw(st.lists(st.sampled_from(["g", "größe", "x" * 255, "news"]), unique=True))
    some = st.lists(st.sampled_from(connections), min_size=1, unique=True).map(tuple)
    users = [f"u{number}" if number % 3 else f"{LONG_NAME}{number}" for number in connections]
    return Rows(
        tuple(zip(connections, users, strict=True)),
        tuple((group, draw(some)) for group in groups) if connections else (),
        tuple((number, "cert:x") for number in connections if number % 2),
    )


@st.composite
def announcements(draw: st.DrawFn) -> Announcement:
    return Announcement(
        draw(st.sampled_from([b"", KEY_A])),
        tuple(draw(st.lists(st.tuples(U64, U64), max_size=9))),
        draw(U64),
    )


def through_packets(bundles: list[Bundle]) -> list[Bundle]:
    return [decode_bundles_untrusted(encode_bundles(b"", [bundle]), 0)[0] for bundle in bundles]


def united(sections: tuple[bytes, ...]) -> Rows:
    """Return the rows of sections as those of one."""
    found = [decode_rows_untrusted(section) for section in sections]
    rows = [each for each in found if each is not None]
    assert len(rows) == len(found)
    groups: dict[str, tuple[int, ...]] = {}
    readers: dict[str, tuple[int, ...]] = {}
    for each in rows:
        for all_of, some in ((groups, each.groups), (readers, each.readers)):
            for group, members in some:
                all_of[group] = all_of.get(group, ()) + members
    return Rows(
        tuple(session for each in rows for session in each.sessions),
        tuple(groups.items()),
        tuple(owner for each in rows for owner in each.principals),
        tuple(readers.items()),
    )


@given(
    announcements(),
    some_rows(),
    st.sampled_from([PLAIN, OLDER, SPOKEN]),
    st.integers(60, 2000),
    st.randoms(use_true_random=False),
)
def test_an_announcement_comes_whole_in_parts_of_any_order(
    announcement: Announcement, rows: Rows, versions: Versions, room: int, random: Random
) -> None:
    body = encode_announcement(
        sectioned(announcement, rows, versions), rows, versions, part_bytes(room)
    )
    bundles = through_packets(cut_announcement(body, room))
    assert all(bundle.size <= room for bundle in bundles)
    random.shuffle(bundles)
    held = Announcements(1, versions)
    for bundle in bundles[:-1]:
        held.accept(0, bundle)
        assert not held.complete
    held.accept(0, bundles[-1])
    assert held.complete
    found = held.whole[0]
    assert (found.completed, found.together) == (announcement.completed, announcement.together)
    assert united(found.sections) == rows
    if versions is SPOKEN:
        assert found.digest == announcement.digest


def test_no_rows_travel_in_a_view_of_daemons_that_all_have_them() -> None:
    body = encode_announcement(Announcement(KEY_A, ((1, 2),), 7), Rows(), SPOKEN, 1000)
    assert decode_announcement_untrusted(body, SPOKEN) == Announcement(KEY_A, ((1, 2),), 7)


MANY = Rows(
    tuple((number, f"program-{number}") for number in range(1, 2001)),
    tuple((f"sensors/{number}", (number,)) for number in range(1, 2001)),
    ((1, "cert:ann"), (2000, "cert:bob")),
)


def test_long_tables_go_in_sections_of_so_many_rows() -> None:
    large = Rows(MANY.sessions, (*MANY.groups, ("all", tuple(range(1, 1801)))), (), MANY.groups)
    sections = sections_of(large)
    assert united(sections) == large
    for section in sections:
        found = decode_rows_untrusted(section)
        assert found is not None
        lists = (*found.groups, *found.readers)
        assert len(found.sessions) + sum(len(each) for _, each in lists) <= SECTION_ROWS


@pytest.mark.parametrize("versions", [OLDER, SPOKEN])
def test_a_long_announcement_is_compressed_where_all_know_that(versions: Versions) -> None:
    plain, packed = (
        encode_announcement(sectioned(Announcement(KEY_A, ()), MANY, each), MANY, each, 1300)
        for each in (PLAIN, versions)
    )
    assert 3 * len(packed) < len(plain)
    assert united(decode_announcement_untrusted(packed, versions).sections) == MANY
    assert decode_announcement_untrusted(packed, PLAIN) == NOTHING


ROWS = msgspec.msgpack.encode(Rows())


@pytest.mark.parametrize(
    "section",
    [
        b"\0",
        b"\0nothing",
        b"\0" + zlib.compress(ROWS)[:-1],
        b"\0" + zlib.compress(ROWS) + b"x",
        b"\0" + zlib.compress(bytes(1000)),
        b"\x95" + ROWS[1:] + b"\x90",
        msgspec.msgpack.encode(Rows(((1, ""),))),
        msgspec.msgpack.encode(Rows(((-1, "u"),))),
        msgspec.msgpack.encode(Rows((), (), ((1, "x" * 256),))),
        msgspec.msgpack.encode(Rows((), (), ((1, ""),))),
    ],
)
def test_a_broken_section_or_whole_announcement_has_no_rows(section: bytes) -> None:
    assert decode_rows_untrusted(ROWS) == Rows()
    assert decode_rows_untrusted(section) is None
    head = msgspec.msgpack.encode((KEY_A, ()))
    assert decode_announcement_untrusted(head[:1] + section, OLDER) == NOTHING


def test_rows_that_grow_beyond_all_measure_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupcomm.groups.announcement.MAX_ANNOUNCEMENT_BYTES", 1000)
    assert decode_rows_untrusted(b"\0" + zlib.compress(msgspec.msgpack.encode(MANY))) is None
    body = encode_announcement(NOTHING, MANY, OLDER, 100)
    assert decode_announcement_untrusted(body, OLDER) == NOTHING


def test_all_must_be_here_and_each_is_its_own_daemons() -> None:
    held = Announcements(3, SPOKEN)
    other = Announcement(KEY_A, (), 5, (ROWS,))
    for daemon, announcement in ((2, NOTHING), (0, other)):
        (bundle,) = cut_announcement(msgspec.msgpack.encode(announcement), 1000)
        held.accept(daemon, bundle)
        assert not held.complete
    held.accept(1, bundle)
    assert held.complete
    assert held.whole == {0: other, 1: other, 2: NOTHING}


def test_a_part_that_comes_twice_changes_nothing() -> None:
    held = Announcements(1, SPOKEN)
    body = encode_announcement(sectioned(Announcement(KEY_A, ()), MANY, SPOKEN), MANY, SPOKEN, 100)
    bundles = cut_announcement(body, 100)
    assert len(bundles) > 2
    for bundle in (*bundles[:1] * 3, *bundles[1:], *bundles):
        held.accept(0, bundle)
    assert united(held.whole[0].sections) == MANY


@given(st.binary(max_size=60), st.sampled_from([PLAIN, OLDER, SPOKEN]))
def test_any_bytes_are_an_announcement_or_nothing(body: bytes, versions: Versions) -> None:
    for raw in (body, b"\x94" + body, b"\x94\xc4\0\x90" + body):
        found = decode_announcement_untrusted(raw, versions)
        for section in found.sections:
            decode_rows_untrusted(section)
        again = msgspec.msgpack.encode(found)
        assert decode_announcement_untrusted(again, SPOKEN) == found


PARTS = st.tuples(st.integers(0, 3), st.integers(1, 4), st.binary(max_size=12))


@given(st.lists(PARTS, max_size=8))
def test_parts_that_do_not_fit_together_do_no_harm(parts: list[tuple[int, int, bytes]]) -> None:
    held = Announcements(2, SPOKEN)
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
    rows = rows_of(table)
    own = sorted(number for daemon, number in sessions if daemon == 1)
    assert rows.sessions == tuple((number, f"u{number}") for number in own)
    expected = [(group, tuple(joined[group])) for group in sorted(joined) if joined[group]]
    assert list(rows.groups) == expected


# ---- who was together ----

KEYS = [(10, 1), (20, 2), (30, 3)]


def together(*said: tuple[bytes, tuple[int, ...]]) -> list[frozenset[int]]:
    """Per daemon with whom it is together; each says its last view and with whom it came."""
    held = Announcements(len(said), SPOKEN)
    for daemon, (completed, fellows) in enumerate(said):
        held.whole[daemon] = Announcement(completed, tuple(KEYS[f] for f in fellows))
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
    held = Announcements(2, SPOKEN)
    held.whole[0] = Announcement(KEY_A, ((10, 1), (20, 99)))
    held.whole[1] = Announcement(KEY_A, ((10, 1), (20, 2)))
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
