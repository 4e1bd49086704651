"""Distributions of delays: shifted gamma, shifted lognormal, and a table of quantiles; pure.

Each is evaluated at *normal scores*: a score of 0 is the median, and a score that is drawn from
the standard normal distribution gives a delay that is drawn from this one. So delays that depend on
each other come from scores that do (a Gaussian copula).

Sources: the gamma distribution function as in Press et al., "Numerical Recipes", section 6.2; its
shape from the mean and the mean logarithm after Minka, "Estimating a Gamma distribution", 2002.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any, ClassVar, Final, Protocol

from groupcomm_log.errors import LogError

NORMAL: Final = NormalDist()

SCORES: Final = tuple(index / 8 for index in range(-32, 33))
"""The normal scores of tables, -4 to 4: shares of 0.00003 to 0.99997."""

TOLERANCE: Final = 0.05
"""The greatest distance (Kolmogorov and Smirnov) at which a family fits the delays; a table
takes the place of families that are farther away.
"""

SHIFTS: Final = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)
"""The most that a family may begin below the least delay, as a share of the mean excess over it."""

_STEPS: Final = 300
_PRECISE: Final = 1e-12

Counted = Sequence[tuple[float, int]]
"""Delays in seconds, rising, each with the number of times it was seen."""


class Distribution(Protocol):
    """The distribution of a delay.

    Attributes:
        family: its name.
    """

    @property
    def family(self) -> str: ...  # noqa: D102

    def at(self, score: float) -> float:
        """Return the delay at a normal score, in seconds."""

    def share_below(self, delay_s: float) -> float:
        """Return the share of delays up to this one, 0 to 1."""


@dataclass(frozen=True)
class Lognormal:
    """A constant and a lognormal excess.

    Attributes:
        shift_s: the constant.
        mean_log, deviation_log: mean and deviation of the logarithm of the excess in seconds.
    """

    shift_s: float
    mean_log: float
    deviation_log: float
    family: ClassVar[str] = "lognormal"

    def at(self, score: float) -> float:
        """Return the delay at a normal score, in seconds."""
        return self.shift_s + math.exp(self.mean_log + self.deviation_log * score)

    def share_below(self, delay_s: float) -> float:
        """Return the share of delays up to this one, 0 to 1."""
        if delay_s <= self.shift_s:
            return 0.0
        return NORMAL.cdf((math.log(delay_s - self.shift_s) - self.mean_log) / self.deviation_log)

    def log_density(self, delay_s: float) -> float:
        """Return the logarithm of the density at a delay above the shift."""
        log_excess = math.log(delay_s - self.shift_s)
        score = (log_excess - self.mean_log) / self.deviation_log
        return -log_excess - math.log(self.deviation_log) - (score**2 + math.log(math.tau)) / 2

    @classmethod
    def fit(cls, counted: Counted, shift_s: float) -> "Lognormal":
        """Return the most likely one with this shift; delays are above it and differ."""
        total = sum(count for _, count in counted)
        mean = sum(count * math.log(delay - shift_s) for delay, count in counted) / total
        squares = sum(count * (math.log(delay - shift_s) - mean) ** 2 for delay, count in counted)
        return cls(shift_s, mean, math.sqrt(squares / total))


@dataclass(frozen=True)
class Gamma:
    """A constant and an excess with a gamma distribution.

    Attributes:
        shift_s: the constant.
        shape: without a unit; 1 is the exponential distribution.
        scale_s: the mean excess is shape times scale.
    """

    shift_s: float
    shape: float
    scale_s: float
    family: ClassVar[str] = "gamma"

    def at(self, score: float) -> float:
        """Return the delay at a normal score, in seconds; beyond the table's scores, its ends."""
        return self.shift_s + self.scale_s * math.exp(_interpolate(_log_table(self.shape), score))

    def share_below(self, delay_s: float) -> float:
        """Return the share of delays up to this one, 0 to 1."""
        if delay_s <= self.shift_s:
            return 0.0
        return gamma_below(self.shape, (delay_s - self.shift_s) / self.scale_s)

    def log_density(self, delay_s: float) -> float:
        """Return the logarithm of the density at a delay above the shift."""
        excess = (delay_s - self.shift_s) / self.scale_s
        log_norm = math.lgamma(self.shape) + math.log(self.scale_s)
        return (self.shape - 1) * math.log(excess) - excess - log_norm

    @classmethod
    def fit(cls, counted: Counted, shift_s: float) -> "Gamma":
        """Return the most likely one with this shift, within 1.5 % of its shape; delays are above
        the shift and differ.
        """
        total = sum(count for _, count in counted)
        mean = sum(count * (delay - shift_s) for delay, count in counted) / total
        mean_log = sum(count * math.log(delay - shift_s) for delay, count in counted) / total
        spread = math.log(mean) - mean_log
        shape = (3 - spread + math.sqrt((spread - 3) ** 2 + 24 * spread)) / (12 * spread)
        return cls(shift_s, shape, mean / shape)


