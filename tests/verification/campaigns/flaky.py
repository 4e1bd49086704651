"""The tests again and again, in random orders and beside burnt processors: what is ever red?

    python -m tests.verification.campaigns flaky --runs 10

Every second run has two burning processes beside it, and more test processes. A test that fails
once in ten runs is a fault of the test or of the product. Prints one line of JSON for each run,
with the command that repeats its order; exit status 1 if a test was red in any. What pytest has
said of a run with red tests is in build/flaky/SEED.txt.
"""

import json
import os
import re
import subprocess
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from groupcomm_tools.terminal import say
from tests.verification.campaigns.busy_starts import burning
from tests.verification.campaigns.runner import Found, campaign, option

BURNERS: Final = 2
WORKERS: Final = (3, 6)
"""Test processes without burners, and beside them: the second is more load than any gate has."""

FOUND: Final = Path("build") / "flaky"

_RED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_COUNT: Final = re.compile(r"(\d+) (passed|failed|error|skipped)")


def play(seed: int, paths: Sequence[str], *, busy: bool) -> list[str]:
    """Run the tests once, and print what came of it; return the red ones."""
    workers = WORKERS[busy]
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-rfE", "--no-loadscope-reorder"),
        *("--numprocesses", str(workers), "-p", "tests.shuffled", "--order-seed", str(seed)),
        *paths,
    ]
    begin = time.monotonic()
    with burning(BURNERS if busy else 0):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    red = _RED.findall(done.stdout)
    if done.returncode not in (0, 1):
        red.append(f"pytest: exit status {done.returncode}")
    if red:
        FOUND.mkdir(parents=True, exist_ok=True)
        (FOUND / f"{seed}.txt").write_text(done.stdout)
    last = done.stdout.strip().splitlines()[-1]
    found = {
        "seed": seed,
        "busy": busy,
        "load": round(os.getloadavg()[0], 1),
        "wall_s": round(time.monotonic() - begin),
        **{word: int(number) for number, word in _COUNT.findall(last)},
        "red": red,
        "again": " ".join(command[1:]),
    }
    say(json.dumps(found))
    return red


@campaign(
    option("runs", 10),
    option("seed", 1, "of the first order"),
    option("paths", [], "tests; all if absent", type=str, nargs="+"),
)
def run(options: Namespace) -> Found:
    """Run the tests some times; a violation is a test that was ever red."""
    red: Counter[str] = Counter()
    for at in range(options.runs):
        red.update(play(options.seed + at, options.paths, busy=at % 2 == 1))
    runs = options.runs
    return {"violations": [f"{name}: red in {n} of {runs} runs" for name, n in red.most_common()]}
