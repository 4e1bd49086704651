"""Logs on Spark: a data source and sink, and jobs that verify and report.

Nothing here imports pyspark before it is needed: commands must answer without it.
"""

from typing import TYPE_CHECKING

from groupcomm_client.lazy import lazy_names

if TYPE_CHECKING:
    from groupcomm_spark.logs import read
    from groupcomm_spark.members import membership
    from groupcomm_spark.streams import read_stream

__all__ = ["membership", "read", "read_stream"]

__getattr__ = lazy_names(
    __name__,
    {
        "membership": "groupcomm_spark.members",
        "read": "groupcomm_spark.logs",
        "read_stream": "groupcomm_spark.streams",
    },
)
