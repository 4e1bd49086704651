"""The groups that a daemon carries from view to view: what it announces of them."""

import attrs

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.config.versions import CROWDS, PACKED, SPOKEN, Versions
from groupcomm.config.view import DaemonId, Incarnation, View
from groupcomm.events import MemberId
from groupcomm.groups.announcement import (
    SECTION_ROWS,
    Announcement,
    Rows,
    decode_announcement_untrusted,
    decode_rows_untrusted,
)
from groupcomm.groups.carried import STEP_ROWS, CarriedGroups
from groupcomm.groups.table import GroupTable
from groupcomm.wire.bundle import Bundle, body_payload
from tests.groupcomm.groups.announced import bundles_of

A, B, C = (DaemonId(name, Incarnation(1, ord(name))) for name in "abc")
EARLIER = Position(ViewId(1, "a", 0), 10, 0, 0, 0)


def view_of(*daemons: DaemonId, versions: Versions = SPOKEN) -> View:
    rings = (tuple(range(len(daemons))),)
    return View(id=ViewId(2, "a", 2), daemons=daemons, rings=rings, versions=versions)


def table_of(*members: tuple[int, str, int], groups: str = "g") -> GroupTable:
    """Return the table of daemon 0, with members (daemon, user, connection) of some groups."""
    table = GroupTable(0)
    for daemon, user, connection in members:
        member = table.connect(daemon, MemberId(f"#{user}#d{daemon}", connection))
        for group in groups:
            table.join(member, group, EARLIER)
    return table


def announced(bundles: list[Bundle], versions: Versions = SPOKEN) -> Announcement:
    body = b"".join(bytes(body_payload(each.body)) for each in bundles)
    return decode_announcement_untrusted(body, versions)


def rows_in(announcement: Announcement) -> list[Rows | None]:
    return [decode_rows_untrusted(section) for section in announcement.sections]


def test_before_the_first_view_there_is_nothing_to_announce() -> None:
    carried = CarriedGroups()
    assert announced(bundles_of(carried.announce(1000, view_of(A)))) == Announcement(b"", b"")
    table, daemons = carried.pop(0)
    assert (table.sessions, daemons) == ({}, ())


def test_the_groups_of_the_last_complete_view_are_announced_to_those_who_lack_them() -> None:
    carried = CarriedGroups()
    table = table_of((0, "u", 7), (1, "v", 8))
    carried.replace(table, view_of(A, B, C), 0)
    carried.keep_members([A, B])
    together, alone = b"\x03", b"\x01"  # bits by the places in the view
    own, key = table.digests[0], view_of(A, B, C).key
    known = announced(bundles_of(carried.announce(1000, view_of(A, B))))
    assert known == Announcement(key, together, own)
    found = announced(bundles_of(carried.announce(1000, view_of(A, B, C))))
    assert (found.completed, found.together, found.digest) == (key, together, own)
    assert rows_in(found) == [Rows(sessions=((7, "u"),)), Rows(groups=(("g", (7,)),))]
    carried.keep_members([A, C])
    assert announced(bundles_of(carried.announce(1000, view_of(A)))).together == alone
    earlier = attrs.evolve(SPOKEN, features=SPOKEN.features & ~CROWDS)
    listed = announced(bundles_of(carried.announce(1000, view_of(A, C, versions=earlier))))
    assert listed.together == ((A.number, A.incarnation.random_id),)
    assert carried.pop(1) == (table, (A, B, C))


def test_daemons_that_cannot_carry_get_all_rows_packed_once_all_can_read_that() -> None:
    carried = CarriedGroups()
    groups = "".join(map(chr, range(0x61, 0x7B)))
    members = [(0, f"user-with-a-long-name-{n}", n) for n in range(1, 40)]
    carried.replace(table_of(*members, groups=groups), view_of(A), 0)
    versions = [Versions(highest=PACKED - 1), Versions(highest=PACKED)]
    views = [view_of(A, versions=each) for each in versions]
    plain, packed = (bundles_of(carried.announce(1000, view)) for view in views)
    assert len(packed) < len(plain)
    assert announced(packed, versions[1]) == announced(plain, versions[0])
    (rows,) = rows_in(announced(packed, versions[1]))
    assert rows is not None
    assert len(rows.sessions) == 39
    assert len(rows.groups) == 26


def test_a_long_announcement_is_made_in_pieces() -> None:
    carried, table, steps = CarriedGroups(), table_of((0, "u", 7)), 3
    (member,) = table.sessions.values()
    names = {f"group/{number}" for number in range(steps * STEP_ROWS)}
    for name in names:
        table.join(member, name, EARLIER)
    carried.replace(table, view_of(A), 0)
    announcement = carried.announce(1000, view_of(A, B))
    assert [announcement.advance() for _ in range(steps)] == [[]] * steps
    sections = rows_in(announced(announcement.advance()))
    assert max(rows.size for rows in sections if rows) <= SECTION_ROWS
    groups = [group for rows in sections if rows for group in rows.groups]
    assert sorted(groups) == [(name, (7,)) for name in sorted(["g", *names])]
