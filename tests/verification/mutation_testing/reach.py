"""Reach: which statements each check runs, and what the check takes.

A check that does not run a statement cannot notice a change of it. What was measured is kept in a
file, and holds as long as the protocol and the check's file stay as they are.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from tests.verification.mutation_testing.checks import Check
from tests.verification.mutation_testing.children import Report, do_all
from tests.verification.mutation_testing.patching import LoadedFunctions

AT_A_TIME: Final = 100
"""The checks that one child measures."""


@attrs.frozen
class Reached:
    """What one check reaches.

    Attributes:
        digest: of the sources that it depends on.
        cpu_s: the processor time that it takes.
        trace_hash: the digest of its trace; "" for tests.
        lines: for each module a number, in which the bits of the lines are set that it runs.
    """

    digest: str
    cpu_s: float
    trace_hash: str
    lines: Mapping[str, int]

    def has(self, module: str, line: int) -> bool:
        """Return whether the check runs the statement that begins at a line."""
        return bool(self.lines.get(module, 0) >> line & 1)


class ChecksFail(Exception):
    """Some checks fail although nothing was changed."""


def measure(
    checks: list[Check],
    modules: Iterable[str],
    functions: LoadedFunctions,
    kept: Path,
    workers: int,
) -> dict[str, Reached]:
    """Return what each check reaches; measure only what is not known.

    Raises:
        ChecksFail: a check fails; the text names it.
    """
    protocol = _digest(sorted(Path("groupcomm").rglob("*.py")))
    digests = {check.name: protocol + _digest(_own_file(check)) for check in checks}
    known = dict(_read(kept))
    asked = [
        check
        for check in checks
        if check.name not in known or known[check.name].digest != digests[check.name]
    ]
    chunks = [asked[start : start + AT_A_TIME] for start in range(0, len(asked), AT_A_TIME)]

    def do(chunk: list[Check], report: Report) -> None:
        hits = {module: functions.watch(module) for module in modules}
        for check, following in zip(chunk, [*chunk[1:], None], strict=True):
            before = time.process_time()
            outcome = check.run(following)
            spent = time.process_time() - before
            if outcome.is_failed:
                raise ChecksFail(check.name)
            lines = {module: _packed(array) for module, array in hits.items() if any(array)}
            reached = Reached(digests[check.name], round(spent, 4), outcome.trace_hash, lines)
            report(_line(check.name, reached))
            for array in hits.values():
                array[:] = bytes(len(array))

    kept.parent.mkdir(exist_ok=True)
    with kept.open("a") as file:
        for ended in do_all(chunks, do, workers):
            if ended.died_of:
                raise ChecksFail(f"{ended.died_of}: {ended.lines[-1][-1000:]}")
            file.write("".join(line + "\n" for line in ended.lines))
            file.flush()
    known = dict(_read(kept))
    return {check.name: known[check.name] for check in checks}


def _own_file(check: Check) -> list[Path]:
    return [] if check.item is None else [check.item.path]


def _digest(paths: list[Path]) -> str:
    hashed = hashlib.blake2b(digest_size=8)
    for path in paths:
        hashed.update(path.as_posix().encode() + b"\0" + path.read_bytes())
    return hashed.hexdigest()


def _packed(hits: bytearray) -> int:
    """Return the number in which the bit of each line is set that was run."""
    return int(bytes(hits).translate(_DIGITS)[::-1], 2)


_DIGITS: Final = bytes([ord("0"), ord("1"), *([0] * 254)])


def _line(name: str, reached: Reached) -> str:
    lines = {module: f"{bits:x}" for module, bits in reached.lines.items()}
    return json.dumps([name, reached.digest, reached.cpu_s, reached.trace_hash, lines])


def _read(kept: Path) -> Iterator[tuple[str, Reached]]:
    if not kept.exists():
        return
    with kept.open() as file:
        for text in file:
            name, digest, cpu_s, trace_hash, lines = json.loads(text)
            bits = {module: int(number, 16) for module, number in lines.items()}
            yield name, Reached(digest, cpu_s, trace_hash, bits)
