"""Patterns of rules, in which ``*`` stands for any characters, none included.

Pure. A name comes from whoever sends it, so no name may make a pattern slow. A regular expression
tries all ways to share a name out among the stars; but where stars stand for anything, the first
place that fits each literal part is as good as any later one. So each part is searched once, behind
the part before it, and nothing is ever tried again.
"""

import attrs


@attrs.frozen
class Pattern:
    """The literal parts of a pattern, between its stars.

    Attributes:
        first: what a text must begin with.
        middle: what must follow, in this order, wherever it stands.
        last: what the text must end with; None if the pattern has no star, and is `first` alone.
    """

    first: str
    middle: tuple[str, ...]
    last: str | None

    def matches(self, text: str) -> bool:
        """Return whether the whole text fits; each of its characters is passed once at most."""
        if self.last is None:
            return text == self.first
        at, end = len(self.first), len(text) - len(self.last)
        if at > end or not text.startswith(self.first) or not text.endswith(self.last):
            return False
        for part in self.middle:
            found = text.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True


def parse_pattern(text: str) -> Pattern:
    """Return the parts of a pattern as a rule has it."""
    first, *more = text.split("*")
    if not more:
        return Pattern(first, (), None)
    *middle, last = more
    return Pattern(first, tuple(part for part in middle if part), last)
