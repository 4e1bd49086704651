"""`make soak` in small: it hunts, keeps failures, and continues after a stop."""

import shlex
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import attrs
import pytest

from groupcomm.sim.run import Finding, RunResult
from groupcomm.sim.settings import plain_settings
from groupcomm.trace.events import Fail, Left
from tests.verification.mutants.__main__ import main as with_mutant
from tests.verification.mutants.catalogue import MUTANTS, find_mutant
from tests.verification.mutants.runs import MutantOptions, mutant_of, replay_command, run_seed
from tests.verification.simulation.runs import COMMAND
from tests.verification.simulation.settings import VerificationOptions
from tests.verification.soak import soak
from tests.verification.soak.soak import FIRST_NEW_SEED, Soak

pytestmark = pytest.mark.verification

BUG = "once-per-group"  # every seed finds it
ONE = find_mutant(BUG)
QUICK_S = 0.1
KILL, GOODBYE = Fail(1_000_000, "alfa/1"), Left(2_000_000, "bravo/1")


@attrs.define
class Runs:
    """Stands in for real runs, and remembers which there were.

    Attributes:
        finds: for a bug ("" for none) and a seed, the properties that do not hold.
        stops_after: the number of results before ^C.
        seeds: the seeds that were run, by bug.
        sites: the number of sites, by bug; None if it is drawn.
    """

    finds: Callable[[str, int], Sequence[str]] = lambda bug, seed: ()
    stops_after: int = 1_000_000
    seeds: dict[str, list[int]] = attrs.field(factory=dict)
    sites: dict[str, int | None] = attrs.field(factory=dict)

    def __call__(
        self, seeds: Sequence[int], options: VerificationOptions
    ) -> Generator[RunResult, None, None]:
        for seed in seeds:
            if self.stops_after == 0:
                raise KeyboardInterrupt
            self.stops_after -= 1
            self.seeds.setdefault(mutant_of(options), []).append(seed)
            self.sites[mutant_of(options)] = options.sites
            yield RunResult(
                settings=attrs.evolve(plain_settings(), seed=seed),
                events=1,
                sent=1,
                deliveries=1,
                views=3,
                simulated_s=36.0,
                trace_hash="",
                findings=tuple(
                    Finding(property=name, text=f"{name} does not hold", evidence=(KILL,))
                    for name in self.finds(mutant_of(options), seed)
                ),
                last_events=(GOODBYE,),
            )


def ninth_finds(bug: str, seed: int) -> Sequence[str]:
    """The ninth seed of each bug finds it; earlier ones fail an assertion, which is no finding."""
    return {9: ("O1",), 4: ("assert",)}.get(seed, ()) if bug else ()


def third_new_seed_fails(bug: str, seed: int) -> Sequence[str]:
    return ("D1", "R") if not bug and seed == FIRST_NEW_SEED + 2 else ()


class Clock:
    """Stands in for `time`: each look at it is a second later than the one before."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 1.0
        return self._now


CLOCK = Clock()


@pytest.fixture(autouse=True)
def no_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here depends on the time that anything takes."""
    monkeypatch.setattr(soak, "time", CLOCK)


def run_for_a_moment(run: Soak, looks: int = 30) -> None:
    run.run_new_seeds(CLOCK.monotonic() + looks)


# ---- the hunt ----


def test_a_hunt_ends_with_the_first_seed_that_an_checker_finds_the_bug_in(tmp_path: Path) -> None:
    runs = Runs(finds=ninth_finds)
    found = Soak(tmp_path, runs, QUICK_S).hunt(ONE, seeds=30)
    assert (found.tried, found.seed, found.properties) == (9, 9, ["O1"])
    assert Soak(tmp_path, runs, QUICK_S).hunt(ONE, seeds=30) == found
    assert runs.seeds == {BUG: list(range(1, 10))}, "what was found is not hunted again"


def test_a_hunt_that_was_stopped_goes_on_with_the_next_seed(tmp_path: Path) -> None:
    runs = Runs(finds=ninth_finds, stops_after=5)
    with pytest.raises(KeyboardInterrupt):
        Soak(tmp_path, runs, QUICK_S).hunt(ONE, seeds=30)
    runs.stops_after = 100
    assert Soak(tmp_path, runs, QUICK_S).hunt(ONE, seeds=30).tried == 9
    assert runs.seeds == {BUG: list(range(1, 10))}


def test_a_hunt_is_over_after_so_many_seeds(tmp_path: Path) -> None:
    runs = Runs(finds=ninth_finds)
    for _ in range(2):
        hunt = Soak(tmp_path, runs, QUICK_S).hunt(ONE, seeds=5)
        assert (hunt.tried, hunt.seed) == (5, None)
    assert runs.seeds == {BUG: [1, 2, 3, 4, 5]}
    assert Soak(tmp_path, runs, QUICK_S).hunt(ONE, seeds=30).tried == 9


