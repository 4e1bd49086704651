"""The comparison of event loops: each kind of relay and program passes all messages."""

import pytest

from groupcomm_tools.bench.plan import Plan
from tests.verification.campaigns.peers.shells import (
    BASE,
    RELAYS,
    measure_blocking,
    measure_relays,
    run,
    table,
)

pytestmark = pytest.mark.long


PLAN = Plan(daemons=2, receivers=2, rate=200.0, duration_s=0.2, warm_up_s=0.1)


FIRST, *OTHERS = RELAYS


@pytest.mark.parametrize(
    "name", [FIRST, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)]
)
def test_relays_of_each_kind_pass_all_messages(name: str) -> None:
    middle, late, _ = measure_relays(PLAN, *RELAYS[name])
    assert 0 < middle <= late


def test_our_blocking_programs_are_measured_as_well() -> None:
    middle, late, _ = measure_blocking(PLAN)
    assert 0 < middle <= late


def test_a_ratio_is_the_median_of_those_to_the_relays_of_the_same_round() -> None:
    found = {
        BASE: [(100.0, 200.0, 0.0), (200.0, 400.0, 0.0)],
        "ours": [(150.0, 300.0, 0.1), (500.0, 600.0, 0.3)],
    }
    *_, line = table(found).splitlines()
    assert line.split() == ["ours", "325", "450", "0.20", "2.00", "1.50", "2.50"]


def test_options_name_checkouts_and_interpreters() -> None:
    words = ["--ours", "old=../main,python3.13", "--rate", "2000", "--bench=--level safe"]
    options = run.read("", words)
    assert options.ours == ["old=../main,python3.13"]
    assert (options.rate, options.bench) == (2000.0, "--level safe")


def test_without_relays_a_ratio_is_that_to_the_first_of_ours() -> None:
    *_, line = table({"old": [(100.0, 0.0, 0.0)], "new": [(80.0, 0.0, 0.0)]}).splitlines()
    assert line.split()[-2:] == ["0.80", "0.80"]
