"""A given number of inputs for each decoder, without guidance: ``make fuzz INPUTS=10000000``.

Inputs are changed seeds (mutation.py), always the same ones. They are done in chunks; a chunk that
is done is a line of JSON in the file of results, so that a run which is started again continues
after them. An input that breaks a decoder is in the line, whole, and ends the run with status 1.
"""

import argparse
import json
import os
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tests.verification.campaigns.fuzz.mutation import inputs
from tests.verification.campaigns.fuzz.seeds import SEEDS
from tests.verification.campaigns.fuzz.targets import REFUSALS, TARGETS

CHUNK: Final = 100_000
TRIAL: Final = 2_000
"""The inputs that measure the time of a target."""

MAX_TOLD: Final = 20
"""The most inputs of one chunk that are reported as breaking a decoder."""

DECODERS_FAIL: Final = 1


def place_of(error: Exception) -> str:
    """Return an error's type and place: the same for the same bug."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno}"


def run_chunk(name: str, chunk: int, count: int) -> dict[str, Any]:
    """Give a target the inputs of one chunk; return the line of results."""
    target, taken = TARGETS[name], 0
    bugs: dict[str, str] = {}
    exceptions = 0
    began = time.perf_counter()
    for raw in inputs(name, chunk, count, SEEDS[name]):
        try:
            target(raw)
            taken += 1
        except REFUSALS:
            pass
        except Exception as error:  # any exception is a bug
            exceptions += 1
            if len(bugs) < MAX_TOLD:
                bugs.setdefault(place_of(error), raw.hex())
    return {
        "target": name,
        "chunk": chunk,
        "inputs": count,
        "taken": taken,
        "exceptions": exceptions,
        "bugs": bugs,
        "seconds": round(time.perf_counter() - began, 3),
    }


def read_results(path: Path) -> list[dict[str, Any]]:
    """Return the lines of earlier runs; a line that was cut off is removed from the file."""
    if not path.exists():
        return []
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    return [json.loads(line) for line in whole.splitlines()]


def table(results: Iterable[dict[str, Any]]) -> str:
    """Return a line for each target, as docs/testing.md has it."""
    sums: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for line in results:
        sums[line["target"]].update({k: line[k] for k in ("inputs", "taken", "exceptions")})
        sums[line["target"]]["ms"] += int(1000 * line["seconds"])
    lines = ["| target | inputs | taken | exceptions | a second |", "|---|---|---|---|---|"]
    for name, total in sorted(sums.items()):
        rate = total["inputs"] * 1000 // max(1, total["ms"])
        share = f"{total['taken'] / total['inputs']:.0%}"
        lines.append(
            f"| {name} | {total['inputs']:,} | {share} | {total['exceptions']} | {rate:,} |"
        )
    return "\n".join(lines)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _quickest_first(names: Iterable[str]) -> list[str]:
    """By the time that a few inputs take, which are none of those that count."""
    took = {name: run_chunk(name, -1, TRIAL)["seconds"] for name in names}
    return sorted(took, key=took.__getitem__)


def run_all(names: Iterable[str], count: int, path: Path) -> bool:
    """Give each target the rest of this number of inputs; return whether none broke it."""
    done: Counter[str] = Counter()
    chunks: Counter[str] = Counter()
    well = True
    for line in read_results(path):
        done[line["target"]] += line["inputs"]
        chunks[line["target"]] += 1
        well &= not line["exceptions"]
    left = _quickest_first(name for name in names if done[name] < count)
    with path.open("a") as file:
        for place, name in enumerate(left, 1):
            while done[name] < count:
                size = min(CHUNK, count - done[name])
                found = run_chunk(name, chunks[name], size)
                done[name] += size
                chunks[name] += 1
                well &= not found["exceptions"]
                file.write(json.dumps(found) + "\n")
                file.flush()
                for bug, raw in found["bugs"].items():
                    _say(f"{name}: {bug} by {raw}")
            os.fsync(file.fileno())
            _say(f"{place} of {len(left)}: {name} has had {done[name]:,} inputs")
    return well


def main(arguments: list[str]) -> int:
    """Run, or print earlier results; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="fuzz_decoders.py",
        description="Give each decoder so many changed seeds, and go on where the last run ended.",
        epilog="example: fuzz_decoders.py --inputs 1000000 --target wire.token.token."
        " Exit status: 0 nothing broke, 1 a decoder did, 2 wrong usage.",
    )
    parser.add_argument("--inputs", type=int, default=0, metavar="N", help="for each target")
    parser.add_argument("--target", action="append", metavar="NAME", help="only these")
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("fuzz/inputs.jsonl"),
        help="lines of JSON; continued (default: %(default)s)",
    )
    parser.add_argument("--table", action="store_true", help="print the results as a table")
    options = parser.parse_args(arguments)
    names = options.target or sorted(TARGETS)
    for name in names:
        if name not in TARGETS:
            parser.error(f"there is no target {name}; there are: {', '.join(sorted(TARGETS))}")
    options.results.parent.mkdir(parents=True, exist_ok=True)
    well = run_all(names, options.inputs, options.results)
    if options.table:
        print(table(read_results(options.results)))
    return 0 if well else DECODERS_FAIL