@pytest.mark.parametrize("change", ["sources", "duration"])
def test_other_sources_or_settings_are_hunted_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    runs, duration_s = Runs(finds=ninth_finds), QUICK_S
    Soak(tmp_path, runs, duration_s).hunt(ONE, seeds=5)
    if change == "sources":
        monkeypatch.setattr(soak, "digest_of_sources", lambda: "other sources")
    else:
        duration_s = 2 * QUICK_S
    Soak(tmp_path, runs, duration_s).hunt(ONE, seeds=3)
    assert runs.seeds == {BUG: [1, 2, 3, 4, 5, 1, 2, 3]}


# ---- new seeds ----


def test_no_new_seed_is_run_twice_and_none_is_left_out(tmp_path: Path) -> None:
    runs = Runs()
    for stops_after in (7, 0, 60):
        runs.stops_after = stops_after
        with pytest.raises(KeyboardInterrupt):
            Soak(tmp_path, runs, QUICK_S).run_new_seeds(CLOCK.monotonic() + 10_000)
    assert runs.seeds[""] == list(range(FIRST_NEW_SEED, FIRST_NEW_SEED + 67))
    assert Soak(tmp_path, runs, QUICK_S).summary() == (
        "67 new seeds, 0.7 simulated hours, 201 views, 0 failed"
    )


def test_new_seeds_end_when_the_time_is_over(tmp_path: Path) -> None:
    runs = Runs()
    run_for_a_moment(Soak(tmp_path, runs, QUICK_S))
    assert runs.seeds[""]
    ran = len(runs.seeds[""])
    Soak(tmp_path, runs, QUICK_S).run_new_seeds(CLOCK.monotonic())
    assert len(runs.seeds[""]) == ran


def test_a_seed_that_fails_is_kept_with_all_that_it_takes_to_run_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Soak(tmp_path, Runs(finds=third_new_seed_fails), 2.5)
    run_for_a_moment(run)
    (failure,) = Soak(tmp_path, Runs(), 2.5).state.failures
    seed = FIRST_NEW_SEED + 2
    assert (failure.seed, failure.properties) == (seed, ["D1", "R"])
    assert failure.options == VerificationOptions(duration_s=2.5)
    kept = run.file_of(seed).read_text()
    command = f"{COMMAND} --seeds {seed}:{seed} --duration-s 2.5"
    for text in (
        command,
        "D1: D1 does not hold",
        "alfa/1                   is killed",
        "has left in order",
        "Settings(",
    ):
        assert text in kept
    assert command in capsys.readouterr().out


def test_after_a_change_what_failed_is_run_again_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_for_a_moment(Soak(tmp_path, Runs(finds=third_new_seed_fails), QUICK_S))
    seed = FIRST_NEW_SEED + 2
    for sources, finds, failed, ran in (
        ("", third_new_seed_fails, [seed], {}),  # with the same sources it would fail again
        ("second", third_new_seed_fails, [seed], {"": [seed]}),
        ("third", Runs().finds, [], {"": [seed]}),
        ("fourth", third_new_seed_fails, [], {}),
    ):
        if sources:
            monkeypatch.setattr(soak, "digest_of_sources", lambda text=sources: text)
        runs = Runs(finds=finds)
        run = Soak(tmp_path, runs, QUICK_S)
        run.retry()
        assert [failure.seed for failure in run.state.failures] == failed
        assert {bug: sorted(set(seeds)) for bug, seeds in runs.seeds.items()} == ran  # and shrunk
        assert run.file_of(seed).exists() == bool(failed)
    assert run.file_of(seed).with_suffix(".passed").exists()


def test_seeds_that_fail_alike_are_one_failure(tmp_path: Path) -> None:
    run = Soak(tmp_path, Runs(finds=lambda bug, seed: ("O1",)), QUICK_S)
    run_for_a_moment(run)
    (failure,) = run.state.failures
    assert failure.seed == FIRST_NEW_SEED
    assert failure.alike > 3
    assert [path.name for path in tmp_path.glob("seed-*")] == [f"seed-{FIRST_NEW_SEED}.txt"]


def test_batches_of_new_seeds_run_all_kinds_of_clusters(tmp_path: Path) -> None:
    run = Soak(tmp_path, Runs(), QUICK_S)
    starts = range(FIRST_NEW_SEED, FIRST_NEW_SEED + soak.BATCH * len(soak.KINDS), soak.BATCH)
    kinds = [run.kind_of(seed) for seed in starts]
    assert kinds == [attrs.evolve(kind, duration_s=QUICK_S) for kind in soak.KINDS]
    assert run.kind_of(starts[1] - 1) == kinds[0]
    assert run.kind_of(starts[-1] + soak.BATCH) == kinds[0]


