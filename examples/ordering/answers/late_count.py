"""4.5 The count of restarts, written after the first event instead of before it."""

from collections.abc import Iterable

from examples.ordering.answers.answer import answer
from groupcomm_lessons.algorithms.replicated_queue import Consumer, Keeping, Server, produce
from groupcomm_lessons.algorithms.restart_clock import NodeClock, RestartCount


class LateCount(Server):
    """A server that saves the write of a start without events, at a risk."""

    def _start(self) -> NodeClock:
        return NodeClock(self._on_disk[-1].restarts + 1)

    def count(self, queue: str) -> RestartCount:
        """See `Server.count`."""
        count = super().count(queue)
        if count.events == 1:
            self._write(RestartCount(count.restarts, 0))
        return count

    def restart(self, *, writes_missing: int = 0) -> None:
        """See `Server.restart`; here the write at the first event may be missing, too."""
        del self._on_disk[max(1, len(self._on_disk) - writes_missing) :]
        super().restart()


def missed(make: type[Server]) -> tuple[list[str], int]:
    """Return the messages that a consumer misses of one in each of two starts; and the writes."""
    node, consumer, got = make("x", Keeping.COUNTED_RESTARTS), Consumer(), list[str]()
    for data in ("first", "second"):
        produce(data, [node])
        got += consumer.consume([node])
        node.restart(writes_missing=1)
    return [data for data in ("first", "second") if data not in got], node.writes


@answer("4.5", "The count of restarts, written behind the first event instead of before it")
def tell() -> Iterable[str]:
    for make in (Server, LateCount):
        lost, writes = missed(make)
        yield f"{make.__name__}: missed {', '.join(lost) or 'nothing'}; {writes} writes"
