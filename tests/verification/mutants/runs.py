"""Runs of the simulator in which a mutant replaces the right attributes."""

from contextlib import nullcontext

import attrs

from groupcomm.sim.run import RunResult
from groupcomm.sim.settings import Options
from tests.verification.mutants.catalogue import find_mutant
from tests.verification.simulation import runs
from tests.verification.simulation.settings import VerificationOptions


@attrs.frozen(kw_only=True)
class MutantOptions(VerificationOptions):
    """Options of runs with a mutant.

    Attributes:
        mutant: its name.
    """

    mutant: str


def mutant_of(options: Options) -> str:
    """Return the name of the mutant that runs with these options have; empty for none."""
    return options.mutant if isinstance(options, MutantOptions) else ""


def run_seed(seed: int, options: Options) -> RunResult:
    """Run one seed, with a mutant if the options name one.

    Raises:
        ConfigError: no mutant has that name.
    """
    name = mutant_of(options)
    with find_mutant(name).active() if name else nullcontext():
        return runs.run_seed(seed, options)


def replay_command(seed: int, options: Options) -> str:
    """Return the command that runs a seed of a campaign again."""
    command = runs.replay_command(seed, options)
    name = mutant_of(options)
    if not name:
        return command
    return f"python -m tests.verification.mutants {name}{command.removeprefix(runs.COMMAND)}"
