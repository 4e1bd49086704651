"""Ratios of figures to yardsticks, as they were recorded and as they are now. Pure."""

import statistics
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final

import attrs

CHECK_ROUNDS: Final = 3
"""The rounds of a check, by default."""

LEAST_ALLOWED: Final = 0.25
"""The factor by which a figure may always be worse."""

WIDE: Final = 0.5
"""The spread of recorded ratios above which they guard little."""


@attrs.frozen(kw_only=True)
class Verdict:
    """One figure, then and now.

    Attributes:
        name: the name of the figure.
        recorded: the recorded median ratio; None if the figure is not recorded.
        now: the present median ratio.
        worse: the factor by which it is worse now; below 1 if it is better.
        allowed: the factor by which it may be worse.
    """

    name: str
    recorded: float | None
    now: float
    worse: float
    allowed: float

    @property
    def is_good(self) -> bool:
        """Return whether it is written down, and no worse than its spread allows."""
        return self.recorded is not None and self.worse <= self.allowed


def allowed(ratios: Sequence[float]) -> float:
    """Return the factor by which a median may be worse than that of these rounds.

    As a check takes the median of a few rounds, the spread of the medians of any few of
    these rounds counts: a single disturbed round does not widen it.
    """
    few = min(CHECK_ROUNDS, len(ratios))
    medians = [statistics.median(some) for some in combinations(ratios, few)]
    spread = (max(medians) - min(medians)) / statistics.median(ratios)
    return 1 + max(LEAST_ALLOWED, spread)


def too_wide(recorded: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the figures whose recorded ratios spread so much that they guard little."""
    return [name for name, ratios in recorded.items() if allowed(ratios) > 1 + WIDE]


def compare(
    recorded: Mapping[str, Sequence[float]],
    now: Mapping[str, Sequence[float]],
    lower_is_better: frozenset[str],
) -> list[Verdict]:
    """Check every figure that there is now.

    Args:
        recorded, now: ratios of all rounds by figure, each above 0.
        lower_is_better: figures that are delays.
    """
    verdicts = []
    for name, ratios in now.items():
        middle = statistics.median(ratios)
        if name not in recorded:
            verdicts.append(Verdict(name=name, recorded=None, now=middle, worse=1.0, allowed=1.0))
            continue
        then = statistics.median(recorded[name])
        worse = middle / then if name in lower_is_better else then / middle
        verdicts.append(
            Verdict(
                name=name, recorded=then, now=middle, worse=worse, allowed=allowed(recorded[name])
            )
        )
    return verdicts


def lines_of(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a table for people."""
    lines = [f"{'figure':<24}{'recorded':>12}{'now':>12}  {'change':<16}{'allowed':<16}"]
    for each in verdicts:
        if each.recorded is None:
            lines.append(f"{each.name:<24}{'-':>12}{each.now:>12.4g}  not recorded: FAILED")
            continue
        end = "" if each.is_good else "FAILED"
        limit = f"{(each.allowed - 1) * 100:.0f} % worse"
        lines.append(
            f"{each.name:<24}{each.recorded:>12.4g}{each.now:>12.4g}"
            f"  {_change(each.worse):<16}{limit:<16}{end}".rstrip()
        )
    return lines


def _change(worse: float) -> str:
    if worse >= 1:
        return f"{(worse - 1) * 100:.0f} % worse"
    return f"{(1 / worse - 1) * 100:.0f} % better"


def as_json(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Return the same for a script."""
    return [{**attrs.asdict(each), "is_good": each.is_good} for each in verdicts]
