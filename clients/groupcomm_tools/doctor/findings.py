"""Findings of the doctor, for people and for scripts."""

import enum
import json
from collections.abc import Iterable
from typing import Final

import attrs


class Grade(enum.Enum):
    """How bad a finding is."""

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


_MARKS: Final = {
    Grade.OK: "ok     ",
    Grade.WARNING: "warning",
    Grade.PROBLEM: "PROBLEM",
    Grade.SKIPPED: "skipped",
}


def print_findings(findings: Iterable[Finding], *, as_json: bool) -> int:
    """Print findings as they come, or all as one line of JSON; return 1 if there is a problem."""
    found: list[Finding] = []
    for finding in findings:
        found.append(finding)
        if not as_json:
            _show(finding)
    counts = {grade.value: sum(f.grade is grade for f in found) for grade in Grade}
    if as_json:
        rows = [
            {"check": f.check, "grade": f.grade.value, "text": f.text, "remedy": f.remedy}
            for f in found
        ]
        print(json.dumps({"findings": rows, **counts}, ensure_ascii=False))
    else:
        some = f", skipped: {counts['skipped']}" if counts["skipped"] else ""
        print(
            f"{counts['ok']} ok, warnings: {counts['warning']}, problems: {counts['problem']}{some}"
        )
    return 1 if counts["problem"] else 0


def _show(finding: Finding) -> None:
    print(f"{_MARKS[finding.grade]} {finding.check}: {finding.text}", flush=True)
    if finding.remedy:
        print(f"        -> {finding.remedy}", flush=True)
