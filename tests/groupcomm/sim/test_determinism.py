"""One seed, one run: the same trace bit for bit, on any machine and in any process."""

import os
import subprocess
import sys

import pytest

from groupcomm.sim.run import run_seed
from groupcomm.sim.settings import Options, draw_settings
from groupcomm_tools.campaign import Totals, run_campaign

SHORT = Options(duration_s=1.0)

HASHES_OF_SEEDS = """
import sys
from groupcomm.sim.run import run_seed
from groupcomm.sim.settings import Options
for seed in sys.argv[1:]:
    print(run_seed(int(seed), Options(duration_s=1.0)).trace_hash)
"""


def test_a_seed_gives_the_same_trace_twice() -> None:
    first: list[bytes] = []
    second: list[bytes] = []
    a = run_seed(5, SHORT, first.append)
    b = run_seed(5, SHORT, second.append)
    assert a == b
    assert b"".join(first) == b"".join(second)
    assert b"".join(first).count(b"\n") == a.events > 100


@pytest.mark.verification
@pytest.mark.parametrize("seed", [pytest.param(2, marks=pytest.mark.long), 11])
def test_also_with_daemons_that_die_and_parts_that_do_not_hear_each_other(seed: int) -> None:
    options = Options(faults="crash,disk,partition,pause,attacker,storm", duration_s=5.0)
    first, second = run_seed(seed, options), run_seed(seed, options)
    assert first == second
    assert first.views > 2


@pytest.mark.verification
def test_other_seeds_give_other_traces() -> None:
    assert len({run_seed(seed, SHORT).trace_hash for seed in range(1, 6)}) == 5


@pytest.mark.verification
@pytest.mark.long
def test_the_trace_does_not_depend_on_the_hash_seed_of_python() -> None:
    hashes = {
        subprocess.run(
            [sys.executable, "-c", HASHES_OF_SEEDS, "3", "4"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert hashes == {"".join(f"{run_seed(seed, SHORT).trace_hash}\n" for seed in (3, 4))}


@pytest.mark.verification
def test_many_workers_find_what_one_finds_in_the_same_order() -> None:
    options = Options(duration_s=0.3)
    sums = []
    for workers in (1, 2):
        totals = Totals()
        for result in run_campaign(range(1, 5), options, workers=workers):
            totals.add(result)
        sums.append((totals.trace_hash(), totals.events, totals.deliveries, totals.simulated_s))
    assert sums[0] == sums[1]


@pytest.mark.verification
def test_naming_a_fault_leaves_its_strength_and_everything_else_as_drawn() -> None:
    for seed in range(1, 30):
        drawn = draw_settings(seed, Options())
        if drawn.faults.loss:
            named = draw_settings(seed, Options(faults="loss"))
            assert named.faults.loss == drawn.faults.loss
            assert named.sites == drawn.sites
