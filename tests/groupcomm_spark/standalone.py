"""A standalone cluster on this host: a master and workers, each a process."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark

from groupcomm_spark.session import find_java
from groupcomm_tools.local_cluster import free_ports

START_S: Final = 60.0
_LOOPBACK: Final = "127.0.0.1"
QUICK_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that lives for seconds: it compiles less well and sooner."""

_CLASSES: Final = "org.apache.spark.deploy"


@contextmanager
def standalone(folder: Path, workers: int, cores: int = 1) -> Iterator[str]:
    """Start a cluster; yield the URL of its master.

    Args:
        folder: the folder for logs and files of the workers.
        workers: the number of workers.
        cores: the cores of each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = free_ports(_LOOPBACK, 1)[0]
    url = f"spark://{_LOOPBACK}:{port}"
    running: list[subprocess.Popen[bytes]] = []
    try:
        log = folder / "master.log"
        ports = ["--port", str(port), "--webui-port", "0"]
        running.append(_start(log, "master.Master", *ports))
        _wait_for(log, r"I have been elected leader")
        for number in range(workers):
            size = ["-c", str(cores), "-m", "1g", "-d", str(folder / f"worker{number}")]
            log = folder / f"worker{number}.log"
            running.append(_start(log, "worker.Worker", *size, "--webui-port", "0", url))
        for number in range(workers):
            _wait_for(folder / f"worker{number}.log", r"Successfully registered with master")
        yield url
    finally:
        for process in reversed(running):
            os.killpg(process.pid, signal.SIGKILL)  # the signal ends its executors, too
            process.wait()


def _start(log: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": _LOOPBACK,
        "JAVA_HOME": str(find_java().home),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_START,
    }
    with log.open("wb") as file:
        return subprocess.Popen(
            [home / "bin" / "spark-class", f"{_CLASSES}.{name}", "--host", _LOOPBACK, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait_for(log: Path, pattern: str) -> None:
    deadline = time.monotonic() + START_S
    while not re.search(pattern, log.read_text(errors="replace")):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{log.name} does not say {pattern!r}:\n{log.read_text()[-2000:]}")
        time.sleep(0.1)
