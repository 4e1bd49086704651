"""A standalone cluster of Spark on this host: a master and workers as processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import attrs
import pyspark

from groupcomm_spark.session import find_java
from groupcomm_tools.local_cluster import free_ports

HOST: Final = "127.0.0.1"

EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
PYTHON: Final = b"pyspark.daemon"
"""Texts in the command lines of executors, and of the Python workers of executors and drivers."""

_SPARK: Final = Path(pyspark.__file__).parent


@attrs.frozen
class SparkCluster:
    """The running processes.

    Attributes:
        master: the URL of the master.
        pids: the process ids of the workers, whose children the executors are.
    """

    master: str
    pids: tuple[int, ...]


@contextmanager
def spark_cluster(folder: Path, workers: int) -> Iterator[SparkCluster]:
    """Run a master and workers, with one core each, for the length of a block."""
    port = free_ports(HOST, 1)[0]
    master = f"spark://{HOST}:{port}"
    programs = [
        _start(folder, "master", "master.Master", "--host", HOST, "--port", str(port)),
        *(
            _start(
                *(folder, f"worker{number}", "worker.Worker", "--host", HOST, "-c", "1"),
                *("-m", "1g", "-d", str(folder / f"worker{number}"), master),
            )
            for number in range(workers)
        ),
    ]
    try:
        yield SparkCluster(master, tuple(program.pid for program in programs[1:]))
    finally:
        for pid in [pid for program in programs for pid in below(program.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for program in programs:
            program.kill()
            program.wait()


def _start(folder: Path, name: str, kind: str, *options: str) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1",
    }
    command = [str(_SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *options]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [*command, "--webui-port", "0"], env=environment, stdout=log, stderr=log
        )


def below(pid: int, word: bytes = b"") -> list[int]:
    """Return the processes that descend from one and have a word in their command lines."""
    children: dict[int, list[int]] = {}
    lines: dict[int, bytes] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int(path.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            lines[int(path.name)] = path.joinpath("cmdline").read_bytes()
            children.setdefault(parent, []).append(int(path.name))
    found, left = [], [pid]
    while left:
        descendants = children.get(left.pop(), [])
        found += descendants
        left += descendants
    return [each for each in found if word in lines[each]]
