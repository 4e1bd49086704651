"""Batches from a recorded log; needs ``groupcomm[log]``."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from groupcomm.errors import ConfigError
from groupcomm_client.committed.markers import is_publisher
from groupcomm_client.committed.publications import Batch, Incomplete, Publications
from groupcomm_log.reader import BEGIN, LogReader
from groupcomm_log.schema import MESSAGE, OFFSET, SCHEMA, Offset

_NEEDED: Final = (*OFFSET, "kind", "sender", "number", "groups", "type", "data")

LogRow = dict[str, Any]
"""A row of the log by column."""


class CommittedLog:
    """Reader of the batches of a log, each once, also while the log is being written.

    ::

        log = CommittedLog(LogReader(Path("alarm-log")), ["alarms"])
        for batch in log.read():
            ...

    Args:
        reader: the reader of the log.
        groups: the groups to read, which the log records. A batch is whole if all its rows for
            these groups are there.
        state: the value of `state` to continue from; None to begin with the log.
        columns: the columns that returned rows have at least; None for all.

    Raises:
        ConfigError: the state is invalid.
    """

    def __init__(
        self,
        reader: LogReader,
        groups: Iterable[str],
        state: Any = None,
        columns: Iterable[str] | None = None,
    ) -> None:
        self._reader = reader
        self._columns = list(
            dict.fromkeys([*_NEEDED, *(SCHEMA.names if columns is None else columns)])
        )
        try:
            queries, offset = (
                (None, BEGIN) if state is None else (state["queries"], state["offset"])
            )
            self._next = Offset(*map(int, offset))
        except (KeyError, TypeError, ValueError):
            raise ConfigError(
                "the state of a reader of batches has no queries and offset; pass the "
                "value of its attribute state, or None to begin with the log"
            ) from None
        self._publications: Publications[LogRow] = Publications(groups, queries)

    @property
    def state(self) -> dict[str, Any]:
        """Return the progress, for JSON: which batches were returned, and where to continue."""
        begun = [Offset(row["epoch"], row["row"]) for row in self._publications.open]
        return {"queries": self._publications.state, "offset": [*min([self._next, *begun])]}

    def read(self) -> Iterator[Batch[LogRow] | Incomplete]:
        """Yield the new batches that are there now; may be called again later.

        Raises:
            LogError, OSError: see `LogReader.batches`.
        """
        for rows in self._reader.batches(self._next, columns=self._columns):
            for row in rows.to_pylist():
                self._next = Offset(row["epoch"], row["row"] + 1)
                if row["kind"] != MESSAGE or not is_publisher(row["sender"]):
                    continue
                given = self._publications.accept(
                    row["sender"], row["number"], row["groups"], row["type"], row["data"], row
                )
                if given is not None:
                    yield given
