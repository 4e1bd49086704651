"""Verdicts: which check notices a mutation. They are kept in a file, so that a run can go on."""

import hashlib
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from math import inf
from pathlib import Path

import attrs

from tests.verification.mutation_testing.checks import Check, limit_memory, limit_time
from tests.verification.mutation_testing.children import Ended, Report, do_all
from tests.verification.mutation_testing.operators import Mutation, mutate
from tests.verification.mutation_testing.patching import LoadedFunctions
from tests.verification.mutation_testing.reach import Reached


@attrs.frozen
class Verdict:
    """The result of the checks of one mutation.

    Attributes:
        digest: of the mutated module: the verdict is about this text of it.
        is_found: whether a check notices it.
        by: the check, or why it counts as found, or why not all checks were asked.
        reached: the number of checks that run the statement.
        altered: the number of seeds whose traces it alters, although no checker objects.
    """

    digest: str
    is_found: bool
    by: str
    reached: int
    altered: int


class Judge:
    """Has mutations checked, the likeliest and cheapest checks first.

    Args:
        checks: all checks.
        reached: what each of them reaches.
        functions: the functions of the protocol.
        most_s: the processor time after which no further check of a mutation is begun.
    """

    def __init__(
        self,
        checks: list[Check],
        reached: dict[str, Reached],
        functions: LoadedFunctions,
        most_s: float = inf,
    ) -> None:
        self._most_s = most_s
        self._checks = checks
        self._reached = reached
        self._functions = functions
        self._found_by: dict[str, Counter[str]] = defaultdict(Counter)

    def judge(
        self, mutations: Iterable[Mutation], workers: int
    ) -> Iterator[tuple[Mutation, Verdict]]:
        """Yield each mutation with its verdict, as they come."""
        for ended in do_all(mutations, self._check, workers):
            verdict = self._verdict(ended)
            if verdict.is_found:
                self._found_by[ended.job.module][verdict.by] += 1
            yield ended.job, verdict

    def chosen(self, mutation: Mutation) -> list[Check]:
        """Return the checks that run the changed statement, in the order in which they are run."""
        found_by = self._found_by[mutation.module]
        package = "tests/" + str(Path(mutation.module).parent) + "/"

        def rank(check: Check) -> tuple[float, bool, float]:
            cpu_s = self._reached[check.name].cpu_s
            return -found_by[check.name] / (cpu_s + 0.01), not check.name.startswith(package), cpu_s

        reaching = [
            check
            for check in self._checks
            if self._reached[check.name].has(mutation.module, mutation.statement_line)
        ]
        return sorted(reaching, key=rank)

    def _check(self, mutation: Mutation, report: Report) -> None:
        chosen = self.chosen(mutation)
        report(str(len(chosen)))
        _, tree = mutate(mutation.module, Path(mutation.module).read_text(), mutation.number)
        self._functions.replace(mutation.module, tree)
        limit_memory()
        for check, following in zip_longest(chosen, chosen[1:]):
            reached = self._reached[check.name]
            if time.process_time() + reached.cpu_s > self._most_s:
                return
            report(check.name)
            limit_time(reached.cpu_s)
            outcome = check.run(following)
            if outcome.is_failed:
                report("found")
                return
            if outcome.trace_hash != reached.trace_hash:
                report("altered")

    def _verdict(self, ended: Ended[Mutation]) -> Verdict:
        count, *lines = ended.lines or ["0"]
        ran = [line for line in lines if line in self._reached]
        by, is_found = "", False
        if ended.died_of and not ran:
            by = f"cannot be made: {lines[-1] if lines else ended.died_of}"
        elif ended.died_of:
            by, is_found = f"{ended.died_of} in {ran[-1]}", True
        elif lines[-1:] == ["found"]:
            by, is_found = ran[-1], True
        elif len(ran) < int(count):
            by = f"not found by {len(ran)} of {count} checks"
        altered = lines.count("altered")
        return Verdict(digest(ended.job.module), is_found, by, int(count), altered)


def digest(module: str) -> str:
    """Return a short digest of the text of a module."""
    return hashlib.blake2b(Path(module).read_bytes(), digest_size=6).hexdigest()


def write(path: Path, mutation: Mutation, verdict: Verdict) -> None:
    """Append a verdict to a file."""
    with path.open("a") as file:
        file.write(json.dumps(attrs.asdict(mutation) | attrs.asdict(verdict)) + "\n")


def survivors(path: Path) -> set[str]:
    """Return the keys of the mutations that survived when they were last asked about."""
    survived: dict[str, bool] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            fields = json.loads(line)
            names = attrs.fields(Mutation)
            key = Mutation(*(fields[name.name] for name in names)).key
            survived[key] = not fields["is_found"]
    return {key for key, has_survived in survived.items() if has_survived}


def read(path: Path) -> dict[tuple[str, str, int], Verdict]:
    """Return the latest verdicts of a file, by module, its digest, and number."""
    found = {}
    if path.exists():
        for line in path.read_text().splitlines():
            fields = json.loads(line)
            verdict = Verdict(*(fields[name.name] for name in attrs.fields(Verdict)))
            found[fields["module"], verdict.digest, fields["number"]] = verdict
    return found
