"""Wrong ways to tell of changes of groups: by differences, and of sessions without views."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from groupcomm.engine.session_output import SessionOutput
from groupcomm.events import MemberId
from groupcomm.groups import carried
from groupcomm.groups.announcement import Rows
from groupcomm.groups.beginning import Beginning, Touched
from groupcomm.groups.changes import GroupChange
from groupcomm.groups.groups import Groups
from groupcomm.member_lists import ListVersion, MemberList
from groupcomm.session import group_lists
from groupcomm.session.differences import Difference
from groupcomm.wire.bundle import Bundle
from tests.verification.mutants.mutant import Right, mutant

EACH = 4
"""Every so many changes of a daemon something goes wrong."""


@mutant((SessionOutput, "show_change"))
def difference_is_lost(right: Right) -> Right:
    """Now and then one member is not told of a change."""
    told = 0

    def show_change(
        self: SessionOutput, connections: Iterable[int], change: GroupChange, own: int | None = None
    ) -> None:
        nonlocal told
        told += 1
        found = list(connections)
        right(self, found[: len(found) - (told % EACH == 0)], change, own)

    return show_change


@mutant((SessionOutput, "show_change"))
def difference_comes_twice(right: Right) -> Right:
    """Now and then all members are told of a change twice."""
    told = 0

    def show_change(
        self: SessionOutput, connections: Iterable[int], change: GroupChange, own: int | None = None
    ) -> None:
        nonlocal told
        told += 1
        found = list(connections)
        right(self, found, change, own)
        if told % EACH == 0:
            right(self, found, change)

    return show_change


@mutant((SessionOutput, "show_change"))
def differences_change_places(right: Right) -> Right:
    """Now and then a change is told behind the next one of its group."""
    kept: dict[str, tuple[list[int], GroupChange]] = {}
    told = 0

    def show_change(
        self: SessionOutput, connections: Iterable[int], change: GroupChange, own: int | None = None
    ) -> None:
        nonlocal told
        told += 1
        found, late = list(connections), kept.pop(change.group, None)
        if late is None and own is None and told % EACH == 0:
            kept[change.group] = (found, change)
            return
        right(self, found, change, own)
        if late is not None:
            right(self, *late)

    return show_change


@mutant((group_lists, "_regroup"))
def members_keep_their_order_in_a_new_view(_right: Right) -> Right:
    """In a new view of the daemons a client appends who has come, and orders nobody by daemons."""

    def regroup(held: MemberList[MemberId], change: Difference) -> ListVersion[MemberId]:
        stayed = [member for member in held.version if member.daemon not in change.went]
        held.replace([*stayed, *change.members])
        return MemberList(stayed).version

    return regroup


@mutant((group_lists, "_regroup"))
def who_comes_with_a_view_came_along(right: Right) -> Right:
    """A client counts members that have come with a view of the daemons to those of its own."""

    def regroup(held: MemberList[MemberId], change: Difference) -> ListVersion[MemberId]:
        right(held, change)
        return held.version

    return regroup


@mutant((group_lists, "_sort"))
def groups_that_go_on_keep_their_order(_right: Right) -> Right:
    """A client does not order the members of a group that goes on by their daemons."""

    def sort(held: MemberList[MemberId]) -> ListVersion[MemberId]:
        return held.version

    return sort


@mutant((Beginning, "_touch"))
def who_has_gone_is_not_told(_right: Right) -> Right:
    """A daemon takes all groups of its members for groups that go on as they were."""

    def touch(self: Beginning, group: str) -> Touched:
        return Touched(None)

    return touch


@mutant((carried, "slices_of"))
def readers_are_not_announced(right: Right) -> Right:
    """A daemon announces its members and no readers: these get no messages in the next view."""

    def slices_of(*arguments: Any, **options: Any) -> Iterator[Rows]:
        for found in right(*arguments, **options):
            yield msgspec.structs.replace(found, readers=())

    return slices_of


@mutant((Groups, "_is_reader"))
def readers_are_members_here(_right: Right) -> Right:
    """A session that joins without views becomes a member like others."""

    def is_reader(self: Groups, bundle: Bundle) -> bool:
        return False

    return is_reader


BUGS = (
    difference_is_lost,
    difference_comes_twice,
    differences_change_places,
    members_keep_their_order_in_a_new_view,
    who_comes_with_a_view_came_along,
    groups_that_go_on_keep_their_order,
    who_has_gone_is_not_told,
    readers_are_not_announced,
    readers_are_members_here,
)
