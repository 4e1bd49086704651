"""Group lists: the member lists that a client holds, which differences change.

Pure. A whole view (VIEW) begins a list, each DIFFERENCE leads to the next view. A difference that
does not fit the list that is held was lost, repeated or out of order before: the session ends.
"""

from operator import attrgetter, itemgetter
from typing import Final, cast

from msgspec import structs

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.errors import BadDatagram
from groupcomm.events import Cause, GroupView, MemberId
from groupcomm.member_lists import ListVersion, MemberList
from groupcomm.session.differences import Difference, place_of

_home = attrgetter("daemon")

UNFIT: Final = "difference"
"""The reason of the error of a difference that does not fit."""


class GroupLists:
    """The lists of the groups of one session, by name, each with the id of its latest view.

    Attributes:
        others: see `GroupView.others`, for the views that follow.
    """

    __slots__ = ("_held", "others")

    def __init__(self) -> None:
        self.others: tuple[tuple[str, ...], ...] = ()
        self._held: dict[str, tuple[MemberList[MemberId], Position]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def holds(self, view: GroupView) -> bool:
        """Return whether the list of a view is held."""
        held = self._held.get(view.group)
        return held is not None and held[1] == view.id

    def hold(self, view: GroupView, me: MemberId | None) -> GroupView:
        """Hold the list of a whole view; none if the session is not in it. Return the view."""
        held, _ = self._held.pop(view.group, (None, None))
        if me is not None and view.includes(me):
            self._held[view.group] = (MemberList(view.members), view.id)
        if view.cause is not Cause.NETWORK:
            return view
        same = held and set(held.version) == set(view.members) == set(view.vs_set)
        return structs.replace(view, unchanged=bool(same), others=self.others)

    def apply(self, change: Difference, me: MemberId | None) -> GroupView:
        """Return the view that a difference leads to.

        Raises:
            BadDatagram: it does not fit the view that is held.
        """
        held, at = self._held.get(change.group, (None, None))
        if held is None or at is None or place_of(at) != change.before:
            shown = "none" if at is None else at
            raise BadDatagram(UNFIT, f"{change.group!r} at {shown} is not {change.before}")
        own, size = change.cause is Cause.LEAVE and change.members[0] == me, held.size
        is_network = change.cause is Cause.NETWORK
        together = _apply(held, change)
        if together is None or held.size != change.size:
            text = f"{change.cause.name} does not lead to {change.size} members of {change.group!r}"
            raise BadDatagram(UNFIT, text)
        if own:
            del self._held[change.group]
        else:
            self._held[change.group] = (held, change.id)
        return GroupView(
            group=change.group,
            id=change.id,
            members=_as_tuple(held.version),
            cause=change.cause,
            changed=() if is_network else change.members,
            vs_set=() if own else _as_tuple(together),
            own=own,
            unchanged=is_network and not change.members and size == change.size,
            others=self.others if is_network else (),
        )

    def go_on(self, daemons: ViewId) -> list[GroupView]:
        """Return the views with which groups go on, as they were, in a new view of the daemons.

        Groups that have a view in it already are not among them.
        """
        start = Position(daemons, 0, 0, 0, 0)
        views = []
        for group, (held, at) in sorted(self._held.items(), key=itemgetter(0)):
            if at.view != daemons:
                members = _as_tuple(_sort(held))
                self._held[group] = (held, start)
                view = GroupView(
                    group=group,
                    id=start,
                    members=members,
                    cause=Cause.NETWORK,
                    changed=(),
                    vs_set=members,
                    own=False,
                    unchanged=True,
                    others=self.others,
                )
                views.append(view)
        return views


def _apply(held: MemberList[MemberId], change: Difference) -> ListVersion[MemberId] | None:
    """Change a list; return who came along, and None if the difference does not fit."""
    before = held.version
    match change.cause:
        case Cause.JOIN:
            return before if held.join(change.members[0]) else None
        case Cause.LEAVE | Cause.DISCONNECT:
            return held.version if held.leave(change.members[0]) else None
        case Cause.NETWORK:
            return _regroup(held, change)


def _regroup(held: MemberList[MemberId], change: Difference) -> ListVersion[MemberId]:
    """Replace the members of daemons that went by those that came; order them by their daemons.

    That is the order in which all daemons begin a view. It costs as much as the list is long, but
    is as rare as views of the daemons.
    """
    went = frozenset(change.went)
    stayed = sorted((one for one in held.version if one.daemon not in went), key=_home)
    held.replace(sorted([*stayed, *change.members], key=_home))
    return MemberList(stayed).version if change.members else held.version


def _sort(held: MemberList[MemberId]) -> ListVersion[MemberId]:
    """Order the members by their daemons, as a view of the daemons begins."""
    homes = [member.daemon for member in held.version]
    if homes != sorted(homes):
        held.replace(sorted(held.version, key=_home))
    return held.version


def _as_tuple(version: ListVersion[MemberId]) -> tuple[MemberId, ...]:
    """Return a version as the view takes it, which makes a tuple of it when it is read."""
    return cast("tuple[MemberId, ...]", version)
