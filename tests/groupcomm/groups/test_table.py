"""The group table: joins, leaves, names, and the digest that tells whether two are equal."""

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import MemberId
from groupcomm.groups.table import GroupTable

START = Position(ViewId(1, "d0", 1), 0, 0, 0, 0)


def table_with(*users: str) -> GroupTable:
    table = GroupTable(0)
    for number, user in enumerate(users, 1):
        table.connect(number % 2, MemberId(f"#{user}#d{number % 2}", number))
    return table


def test_members_stand_in_the_order_of_their_joins() -> None:
    table = table_with("a", "b", "c")
    members = list(table.sessions.values())
    for member in reversed(members):
        table.join(member, "g", START)
    assert [member.connection for member in table.member_ids("g")] == [3, 2, 1]
    assert list(table.local["g"]) == [2], "of daemon 0"
    assert table.member_ids("h") == ()


def test_a_group_ends_with_its_last_member() -> None:
    table = table_with("a", "b")
    for member in table.sessions.values():
        table.join(member, "g", START)
    for member in list(table.sessions.values()):
        table.leave(member, "g", START)
    assert (table.groups, table.local, table.shown, table.name_bytes) == ({}, {}, {}, {})


def test_the_bytes_of_the_names_of_a_group_are_counted() -> None:
    table = table_with("a", "größe")
    a, b = table.sessions.values()
    table.join(a, "g", START)
    table.join(b, "g", START)
    assert table.name_bytes == {"g": len("#a#d1#größe#d0".encode())}
    assert table.memberships == 2
    table.leave(a, "g", START)
    assert table.name_bytes == {"g": len("#größe#d0".encode())}
    assert table.memberships == 1


def test_the_digest_depends_on_the_content_not_on_the_way_there() -> None:
    one, other = table_with("a", "b"), table_with("a", "b")
    empty = one.digest
    for table, order in ((one, (1, 2)), (other, (2, 1))):
        for number in order:
            table.join(table.sessions[number % 2, number], "g", START)
    assert one.digest == other.digest != empty
    one.leave(one.sessions[1, 1], "g", START)
    assert one.digest != other.digest
    one.join(one.sessions[1, 1], "h", START)
    assert one.digest != other.digest, "another group is another state"


def test_a_name_belongs_to_its_last_owner() -> None:
    table = table_with("a")
    old = table.names["#a#d1"]
    table.connect(1, MemberId("#a#d1", 9))
    table.disconnect(old)
    assert table.names["#a#d1"].id.connection == 9


def test_a_private_name_means_its_owner_and_one_that_nobody_has_means_nobody() -> None:
    table = table_with("a", "b")
    assert table.targets(("#b#d0", "g", "#nobody#d0", "#a#d1")) == (2, 0, 1)
    assert table.targets(("g",)) == ()
