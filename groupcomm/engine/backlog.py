"""The backlog: bundles that want a number, in the order in which sessions gave them.

Pure. While other rings lag behind, only what stays in the own ring is numbered. The sessions whose
next bundle does not stay are *parked* meanwhile, with all that they give after it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from groupcomm.wire.bundle import Bundle


def never_local_only(_bundle: Bundle) -> bool:
    """In a view of one ring nothing is withheld from anybody."""
    return False


class Backlog:
    """What waits for numbers at one daemon.

    Attributes:
        is_local_only: whether a bundle stays in the own ring.
        size: how many bundles wait. Each step asks several times, so it is counted along.
    """

    __slots__ = ("_parked", "_parked_sessions", "_waiting", "is_local_only", "size")

    def __init__(self, stays: Callable[[Bundle], bool] = never_local_only) -> None:
        self._waiting: deque[Bundle] = deque()
        self._parked: deque[Bundle] = deque()
        self._parked_sessions: set[int] = set()
        self.size = 0
        self.is_local_only = stays

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Bundle]:
        yield from self._parked
        yield from self._waiting

    def append(self, bundle: Bundle) -> None:
        """Add what a session gives next."""
        self._waiting.append(bundle)
        self.size += 1

    def extend(self, bundles: Iterable[Bundle]) -> None:
        """Add several."""
        self._waiting.extend(bundles)
        self.size = len(self._waiting) + len(self._parked)

    def put_back(self, bundles: Iterable[Bundle]) -> None:
        """Put in front what had a number that does not count any more."""
        self._waiting = deque([*bundles, *self.clear()])
        self.size = len(self._waiting)

    def clear(self) -> list[Bundle]:
        """Take all, in an order that is each session's."""
        taken = list(self)
        self._parked.clear()
        self._parked_sessions.clear()
        self._waiting.clear()
        self.size = 0
        return taken

    def wants(self, *, far: bool) -> bool:
        """Whether anything may be numbered, of what leaves the ring only if `far`."""
        return bool(self._waiting) or (far and bool(self._parked))

    def head(self, *, far: bool) -> Bundle | None:
        """The bundle that is next; it stays, unless `far`. `pop` takes it."""
        if far:
            queue = self._parked or self._waiting
            return queue[0] if queue else None
        waiting, sessions = self._waiting, self._parked_sessions
        while waiting:
            bundle = waiting[0]
            if bundle.session not in sessions and self.is_local_only(bundle):
                return bundle
            sessions.add(bundle.session)
            self._parked.append(waiting.popleft())
        return None

    def pop(self, *, far: bool) -> None:
        """Take what `head` has shown."""
        self.size -= 1
        if far and self._parked:
            self._parked.popleft()
            if not self._parked:
                self._parked_sessions.clear()
        else:
            self._waiting.popleft()
