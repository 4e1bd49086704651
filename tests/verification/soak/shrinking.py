"""Shrinking: the fewest faults, the shortest time and the fewest daemons with which a seed still
fails.

Each attempt is a run, and is kept if it breaks one of the same properties. A seed draws the
strength of each fault whether it is on or not, so a run without one of the faults is nearly the
same run.
"""

from collections.abc import Callable, Iterator
from typing import Final

import attrs

from groupcomm.sim.faults.faults import Faults, names_of
from groupcomm.sim.run import RunResult
from tests.verification.simulation.settings import VerificationOptions, draw_settings

MOST_RUNS: Final = 100
SHORTEST_S: Final = 0.5

RunOne = Callable[[int, VerificationOptions], RunResult]


@attrs.frozen
class Shrunk:
    """The result of shrinking.

    Attributes:
        options: the options with which the seed still fails.
        result: the run with these.
        runs: the number of runs that it took.
    """

    options: VerificationOptions
    result: RunResult
    runs: int


def shrink(seed: int, options: VerificationOptions, result: RunResult, run: RunOne) -> Shrunk:
    """Return a smaller run that fails like a run.

    Args:
        seed: the seed.
        options: the options with which it fails.
        result: that run.
        run: runs a seed.
    """
    wanted = {found.property for found in result.findings}
    runs = 0
    is_smaller = True
    while is_smaller and runs < MOST_RUNS:
        is_smaller = False
        for smaller in _smaller(seed, options):
            if runs >= MOST_RUNS:
                break
            runs += 1
            attempt = run(seed, smaller)
            if wanted & {found.property for found in attempt.findings}:
                options, result, is_smaller = smaller, attempt, True
                break
    return Shrunk(options, result, runs)


def _smaller(seed: int, options: VerificationOptions) -> Iterator[VerificationOptions]:
    """Yield options of smaller runs, those that save most first."""
    if options.duration_s / 2 >= SHORTEST_S:
        yield attrs.evolve(options, duration_s=options.duration_s / 2)
    names = _names(draw_settings(seed, options).faults, options)
    if options.faults == "all":
        yield attrs.evolve(options, faults=",".join(names) or "none")
        return
    if options.targets:
        yield attrs.evolve(options, targets=False)
    if options.versions:
        yield attrs.evolve(options, versions=False)
    if options.rosters:
        yield attrs.evolve(options, votes=False, rosters=options.votes)
    half = len(names) // 2
    for some in (names[:half], names[half:]):
        if half > 1:
            yield attrs.evolve(options, faults=",".join(some))
    for name in names:
        rest = ",".join(other for other in names if other != name)
        yield attrs.evolve(options, faults=rest or "none")
    daemons = draw_settings(seed, options).daemons
    if daemons > max(2, options.sites or 1):
        yield attrs.evolve(options, daemons=daemons - 1)


def _names(faults: Faults, options: VerificationOptions) -> list[str]:
    if options.faults not in ("all", "none"):
        return options.faults.split(",")
    return list(names_of(faults))
