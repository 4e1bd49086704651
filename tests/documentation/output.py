"""The comparison of what a program printed with what its page says. Pure."""

import re
from typing import Final

ANYTHING: Final = "..."
"""In the text of a page: anything within a line; on a line of its own any number of lines."""


def described_length(expected: str, printed: str) -> int | None:
    """Return how many characters, from the start of what was printed, the page describes.

    Blanks at the ends of lines do not count. The part that is described ends with a line.

    Args:
        expected: the text of the page.
        printed: what the program has printed.

    Returns:
        The length of the shortest part that is as expected; None if there is none (yet).
    """
    found = re.match(_pattern(expected), printed)
    return None if found is None else found.end()


def is_as_expected(expected: str, printed: str) -> bool:
    """Return whether everything that was printed is as the page says."""
    return re.fullmatch(_pattern(expected) + r"\s*", printed) is not None


def _pattern(expected: str) -> str:
    *lines, last = expected.strip("\n").split("\n")
    return r"\n*" + "".join(_line(line, r"\n") for line in lines) + _line(last, r"(?:\n|\Z)")


def _line(line: str, end: str) -> str:
    if line.strip() == ANYTHING:
        return rf"(?:[^\n]*{end})*?"
    return r"[^\n]*?".join(map(re.escape, line.rstrip().split(ANYTHING))) + r"[ \t]*" + end
