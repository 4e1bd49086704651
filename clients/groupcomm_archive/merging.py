"""Several logs of one archive, read as one: their events in their common order, each once."""

from collections.abc import Callable, Collection, Iterator, Sequence
from heapq import merge

from groupcomm.clocks.stamp import Position
from groupcomm.events import DaemonView
from groupcomm_archive.archive import ReadStore
from groupcomm_archive.pieces import Cursors, PieceReader, Source
from groupcomm_archive.rows import MessageRun, Part, place_of_part
from groupcomm_client.history.frames import EncodedPiece


class MergedLogs:
    """The logs of some groups, as one `Source`."""

    def __init__(
        self, sources: Sequence[tuple[Source, Collection[str]]], cursors: Cursors | None = None
    ) -> None:
        """Begin with the logs and the groups of each; a group is in one of them.

        Args:
            sources: the logs.
            cursors: see `PieceReader`.
        """
        self._sources = tuple(sources)
        self._pieces = PieceReader(self, cursors, len(self._sources))

    def read(self, action: ReadStore) -> EncodedPiece:
        """Return the next piece of a stream; see `PieceReader.read`."""
        return self._pieces.read(action)

    def parts(self, after: Position, groups: Collection[str]) -> Iterator[Part]:
        """Yield the events of groups behind a place, in their common order."""
        wanted = frozenset(groups)
        streams = [source.parts(after, wanted.intersection(of)) for source, of in self._sources]
        return _once(merge(*streams, key=_order))

    def first_since(self, since_us: int, after: Position, upto: Position) -> Position:
        """Return a place just before the first event that was received then or later."""
        return min(source.first_since(since_us, after, upto) for source, _ in self._sources)

    def check_kept(self, after: Position) -> None:
        """Raise LogRemoved if events behind a place were removed."""
        for source, _ in self._sources:
            source.check_kept(after)


def _order(part: Part) -> tuple[Position, bool]:
    """Return what parts are ordered by: a view of daemons precedes others of its place."""
    place = place_of_part(part)
    assert place is not None, "an event of the line has a place"
    return place, not isinstance(part, DaemonView)


def _once(parts: Iterator[Part]) -> Iterator[Part]:
    """Yield parts without what came before: messages to groups of several logs, and views."""
    last: Position | None = None  # the last message
    view: DaemonView | None = None
    for part in parts:
        if isinstance(part, MessageRun):
            if last is None or part.place > last:
                yield part
            elif part.last > last:
                yield part.behind(last)
            else:
                continue
            last = part.last
        elif isinstance(part, DaemonView):
            if view is None or part.id != view.id:
                yield part
            view = part
        else:
            yield part


Reading = Callable[[ReadStore], EncodedPiece]
"""A function that reads the next piece of a stream."""
