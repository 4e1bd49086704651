"""Findings of the doctor, for people and for scripts."""

import json
from collections.abc import Iterable
from typing import Final

from groupcommd.operators.findings import Finding, Grade, ok, problem, skipped, warning

__all__ = ["Finding", "Grade", "ok", "print_findings", "problem", "skipped", "warning"]

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
