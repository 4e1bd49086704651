"""An answer to an exercise: a program that does the exercise and reports its results."""

from collections.abc import Callable, Iterable
from typing import Final

import attrs


@attrs.frozen(kw_only=True)
class Answer:
    """One answer.

    Attributes:
        number: the number of the exercise in docs/exercises.md.
        title: the lesson of the answer.
        tell: runs it, and returns its output, which is always the same.
    """

    number: str
    title: str
    tell: Callable[[], Iterable[str]]


ANSWERS: Final[dict[str, Answer]] = {}
"""The answers by number."""

Tell = Callable[[], Iterable[str]]


def answer(number: str, title: str) -> Callable[[Tell], Tell]:
    """Make a function the answer to an exercise."""

    def add(tell: Tell) -> Tell:
        ANSWERS[number] = Answer(number=number, title=title, tell=tell)
        return tell

    return add
