"""Figures as text, and tables in Markdown. Pure."""

import math
from collections.abc import Sequence

NONE = "-"


def amount(value: float | None) -> str:
    """Return a figure with three significant digits, thousands apart; - for none."""
    if value is None:
        return NONE
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{round(value, digits):,.{max(0, digits)}f}"


def ratio(value: float | None) -> str:
    """Return a ratio with two significant digits; - for none."""
    if value is None:
        return NONE
    if value <= 0:
        return "0"
    digits = 1 - math.floor(math.log10(value))
    return f"{round(value, digits):,.{max(0, digits)}f}"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; the first column is text, the others are numbers."""
    rule = "|".join(["---", *["---:"] * (len(columns) - 1)])
    lines = [f"| {' | '.join(columns)} |", f"|{rule}|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def sentence(words: Sequence[str]) -> str:
    """Return words as `a, b and c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
