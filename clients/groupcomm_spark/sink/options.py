"""Options and columns of the sink, checked before anything is written."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from groupcomm.errors import ConfigError, LocalProtocolError
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.names import check_destination
from groupcomm.wire.bundle import MAX_GROUPS
from groupcomm.wire.messages import MAX_MESSAGE_BYTES
from groupcomm_client.committed.markers import TYPE

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


FOLDER: Final = "groupcomm"
"""Folder below the checkpoint of a query, where its batches are staged."""

TIMEOUT_S: Final = 30.0

IN_ORDER: Final = LEVELS[ServiceLevel.FIFO :]
"""Levels at which the messages of a sender come in order."""

_KNOWN: Final = ("address", "group", "level", "type", "staging", "timeout")
_OF_SPARK: Final = ("checkpointlocation", "queryname")
"""Options of Spark itself that are passed on among the others."""


@attrs.frozen(kw_only=True)
class SinkOptions:
    """Options of one query.

    Attributes:
        staging: the folder for batches that are not published yet.
        address: the address of the daemon; None for the default one of the driver's host.
        group: the destination of rows that name none; None if all rows name one.
        level: level of all rows.
        type: the type of rows that have none.
        timeout_s: the seconds within which the daemon must answer, and accept messages.
    """

    staging: Path
    address: str | None = None
    group: str | None = None
    level: ServiceLevel = ServiceLevel.AGREED
    type: int = 0
    timeout_s: float = TIMEOUT_S


def parse_options(given: Mapping[str, str]) -> SinkOptions:
    """Return the options that Spark passes on.

    Raises:
        ConfigError: an option is wrong; the text names it.
    """
    options = {name.lower(): value for name, value in given.items()}
    unknown = sorted(options.keys() - set(_KNOWN) - set(_OF_SPARK))
    if unknown:
        raise ConfigError(
            f'format("groupcomm") has no option {unknown[0]!r} for writing; there are:'
            f" {', '.join(_KNOWN)}"
        )
    return SinkOptions(
        staging=_staging(options),
        address=options.get("address"),
        group=_group(options.get("group")),
        level=_level(options.get("level", "agreed")),
        type=_type(options.get("type", "0")),
        timeout_s=_timeout(options.get("timeout")),
    )


def _staging(options: Mapping[str, str]) -> Path:
    text = options.get("staging") or options.get("checkpointlocation")
    if not text:
        raise ConfigError(
            "neither of the options staging and checkpointLocation is given: name a folder that"
            " the driver and all executors reach"
        )
    parts = urlsplit(text)
    if parts.scheme not in {"", "file"} or parts.netloc:
        raise ConfigError(
            f"{text} is not a folder of a file system: give the option staging a path that the"
            " driver and all executors have mounted"
        )
    path = Path(unquote(parts.path) if parts.scheme else text).absolute()  # executors have others
    return path if options.get("staging") else path / FOLDER


def _group(text: str | None) -> str | None:
    try:
        return None if text is None else check_destination(text)
    except LocalProtocolError as error:
        raise ConfigError(f"option group: {error}") from None


def _level(text: str) -> ServiceLevel:
    for level in IN_ORDER:
        if level.name == text.upper():
            return level
    names = ", ".join(level.name.lower() for level in IN_ORDER)
    raise ConfigError(f"option level is {text!r}; rows stay in order with one of {names}")


def _type(text: str) -> int:
    if not text.isdecimal() or int(text) >= TYPE:
        raise ConfigError(f"option type is {text!r}; it must be 0 to {TYPE - 1}")
    return int(text)


def _timeout(text: str | None) -> float:
    try:
        seconds = TIMEOUT_S if text is None else float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ConfigError(f"option timeout is {text!r}; it must be a number of seconds above 0")
    return seconds


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


def check_columns(schema: "StructType", options: SinkOptions) -> None:
    """Check the columns of a query.

    Raises:
        ConfigError: a column is missing, not known, or of the wrong type.
    """
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "data" not in found:
        raise ConfigError(
            f"there is no column data among {', '.join(found)}: select the bytes to send as data"
        )
    for name, kind in found.items():
        if name not in _TYPES:
            raise ConfigError(
                f"the sink does not know the column {name}: select data and, if need be, type and"
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
            "the rows have no destination: give the option group, or a column group or groups"
        )


def to_staged(batch: pa.RecordBatch, options: SinkOptions) -> pa.RecordBatch:
    """Return the rows as they are staged.

    Args:
        batch: the batch, at least one row.

    Raises:
        ConfigError: a row cannot be sent.
    """
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    groups = _destinations(columns, batch.num_rows, options)
    type_ = columns.get("type", pa.nulls(batch.num_rows, pa.int64())).cast(pa.int64())
    type_ = pc.fill_null(type_, options.type)
    data = columns["data"].cast(pa.binary())
    _check_data(data)
    _check_types(type_)
    _check_groups(groups)
    return pa.RecordBatch.from_arrays([groups, type_, data], schema=STAGED)


def _destinations(columns: dict[str, Any], count: int, options: SinkOptions) -> Any:
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
            f"a row has {longest} bytes of data; a message has at most {MAX_MESSAGE_BYTES}"
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
