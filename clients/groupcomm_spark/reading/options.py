"""Options and columns of the format "groupcomm" for reading."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from groupcomm.errors import ConfigError
from groupcomm.level import ServiceLevel
from groupcomm_log.schema import KINDS, SCHEMA

_F = TypeVar("_F", bound=Path | str)

EARLIEST: Final = "earliest"
LATEST: Final = "latest"


LOG: Final = "log"
"""The column with the name of the log; the other columns are those of a log."""

_FIELDS: Final = pa.schema([pa.field(LOG, pa.string()), *SCHEMA])

COLUMNS: Final = tuple(_FIELDS.names)


class Place(NamedTuple):
    """A row, of one epoch or of any.

    Attributes:
        epoch: epoch; None for any.
        row: number of the row.
    """

    epoch: int | None
    row: int


@dataclass(frozen=True)
class ReadOptions:
    """Checked options.

    Attributes:
        logs: the name of each log, by its folder.
        columns: the names of columns, in order.
        groups: the groups: only rows that concern one of them, and rows without a group; empty for
            all rows.
        levels: the levels: only messages of these, and rows that are not messages; empty for all
            rows.
        kinds: only rows of these kinds; empty for all.
        first: first row; None for that of the log.
        stop: place after the last row; None for the end of the log.
        is_checked: sealed files were checked before; only the checksums of their pages are used.
        skip_damage: a row of kind `gap` takes the place of damaged rows; else the query fails.
        rows_per_task: approximate rows of a task; small files are read together, large ones in
            shares.
        rows_per_batch: the most rows of a batch of a stream; None for all present rows.
        start: the start of a stream: EARLIEST, LATEST or a row.
        fail_on_loss: a stream fails if rows that it has not read were removed; else it continues.
    """

    logs: Mapping[Path, str]
    columns: tuple[str, ...]
    groups: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    first: Place | None = None
    stop: Place | None = None
    is_checked: bool = False
    skip_damage: bool = False
    rows_per_task: int = 250_000
    rows_per_batch: int | None = None
    start: str | Place = EARLIEST
    fail_on_loss: bool = True

    @property
    def folder(self) -> Path:
        """Return the folder of the first log; a stream reads one."""
        return next(iter(self.logs))


_OF_STREAMS: Final = ("startingOffset", "maxRowsPerBatch", "failOnDataLoss")

KNOWN: Final = (
    *("path", "groups", "levels", "kinds", "fromRow", "toRow", "columns", "payload", "onDamage"),
    "rowsPerTask",
    *_OF_STREAMS,
)

_OF_TABLES: Final = "owner"
"""An option that Spark passes only for tables of its catalog."""

_PLACE: Final = re.compile(r"(?:(\d{1,18}):)?(\d{1,18})")
_PLACES: Final = "the number of a row, or EPOCH:ROW"


def parse_options(options: Mapping[str, str], *, streams: bool = True) -> ReadOptions:
    """Return the options that Spark passes on, with names in any case.

    Args:
        options: texts by name.
        streams: options of streams are allowed.

    Raises:
        ConfigError: an option is unknown or wrong; the text names it, its value and the allowed
            values.
    """
    given = {name.lower(): text for name, text in options.items()}
    allowed = KNOWN if streams else [name for name in KNOWN if name not in _OF_STREAMS]
    if _OF_TABLES in given:
        raise ConfigError(
            "CREATE TABLE: Spark does not pass the options of a table to formats in Python; use"
            " CREATE TEMPORARY VIEW log USING groupcomm OPTIONS (path 'chat-log')"
        )
    for name in given.keys() - {known.lower() for known in allowed} - {"paths"}:
        raise ConfigError(f"{_spelled(name)}: {_why_not(name)}; options are {', '.join(allowed)}")
    return _Parser(given).parse()


def _spelled(name: str) -> str:
    return next((known for known in KNOWN if known.lower() == name), name)


def _why_not(name: str) -> str:
    return "only readStream has this option" if _spelled(name) in KNOWN else "no such option"


def folders_of(*paths: str | Path) -> list[Path]:
    """Return the folders that paths and patterns (`logs/*`) name, absolute: workers run elsewhere.

    Raises:
        ConfigError: a path is not one of a file system, or nothing has a name like the pattern.
    """
    found: list[Path] = []
    for path in map(str, paths):
        scheme, separator, rest = path.partition("://")
        if separator and scheme != "file":
            raise ConfigError(
                f"path: {path} is not a folder of this host; give one that is mounted, or read the"
                " log as a whole: groupcomm_spark.read, verify and report take logs on stores, too"
            )
        one = Path(rest if separator else path.removeprefix("file:")).absolute()
        is_pattern = has_magic(path) and not one.exists()
        root = Path(one.anchor)
        matching = root.glob(str(one.relative_to(root))) if is_pattern else [one]
        folders = sorted(each for each in matching if each.is_dir() or not is_pattern)
        if not folders:
            raise ConfigError(f"path: no folder has a name like {path}")
        found += folders
    return list(dict.fromkeys(found))


def name_logs(folders: Iterable[_F]) -> dict[_F, str]:
    """Return the name of each log: that of its folder, or the path where names are equal.

    Args:
        folders: paths, or URLs as texts.
    """
    names = {
        folder: folder.rstrip("/").rpartition("/")[2]
        if isinstance(folder, str)
        else folder.resolve().name
        for folder in folders
    }
    counts = Counter(names.values())
    return {folder: name if counts[name] == 1 else str(folder) for folder, name in names.items()}


class _Parser:
    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def parse(self) -> ReadOptions:
        payload = self._one_of("payload", {"true": True, "false": False}, default=True)
        return ReadOptions(
            logs=name_logs(self._folders()),
            columns=self._columns(payload=payload),
            groups=self._several("groups"),
            levels=self._several("levels", [level.name for level in ServiceLevel], str.upper),
            kinds=self._several("kinds", KINDS, str.lower),
            first=self._place("fromRow"),
            stop=self._place("toRow"),
            skip_damage=self._one_of("onDamage", {"fail": False, "skip": True}, default=False),
            rows_per_task=self._count("rowsPerTask") or ReadOptions.rows_per_task,
            rows_per_batch=self._count("maxRowsPerBatch"),
            start=self._start(),
            fail_on_loss=self._one_of("failOnDataLoss", {"true": True, "false": False}, True),
        )

    def _text(self, name: str) -> str | None:
        text = self._given.get(name.lower())
        return None if text is None else text.strip()

    def _folders(self) -> list[Path]:
        texts = json.loads(self._given.get("paths") or "[]") or [self._given.get("path")]
        if not texts[0]:
            raise ConfigError("path: it is missing; it is the folder of a log: load('chat-log')")
        return folders_of(*texts)

    def _columns(self, *, payload: bool) -> tuple[str, ...]:
        named = self._several("columns", COLUMNS)
        if payload:
            return named or COLUMNS
        if "data" in named:
            raise ConfigError(
                "payload: false, and data is among the columns; leave one of them out"
            )
        return named or tuple(name for name in COLUMNS if name != "data")

    def _several(
        self, name: str, allowed: list[str] | tuple[str, ...] = (), fold: Callable[[str], str] = str
    ) -> tuple[str, ...]:
        text = self._text(name)
        if text is None:
            return ()
        found = tuple(dict.fromkeys(fold(part.strip()) for part in text.split(",")))
        for part in found:
            if not part or (allowed and part not in allowed):
                wanted = f"one or more of {', '.join(allowed)}" if allowed else "names"
                raise ConfigError(f"{name}: {part!r} in {text!r}; it must be {wanted}, by commas")
        return found

    def _one_of(self, name: str, meanings: Mapping[str, bool], default: bool) -> bool:
        text = self._text(name)
        if text is None:
            return default
        if text.lower() not in meanings:
            raise ConfigError(f"{name}: {text!r}; it must be {' or '.join(meanings)}")
        return meanings[text.lower()]

    def _count(self, name: str) -> int | None:
        text = self._text(name)
        if text is None:
            return None
        if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) == 0:
            raise ConfigError(f"{name}: {text!r}; it must be a whole number from 1")
        return int(text)

    def _place(self, name: str, or_else: str = "") -> Place | None:
        text = self._text(name)
        if text is None:
            return None
        match = _PLACE.fullmatch(text)
        if match is None:
            raise ConfigError(f"{name}: {text!r}; it must be {or_else}{_PLACES}")
        return Place(None if match[1] is None else int(match[1]), int(match[2]))

    def _start(self) -> str | Place:
        text = self._text("startingOffset") or EARLIEST
        if text.lower() in (EARLIEST, LATEST):
            return text.lower()
        place = self._place("startingOffset", f"{EARLIEST}, {LATEST}, ")
        assert place is not None
        return place


def arrow_schema(names: Iterable[str]) -> pa.Schema:
    """Return the schema of some of COLUMNS, in this order."""
    return pa.schema([_FIELDS.field(name) for name in names])


def spark_schema(names: Iterable[str]) -> StructType:
    """Return the same for Spark."""
    return from_arrow_schema(arrow_schema(names))


def names_of(schema: StructType) -> tuple[str, ...]:
    """Return the columns of a schema, which a user may have passed to `schema()`.

    Raises:
        ConfigError: a log has no such column, or one of another type.
    """
    known = {field.name: field.dataType for field in spark_schema(COLUMNS)}
    for field in schema:
        if field.name not in known:
            raise ConfigError(
                f"schema: a log has no column {field.name!r}; it has {', '.join(known)}"
            )
        if field.dataType != known[field.name]:
            raise ConfigError(
                f"schema: the column {field.name} is {known[field.name].simpleString()}, not"
                f" {field.dataType.simpleString()}; leave the schema out, and cast the rows"
            )
    return tuple(field.name for field in schema)
