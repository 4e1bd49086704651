"""Which batches of publishers are whole, and new: the rule behind exactly once. No I/O.

A publisher may die anywhere and another one send the batch anew, also while the first still does.
The markers at the end are AGREED or SAFE: every receiver takes the publication that ends first. As
a batch is decided before it is published, all publications of it are equal.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

import attrs
import msgspec

from groupcomm.errors import ConfigError
from groupcomm_client.committed.markers import Begin, End, decode_marker_untrusted

MAX_OPEN: Final = 4
"""Publications of one query that have begun and not ended; of more the first is given up.

A publisher that was killed leaves one behind, which goes when a later one has ended.
"""

T = TypeVar("T")


@attrs.frozen
class Row(Generic[T]):
    """One row of a batch.

    Attributes:
        query, batch, index: its id, the same at all receivers and in all publications. The index
            is its place in the whole batch, from 0, rows for other groups counted.
        message: as it was delivered; in a log, a row of it.
    """

    query: str
    batch: int
    index: int
    message: T


@attrs.frozen(kw_only=True)
class Missed:
    """Whole batches for a group have not come here.

    Attributes:
        group: that they were sent to.
        behind: the last one before them; this one was told of here.
        last: the last one of them.
    """

    group: str
    behind: int
    last: int


@attrs.frozen(kw_only=True)
class Batch(Generic[T]):
    """All rows of a batch for the groups of this receiver; it is given once.

    Attributes:
        query: the identity of the query.
        number: of the batch; along a query it rises.
        rows: in their order.
        missed: what did not come before it.
    """

    query: str
    number: int
    rows: tuple[Row[T], ...]
    missed: tuple[Missed, ...] = ()


@attrs.frozen(kw_only=True)
class Incomplete:
    """A batch has ended of which not all rows came here; they are not given.

    The receiver joined in its middle, or was parted from its publisher. Where the publisher did not
    learn that the batch has ended, it sends it anew, and it may still come as a `Batch`.

    Attributes:
        query, number: of the batch.
        got: so many rows have come, of each group.
        wanted: so many were sent to each.
        missed: what did not come before it.
    """

    query: str
    number: int
    got: dict[str, int]
    wanted: dict[str, int]
    missed: tuple[Missed, ...] = ()


class Progress(msgspec.Struct):
    """What is known of a query.

    Attributes:
        batch: the last one that was given; -1 for none.
        groups: of each group the last batch whose end has come.
    """

    batch: int = -1
    groups: dict[str, int] = {}


@attrs.define
class _Open(Generic[T]):
    """A publication that has begun."""

    begin: Begin
    number: int  # of the marker in its sender's count
    item: T
    rows: list[tuple[int, Sequence[str], T]] = attrs.Factory(list)

    def counts(self, groups: Iterable[str]) -> dict[str, int]:
        """Return how many rows have arrived, of each of these groups."""
        found = Counter(group for _, to, _ in self.rows for group in to)
        return {group: found[group] for group in groups}


class Publications(Generic[T]):
    """Takes what publishers send, in the order of delivery."""

    def __init__(self, groups: Iterable[str], state: Any = None) -> None:
        """Begin.

        Args:
            groups: of which the receiver is a member; a batch is whole if all of its rows for
                these are there.
            state: as `state` gave it, to go on behind it; None to begin anew.

        Raises:
            ConfigError: that is no state.
        """
        self._groups = frozenset(groups)
        self._open: dict[Hashable, _Open[T]] = {}
        try:
            self._queries = msgspec.convert(state or {}, dict[str, Progress])
        except msgspec.ValidationError as error:
            raise ConfigError(
                f"the state of a receiver of batches cannot be read: {error}; give what its"
                " attribute state was, or None to begin anew"
            ) from None

    @property
    def state(self) -> dict[str, Any]:
        """What was given, for JSON; a receiver that begins with it goes on behind it."""
        found: dict[str, Any] = msgspec.to_builtins(self._queries)
        return found

    @property
    def open(self) -> list[T]:
        """The items with which publications have begun that may still end, in no order."""
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
        """Take a message of a publisher.

        Args:
            sender: its session.
            number: in the sender's count.
            groups: all destinations.
            type_, data: of the message.
            item: what stands for it in a `Row`.

        Returns:
            What is to be told now.
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
        self._open.pop(sender, None)  # its end has not come here
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
        """Give up what is given already."""
        self._open = {
            sender: each
            for sender, each in self._open.items()
            if each.begin.query != end.query or each.begin.batch > end.batch
        }
