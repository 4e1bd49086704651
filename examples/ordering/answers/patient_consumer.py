"""4.4 A consumer that merges the answers of a quorum, and one that does not wait for all."""

from collections.abc import Iterable, Sequence

from examples.ordering.answers.answer import answer
from groupcomm.clocks.vector import Relation
from groupcomm_lessons.algorithms.replicated_queue import Entry, Keeping, Server, produce
from groupcomm_lessons.algorithms.restart_clock import RestartClock


class PatientConsumer:
    """A consumer that asks all with one clock, and returns no message before one of a lower
    clock."""

    def __init__(self) -> None:
        self._seen: RestartClock[str] = RestartClock()

    def consume(self, quorum: Sequence[Server]) -> list[str]:
        """Return all new messages at these servers, each once."""
        new: list[Entry] = []
        for server in quorum:
            entries = server.queues[""].entries
            new += [e for e in entries if e not in new and not self._seen.covers(e.clock)]
        ordered = []
        while new:
            lowest = next(each for each in new if not any(_is_below(one, each) for one in new))
            new.remove(lowest)
            ordered.append(lowest.data)
            self._seen.merge(lowest.clock)
        return ordered


def _is_below(one: Entry, other: Entry) -> bool:
    return one.clock.compare(other.clock) is Relation.BEFORE


@answer("4.4", "A consumer that merges the answers of a quorum, and one that does not wait for all")
def tell() -> Iterable[str]:
    x, y, z = (Server(name, Keeping.COUNTED_RESTARTS) for name in "xyz")
    produce("a", [y, z])
    produce("b", [x, y])
    produce("c", [x, y, z])
    yield f"patient: {' '.join(PatientConsumer().consume([x, y]))}"
    hasty = PatientConsumer()
    yield f"hasty: {' '.join(hasty.consume([x]) + hasty.consume([y]))}"
