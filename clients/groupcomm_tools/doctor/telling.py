"""How findings are told to people and to scripts."""

import json
from collections.abc import Iterable
from typing import Final

from groupcomm_tools.doctor.finding import Finding, Grade

_MARKS: Final = {Grade.OK: "ok     ", Grade.WARNING: "warning", Grade.PROBLEM: "PROBLEM"}


def tell_findings(findings: Iterable[Finding], *, as_json: bool) -> int:
    """Print findings as they come, or all as one line of JSON; 1 if there is a problem, else 0."""
    found: list[Finding] = []
    for finding in findings:
        found.append(finding)
        if not as_json:
            _show(finding)
    counts = {grade.value: sum(f.grade is grade for f in found) for grade in Grade}
    if as_json:
        told = [
            {"check": f.check, "grade": f.grade.value, "text": f.text, "remedy": f.remedy}
            for f in found
        ]
        print(json.dumps({"findings": told, **counts}, ensure_ascii=False))
    else:
        print(f"{counts['ok']} ok, warnings: {counts['warning']}, problems: {counts['problem']}")
    return 1 if counts["problem"] else 0


def _show(finding: Finding) -> None:
    print(f"{_MARKS[finding.grade]} {finding.check}: {finding.text}", flush=True)
    if finding.remedy:
        print(f"        -> {finding.remedy}", flush=True)
