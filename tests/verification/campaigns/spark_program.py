"""The driver of the campaign: a streaming query from a log of one group to another group.

Prints lines of JSON; ends with status 1 when the query fails. Spark's output goes to a file.
"""

import argparse
import json
import os
import sys
from typing import Any, Final

from groupcomm_spark.errors import plain
from groupcomm_spark.session import open_session

LOOK_S: Final = 1

CONFIG: Final = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.minBatchesToRetain": "10",
    # Executors are killed: their end is no fault of the task.
    "spark.task.maxFailures": "20",
}

TAIL: Final = "." * 4000
"""The tail of each row: publishing a batch then takes long enough to kill a driver meanwhile."""


def tell(**happened: Any) -> None:
    print(json.dumps(happened), flush=True)


def start_query(options: argparse.Namespace) -> Any:
    spark = open_session(options.master, name="exactly once", memory="512m", config=CONFIG)
    log = spark.readStream.format("groupcomm").options(kinds="message", columns="data")
    return (
        log.option("maxRowsPerBatch", options.rows)
        .load(options.log)
        .selectExpr(f"concat(upper(CAST(data AS STRING)), '{TAIL}') AS data")
        .writeStream.format("groupcomm")
        .option("address", options.address)
        .option("group", options.group)
        .option("checkpointLocation", options.checkpoint)
        .trigger(processingTime="200 milliseconds")
        .start()
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("master", "log", "address", "group", "checkpoint", "stderr"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rows", required=True, help="the most rows of the log in a batch")
    options = parser.parse_args()
    os.dup2(os.open(options.stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    try:
        query = start_query(options)
        tell(event="started")
        last = None
        while not query.awaitTermination(LOOK_S):
            progress = query.lastProgress
            if progress is not None and progress["batchId"] != last and progress["numInputRows"]:
                last = progress["batchId"]
                tell(event="batch", batch=last, ms=progress["durationMs"].get("triggerExecution"))
    except Exception as error:  # the campaign starts another one
        tell(event="failed", why=plain(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
