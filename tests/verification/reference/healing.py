"""L1 and L2: after Heal its processes come to one view, and stay in it.

Daemons whose disks are unwell then may be in it or not, and come back once each.
"""

from groupcomm.trace.events import Conf, Fail, Heal, Left, Quiet, TraceEvent
from tests.verification.reference.terms import NO_VIEW
from tests.verification.reference.views import Views, flat

GRACE_US = 1_000_000
"""The time after Heal in which earlier faults may have consequences."""

FORMED_US = 3_000_000
"""The time after Heal at which its processes have one view at the latest."""


def check_healing(views: Views) -> set[str]:
    """Return the ids of violated properties."""
    if views.healed is None:
        return set()
    heal = views.events[views.healed]
    assert isinstance(heal, Heal)
    agreed = _agreement(views, heal)
    allowed = set() if agreed is None else _admissions(views, heal, agreed)
    found: set[str] = set()
    for index, event in enumerate(views.events):
        if index <= views.healed:
            continue
        ours = index not in views.void and getattr(event, "p", None) in heal.core
        ends = ours and isinstance(event, Fail | Left)
        over = event.t > heal.t + FORMED_US or isinstance(event, Quiet)
        if (ends or over) and (agreed is None or agreed > index):
            found.add("L1")
        moved = ours and isinstance(event, Conf) and index not in allowed
        if moved and agreed is not None and agreed <= index:
            found.add("L2")
    return found


def _admissions(views: Views, heal: Heal, agreed: int) -> set[int]:
    """Return the indices of the Confs from the agreement on that take in a process aside."""
    core, aside = set(heal.core), set(heal.aside)
    left = aside - set(views.members(views.view(heal.core[0], agreed)))
    admitting: set[str] = set()
    allowed = set()
    for index, event in enumerate(views.events):
        if index < agreed or index in views.void:
            continue
        if not isinstance(event, Conf) or event.p not in core or not core <= set(flat(event)):
            continue
        members = set(flat(event))
        if event.kind == "R" and members <= core | aside and members & left:
            admitting.add(event.view)
            left -= members
        if event.view in admitting or (event.kind == "T" and left):
            allowed.add(index)
    return allowed


def _agreement(views: Views, heal: Heal) -> int | None:
    """Return the index before which all processes of Heal are in one view, with no others but those
    aside."""
    assert views.healed is not None
    for index, event in enumerate(views.events):
        if index > views.healed and _is_late(heal, event) and _is_formed(views, heal, index):
            return index
    return None


def _is_late(heal: Heal, event: TraceEvent) -> bool:
    return event.t >= heal.t + GRACE_US or isinstance(event, Quiet)


def _is_formed(views: Views, heal: Heal, index: int) -> bool:
    """Return whether, before an event, the last Conf of all is R of one view, with no other process
    inside.

    Processes aside may be in it.
    """
    last = {views.view(process, index) for process in heal.core}
    regular = all(views.is_regular(process, index) for process in heal.core)
    if not regular or len(last) != 1 or NO_VIEW in last:
        return False
    core = set(heal.core)
    return core <= set(views.members(*last)) <= core | set(heal.aside)