@dataclass(frozen=True)
class Quantiles:
    """A table: delays at the scores of SCORES.

    Attributes:
        delays_s: rising.
    """

    delays_s: tuple[float, ...]
    family: ClassVar[str] = "quantiles"

    def __post_init__(self) -> None:
        if len(self.delays_s) != len(SCORES) or list(self.delays_s) != sorted(self.delays_s):
            raise LogError(f"a table of delays must have {len(SCORES)} rising values")

    def at(self, score: float) -> float:
        """Return the delay at a normal score, in seconds; beyond the table's scores, its ends."""
        return _interpolate(self.delays_s, score)

    def share_below(self, delay_s: float) -> float:
        """Return the share of delays up to this one, 0 to 1."""
        index = bisect_left(self.delays_s, delay_s)
        if index == len(SCORES):
            return 1.0
        if index == 0:
            return 0.0
        low, high = self.delays_s[index - 1 : index + 1]
        part = (delay_s - low) / (high - low)
        return NORMAL.cdf(SCORES[index - 1] + part * (SCORES[index] - SCORES[index - 1]))

    @classmethod
    def fit(cls, counted: Counted) -> "Quantiles":
        """Return the table of these delays."""
        total, seen, index = sum(count for _, count in counted), 0, -1
        table = []
        for score in SCORES:
            wanted = NORMAL.cdf(score) * total
            while seen < wanted and index + 1 < len(counted):
                index += 1
                seen += counted[index][1]
            table.append(counted[max(index, 0)][0])
        return cls(tuple(table))


@dataclass(frozen=True)
class Fit:
    """The fit of a family of distributions.

    Attributes:
        family: the name of the family.
        log_likelihood: the log-likelihood of all delays together.
        distance: the greatest difference of the two distribution functions (Kolmogorov and
            Smirnov).
    """

    family: str
    log_likelihood: float
    distance: float


def fit_delays(counted: Counted) -> tuple[Distribution, list[Fit]]:
    """Return the distribution that fits best, and how well each family does.

    The more likely of gamma and lognormal is taken if its distance is at most TOLERANCE, else the
    table. Both families have three parameters, so their likelihoods can be compared.

    Args:
        counted: the counted delays, at least one.
    """
    least, greatest = counted[0][0], counted[-1][0]
    total = sum(count for _, count in counted)
    excess = sum(count * delay for delay, count in counted) / total - least
    if greatest <= least:
        return Quantiles.fit(counted), []
    shifts = [least - share * excess for share in SHIFTS]
    best: list[tuple[float, Gamma | Lognormal]] = []
    for family in (Gamma, Lognormal):
        fitted = [family.fit(counted, shift) for shift in shifts]
        likelihoods = [sum(n * one.log_density(d) for d, n in counted) for one in fitted]
        best.append(max(zip(likelihoods, fitted, strict=True), key=lambda pair: pair[0]))
    fits = [Fit(one.family, likely, distance(one, counted)) for likely, one in best]
    chosen = max(range(len(best)), key=lambda index: best[index][0])
    if fits[chosen].distance <= TOLERANCE:
        return best[chosen][1], fits
    return Quantiles.fit(counted), fits


def distance(one: Distribution, counted: Counted) -> float:
    """Return the greatest difference between a distribution and the share of delays seen so far,
    in the middle of each step.
    """
    total, seen, most = sum(count for _, count in counted), 0.0, 0.0
    for delay, count in counted:
        most = max(most, abs(one.share_below(delay) - (seen + count / 2) / total))
        seen += count
    return most


def as_dict(one: Distribution) -> dict[str, Any]:
    """Return a distribution for JSON."""
    assert isinstance(one, Gamma | Lognormal | Quantiles)
    return {"family": one.family, **asdict(one)}


def from_dict(told: Mapping[str, Any]) -> Distribution:
    """Return the distribution that `as_dict` has written.

    Raises:
        LogError: it is none.
    """
    families = {each.family: each for each in (Gamma, Lognormal, Quantiles)}
    values = {name: value for name, value in told.items() if name != "family"}
    if isinstance(values.get("delays_s"), list):
        values["delays_s"] = tuple(values["delays_s"])
    try:
        return families[told["family"]](**values)
    except (KeyError, TypeError) as error:
        raise LogError(f"no distribution of delays: {dict(told)!r:.200}") from error


def gamma_below(shape: float, value: float) -> float:
    """Return the share of a gamma distribution of scale 1 up to a value above 0."""
    front = math.exp(shape * math.log(value) - value - math.lgamma(shape))
    if value < shape + 1:
        term = total = 1 / shape
        for step in range(1, _STEPS + int(10 * math.sqrt(shape))):
            term *= value / (shape + step)
            total += term
            if term < total * _PRECISE:
                break
        return min(1.0, front * total)
    return max(0.0, 1 - front * _continued_fraction(shape, value))


def _continued_fraction(shape: float, value: float) -> float:
    """Return the fraction of the upper tail, by the method of Lentz."""
    below = value + 1 - shape
    above, ratio = 1e300, 1 / below
    total = ratio
    for step in range(1, _STEPS + int(10 * math.sqrt(shape))):
        weight = -step * (step - shape)
        below += 2
        ratio = 1 / (weight * ratio + below)
        above = below + weight / above
        total *= ratio * above
        if abs(ratio * above - 1) < _PRECISE:
            break
    return total


@lru_cache(maxsize=64)
def _log_table(shape: float) -> tuple[float, ...]:
    """Return the logarithms of the values of a gamma distribution at SCORES."""
    table = []
    low = -700.0
    for score in SCORES:
        share, high = NORMAL.cdf(score), math.log(shape + 20 * math.sqrt(shape) + 40)
        for _ in range(50):
            middle = (low + high) / 2
            if gamma_below(shape, math.exp(middle)) < share:
                low = middle
            else:
                high = middle
        table.append(low)
    return tuple(table)


def _interpolate(table: Sequence[float], score: float) -> float:
    """Return the value of a table over SCORES at a score."""
    place = min(max((score - SCORES[0]) * 8, 0.0), len(SCORES) - 1.0)
    index = min(int(place), len(SCORES) - 2)
    return table[index] + (place - index) * (table[index + 1] - table[index])
