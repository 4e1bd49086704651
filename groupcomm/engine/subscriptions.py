"""Subscriptions: a daemon tells all others that it wants a group's messages before it joins it.

Pure. What a program gives goes through here on its way to the backlog. Joins of a group that is not
subscribed to wait, and what their sessions give after them waits with them; states, events and the
reasons are in docs/pruning.md. In a view of one ring nothing waits.
"""

from collections import Counter, deque
from collections.abc import Iterable

from groupcomm.engine.backlog import Backlog
from groupcomm.wire.bundle import Bundle, BundleKind, subscription_bundle

_JOIN = BundleKind.JOIN


class Subscriptions:
    """The groups that this daemon wants, and what waits until all others know.

    Attributes:
        waiting: how many bundles wait here.
    """

    __slots__ = ("_asked", "_backlog", "_held", "_joins", "_several", "_subscribed", "waiting")

    def __init__(self, backlog: Backlog) -> None:
        """Begin without a view: all goes into the backlog, to be looked at by `begin`."""
        self._backlog = backlog
        self._several = False  # rings
        self._subscribed: set[str] = set()
        self._asked: set[str] = set()
        self._joins: Counter[str] = Counter()  # own joins that are not ordered yet, by group
        self._held: dict[int, deque[Bundle]] = {}  # by session; each begins with a join
        self.waiting = 0

    def begin(self, groups: Iterable[str], *, several: bool) -> None:
        """A view begins, for which this daemon has announced members of `groups`."""
        self._several = several
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

    # ---- what programs give ----

    def admit(self, bundle: Bundle) -> None:
        """Take a bundle that a session gives, in its order."""
        if self._several and bundle.kind == _JOIN:
            self._want(bundle.groups[0])
        queue = self._held.get(bundle.session)
        if queue is not None:
            queue.append(bundle)
            self.waiting += 1
        elif self._must_wait(bundle):
            self._held[bundle.session] = deque([bundle])
            self.waiting += 1
        else:
            self._backlog.append(bundle)

    def _must_wait(self, bundle: Bundle) -> bool:
        return self._several and bundle.kind == _JOIN and bundle.groups[0] not in self._subscribed

    def _want(self, group: str) -> None:
        self._joins[group] += 1
        if group not in self._subscribed and group not in self._asked:
            self._asked.add(group)
            self._backlog.append(subscription_bundle(BundleKind.SUBSCRIBE, group))

    # ---- what becomes of it ----

    def on_known(self, group: str) -> None:
        """Every daemon of the view holds the SUBSCRIBE to a group."""
        self._asked.discard(group)
        self._subscribed.add(group)
        for session in [s for s, queue in self._held.items() if group in queue[0].groups]:
            self._release(session, self._held[session])

    def _release(self, session: int, queue: deque[Bundle]) -> None:
        while queue and not self._must_wait(queue[0]):
            self._backlog.append(queue.popleft())
            self.waiting -= 1
        if not queue:
            del self._held[session]

    def on_joined(self, group: str) -> None:
        """A join of an own session is ordered."""
        if self._several:
            self._joins[group] -= 1

    def on_unwanted(self, group: str) -> None:
        """No own session is in a group any more."""
        if group in self._subscribed and not self._joins[group] and self._several:
            self._subscribed.discard(group)
            del self._joins[group]
            self._backlog.append(subscription_bundle(BundleKind.UNSUBSCRIBE, group))
