"""An answer to an exercise: a program that does what was asked and tells what came of it."""

from collections.abc import Callable, Iterable
from typing import Final

import attrs


@attrs.frozen(kw_only=True)
class Answer:
    """One answer.

    Attributes:
        number: of the exercise, as in docs/exercises.md.
        title: what it shows.
        tell: runs it; what it prints, always alike.
    """

    number: str
    title: str
    tell: Callable[[], Iterable[str]]


ANSWERS: Final[dict[str, Answer]] = {}
"""By number."""

Tell = Callable[[], Iterable[str]]


def answer(number: str, title: str) -> Callable[[Tell], Tell]:
    """Make a function the answer to an exercise."""

    def add(tell: Tell) -> Tell:
        ANSWERS[number] = Answer(number=number, title=title, tell=tell)
        return tell

    return add
