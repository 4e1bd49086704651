"""Lets Spark find the format "groupcomm" by its name.

Spark looks through top-level packages whose name begins with ``pyspark_`` for a `DefaultSource`.
"""

from groupcomm_spark.source import GroupCommDataSource as DefaultSource

__all__ = ["DefaultSource"]
