"""Whether no view with a majority can be between two views of one daemon. Pure."""

from collections.abc import Iterable

from groupcomm.config.roster import Roster
from groupcomm.config.view import View
from groupcomm.groups.announcement import Announcements


def is_unbroken(
    view: View, me: int, announcements: Announcements, rosters: Iterable[Roster]
) -> bool:
    """Return whether those that came along are a majority by themselves, whatever roster counted.

    Any other majority has one of them, and they were in no view in between. Where votes decide,
    fewer may act, and nothing is known.

    Args:
        view: the view that begins.
        me: the index of this daemon in it.
        announcements: those of all its daemons.
        rosters: those by which majorities may have counted since the last complete view.
    """
    keys = [(daemon.number, daemon.incarnation.random_id) for daemon in view.daemons]
    together = [view.daemons[index].name for index in announcements.together(me, keys)]
    return all(each.is_plain and each.has_majority(together) for each in rosters)
