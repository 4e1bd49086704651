"""The format "groupcomm" for Spark.

Spark imports this module in helper processes only to learn the name, and makes many objects of it.
So modules that take time (pyarrow) are imported when they are needed, and no file is read before.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from groupcomm_spark.reading.readers import BatchReader, StreamReader
    from groupcomm_spark.sink.writer import GroupCommBatchWriter, GroupCommStreamWriter


class GroupCommDataSource(DataSource):
    """A log to read, as a batch or a stream, and groups to write to."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format: ``spark.read.format("groupcomm")``."""
        return "groupcomm"

    # ---- reading ----

    def schema(self) -> "StructType":
        """Return the columns that the options name.

        Raises:
            ConfigError: an option is wrong.
        """
        from groupcomm_spark.reading.options import parse_options, spark_schema  # noqa: PLC0415

        return spark_schema(parse_options(self.options).columns)

    def reader(self, schema: "StructType") -> "BatchReader":
        """Return the reader of ``spark.read``.

        Raises:
            ConfigError: an option is wrong, or the user's own schema is.
        """
        from groupcomm_spark.reading.options import names_of, parse_options  # noqa: PLC0415
        from groupcomm_spark.reading.readers import BatchReader  # noqa: PLC0415 - needs pyarrow

        return BatchReader(parse_options(self.options, streams=False), names_of(schema))

    def streamReader(self, schema: "StructType") -> "StreamReader":
        """Return the reader of ``spark.readStream``.

        Raises:
            ConfigError: an option is wrong, or the user's own schema is.
        """
        from groupcomm_spark.reading.options import names_of, parse_options  # noqa: PLC0415
        from groupcomm_spark.reading.readers import StreamReader  # noqa: PLC0415

        return StreamReader(parse_options(self.options), names_of(schema))

    def writer(self, schema: "StructType", overwrite: bool) -> "GroupCommBatchWriter":
        """Return the writer of a frame.

        Raises:
            ConfigError: an option or a column is wrong.
        """
        from groupcomm_spark.sink.writer import open_batch_writer  # noqa: PLC0415

        return open_batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "GroupCommStreamWriter":
        """Return the sink of a streaming query.

        Raises:
            ConfigError: an option or a column is wrong.
        """
        from groupcomm_spark.sink.writer import open_writer  # noqa: PLC0415 - it is loaded often

        return open_writer(self.options, schema, overwrite=overwrite)
