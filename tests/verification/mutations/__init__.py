"""Ways to break a history, to see whether the checkers notice.

A mutation takes a valid trace and returns a changed one, or None where there is nothing of the kind
to change. The result may still be valid: a lower horizon that no daemon needed breaks no promise.
Other events stay as they are.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from groupcomm.trace.events import TraceEvent
from tests.verification.mutations.clients import CLIENT_MUTATIONS
from tests.verification.mutations.daemons import DAEMON_MUTATIONS
from tests.verification.mutations.endings import ENDING_MUTATIONS
from tests.verification.mutations.holes import HOLE_MUTATIONS
from tests.verification.mutations.plausible import PLAUSIBLE_MUTATIONS
from tests.verification.mutations.told import TOLD_MUTATIONS
from tests.verification.mutations.tools import Mutation, Trace
from tests.verification.mutations.views import VIEW_MUTATIONS

MUTATIONS: Final[dict[str, Mutation]] = {
    **DAEMON_MUTATIONS,
    **CLIENT_MUTATIONS,
    **HOLE_MUTATIONS,
    **PLAUSIBLE_MUTATIONS,
}
"""All kinds by name that any history can be broken in."""

CHANGE_MUTATIONS: Final[dict[str, Mutation]] = {
    **VIEW_MUTATIONS,
    **ENDING_MUTATIONS,
    **TOLD_MUTATIONS,
}
"""Kinds by name that histories with changing views can be broken in."""


def mutate(rng: Random, trace: Sequence[TraceEvent], kind: str) -> Trace | None:
    """Break a trace in one way.

    Args:
        rng: chooses the changed events.
        trace: a valid history.
        kind: a key of MUTATIONS or CHANGE_MUTATIONS.

    Returns:
        The broken trace; None if there is nothing in it to break so.
    """
    return (MUTATIONS | CHANGE_MUTATIONS)[kind](rng, list(trace))


__all__ = ["CHANGE_MUTATIONS", "MUTATIONS", "mutate"]
