"""Findings of the doctor: the observation, its grade, and the remedy."""

import enum

import attrs


class Grade(enum.Enum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"  # it works, but will be slow, or fail some day
    PROBLEM = "problem"  # it does not work
    SKIPPED = "skipped"  # it could not be checked


@attrs.frozen
class Finding:
    """A finding of one check.

    Attributes:
        check: the subject of the check, in a word or two.
        grade: the grade of the finding, from ok to problem.
        text: the observation, with its numbers.
        remedy: the remedy; empty where none is needed.
    """

    check: str
    grade: Grade
    text: str
    remedy: str = ""


def ok(check: str, text: str) -> Finding:
    """Return a finding without fault."""
    return Finding(check, Grade.OK, text)


def warning(check: str, text: str, remedy: str) -> Finding:
    """Return a finding that works, and should be better."""
    return Finding(check, Grade.WARNING, text, remedy)


def skipped(check: str, text: str) -> Finding:
    """Return a finding that another one keeps from being made."""
    return Finding(check, Grade.SKIPPED, text)


def problem(check: str, text: str, remedy: str) -> Finding:
    """Return a finding that does not work."""
    return Finding(check, Grade.PROBLEM, text, remedy)
