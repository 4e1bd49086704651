"""The totals of many runs of the campaign: one line of JSON for each round, in a file.

A run that is given such a file goes on behind the rounds of its seed that are there.
"""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Totals:
    """The rounds of all runs so far.

    Args:
        path: the file; it is made with the first round.
        kind: what rounds must have in common to be rounds of one campaign: seed and sites.
    """

    def __init__(self, path: Path, kind: Mapping[str, Any]) -> None:
        self._path = path
        self._kind = dict(kind)

    def _rounds(self) -> list[dict[str, Any]]:
        text = self._path.read_text() if self._path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def done(self) -> tuple[int, int]:
        """Return the rounds, and the disasters, that this campaign has had."""
        mine = [
            each
            for each in self._rounds()
            if {name: each.get(name) for name in self._kind} == self._kind
        ]
        return len(mine), sum(each["asked"] for each in mine)

    def add(self, figures: Mapping[str, Any]) -> None:
        """Append a round."""
        with self._path.open("a") as file:
            file.write(json.dumps({**self._kind, **figures}) + "\n")

    def summary(self) -> dict[str, Any]:
        """Return the sums of all rounds in the file, and the disasters by kind."""
        rounds = self._rounds()
        kinds = Counter[str]()
        for each in rounds:
            kinds.update(each["kinds"])
        names = ("disasters", "events", "deliveries", "operations", "violations", "seconds")
        sums = {name: round(sum(each[name] for each in rounds)) for name in names}
        failures = [text for each in rounds for text in each["failures"]]
        disasters = sums["disasters"]
        return {
            "rounds": len(rounds),
            **sums,
            "failures": failures,
            "s_per_disaster": round(sums["seconds"] / disasters, 1) if disasters else None,
            "kinds": dict(sorted(kinds.items())),
        }
