"""The groups that a daemon carries from view to view, and since when members are in them."""

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.config.versions import PACKED, Versions
from groupcomm.config.view import DaemonId, Incarnation
from groupcomm.engine.view_change import CarriedGroups
from groupcomm.events import MemberId
from groupcomm.groups.announcement import Announcement, decode_announcement
from groupcomm.groups.table import GroupTable
from groupcomm.wire.bundle import Bundle, body_payload

A, B, C = (DaemonId(name, Incarnation(1, ord(name))) for name in "abc")
KEY = b"k" * 16
EARLIER, NOW = (Position(ViewId(number, "a", 0), 10, 0, 0, 0) for number in (1, 2))


def table_of(*members: tuple[int, str, int], at: Position, groups: str = "g") -> GroupTable:
    """Return the table of daemon 0, with members (daemon, user, connection) of some groups."""
    table = GroupTable(0)
    for daemon, user, connection in members:
        member = table.connect(daemon, MemberId(f"#{user}#d{daemon}", connection))
        for group in groups:
            table.join(member, group, at)
    return table


def joined(table: GroupTable) -> dict[str, Position]:
    return {member.id.name: member.groups["g"] for member in table.sessions.values()}


def announced(bundles: list[Bundle]) -> Announcement:
    return decode_announcement(b"".join(bytes(body_payload(each.body)) for each in bundles), "a")


def test_before_the_first_view_there_is_nothing_to_announce() -> None:
    carried = CarriedGroups()
    assert announced(carried.announce(1000, Versions())) == Announcement(b"", (), (), ())
    table = table_of((0, "u", 7), at=NOW)
    carried.restore_joins(table, [A])
    assert joined(table) == {"#u#d0": NOW}


def test_the_groups_of_the_last_complete_view_are_announced_with_those_who_came_along() -> None:
    carried = CarriedGroups()
    carried.replace(table_of((0, "u", 7), (1, "v", 8), at=EARLIER), KEY, [A, B, C])
    carried.keep_members([A, B])
    together = tuple(sorted((each.number, each.incarnation.random_id) for each in (A, B)))
    expected = Announcement(KEY, together, ((7, "u"),), (("g", (7,)),))
    assert announced(carried.announce(1000, Versions())) == expected
    carried.keep_members([A, C])
    assert announced(carried.announce(1000, Versions())).together == (
        together[together.index((A.number, ord("a")))],
    )


def test_an_announcement_is_packed_once_all_daemons_can_read_that() -> None:
    carried = CarriedGroups()
    groups = "".join(map(chr, range(0x61, 0x7B)))
    members = [(0, f"user-with-a-long-name-{n}", n) for n in range(1, 40)]
    carried.replace(table_of(*members, at=EARLIER, groups=groups), KEY, [A])
    plain, packed = (
        carried.announce(1000, Versions(highest=version)) for version in (PACKED - 1, PACKED)
    )
    assert len(packed) < len(plain)
    assert announced(packed) == announced(plain)


def test_a_member_is_in_a_group_since_it_joined_for_daemons_that_were_there() -> None:
    carried = CarriedGroups()
    carried.replace(table_of((0, "u", 7), (1, "v", 8), (2, "w", 9), at=EARLIER), KEY, [A, B, C])
    carried.keep_members([A, B])
    table = table_of((0, "w", 9), (1, "u", 7), (2, "v", 8), at=NOW)
    carried.restore_joins(table, [C, A, B])
    assert joined(table) == {"#w#d0": NOW, "#u#d1": NOW, "#v#d2": NOW}, (
        "other names: other sessions"
    )
    table = GroupTable(0)
    for daemon, name, number in (
        (0, "#w#d2", 9),
        (1, "#u#d0", 7),
        (2, "#v#d1", 8),
        (2, "#x#d1", 6),
    ):
        table.join(table.connect(daemon, MemberId(name, number)), "g", NOW)
    carried.restore_joins(table, [C, A, B])
    assert joined(table) == {"#w#d2": NOW, "#u#d0": EARLIER, "#v#d1": EARLIER, "#x#d1": NOW}


def test_a_group_that_was_joined_later_begins_with_the_view() -> None:
    carried = CarriedGroups()
    carried.replace(table_of((0, "u", 7), at=EARLIER), KEY, [A])
    table = table_of((0, "u", 7), at=NOW, groups="gh")
    carried.restore_joins(table, [A])
    (member,) = table.sessions.values()
    assert member.groups == {"g": EARLIER, "h": NOW}
