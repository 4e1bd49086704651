"""Patterns mean what a reference says, and no name makes one slow: its looks are counted."""

import fnmatch
from typing import SupportsIndex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groupcomm.names import MAX_NAME_BYTES
from groupcomm.security.access import Rule, Verb, parse_pattern

SHORT = st.text("a*", max_size=9) | st.text("ab-*?[].", max_size=9)
"""Characters that fnmatch treats in a way of its own among them; here they stand for themselves."""

LITERALS = st.lists(st.text("a-", max_size=4), min_size=2, max_size=60)
LONG = st.text("a-", min_size=MAX_NAME_BYTES, max_size=MAX_NAME_BYTES)


class Watched(str):
    """A text that counts the places at which anybody looks into it."""

    __slots__ = ("looks",)

    looks: int

    def find(  # type: ignore[override]
        self, part: str, start: SupportsIndex = 0, end: SupportsIndex = 2**31
    ) -> int:
        found = super().find(part, start, end)
        upto = min(int(end), len(self)) if found < 0 else found + len(part)
        self.looks += max(0, upto - int(start))
        return found

    def startswith(self, part: str) -> bool:  # type: ignore[override]
        self.looks += len(part)
        return super().startswith(part)

    def endswith(self, part: str) -> bool:  # type: ignore[override]
        self.looks += len(part)
        return super().endswith(part)


def watched(text: str) -> Watched:
    made = Watched(text)
    made.looks = 0
    return made


def as_fnmatch_writes_it(pattern: str) -> str:
    """The same where ``*`` is the only character with a meaning."""
    return "".join(f"[{letter}]" if letter in "?[" else letter for letter in pattern)


@given(pattern=SHORT, text=st.text("ab", max_size=5) | st.text("ab-?[].*"))
@example(pattern="a*a", text="a")
@example(pattern="ab*ba", text="aba")
@example(pattern="*ab*b", text="ab")
@example(pattern="*a*a*", text="a")
@example(pattern="", text="")
@example(pattern="a*b*", text="ab\n")
def test_a_pattern_means_what_fnmatch_means(pattern: str, text: str) -> None:
    expected = fnmatch.fnmatchcase(text, as_fnmatch_writes_it(pattern))
    assert parse_pattern(pattern).matches(text) == expected


@given(literals=LITERALS, text=LONG)
@example(literals=["", "-", "-", "-", "-", ".log"], text="-" * MAX_NAME_BYTES)
@example(literals=["", *["a"] * 50, "b"], text="a" * MAX_NAME_BYTES)
@example(literals=["", *["a-"] * 50, ""], text="a" * MAX_NAME_BYTES)
def test_no_place_of_a_long_name_is_looked_at_twice(literals: list[str], text: str) -> None:
    pattern, name = "*".join(literals), watched(text)
    parse_pattern(pattern).matches(name)
    assert name.looks <= len(name) + len(pattern), "each look goes on behind the one before"
    assert name.looks or not any(literals), "it looks in a way that is not counted here"


@pytest.mark.parametrize("stars", [5, 20, 100])
def test_a_rule_with_many_stars_refuses_the_longest_name_at_once(stars: int) -> None:
    rule = Rule(("*",), ("-".join("*" * stars) + ".log",), frozenset([Verb.SEND]))
    assert not rule.allows("unix:max", Verb.SEND, "-" * MAX_NAME_BYTES)
    assert rule.allows("unix:max", Verb.SEND, "-" * (MAX_NAME_BYTES - 4) + ".log")
