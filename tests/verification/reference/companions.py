"""The processes that come along with each other from view to view, and that share a part of one."""

from tests.verification.reference.terms import NO_VIEW
from tests.verification.reference.views import Views


def are_together(views: Views, one: str, other: str, view: str) -> bool:
    """Return whether two processes are together in a view."""
    if one == other:
        return True
    last, companions = _past(views, one, view)
    same, theirs = _past(views, other, view)
    return last != NO_VIEW and last == same and other in companions and one in theirs


def _past(views: Views, process: str, view: str) -> tuple[str, set[str]]:
    """Return the view that a process had completed at a Conf R, and the processes in every T
    since."""
    last, companions = NO_VIEW, set[str]()
    installed = views.installed_at(process, view)
    for start, old in views.installs(process):
        if installed is None:
            return NO_VIEW, companions
        if start >= installed:
            break
        if views.completed_at(process, old) is not None:
            last, companions = old, set(views.members(old))
        companions &= set(views.fellows(process, old))
    return last, companions


def half_of(views: Views, process: str | None, view: str, *, regular: bool) -> object:
    """Return the common key of processes that deliver the same in a part of a view."""
    turn = None if process is None else views.turn(process, view)
    if regular or turn is None:
        return regular
    return (tuple(sorted(views.fellows(turn[1].p, view))), turn[1].view)
