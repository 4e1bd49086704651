"""The data source on a real cluster: a master and two workers, each a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

from tests.spark.standalone import standalone
from tests.spark.test_source import make_epoch

JOB = (sys.executable, "-m", "tests.spark.standalone_job")


def test_two_workers_read_a_log_between_them(tmp_path: Path) -> None:
    make_epoch(tmp_path / "log", [10, 10, 10, 10]).close()
    writer = make_epoch(tmp_path / "log", [10, 10], live=10)
    with standalone(tmp_path / "cluster", workers=2) as master:
        done = subprocess.run(
            [*JOB, master, tmp_path / "log", tmp_path / "checkpoint"],
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    for way, rows in json.loads(done.stdout.splitlines()[-1]).items():
        assert sorted(row for row, _ in rows) == [*range(70)], way
        assert {worker for _, worker in rows} == {"worker0", "worker1"}, way
    writer.close()