# ---- the command ----


def command(folder: Path, runs: Runs, *more: str) -> int:
    arguments = ["--folder", str(folder / "kept"), "--minutes", "0.5", *more]
    return soak.main(arguments, runs)


def test_the_command_hunts_every_bug_and_then_runs_new_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Runs(finds=ninth_finds)
    assert command(tmp_path, runs) == 0
    bugs = {bug.name for bug in MUTANTS}
    assert runs.seeds.keys() == bugs | {""}
    assert runs.sites == {bug.name: bug.sites for bug in MUTANTS} | {"": None}
    told = capsys.readouterr().out
    for bug in bugs:
        assert (
            f"{bug}: seed 9 violates O1: python -m tests.verification.mutants {bug} --seeds 9:9 "
            in told
        )
    assert "new seeds, " in told.splitlines()[-1]
    table = (tmp_path / "kept" / soak.TABLE).read_text().splitlines()
    found = [(b, f"{b.sites} sites: " if b.sites else "") for b in MUTANTS]
    assert table[2:] == [
        f"| `{b.name}` | {b.sentence} | {sites}{f'{b.faults}: ' * (b.faults != 'all')}9 | O1 |"
        for b, sites in found
    ]
    assert any("9 | O1 |" in line and "loss,burst" in line for line in table)


@pytest.mark.parametrize("finds", [Runs().finds, lambda bug, seed: ("O1",)])
def test_the_command_fails_if_a_bug_was_not_found_or_a_new_seed_fails(
    tmp_path: Path, finds: Callable[[str, int], Sequence[str]]
) -> None:
    assert command(tmp_path, Runs(finds=finds), "--hunt-seeds", "2") == 1
    table = (tmp_path / "kept" / soak.TABLE).read_text()
    missed = [f"| `{bug.name}` | {bug.sentence} | - | nothing within 2 seeds |" for bug in MUTANTS]
    assert all((line in table) == (not finds(BUG, 1)) for line in missed)


def test_the_command_hunts_one_bug_where_one_is_named(tmp_path: Path) -> None:
    runs = Runs(finds=ninth_finds)
    assert command(tmp_path, runs, "--bug", BUG) == 0
    assert runs.seeds.keys() == {BUG, ""}
    table = (tmp_path / "kept" / soak.TABLE).read_text()
    assert f"| `{BUG}` | {ONE.sentence} | 9 | O1 |" in table
    assert table.count("| - | not hunted yet |") == len(MUTANTS) - 1


def test_the_command_can_be_stopped_in_the_hunt_and_goes_on_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Runs(finds=ninth_finds, stops_after=12)
    assert command(tmp_path, runs) == 0
    assert "stopped" in capsys.readouterr().out
    runs.stops_after = 1_000_000
    command(tmp_path, runs)
    assert all(runs.seeds[bug.name] == list(range(1, 10)) for bug in MUTANTS)


def test_long_hunts_and_long_runs_say_how_far_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak, "PROGRESS_S", 0.0)
    run = Soak(tmp_path, Runs(), QUICK_S)
    run.hunt(ONE, seeds=2)
    run_for_a_moment(run)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"{BUG}: 1 of 2 seeds tried", f"{BUG}: 2 of 2 seeds tried"]
    assert lines[2] == "1 new seeds, 0.0 simulated hours, 3 views, 0 failed"


# ---- with real runs ----


@pytest.mark.long
def test_real_runs_are_hunted_and_counted(tmp_path: Path) -> None:
    def really(
        seeds: Sequence[int], options: VerificationOptions
    ) -> Generator[RunResult, None, None]:
        return (run_seed(seed, options) for seed in seeds)

    run = Soak(tmp_path, really, 1.0)
    hunt = run.hunt(ONE, seeds=40)
    assert hunt.seed is not None
    assert "D2" in hunt.properties
    run_for_a_moment(run, looks=3)
    assert run.state.next_seed > FIRST_NEW_SEED
    assert run.state.views > 0, "views change in these runs"


def test_the_command_to_run_a_seed_again_does_so(capsys: pytest.CaptureFixture[str]) -> None:
    options = MutantOptions(mutant=BUG, duration_s=1.0625, daemons=3, sites=2, faults="loss,crash")
    runs = (run_seed(seed, options) for seed in range(1, 20))
    before = next(run for run in runs if run.findings)
    again = replay_command(before.settings.seed, options)
    assert with_mutant([*shlex.split(again)[3:], "--json"]) == 1
    told = capsys.readouterr()
    assert f'"trace_hash": "{before.trace_hash}"' in told.out
    assert again.partition(" --seeds ")[2] in told.err
