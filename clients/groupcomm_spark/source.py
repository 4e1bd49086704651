"""The format "groupcomm" for Spark."""

from pyspark.sql.datasource import DataSource


class GroupCommDataSource(DataSource):
    """A log of groups to read, batch or streaming, and groups to write to."""

    @classmethod
    def name(cls) -> str:
        """What users write: ``spark.read.format("groupcomm")``."""
        return "groupcomm"
