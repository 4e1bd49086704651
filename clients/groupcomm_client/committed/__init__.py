"""Batches of rows that a program receives exactly once; see docs/spark.md, The sink.

::

    from groupcomm_client import connect
    from groupcomm_client.committed import Batch, committed

    async with connect() as connection, connection.group("alarms"):
        receiver = committed(connection, ["alarms"])
        async for event in receiver:
            if isinstance(event, Batch):
                for row in event.rows:
                    print(row.query, row.batch, row.index, row.message.data)
"""

from groupcomm_client.committed.publications import Batch, Incomplete, Missed, Row
from groupcomm_client.committed.receiving import (
    BlockingCommitted,
    Committed,
    CommittedStream,
    committed,
)

__all__ = [
    "Batch",
    "BlockingCommitted",
    "Committed",
    "CommittedStream",
    "Incomplete",
    "Missed",
    "Row",
    "committed",
]
