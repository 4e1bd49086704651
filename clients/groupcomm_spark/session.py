"""One way to a Spark session, for commands, programs and tests."""

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from groupcomm.errors import ConfigError
from groupcomm_spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
"""Spark within this process and its children, on all processors."""

MEMORY: Final = "2g"
"""Of the driver; in local mode this is all that Spark has."""

_LOOPBACK: Final = "127.0.0.1"

QUIET: Final = (
    f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}"
)
"""An option of Java: Spark itself logs nothing."""

_JAVA: Final = "-Darrow.enable_unsafe_memory_access=true -XX:+UseParallelGC"
"""Arrow would look at each access to a value whether it is within its batch, but batches come from
pyarrow, and are whole. And a job wants its work done, not short pauses."""

_CONFIG: Final = {
    "spark.driver.extraJavaOptions": f"{QUIET} {_JAVA}",
    "spark.executor.extraJavaOptions": _JAVA,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # What verify does by hash and sort is small beside the logs: few partitions cost less.
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A changed bit of a page is found by Spark's own reader of Parquet, too.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
}


def need_spark() -> None:
    """Tell what to install if Spark is not there.

    Raises:
        ConfigError: pyspark or what it needs is missing.
    """
    missing = [
        name for name in ("pyspark", "pyarrow", "pandas") if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise ConfigError(
            f"not installed: {', '.join(missing)}; get all with: pip install 'groupcomm[spark]'"
        )


def open_session(
    master: str | None = None,
    *,
    name: str = "groupcomm",
    memory: str = MEMORY,
    config: Mapping[str, str] | None = None,
) -> "SparkSession":
    """Start Spark, or take the session that this process has.

    Args:
        master: ``local[N]``, or ``spark://HOST:PORT`` of a cluster; None for LOCAL. Workers of a
            cluster need groupcomm installed for the same Python, and the logs at the same path.
        name: shown by the cluster.
        memory: of the driver, as Spark writes it: ``2g``.
        config: more of Spark's settings, which win over those made here.

    Raises:
        ConfigError: pyspark is missing, or there is no Java.
    """
    need_spark()
    master = master or LOCAL
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)  # else it listens to the network

    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    settings = {**_CONFIG, "spark.driver.memory": memory, **(config or {})}
    builder = SparkSession.Builder().master(master).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
