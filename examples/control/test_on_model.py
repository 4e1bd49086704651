"""The loop in virtual time on models whose delays are known, and what a comparison tells."""

import math
import xml.etree.ElementTree as ET

import pytest

from examples.control.compare import (
    Case,
    Pair,
    ahead_of,
    as_json,
    as_svg,
    as_text,
    main,
    predict,
)
from examples.control.estimator import Estimator, Tuning
from examples.control.on_model import VirtualLoop
from examples.control.pole import STOP
from examples.control.sweep import Outcome, outcome
from groupcomm.level import ServiceLevel
from groupcomm_log.channel import Channel, ChannelModel
from groupcomm_log.channel.distributions import Lognormal
from groupcomm_log.channel.losses import independent


def model(delay_s: float, *, loss: float = 0.0, spread: float = 0.05) -> ChannelModel:
    delays = Lognormal(0.0, math.log(delay_s), spread)
    return ChannelModel(
        channels=(
            Channel(
                level="FIFO",
                place="other",
                messages=0,
                delays=delays,
                memory_s=0.05,
                interval_s=0.02,
                overtaken=0.0,
                passing=0.0,
                losses=independent(loss),
            ),
        )
    )


def run(one: ChannelModel, tuning: Tuning | None = None) -> Outcome:
    return outcome(VirtualLoop(one, "FIFO", tuning or Tuning(), seed=1).run(4.0))


def test_the_age_is_three_ways_and_the_error_grows_with_it() -> None:
    found = [run(model(delay_s)) for delay_s in (0.001, 0.015, 0.04, 0.15)]
    for each, delay_s in zip(found, (0.001, 0.015, 0.04, 0.15), strict=True):
        assert each.age_p50_ms == pytest.approx(3 * delay_s * 1000 + 10, abs=22)
    errors = [each.rms_mrad for each in found]
    assert errors == sorted(errors)
    assert errors[-1] > STOP * 1000 / 2


def test_losses_make_it_older_and_runs_repeat() -> None:
    calm, lossy = run(model(0.01)), run(model(0.01, loss=0.3))
    assert lossy.age_p95_ms > calm.age_p95_ms
    assert run(model(0.01)) == calm


def test_looking_ahead_saves_a_loop_that_late_pushes_would_lose() -> None:
    late = model(0.12)
    ahead_s = ahead_of(late, ServiceLevel.FIFO)
    assert ahead_s == pytest.approx(0.24)
    assert run(late).at_stop_s > 0
    saved = run(late, Tuning(ahead_s=ahead_s))
    assert saved.at_stop_s == 0
    assert saved.rms_mrad < 0.8 * run(late).rms_mrad


def test_a_clock_that_is_wrong_costs_more_than_one_that_is_right() -> None:
    right, wrong = run(model(0.01)), run(model(0.01), Tuning(clock_s=0.2))
    assert wrong.rms_mrad > 1.5 * right.rms_mrad
    assert wrong.age_p50_ms == right.age_p50_ms, "the plant's own clock tells it"


def test_who_looks_ahead_knows_the_pushes_on_their_way() -> None:
    estimator = Estimator(Tuning(ahead_s=0.1))
    estimator.measure(0.0, 0.1)
    first = estimator.tell(0.0)
    estimator.hear(0.01, 5.0)  # it has noted what the controller does already
    assert first == pytest.approx(estimator.state(0.1))
    plain = Estimator()
    plain.measure(0.0, 0.1)
    assert estimator.tell(0.05) != plain.tell(0.15)


def test_a_comparison_is_reported_as_table_picture_and_figures() -> None:
    one = predict(model(0.01), Case(network="10:0", level=ServiceLevel.FIFO), seconds=0.5)
    other = Outcome(rms_mrad=50, age_p50_ms=40, age_p95_ms=60, at_stop_s=0, views=0)
    plain = Case(network="10:0", level=ServiceLevel.FIFO)
    tuned = Case(network="10:0", level=ServiceLevel.FIFO, tuning=Tuning(ahead_s=0.02))
    ticking = Case(network="10:0", level=ServiceLevel.FIFO, tuning=Tuning(clock_s=-0.02))
    found = {case: Pair(predicted=one, measured=other) for case in (plain, tuned, ticking)}
    rows = [line.split(" | ") for line in as_text(found).splitlines()[2:]]
    assert [row[2] for row in rows] == ["as it is", "20 ms ahead", "clock -20 ms"]
    assert {row[4] for row in rows} == {"50"}
    assert as_json(found)[0]["measured"]["rms_mrad"] == 50
    root = ET.fromstring(as_svg(found))
    titles = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len([title for title in titles if title.startswith("FIFO")]) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--networks", "10"), "write MILLISECONDS:LOSS"),
        (("--networks", "10:2"), "write MILLISECONDS:LOSS"),
        (("--clocks-ms", "x"), "--clocks-ms is 'x'"),
        (("--rounds", "0"), "--rounds is 0"),
    ],
)
def test_what_cannot_be_compared_is_reported(
    options: tuple[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(options) == 2
    assert said in capsys.readouterr().err


@pytest.mark.long
def test_the_loop_on_a_network_is_near_its_model(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--networks", "10:0", "--levels", "unreliable", "--seconds", "2", "--rounds", "1")
    assert main(options) == 0
    (row,) = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:] if line]
    predicted, measured = (float(cell.split(" / ")[0]) for cell in row[5:7])
    assert measured == pytest.approx(predicted, rel=0.7)
