"""Continuity: whether a majority may have gone on without a program between two of its views.

Pure. A daemon that stands still, or is cut off, need not have a view of its own part: its next view
may have all daemons again. The others may have had views in between, and have done in them what
only one part may do: give away a lock, choose a leader, number messages of a line.
"""

from groupcomm.events import DaemonView
from groupcomm_client.events import Received


def continues(before: DaemonView, view: DaemonView) -> bool:
    """Return whether no other view with a majority can be between two views of one session.

    Two majorities share a daemon, and its views have rising counters. So a view in between needs a
    counter in between; and it has no daemon that has come straight from the one view to the other.
    Where these are a majority by themselves their daemon says so: it knows how many there are.
    If it is unknown what is a majority, the same holds for all views that share daemons.

    Args:
        before: a view of daemons.
        view: the one that the session was shown next.
    """
    if before.majority is False or view.majority is False:
        return False
    if view.unbroken or view.id.counter == before.id.counter + 1:
        return True
    if view.together is None:
        return False
    together = set(view.together)
    return together.issuperset(before.daemons) or (
        view.majority is True and together.issuperset(view.daemons)
    )


class Continuity:
    """The views of daemons of one session.

    Args:
        view: the last view that the session was shown before; None if there was none.
    """

    def __init__(self, view: DaemonView | None = None) -> None:
        self._view = view
        self._most = 0 if view is None else len(view.daemons)  # in one view so far

    def is_broken_by(self, event: Received) -> bool:
        """Note an event; return whether a majority may have gone on without this program before
        it.

        The most daemons that the session has seen in one view count as all there are: a daemon that
        is started again while the others have no view without it breaks nothing. Where majorities
        are of votes it does, as one of few daemons may have been one.
        """
        if not isinstance(event, DaemonView):
            return False
        before, self._view = self._view, event
        self._most = max(self._most, len(event.daemons))
        if before is None or continues(before, event):
            return False
        others_may = self._most - len(event.together or ())
        by_votes = before.by_votes or event.by_votes
        minor = False in (before.majority, event.majority)
        return minor or by_votes or 2 * others_may > self._most
