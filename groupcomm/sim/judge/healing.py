"""L1 and L2: after Heal its processes come to one view, and stay in it."""

from groupcomm.sim.judge.terms import NO_VIEW
from groupcomm.sim.judge.views import Views
from groupcomm.sim.trace import Conf, Fail, Heal, Left, Quiet

FORMED_US = 3_000_000
"""So long after Heal the core has one view at the latest."""


def judge_healing(views: Views) -> set[str]:
    """The ids of violated properties."""
    found: set[str] = set()
    if views.healed is None:
        return found
    heal = views.events[views.healed]
    assert isinstance(heal, Heal)
    formed = _is_formed(views, heal, views.healed)
    for index, event in enumerate(views.events):
        if index <= views.healed:
            continue
        counts = index not in views.void
        ours = counts and getattr(event, "p", None) in heal.core
        over = event.t > heal.t + FORMED_US or isinstance(event, Quiet)
        if not formed and (over or (ours and isinstance(event, Fail | Left))):
            found.add("L1")
        if formed and ours and isinstance(event, Conf):
            found.add("L2")
        formed = formed or _is_formed(views, heal, index)
    return found


def _is_formed(views: Views, heal: Heal, index: int) -> bool:
    """Whether, after an event, the last Conf of all is R of one view, with just these."""
    last = {views.view(process, index + 1) for process in heal.core}
    regular = all(views.is_regular(process, index + 1) for process in heal.core)
    if not regular or len(last) != 1 or NO_VIEW in last:
        return False
    return set(views.members(*last)) == set(heal.core)
