"""From the columns of a query to what is staged: destinations, type and data of each row."""

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from groupcomm.config.core import MAX_MESSAGE_BYTES
from groupcomm.errors import ConfigError, LocalProtocolError
from groupcomm.names import check_destination
from groupcomm.wire.destinations import MAX_GROUPS
from groupcomm_client.committed.markers import TYPE
from groupcomm_spark.sink.options import Options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

STAGED: Final = pa.schema(
    [
        pa.field("groups", pa.list_(pa.string())),
        pa.field("type", pa.int64()),
        pa.field("data", pa.binary()),
    ]
)

_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_TYPES: Final = {
    "data": ("binary", "string"),
    "group": ("string",),
    "groups": ("array<string>",),
    "type": _INTEGERS,
}


def check_columns(schema: "StructType", options: Options) -> None:
    """Check what a query has.

    Raises:
        ConfigError: a column is missing, not known, or of the wrong type.
    """
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "data" not in found:
        raise ConfigError(
            f"there is no column data among {', '.join(found)}: select what is to be sent as data"
        )
    for name, kind in found.items():
        if name not in _TYPES:
            raise ConfigError(
                f"the column {name} has no meaning here: select data and, if need be, type and"
                " group or groups"
            )
        if kind not in _TYPES[name]:
            raise ConfigError(
                f"the column {name} is of type {kind}; it must be {' or '.join(_TYPES[name])}"
            )
    if "group" in found and "groups" in found:
        raise ConfigError("there are columns group and groups: select one of them")
    if not found.keys() & {"group", "groups"} and options.group is None:
        raise ConfigError(
            "nothing tells where rows are to go: give the option group, or a column group or groups"
        )


def to_staged(batch: pa.RecordBatch, options: Options) -> pa.RecordBatch:
    """The rows as they are staged.

    Args:
        batch: with at least one row.

    Raises:
        ConfigError: a row cannot be sent.
    """
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    groups = _groups(columns, batch.num_rows, options)
    type_ = columns.get("type", pa.nulls(batch.num_rows, pa.int64())).cast(pa.int64())
    type_ = pc.fill_null(type_, options.type)
    data = columns["data"].cast(pa.binary())
    _check_data(data)
    _check_types(type_)
    _check_groups(groups)
    return pa.RecordBatch.from_arrays([groups, type_, data], schema=STAGED)


def _groups(columns: dict[str, Any], count: int, options: Options) -> Any:
    kind = STAGED.field("groups").type
    if "groups" in columns:
        groups = columns["groups"].cast(kind)
    elif "group" in columns:
        names = columns["group"].cast(pa.string())
        groups = pa.array([name and [name] for name in names.to_pylist()], kind)
    else:
        groups = pa.nulls(count, kind)
    if groups.null_count and options.group is not None:
        return pc.if_else(groups.is_valid(), groups, pa.scalar([options.group], kind))
    return groups


def _check_data(data: Any) -> None:
    if data.null_count:
        raise ConfigError("the column data is null in a row: leave such rows out, or send b''")
    longest = pc.max(pc.binary_length(data)).as_py()
    if longest > MAX_MESSAGE_BYTES:
        raise ConfigError(
            f"a row has {longest} bytes of data; a message has {MAX_MESSAGE_BYTES} at most"
        )


def _check_types(types: Any) -> None:
    least, most = pc.min_max(types).as_py().values()
    if not 0 <= least <= most < TYPE:
        wrong = least if least < 0 else most
        raise ConfigError(f"the column type is {wrong} in a row; it must be 0 to {TYPE - 1}")


def _check_groups(groups: Any) -> None:
    least, most = pc.min_max(pc.list_value_length(groups)).as_py().values()
    if groups.null_count or least == 0:
        raise ConfigError(
            "a row names no group: fill the column, or give the option group for such rows"
        )
    if most > MAX_GROUPS:
        raise ConfigError(f"a row names more than {MAX_GROUPS} groups")
    for name in pc.unique(groups.flatten()).to_pylist():
        if name is None:
            raise ConfigError("a row names a group that is null")
        try:
            check_destination(name)
        except LocalProtocolError as error:
            raise ConfigError(f"a row cannot be sent: {error}") from None
