"""What a check has found."""

import enum

import attrs


class Grade(enum.Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"  # works, but will be slow, or fail some day
    PROBLEM = "problem"  # does not work


@attrs.frozen
class Finding:
    """One of them.

    Attributes:
        check: what was looked at, in a word or two.
        grade: how bad it is.
        text: what was found, with its numbers.
        remedy: what to do; empty where nothing needs to be done.
    """

    check: str
    grade: Grade
    text: str
    remedy: str = ""


def ok(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check, Grade.OK, text)


def warning(check: str, text: str, remedy: str) -> Finding:
    """It could be better."""
    return Finding(check, Grade.WARNING, text, remedy)


def problem(check: str, text: str, remedy: str) -> Finding:
    """It does not work."""
    return Finding(check, Grade.PROBLEM, text, remedy)
