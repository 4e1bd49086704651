"""Delays and losses, from the records of senders and receivers.

Pure. A loss is a number of one sender that a receiver lacks; adjacent losses make a *run*.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

import attrs

US_PER_MS: Final = 1000


def loss_runs(numbers: Iterable[int], first: int, last: int) -> list[int]:
    """Return the lengths of the runs of missing numbers from `first` to `last`, both included."""
    present = sorted({number for number in numbers if first <= number <= last})
    edges = [first - 1, *present, last + 1]
    gaps = (after - before - 1 for before, after in pairwise(edges))
    return [gap for gap in gaps if gap > 0]


def quantile(ordered: Sequence[int], share: float) -> int | None:
    """Return the least value that is not below this share of all values; None without values.

    Args:
        ordered: rising.
        share: above 0, to 1.
    """
    if not ordered:
        return None
    rank = -(-len(ordered) * share // 1)
    return ordered[max(0, int(rank) - 1)]


@attrs.frozen(kw_only=True)
class Heard:
    """The messages that one receiver has got from one sender.

    Attributes:
        first, last: the numbers that were sent in the counted time.
        delays_us: one-way delays by number, also outside that time.
    """

    first: int
    last: int
    delays_us: dict[int, int]

    @property
    def counted(self) -> list[int]:
        """Return the delays in the counted time."""
        return [us for number, us in self.delays_us.items() if self.first <= number <= self.last]


@attrs.frozen(kw_only=True)
class Figures:
    """The figures of one kind of message, for all its receivers together.

    Attributes:
        expected: deliveries, if nothing were lost.
        received: deliveries.
        runs: the number of runs of losses, by length.
        delays_us: the delays of all deliveries, rising.
    """

    expected: int
    received: int
    runs: Counter[int]
    delays_us: list[int]

    @property
    def loss(self) -> float:
        """Return the share of the deliveries that did not come."""
        return 1 - self.received / self.expected if self.expected else 0.0

    @property
    def mean_run(self) -> float:
        """Return the mean length of a run of losses; 0 without losses."""
        return (self.expected - self.received) / self.runs.total() if self.runs else 0.0

    def delay_ms(self, share: float) -> float | None:
        """Return a quantile of the delay; None without deliveries."""
        found = quantile(self.delays_us, share)
        return None if found is None else found / US_PER_MS

    def summary(self) -> dict[str, Any]:
        """Return the figures for JSON: loss is a share, delays are in milliseconds."""
        return {
            "expected": self.expected,
            "received": self.received,
            "loss": round(self.loss, 5),
            "loss_runs": {str(length): count for length, count in sorted(self.runs.items())},
            "mean_run": round(self.mean_run, 2),
            "longest_run": max(self.runs, default=0),
            "p50_ms": self.delay_ms(0.5),
            "p99_ms": self.delay_ms(0.99),
            "max_ms": self.delay_ms(1.0),
        }


def figures(heard: Iterable[Heard]) -> Figures:
    """Return the figures of several receivers of the same kind."""
    expected, runs, delays = 0, Counter[int](), list[int]()
    for each in heard:
        expected += each.last - each.first + 1
        runs.update(loss_runs(each.delays_us, each.first, each.last))
        delays += each.counted
    return Figures(expected=expected, received=len(delays), runs=runs, delays_us=sorted(delays))
