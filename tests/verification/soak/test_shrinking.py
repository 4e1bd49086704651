"""Shrinking: a smaller run of the same seed that fails in the same way."""

import attrs

from groupcomm.sim.faults.faults import draw_faults, names_of
from groupcomm.sim.run import Finding, RunResult
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import random_for
from tests.verification.simulation.settings import VerificationOptions
from tests.verification.soak.shrinking import MOST_RUNS, SHORTEST_S, shrink


def result_of(*properties: str) -> RunResult:
    """Return a run that breaks these properties."""
    findings = tuple(Finding(property=name, text=name) for name in properties)
    return RunResult(
        settings=plain_settings(),
        events=1,
        sent=1,
        deliveries=1,
        views=1,
        simulated_s=1.0,
        trace_hash="",
        findings=findings,
        last_events=(),
    )


def needs_loss_and_a_crash(_: int, options: VerificationOptions) -> RunResult:
    """Stand in for runs: some bug shows only with two faults, and not in less than two seconds."""
    names = set(options.faults.split(","))
    shows = {"loss", "crash"} <= names or options.faults == "all"
    return result_of(*(("O1", "D3") if shows and options.duration_s >= 2 else ()))


def test_only_what_the_bug_needs_is_left() -> None:
    options = VerificationOptions(
        faults="loss,delay,crash,pause,disk,leave", duration_s=16.0, rosters=True
    )
    shrunk = shrink(7, options, result_of("O1"), needs_loss_and_a_crash)
    assert sorted(shrunk.options.faults.split(",")) == ["crash", "loss"]
    assert shrunk.options.duration_s == 2.0
    assert not shrunk.options.rosters
    assert shrunk.options.daemons == 2
    assert {found.property for found in shrunk.result.findings} == {"O1", "D3"}


def test_another_bug_is_not_taken_for_it() -> None:
    def run(_: int, options: VerificationOptions) -> RunResult:
        return result_of("O1" if options.faults == "loss,delay" else "D8")

    options = VerificationOptions(faults="loss,delay", duration_s=2 * SHORTEST_S)
    shrunk = shrink(7, options, result_of("O1"), run)
    assert shrunk.options.faults == "loss,delay"


def test_it_ends() -> None:
    shrunk = shrink(
        7, VerificationOptions(), result_of("O1"), lambda seed, options: result_of("O1")
    )
    assert shrunk.runs <= MOST_RUNS
    assert shrunk.options.duration_s < 2 * SHORTEST_S


def test_all_faults_become_those_that_the_seed_has() -> None:
    seen: list[str] = []

    def run(_: int, options: VerificationOptions) -> RunResult:
        seen.append(options.faults)
        return result_of("O1" if options.faults == "all" else "")

    shrink(7, VerificationOptions(duration_s=SHORTEST_S), result_of("O1"), run)
    drawn = draw_faults(random_for(7, "fault settings"), "all")
    assert seen == [",".join(names_of(drawn))]
    assert attrs.asdict(draw_faults(random_for(7, "fault settings"), seen[0])) == attrs.asdict(
        drawn
    )
