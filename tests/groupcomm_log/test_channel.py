"""Models of a channel: the fit to samples of a known channel is that channel."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm_log.channel import Channel, ChannelModel, Link, Sharing
from groupcomm_log.channel.distributions import (
    NORMAL,
    SCORES,
    Distribution,
    Gamma,
    Lognormal,
    Quantiles,
    fit_delays,
    gamma_below,
)
from groupcomm_log.channel.fitting import (
    Counts,
    PairCounts,
    bucket_of,
    count_link,
    find_passing,
    fit_channel,
    fit_sharing,
    middle_us,
)
from groupcomm_log.channel.losses import GilbertElliott, count_windows, fit_losses, independent
from groupcomm_log.channel.model import OTHER, Clock
from groupcomm_log.errors import LogError

PERIOD_S = 0.02
BURSTS = GilbertElliott(0.02, 0.2, 0.001, 0.7)
NONE = independent(0.0)
DELAYS = Gamma(0.002, 2.0, 0.004)
SHARED = Sharing(level="FIFO", place=OTHER, groups=("g", "h"), pairs=0, delays=0.8, losses=0.9)


def channel(
    delays: Distribution | None = DELAYS,
    losses: GilbertElliott = BURSTS,
    *,
    memory_s: float = 0.0,
    overtaken: float = 0.1,
) -> Channel:
    return Channel(
        level="FIFO",
        place=OTHER,
        messages=0,
        delays=delays,
        memory_s=memory_s,
        interval_s=PERIOD_S,
        overtaken=overtaken,
        passing=float(overtaken > 0),
        losses=losses,
    )


def model(one: Channel) -> ChannelModel:
    return ChannelModel(channels=(one,), sharing=(SHARED,))


def refit(one: Channel, count: int = 3000) -> Channel:
    """Return the fit to samples of a channel."""
    delays = model(one).sample("FIFO", count, Random(7))
    times = (index * PERIOD_S for index in range(count))
    return fit_channel(
        "FIFO",
        OTHER,
        count_link([(t, None if d is None else t + d) for t, d in zip(times, delays, strict=True)]),
    )


@pytest.mark.parametrize("true", [DELAYS, Gamma(0.03, 6.0, 0.001), Lognormal(0.001, -5.0, 0.9)])
def test_a_family_is_recovered_from_samples(true: Gamma | Lognormal) -> None:
    found = refit(channel(true, independent(0.0))).delays
    assert found is not None
    assert found.family == true.family
    for score in (-2.0, -1.0, 0.0, 1.0, 2.0):
        assert found.at(score) == pytest.approx(true.at(score), rel=0.05)


def test_delays_of_no_family_become_a_table() -> None:
    rng = Random(3)
    two_humps = [
        rng.gauss(0.01, 0.0005) if rng.random() < 0.6 else rng.gauss(0.2, 0.005)
        for _ in range(4000)
    ]
    counted = sorted(Counter(two_humps).items())
    found, fits = fit_delays(counted)
    assert isinstance(found, Quantiles)
    assert min(fit.distance for fit in fits) > 0.05
    assert found.share_below(0.1) == pytest.approx(0.6, abs=0.03)
    assert found.at(-4.0) == pytest.approx(min(two_humps))
    assert found.at(9.0) == found.at(4.0)
    equal, fits = fit_delays([(0.5, 10)])
    assert (equal.at(-1.0), equal.at(1.0), fits) == (0.5, 0.5, [])


@pytest.mark.parametrize(
    "true",
    [pytest.param(BURSTS, marks=pytest.mark.long), GilbertElliott(0.03, 0.05, 0.0, 1.0)],
)
def test_bursts_of_losses_are_recovered_from_samples(true: GilbertElliott) -> None:
    found = refit(channel(losses=true), 9000).losses
    assert found.good_to_bad == pytest.approx(true.good_to_bad, rel=0.25)
    assert found.bad_to_good == pytest.approx(true.bad_to_good, rel=0.25)
    assert found.loss_good == pytest.approx(true.loss_good, abs=0.003)
    assert found.loss_bad == pytest.approx(true.loss_bad, abs=0.06)
    assert found.mean_run == pytest.approx(true.mean_run, rel=0.1)


def test_losses_without_bursts_are_reported_as_such() -> None:
    rng = Random(5)
    found = fit_losses(count_windows([rng.random() < 0.05 for _ in range(5000)]))
    assert found.loss_good == found.loss_bad == pytest.approx(0.05, abs=0.01)
    assert found.mean_run == pytest.approx(1 / 0.95, rel=0.01)
    assert fit_losses({}) == fit_losses({0: 9}) == independent(0.0)
    assert fit_losses({255: 9}) == independent(1.0)
    assert independent(0.0).mean_run == 0
    assert independent(1.0).mean_run == math.inf


def test_the_memory_of_delays_is_recovered_and_order_kept() -> None:
    free = refit(channel(losses=NONE, memory_s=0.06))
    assert free.memory_s == pytest.approx(0.06, rel=0.15)
    assert refit(channel(Gamma(0.0, 1.0, 0.05), NONE, overtaken=0.0)).overtaken == 0
    late = refit(channel(Gamma(0.0, 1.0, 0.05), NONE))
    assert late.overtaken > 0.2
    assert late.passing > 0.3


def test_a_sample_is_overtaken_as_often_as_the_log_was() -> None:
    rare = replace(channel(Gamma(0.0, 1.0, 0.05), NONE), overtaken=0.03)
    found = refit(replace(rare, passing=find_passing(rare)))
    assert found.overtaken == pytest.approx(0.03, abs=0.012)
    assert 0 < found.passing < 0.3


def test_groups_in_one_packet_share_delay_and_fate() -> None:
    packets = model(channel(losses=GilbertElliott(0.1, 0.5, 0.05, 0.3))).sample_groups(
        "FIFO", ["h", "g"], 6000, Random(4)
    )
    alone = [one for one, _ in packets]
    counts = count_link(
        [(n * PERIOD_S, None if d is None else n * PERIOD_S + d) for n, d in enumerate(alone)]
    )
    assert counts.least_us is not None
    pairs = PairCounts()
    for one, other in packets:
        pairs.fates[one is None, other is None] += 1
        if one is not None and other is not None:
            excess = (max(0.0, delay * 1e6 - counts.least_us) for delay in (one, other))
            first, second = (min(bucket_of(each), max(counts.delays)) // 4 for each in excess)
            pairs.delays[first, second] += 1
    kept = {each for bucket in counts.delays for each in [bucket // 4]}
    pairs.delays = Counter({k: n for k, n in pairs.delays.items() if set(k) <= kept})
    found = fit_sharing("FIFO", OTHER, ("g", "h"), pairs, counts)
    assert found.losses == pytest.approx(SHARED.losses, abs=0.05)
    assert found.delays == pytest.approx(SHARED.delays, abs=0.05)


def test_a_model_survives_its_file(tmp_path: Path) -> None:
    fitted = refit(channel(), 1000)
    whole = ChannelModel(
        channels=(
            fitted,
            channel(Quantiles(tuple(sorted(abs(each) for each in SCORES)))),
            channel(None),
        ),
        sharing=(SHARED,),
        clocks=(Clock(hosts=("alfa", "bravo"), ahead_s=0.001, corrected=True),),
    )
    path = tmp_path / "model.json"
    whole.save(path)
    assert ChannelModel.load(path) == whole
    again = [ChannelModel.load(path).sample("FIFO", 50, Random(1)) for _ in range(2)]
    assert again[0] == again[1] == whole.sample("FIFO", 50, Random(1), period_s=fitted.interval_s)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "groupcomm-channel", "version": 2}', '{"channels": 1}']
)
def test_what_is_no_model_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(LogError, match=r"no model|not groupcomm-channel"):
        ChannelModel.load(path)


def test_what_a_model_does_not_know_is_reported() -> None:
    with pytest.raises(LogError, match="knows no SAFE"):
        model(channel()).sample("SAFE", 1, Random(1))
    with pytest.raises(LogError, match="did not say when they were sent"):
        Link(channel(None), Random(1))
    with pytest.raises(LogError, match="no packet of FIFO with messages to g and x"):
        model(channel()).sample_groups("FIFO", ["g", "x"], 1, Random(1))
    nothing = fit_channel("SAFE", OTHER, Counts())
    assert (nothing.delays, nothing.losses.loss, nothing.interval_s) == (None, 0, 0)


@given(st.floats(0.05, 200), st.floats(-3, 3))
def test_the_gamma_distribution_is_the_inverse_of_its_table(shape: float, score: float) -> None:
    value = Gamma(0.0, shape, 1.0).at(score)
    assert gamma_below(shape, value) == pytest.approx(NORMAL.cdf(score), abs=0.01)


def test_the_gamma_distribution_is_that_of_tables() -> None:
    assert gamma_below(1.0, 1.0) == pytest.approx(1 - math.exp(-1))
    assert gamma_below(0.5, 2.0) == pytest.approx(math.erf(math.sqrt(2)))
    assert gamma_below(3.0, 5.0) == pytest.approx(1 - math.exp(-5) * (1 + 5 + 12.5))


@given(st.floats(0, 1e9))
def test_a_bucket_is_near_what_is_in_it(excess_us: float) -> None:
    assert middle_us(bucket_of(excess_us)) == pytest.approx(excess_us, rel=0.012, abs=1.2)
