"""The data source on a real cluster of Spark: a master and two workers, each a process of its own.

    python -m tests.verification.campaigns spark_workers

Checked: a batch and a stream both bring every row of a log once, and both workers have read some;
`read` and `verify` have all rows, too. The path of the log is relative, and the workers have other
working folders. Ends with a line of JSON.
"""

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.groupcomm_spark.standalone import standalone
from tests.groupcomm_spark.test_source import make_epoch
from tests.verification.campaigns.runner import Found, campaign

ROWS: Final = 70
WORKERS: Final = 2
LIMIT_S: Final = 400
_ROOT: Final = Path(__file__).parents[3]
PATH: Final = os.pathsep.join(map(str, [_ROOT, _ROOT / "daemon", _ROOT / "clients"]))
"""The modules of this checkout, whatever is installed."""


def play(folder: Path) -> dict[str, Any]:
    """Return the rows that a job on the cluster has read of a log, sealed and live, with
    workers."""
    make_epoch(folder / "log", [10, 10, 10, 10]).close()
    writer = make_epoch(folder / "log", [10, 10], live=10)
    with standalone(folder / "cluster", workers=WORKERS) as master:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.groupcomm_spark.standalone_job"),
                *(master, "log", folder / "checkpoint"),
            ],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": PATH},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    writer.close()
    if done.returncode:
        raise RuntimeError(f"the job ended with status {done.returncode}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def check(found: dict[str, Any]) -> list[str]:
    """Return the faults of the rows that were read."""
    wrong = []
    if found["read"] != ROWS or found["verified"] != ROWS or found["damage"]:
        wrong.append(f"{found['read']} and {found['verified']} rows, {found['damage']} damages")
    for way in ("batch", "stream"):
        rows = sorted(row for row, _ in found[way])
        if rows != [*range(ROWS)]:
            wrong.append(f"{way}: rows {rows} were read, not 0 to {ROWS - 1} once each")
        if (workers := {worker for _, worker in found[way]}) != {"worker0", "worker1"}:
            wrong.append(f"{way}: only {sorted(workers)} have read")
    return wrong


@campaign()
def run(_: Namespace) -> Found:
    """Read on the cluster, and check."""
    with TemporaryDirectory(prefix="groupcomm-") as folder:
        wrong = check(play(Path(folder)))
    return {"rows": ROWS, "workers": WORKERS, "violations": wrong}
