"""Findings of the doctor: what was found, how bad it is, and what to do."""

import enum

import attrs


class Grade(enum.Enum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"  # works, but will be slow, or fail some day
    PROBLEM = "problem"  # does not work
    SKIPPED = "skipped"  # could not be checked


@attrs.frozen
class Finding:
    """A finding of one check.

    Attributes:
        check: subject of the check, in a word or two.
        grade: how bad it is.
        text: what was found, with its numbers.
        remedy: what to do; empty where nothing needs to be done.
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
