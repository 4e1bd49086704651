"""The backlog: the bundles that wait for a number, in the order in which sessions submitted them.

Pure. While other rings lag behind, only local-only bundles are numbered. A session whose next
bundle leaves the ring is *parked* meanwhile, with everything that it submits after it.

Bundles pass through `Subscriptions` first: a daemon tells all others that it wants a group's
messages before it joins that group. A join of a group without subscription waits, and so do the
later bundles of its session. docs/pruning.md has the states, the events and the reasons. In a view
of one ring nothing waits.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator

from groupcomm.wire.bundle import Bundle, BundleKind, subscription_bundle


def never_local_only(_bundle: Bundle) -> bool:
    """Return False: in a view of one ring no bundle is local-only."""
    return False


class Backlog:
    """The bundles of one daemon that wait for numbers.

    Attributes:
        is_local_only: whether a bundle stays in this ring.
        size: the number of waiting bundles. Each step needs it several times, so it is kept.
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
        """Add the next bundle of a session."""
        self._waiting.append(bundle)
        self.size += 1

    def extend(self, bundles: Iterable[Bundle]) -> None:
        """Add several bundles."""
        self._waiting.extend(bundles)
        self.size = len(self._waiting) + len(self._parked)

    def put_back(self, bundles: Iterable[Bundle]) -> None:
        """Put bundles whose numbers do not count any more in front."""
        self._waiting = deque([*bundles, *self.clear()])
        self.size = len(self._waiting)

    def clear(self) -> list[Bundle]:
        """Remove and return all bundles, those of each session in its order."""
        taken = list(self)
        self._parked.clear()
        self._parked_sessions.clear()
        self._waiting.clear()
        self.size = 0
        return taken

    def wants(self, *, far: bool) -> bool:
        """Return whether a bundle may be numbered; one that leaves the ring only if `far`."""
        return bool(self._waiting) or (far and bool(self._parked))

    def head(self, *, far: bool) -> Bundle | None:
        """Return the next bundle, without `far` a local-only one; `pop` removes it."""
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
        """Remove the bundle that `head` has returned."""
        self.size -= 1
        if far and self._parked:
            self._parked.popleft()
            if not self._parked:
                self._parked_sessions.clear()
        else:
            self._waiting.popleft()


class Submitter:
    """The way in which a part of the core acts later: in the agreed order, or in the next step.

    Attributes:
        is_woken: whether the next step is to come at once, and to process the backlog.
    """

    __slots__ = ("_backlog", "is_woken")

    def __init__(self, backlog: Backlog) -> None:
        self._backlog = backlog
        self.is_woken = False

    def submit(self, bundle: Bundle) -> None:
        """Have a bundle of this daemon itself numbered."""
        self._backlog.append(bundle)
        self.is_woken = True

    def wake(self) -> None:
        """Have the next step come at once and process the backlog."""
        self.is_woken = True


_JOIN = BundleKind.JOIN


class Subscriptions:
    """The subscriptions of one daemon, and the bundles that wait until all others know them.

    Attributes:
        waiting: the number of bundles that wait here.
    """

    __slots__ = (
        "_asked",
        "_backlog",
        "_held",
        "_joins",
        "_readers",
        "_several",
        "_subscribed",
        "waiting",
    )

    def __init__(self, backlog: Backlog) -> None:
        """Begin without a view: all bundles go into the backlog, and `begin` checks them again."""
        self._backlog = backlog
        self._several = False  # whether the view has several rings
        self._readers = True  # whether all its daemons know readers
        self._subscribed: set[str] = set()
        self._asked: set[str] = set()
        self._joins: Counter[str] = Counter()  # own joins that are not ordered yet, by group
        self._held: dict[int, deque[Bundle]] = {}  # by session; the first is a join
        self.waiting = 0

    def begin(self, groups: Iterable[str], *, several: bool, readers: bool = True) -> None:
        """Begin a view for which this daemon has announced members or readers of `groups`.

        Args:
            groups: their names.
            several: whether it has several rings.
            readers: whether all its daemons know readers; if not, joins without views are as
                others.
        """
        self._several, self._readers = several, readers
        self._subscribed = set(groups)
        self._asked.clear()
        self._joins.clear()
        held, self._held, self.waiting = self._held, {}, 0
        waiting = [bundle for bundle in self._backlog.clear() if bundle.kind < BundleKind.SUBSCRIBE]
        for bundle in waiting:
            self.admit(bundle)
        for queue in held.values():
            for bundle in queue:
                self.admit(bundle)

    # ---- bundles of sessions ----

    def admit(self, bundle: Bundle) -> None:
        """Accept the next bundle of a session."""
        if bundle.kind == _JOIN:
            if bundle.flags and not self._readers:
                bundle.drop_flags()
            if self._several:
                self._want(bundle.groups[0])
        queue = self._held.get(bundle.session)
        if queue is not None:
            queue.append(bundle)
            self.waiting += 1
        elif self._several and self._must_wait(bundle):
            self._held[bundle.session] = deque([bundle])
            self.waiting += 1
        else:
            self._backlog.append(bundle)

    def _must_wait(self, bundle: Bundle) -> bool:
        return bundle.kind == _JOIN and bundle.groups[0] not in self._subscribed

    def _want(self, group: str) -> None:
        self._joins[group] += 1
        if group not in self._subscribed and group not in self._asked:
            self._asked.add(group)
            self._backlog.append(subscription_bundle(BundleKind.SUBSCRIBE, group))

    # ---- events of the order ----

    def on_known(self, group: str) -> None:
        """Note that every daemon of the view holds the SUBSCRIBE to a group."""
        self._asked.discard(group)
        self._subscribed.add(group)
        for session in [s for s, queue in self._held.items() if group in queue[0].groups]:
            self._admit_waiting(session, self._held[session])

    def _admit_waiting(self, session: int, queue: deque[Bundle]) -> None:
        while queue and not self._must_wait(queue[0]):
            self._backlog.append(queue.popleft())
            self.waiting -= 1
        if not queue:
            del self._held[session]

    def on_joined(self, group: str) -> None:
        """Note that a join of an own session is ordered."""
        if self._several:
            self._joins[group] -= 1

    def on_unwanted(self, group: str) -> None:
        """Note that no own session is in a group any more."""
        if group in self._subscribed and not self._joins[group] and self._several:
            self._subscribed.discard(group)
            del self._joins[group]
            self._backlog.append(subscription_bundle(BundleKind.UNSUBSCRIBE, group))
