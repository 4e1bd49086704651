"""The format "groupcomm" for Spark."""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from groupcomm_spark.sink.writer import GroupCommStreamWriter


class GroupCommDataSource(DataSource):
    """A log of groups to read, batch or streaming, and groups to write to."""

    @classmethod
    def name(cls) -> str:
        """What users write: ``spark.read.format("groupcomm")``."""
        return "groupcomm"

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "GroupCommStreamWriter":
        """The sink of a streaming query.

        Raises:
            ConfigError: an option or a column is wrong.
        """
        from groupcomm_spark.sink.writer import open_writer  # noqa: PLC0415 - it is loaded often

        return open_writer(self.options, schema, overwrite=overwrite)
