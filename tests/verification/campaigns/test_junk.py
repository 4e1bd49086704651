"""A little junk at real daemons, and the campaign's verdicts; `make campaigns` sends much."""

from random import Random
from typing import Any

import attrs
import pytest

from groupcomm.security.layout import Channel
from groupcomm_tools.bench.plan import Plan
from tests.groupcomm.security.daemons import aes_opener, aes_sealer, refused
from tests.groupcomm_tools.test_bench_matrix import figures
from tests.verification.campaigns.junk import PHASES, Phase, Round, check
from tests.verification.campaigns.junk_made import KINDS
from tests.verification.campaigns.junk_made import junk as make
from tests.verification.campaigns.runner import play

REASONS = {
    "random": {"version", "suite", "short"},
    "stranger": {"tag"},
    "forged": {"tag"},
    "replay": {"replay"},
}
QUIET = Phase(
    figures=figures(Plan(), delay_us=500.0),
    views=0,
    causes={},
    cpu_daemons=0.25,
    cpu_others=0.0,
    received=100,
    rejected={},
    dropped=0,
    told={},
    seconds=2.0,
)


def played(p95_ms: float, **changes: Any) -> Round:
    """Return a round in which junk makes delays this long, with other values changed if
    given."""
    worse = attrs.evolve(
        QUIET,
        figures=attrs.evolve(QUIET.figures, delay_p95_us=p95_ms * 1000),
        told={"sent": 2000},
    )
    return {"quiet": QUIET, "junk": attrs.evolve(worse, **changes), "burner": QUIET}


def test_the_median_of_the_rounds_counts() -> None:
    found = check([played(1.0), played(1.4), played(9.0)], rate=1000.0)
    assert (found["ratio_p95"], found["ratios_p95"]) == (1.4, [1.0, 1.4, 9.0])
    assert (found["violations"], found["junk_per_s"]) == ([], 1000)
    assert found["phases"]["junk"]["told"] == {"sent": 6000}


@pytest.mark.parametrize(
    ("rounds", "what"),
    [
        ([played(1.6)], "p95 under junk is 1.60 times that beside the burner: above 1.5"),
        ([played(1.0), played(1.0, views=1)], "junk: 1 views were installed"),
        ([played(1.0, told={"sent": 1800})], "only 900 junk datagrams a second were sent"),
        (
            [played(1.0, figures=figures(Plan(), lost=1))],
            "junk: messages were lost, doubled or out of order",
        ),
    ],
)
def test_what_is_wrong_is_said(rounds: list[Round], what: str) -> None:
    assert check(rounds, rate=1000.0)["violations"] == [what]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_junk_is_refused_for_its_reason(kind: str) -> None:
    receiver, sender, rng = aes_opener(), aes_sealer(), Random(1)
    real = sender.seal(b"p", Channel.RING)
    receiver.open_untrusted(real)
    assert {refused(receiver, make(kind, real, rng)) for _ in range(200)} <= REASONS[kind]


@pytest.mark.long
def test_a_little_junk_ends_no_view() -> None:
    options = ["--rate", "800", "--half-open", "200", "--duration-s", "0.5", "--rounds", "1"]
    result = play("junk", *options)
    found = result["figures"]
    phases = found["phases"]
    assert {name: phases[name]["views"] for name in PHASES} == dict.fromkeys(PHASES, 0)
    assert not [each for each in result["violations"] if "messages" in each]
    wanted = {"version", "tag", "replay"} if found["copies"] else {"version"}
    assert wanted <= phases["junk"]["rejected"].keys()
    assert not phases["burner"]["rejected"].keys() & wanted
    assert phases["junk"]["received"] > phases["junk"]["told"]["sent"]
    assert phases["junk"]["told"]["cut"] > 0
