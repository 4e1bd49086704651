"""The rounds of a run. Each result goes to a journal at once, so a run that was stopped goes on."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from groupcomm.errors import GroupCommError
from tests.verification.campaigns.performance import machine
from tests.verification.campaigns.performance.parts import (
    Found,
    NothingArrived,
    Part,
    Run,
    WrongMessages,
)
from tests.verification.campaigns.performance.records import Data, Recorded, cells_of, merged

JOURNAL: Final = Path("build", "performance", "journal.jsonl")
FRESH_S: Final = 3600.0
"""The age of a journal up to which a run goes on with it: later the machine may be another."""

LIMIT_S: Final = 300.0
"""The longest time of a run; then its system is measured no further."""

_GUESS_S: Final = 3.5


@attrs.define(kw_only=True)
class Session:
    """A run of all rounds.

    Attributes:
        parts: the parts to measure.
        rounds: the number of rounds.
        duration_s: the seconds of one measurement.
        journal: the file of its results.
        results: the figures by part, load and system; one a round.
        failed: the reason why a system of a part is not measured, or no further.
        wrong: the runs with wrong messages.
    """

    parts: Sequence[Part]
    rounds: int
    duration_s: float
    journal: Path = JOURNAL
    results: dict[tuple[str, str, str], dict[int, Found]] = attrs.field(factory=dict)
    failed: dict[tuple[str, str], str] = attrs.field(factory=dict)
    wrong: list[str] = attrs.field(factory=list)
    load_before: float = attrs.field(factory=lambda: os.getloadavg()[0])

    def runs(self) -> Iterator[tuple[int, Part, Run]]:
        """Yield every run: each round goes through all parts, exact ones only in the first."""
        for number in range(self.rounds):
            for part in self.parts:
                if part.exact and number:
                    continue
                for run in part.runs:
                    yield number, part, run

    # ---- the journal ----

    def resume(self) -> int:
        """Read the journal of a run like this one; return the number of results that it has."""
        lines = self.journal.read_text().splitlines() if self.journal.exists() else []
        if not lines or not self._is_alike(json.loads(lines[0])):
            self.journal.parent.mkdir(parents=True, exist_ok=True)
            self.journal.write_text(json.dumps(self._head()) + "\n")
            return 0
        self.load_before = json.loads(lines[0])["load_before"]
        for line in lines[1:]:
            part, load, system, number, found = json.loads(line)
            self.results.setdefault((part, load, system), {})[number] = found
        return len(lines) - 1

    def _head(self) -> dict[str, Any]:
        return {
            "rounds": self.rounds,
            "duration_s": self.duration_s,
            "commit": machine.commit(),
            "began": time.time(),
            "load_before": self.load_before,
        }

    def _is_alike(self, head: dict[str, Any]) -> bool:
        same = all(head[name] == self._head()[name] for name in ("rounds", "duration_s", "commit"))
        return same and time.time() - head["began"] < FRESH_S

    def _keep(self, part: Part, run: Run, number: int, found: Found) -> None:
        key = part.name, run.load, run.system
        self.results.setdefault(key, {})[number] = found
        with self.journal.open("a") as file:
            file.write(json.dumps([*key, number, found]) + "\n")

    # ---- running ----

    async def run(self) -> None:
        """Make every run that the journal lacks; tell the progress on standard error."""
        todo = [
            (number, part, run)
            for number, part, run in self.runs()
            if number not in self.results.get((part.name, run.load, run.system), {})
        ]
        began = time.monotonic()
        for done, (number, part, run) in enumerate(todo):
            if (part.name, run.system) in self.failed:
                continue
            each_s = (time.monotonic() - began) / done if done else _GUESS_S
            place = f"round {number + 1} of {self.rounds}, {part.name}: {run.system}, {run.load}"
            tell(f"{_minutes((len(todo) - done) * each_s)} left; {place}")
            await self._run_once(number, part, run)

    async def _run_once(self, number: int, part: Part, run: Run) -> None:
        if why := run.missing():
            self.failed[part.name, run.system] = why
            tell(f"  {run.system} is not measured: {why}")
            return
        try:
            with trio.fail_after(LIMIT_S):
                found = await run.measure()
        except* NothingArrived as group:
            tell(f"  {_reason(group)}: this round has no figure")
        except* WrongMessages:
            self.wrong.append(f"{part.name}: {run.system}, {run.load}, round {number + 1}")
            tell("  WRONG: messages were lost, doubled, out of order or changed")
        except* (GroupCommError, OSError, trio.TooSlowError) as group:
            self.failed[part.name, run.system] = _reason(group)
            tell(f"  {run.system} is measured no further: {_reason(group)}")
        else:
            self._keep(part, run, number, found)

    # ---- the results ----

    def recorded(self, old: Data) -> Data:
        """Return the file's parts with those of this run."""
        data = Data(old)
        today = f"{datetime.now(UTC):%Y-%m-%d}"
        for part in self.parts:
            rounds = {
                (load, system): by_round
                for (name, load, system), by_round in self.results.items()
                if name == part.name and (name, system) not in self.failed
            }
            if not rounds:
                continue
            order = {(run.load, run.system): None for run in part.runs}
            ordered = {key: rounds[key] for key in order if key in rounds}
            new = Recorded(
                measured=today,
                commit=machine.commit(),
                rounds=1 if part.exact else self.rounds,
                duration_s=self.duration_s,
                load_before=round(self.load_before, 1),
                machine=machine.describe(),
                releases=machine.releases(),
                cells=cells_of(today, part.base, ordered),
            )
            data[part.name] = merged(old.get(part.name), new, order)
        return data

    def end(self) -> None:
        """Remove the journal of a run that is complete."""
        with contextlib.suppress(FileNotFoundError):
            self.journal.unlink()


def tell(line: str) -> None:
    """Print a line on standard error."""
    print(line, file=sys.stderr, flush=True)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
