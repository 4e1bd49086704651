"""Runs of the simulator in which others may take part, compared with the specification.

    python -m tests.verification.simulation --rosters --seeds 1:1000

takes the options of `groupcomm simulate` and those of `VerificationOptions`.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import attrs

from groupcomm.errors import ConfigError
from groupcomm.sim import run as simulator
from groupcomm.sim.checkers import Checkers
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.run import Checks, RunResult
from groupcomm.sim.settings import Options, Settings
from groupcomm.sim.workload import Workload
from groupcomm.trace.events import TraceEvent
from groupcomm_tools import campaign
from groupcomm_tools.commands import simulate
from tests.verification.simulation.attackers.roles import ROLES, parse_roles
from tests.verification.simulation.byzantine.run import Byzantine
from tests.verification.simulation.byzantine.survivors import Survivors
from tests.verification.simulation.cluster import VerificationCluster
from tests.verification.simulation.settings import VerificationOptions, draw_settings, widened
from tests.verification.specification.refinement import Refinement

COMMAND: Final = "python -m tests.verification.simulation"

SWITCHES: Final = {
    "rosters": "operators add, move and remove daemons all the time",
    "minority": "some programs join groups so that they pause, or leave, without a quorum",
    "votes": "with --rosters, they change votes and policy, too",
    "versions": "each start of a daemon may be one of another release",
    "targets": "packets of chosen kinds are lost, held, copied or late, and programs are rough",
    "segments": "large packets travel in segments, over paths that carry more or less, or less than"
    " systems say",
    "byzantine": "a daemon of each cluster has the key and lies; the others are checked",
}


@attrs.frozen(kw_only=True)
class VerificationResult(RunResult):
    """The result of one run.

    Attributes:
        actions: the number of steps that were compared with the specification.
    """

    actions: int


class _ObservedCheckers(Checkers):
    """All checkers, and the comparison with the specification."""

    def __init__(self, observer: Refinement) -> None:
        super().__init__()
        self._observer = observer

    def feed(self, event: TraceEvent) -> None:
        """Process the next event."""
        super().feed(event)
        self._observer.feed(event)


def run_seed(
    seed: int, options: Options, write: Callable[[bytes], object] | None = None
) -> VerificationResult:
    """Run one seed; see the simulator's function of this name."""
    return run(draw_settings(seed, options), write)


def run(settings: Settings, write: Callable[[bytes], object] | None = None) -> VerificationResult:
    """Run with these settings; see the simulator's function of this name."""
    wide, observer = widened(settings), Refinement()
    if wide.liars:  # a liar does as it likes, whatever is specified
        result = simulator.run(
            wide,
            write,
            make_cluster=VerificationCluster,
            make_checks=Survivors,
            play=_play_with_liars,
        )
    else:
        result = simulator.run(
            wide,
            write,
            make_cluster=partial(VerificationCluster, observer=observer),
            make_checks=partial(_ObservedCheckers, observer),
        )
    return VerificationResult(**attrs.asdict(result, recurse=False), actions=observer.actions)


def _play_with_liars(cluster: Cluster, workload: Workload, checks: Checks) -> None:
    assert isinstance(cluster, VerificationCluster)
    assert isinstance(checks, Survivors)
    Byzantine(cluster, workload, checks).play()


def replay_command(seed: int, options: Options) -> str:
    """Return the command line that repeats one run, bit for bit."""
    words = [campaign.replay_command(seed, options, COMMAND)]
    if isinstance(options, VerificationOptions):
        words += [f"--{name}" for name in SWITCHES if getattr(options, name)]
        if options.attackers:
            words.append(f"--attacker {','.join(options.attackers)}")
    return " ".join(words)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    simulate.add_options(parser)
    for name, text in SWITCHES.items():
        parser.add_argument(f"--{name}", action="store_true", help=text)
    roles = "; ".join(f"{role}: {what}" for role, what in ROLES.items())
    parser.add_argument(
        "--attacker",
        action="append",
        default=[],
        metavar="ROLE,...",
        help=f"an attacker in a role; {roles} (default: none, except for the fault attacker)",
    )


def chosen(options: argparse.Namespace) -> VerificationOptions:
    """Return the options of the runs.

    Raises:
        ConfigError: an option has no such value, or two options exclude each other.
    """
    return VerificationOptions(
        **simulate.run_options(options),
        **{name: getattr(options, name) for name in SWITCHES},
        attackers=parse_roles(",".join(options.attacker)) if options.attacker else (),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all seeds; return 0 if every property holds in every run."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    try:
        options = parser.parse_args(arguments)
        return simulate.run_all(options, chosen(options), run_seed, replay_command)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
