"""Reads a log on a cluster, batch and streaming; prints which worker has read which rows, as JSON.

It runs in a process of its own: one process has one session only.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

import groupcomm_spark
from groupcomm_spark.session import open_session
from groupcomm_spark.verify.job import verify_folders
from tests.groupcomm_spark.standalone import QUICK_START

_CONFIG = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": QUICK_START,
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
}


def _where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows, each with the folder of its worker; Spark runs this in the task that reads them."""
    for batch in batches:
        (worker,) = [name for name in Path.cwd().parts if name.startswith("worker")]
        yield pa.RecordBatch.from_arrays(
            [batch["row"], pa.array([worker] * batch.num_rows)], names=["row", "worker"]
        )


def main(master: str, log: str, checkpoint: str) -> None:
    """Read."""
    spark = open_session(master, memory="512m", config=_CONFIG)
    schema = "row bigint, worker string"
    options = {"rowsPerTask": "10", "columns": "row"}
    rows = groupcomm_spark.read(spark, log, columns=["row"]).count()
    verdict = verify_folders(spark, [log])
    found: dict[str, Any] = {"batch": [], "stream": [], "read": rows, "verified": verdict.rows}
    found["damage"] = verdict.counts["damage"]

    def take(frame: DataFrame, number: int) -> None:
        found["stream"] += [list(row) for row in frame.collect()]

    frame = spark.read.format("groupcomm").options(**options).load(log)
    found["batch"] = [list(row) for row in frame.mapInArrow(_where, schema).collect()]
    stream = spark.readStream.format("groupcomm").options(**options, maxRowsPerBatch="40").load(log)
    writer = stream.mapInArrow(_where, schema).writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer.start().awaitTermination()
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
