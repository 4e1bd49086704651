"""The columns of a log, and Spark's words for them."""

from collections.abc import Sequence

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from groupcomm.errors import ConfigError
from groupcomm_log.schema import SCHEMA, schema_of


def spark_schema(names: Sequence[str]) -> StructType:
    """Some of the columns, in this order, as Spark has them."""
    return from_arrow_schema(schema_of(names))


def names_of(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema, which a user may have given to `schema()`.

    Raises:
        ConfigError: a log has no such column, or one of another type.
    """
    known = {field.name: field.dataType for field in spark_schema(SCHEMA.names)}
    for field in schema:
        if field.name not in known:
            raise ConfigError(
                f"schema: a log has no column {field.name!r}; it has {', '.join(known)}"
            )
        if field.dataType != known[field.name]:
            raise ConfigError(
                f"schema: the column {field.name} is {known[field.name].simpleString()}, not"
                f" {field.dataType.simpleString()}; leave the schema out, and cast what is read"
            )
    return tuple(field.name for field in schema)
