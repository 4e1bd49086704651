"""Workers of one set at simulated daemons, through crashes, partitions and bad networks."""

from random import Random

import pytest

from groupcomm.sim.faults.faults import draw_faults
from tests.groupcomm_client.coordination import faulty_shop
from tests.groupcomm_client.coordination.shop import Shop

PATHS = "loss,burst,duplication,reorder,corruption,capacity"
"""The faults of datagrams; those of daemons and partitions are the crowd's."""

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 40))]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_job_is_done_through_partitions_crashes_and_bad_networks(seed: int) -> None:
    rng = Random(seed)
    wanted = [name for name in PATHS.split(",") if rng.random() < 0.5]
    faults = draw_faults(rng, ",".join(wanted) or "none")
    shop = Shop(seed, 3 + 2 * (seed % 2), faults=faults)
    shop.run(6.0, 2.0)
    shop.check()
    assert len(shop.done) > 20
    assert shop.compared > 100


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 10))]
)
def test_no_two_work_on_a_job_at_once_while_nothing_is_parted(seed: int) -> None:
    shop = Shop(seed, 3, parts=False)
    shop.run(5.0, 3.0)
    shop.check()
    assert len(shop.done) > 20
    assert shop.overlaps == 0


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(s, marks=pytest.mark.long) for s in (27, 347, 394))]
)
def test_all_faults(seed: int) -> None:
    """The campaign `history_seeds --crowd work` runs many seeds; some once failed."""
    assert faulty_shop.play(seed).summary()["done"] > 20
