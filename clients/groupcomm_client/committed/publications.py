"""The rule behind exactly once: decides which batches of publishers are whole, and new. No I/O.

A publisher may die at any point, and another one may send the batch anew, even while the first
still sends it. The markers at the end are AGREED or SAFE: every receiver accepts the publication
that ends first. As the rows of a batch are fixed before it is published, all its publications are
equal.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

import attrs
import msgspec

from groupcomm.errors import ConfigError
from groupcomm_client.arguments import check_names
from groupcomm_client.committed.markers import Begin, End, decode_marker_untrusted

MAX_OPEN: Final = 4
"""The most open publications of one query; beyond that the first one is given up.

A publisher that was killed leaves one behind, which is removed when a later one has ended.
"""

T = TypeVar("T")


@attrs.frozen
class Row(Generic[T]):
    """One row of a batch.

    Attributes:
        query, batch, index: the id of the row, the same at all receivers and in all publications.
        The index is its place in the whole batch, from 0, rows for other groups included.
        message: the delivered message; in a log, its row.
    """

    query: str
    batch: int
    index: int
    message: T


@attrs.frozen(kw_only=True)
class Missed:
    """A gap: whole batches for a group that have not come here.

    Attributes:
        group: the group that they were sent to.
        behind: the last batch before them, which has come here.
        last: the last one of them.
    """

    group: str
    behind: int
    last: int


@attrs.frozen(kw_only=True)
class Batch(Generic[T]):
    """All rows of a batch for the groups of this receiver; returned once.

    Attributes:
        query: the identity of the query.
        number: the number of the batch, which rises along the query.
        rows: the rows in order.
        missed: the gaps before the batch.
    """

    query: str
    number: int
    rows: tuple[Row[T], ...]
    missed: tuple[Missed, ...] = ()


@attrs.frozen(kw_only=True)
class Incomplete:
    """A batch that has ended without all of its rows here; the rows are not returned.

    The receiver joined in the middle of the batch, or was separated from its publisher. If the
    publisher did not learn that the batch has ended, it sends it anew, and the batch may still come
    as a `Batch`.

    Attributes:
        query, number: the id of the batch.
        got: the number of rows that have come, by group.
        wanted: the number of rows that were sent, by group.
        missed: the gaps before the batch.
    """

    query: str
    number: int
    got: dict[str, int]
    wanted: dict[str, int]
    missed: tuple[Missed, ...] = ()


class Progress(msgspec.Struct):
    """The progress of a query.

    Attributes:
        batch: the last batch that was returned; -1 for none.
        groups: for each group, the last batch whose end has come.
    """

    batch: int = -1
    groups: dict[str, int] = {}


@attrs.define
class _Open(Generic[T]):
    """A publication that has begun."""

    begin: Begin
    number: int  # the marker's number, as its sender counts
    item: T
    rows: list[tuple[int, Sequence[str], T]] = attrs.Factory(list)

    def counts(self, groups: Iterable[str]) -> dict[str, int]:
        """Return the number of rows that have arrived, for each of these groups."""
        found = Counter(group for _, to, _ in self.rows for group in to)
        return {group: found[group] for group in groups}


class Publications(Generic[T]):
    """Assembler of batches: accepts the messages of publishers in the order of delivery."""

    def __init__(self, groups: Iterable[str], state: Any = None) -> None:
        """Begin with a state, or anew.

        Args:
            groups: the groups that the receiver is a member of; a batch is whole if all of its rows
                for these are there.
            state: a value of `state`, to continue after it; None to begin anew.

        Raises:
            ConfigError: the state is invalid.
            LocalProtocolError: these are no groups.
        """
        self._groups = frozenset(check_names(groups))
        self._open: dict[Hashable, _Open[T]] = {}
        try:
            self._queries = msgspec.convert(state or {}, dict[str, Progress])
        except msgspec.ValidationError as error:
            raise ConfigError(
                f"the state of a receiver of batches cannot be read: {error}; pass the "
                "value of its attribute state, or None to begin anew"
            ) from None

    @property
    def state(self) -> dict[str, Any]:
        """Return the progress, for JSON; a receiver that begins with it continues after it."""
        found: dict[str, Any] = msgspec.to_builtins(self._queries)
        return found

    @property
    def open(self) -> list[T]:
        """Return the items that began the publications which may still end, in no order."""
        return [each.item for each in self._open.values()]

    def accept(
        self,
        sender: Hashable,
        number: int,
        groups: Sequence[str],
        type_: int,
        data: bytes,
        item: T,
    ) -> Batch[T] | Incomplete | None:
        """Accept a message of a publisher.

        Args:
            sender: the publisher's session.
            number: the number of the message, as the sender counts.
            groups: all destinations.
            type_, data: the type and the data of the message.
            item: stands for the message in a `Row`.

        Returns:
            The batches to return now, whole or incomplete.
        """
        match decode_marker_untrusted(type_, data):
            case Begin() as begin:
                self._begin(sender, _Open(begin, number, item))
            case End() as end:
                return self._end(self._open.pop(sender, None), end)
            case None:
                if sender in self._open:
                    self._open[sender].rows.append((number, groups, item))
        return None

    def _begin(self, sender: Hashable, opened: _Open[T]) -> None:
        self._open.pop(sender, None)  # the end of its last batch has not come here
        query = opened.begin.query
        if opened.begin.batch <= self._last(query):
            return
        same = [other for other, each in self._open.items() if each.begin.query == query]
        if len(same) == MAX_OPEN:
            del self._open[same[0]]
        self._open[sender] = opened

    def _last(self, query: str) -> int:
        return self._queries[query].batch if query in self._queries else -1

    def _end(self, opened: _Open[T] | None, end: End) -> Batch[T] | Incomplete | None:
        if end.batch <= self._last(end.query):
            return None
        if opened is not None and opened.begin != Begin(end.query, end.batch):
            opened = None
        progress = self._queries.setdefault(end.query, Progress())
        missed = self._missed(progress, end)
        wanted = {group: count for group, count in end.rows.items() if group in self._groups}
        got = dict.fromkeys(wanted, 0) if opened is None else opened.counts(wanted)
        progress.groups |= {
            group: max(end.batch, progress.groups.get(group, end.batch)) for group in wanted
        }
        if opened is None or got != wanted:
            return Incomplete(
                query=end.query, number=end.batch, got=got, wanted=wanted, missed=missed
            )
        progress.batch = end.batch
        self._forget(end)
        rows = tuple(
            Row(end.query, end.batch, number - opened.number - 1, item)
            for number, _, item in opened.rows
        )
        return Batch(query=end.query, number=end.batch, rows=rows, missed=missed)

    def _missed(self, progress: Progress, end: End) -> tuple[Missed, ...]:
        return tuple(
            Missed(group=group, behind=progress.groups[group], last=last)
            for group, last in end.after.items()
            if group in self._groups and progress.groups.get(group, last) < last
        )

    def _forget(self, end: End) -> None:
        """Discard publications of a batch that was returned already."""
        self._open = {
            sender: each
            for sender, each in self._open.items()
            if each.begin.query != end.query or each.begin.batch > end.batch
        }
