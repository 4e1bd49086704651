"""The format "groupcomm" for Spark.

Spark imports this in helper processes only to learn the name, and makes objects of it many times:
what costs time (pyarrow) is imported by what is asked for, and nothing is read before that.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from groupcomm_spark.reading.readers import BatchReader, StreamReader
    from groupcomm_spark.sink.writer import GroupCommStreamWriter


class GroupCommDataSource(DataSource):
    """A log of groups to read, batch or streaming, and groups to write to."""

    @classmethod
    def name(cls) -> str:
        """What users write: ``spark.read.format("groupcomm")``."""
        return "groupcomm"

    # ---- reading ----

    def schema(self) -> "StructType":
        """The columns that the options ask for.

        Raises:
            ConfigError: an option is wrong.
        """
        from groupcomm_spark.reading.options import parse_options, spark_schema  # noqa: PLC0415

        return spark_schema(parse_options(self.options).columns)

    def reader(self, schema: "StructType") -> "BatchReader":
        """Of ``spark.read``.

        Raises:
            ConfigError: an option is wrong, or the user's own schema is.
        """
        from groupcomm_spark.reading.options import names_of, parse_options  # noqa: PLC0415
        from groupcomm_spark.reading.readers import BatchReader  # noqa: PLC0415 - needs pyarrow

        return BatchReader(parse_options(self.options, streams=False), names_of(schema))

    def streamReader(self, schema: "StructType") -> "StreamReader":
        """Of ``spark.readStream``.

        Raises:
            ConfigError: an option is wrong, or the user's own schema is.
        """
        from groupcomm_spark.reading.options import names_of, parse_options  # noqa: PLC0415
        from groupcomm_spark.reading.readers import StreamReader  # noqa: PLC0415

        return StreamReader(parse_options(self.options), names_of(schema))

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "GroupCommStreamWriter":
        """The sink of a streaming query.

        Raises:
            ConfigError: an option or a column is wrong.
        """
        from groupcomm_spark.sink.writer import open_writer  # noqa: PLC0415 - it is loaded often

        return open_writer(self.options, schema, overwrite=overwrite)
