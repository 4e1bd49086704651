"""The backlog: the bundles that wait for a number, in the order in which sessions submitted them.

Pure. While other rings lag behind, only local-only bundles are numbered. A session whose next
bundle leaves the ring is *parked* meanwhile, with everything that it submits after it.

Bundles pass through `Subscriptions` first: a daemon tells all others that it wants a group's
messages before it joins that group. A join of a group without subscription waits, and so do the
later bundles of its session. docs/pruning.md has the states, the events and the reasons. In a view
of one ring no join waits for that. Where a group pauses, as there is no quorum, its AGREED and SAFE
messages wait in the same way (docs/minority.md).
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, islice
from math import inf
from typing import Final

from groupcomm.config.core import RightLimits
from groupcomm.engine.own_rights import OwnRights
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import (
    SENDS_ONLY,
    WITHOUT_VIEWS,
    Bundle,
    BundleKind,
    subscription_bundle,
)


def never_local_only(_bundle: Bundle) -> bool:
    """Return False: in a view of one ring no bundle is local-only."""
    return False


class Backlog:
    """The bundles of one daemon that wait for numbers.

    Attributes:
        is_local_only: whether a bundle stays in this ring.
        size: the number of waiting bundles. Each step needs it several times, so it is kept.
        withhold: returns whether the next bundle may not be numbered yet; then it has removed all
            bundles of its session.
    """

    __slots__ = (
        "_first",
        "_parked",
        "_parked_sessions",
        "_waiting",
        "is_local_only",
        "size",
        "withhold",
    )

    def __init__(self, stays: Callable[[Bundle], bool] = never_local_only) -> None:
        self._waiting: deque[Bundle] = deque()
        self._parked: deque[Bundle] = deque()
        self._parked_sessions: set[int] = set()
        self._first = 0  # the bundles at the beginning of the parked ones that go first
        self.size = 0
        self.is_local_only = stays
        self.withhold: Callable[[Bundle], bool] | None = None

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Bundle]:
        yield from self._parked
        yield from self._waiting

    def append(self, bundle: Bundle) -> None:
        """Add the next bundle of a session."""
        self._waiting.append(bundle)
        self.size += 1

    def append_first(self, bundle: Bundle) -> None:
        """Add a bundle of this daemon itself that others wait for: sessions' bundles follow it."""
        self._parked.insert(self._first, bundle)
        self._first += 1
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
        self.size = self._first = 0
        return taken

    def wants(self, *, far: bool) -> bool:
        """Return whether a bundle may be numbered; one that leaves the ring only if `far`."""
        return bool(self._waiting) or (far and bool(self._parked))

    def head(self, *, far: bool) -> Bundle | None:
        """Return the next bundle, without `far` a local-only one; `pop` removes it."""
        if far:
            while queue := self._parked or self._waiting:
                if self.withhold is None or not self.withhold(queue[0]):
                    return queue[0]
            return None
        waiting, sessions = self._waiting, self._parked_sessions
        while waiting:
            bundle = waiting[0]
            if bundle.session not in sessions and self.is_local_only(bundle):
                return bundle
            sessions.add(bundle.session)
            self._parked.append(waiting.popleft())
        return None

    def split(self, waits: Callable[[Bundle], bool]) -> dict[int, deque[Bundle]]:
        """Remove and return, by session, its first bundle that has to wait, and all behind it."""
        removed: dict[int, deque[Bundle]] = {}

        def is_kept(bundle: Bundle) -> bool:
            if bundle.session not in removed and not waits(bundle):
                return True
            removed.setdefault(bundle.session, deque()).append(bundle)
            return False

        self._parked = deque(filter(is_kept, self._parked))
        self._waiting = deque(filter(is_kept, self._waiting))
        self.size = len(self._parked) + len(self._waiting)
        if not self._parked:
            self._parked_sessions.clear()
        return removed

    def pop(self, *, far: bool) -> None:
        """Remove the bundle that `head` has returned."""
        self.size -= 1
        if far and self._parked:
            self._parked.popleft()
            self._first = max(0, self._first - 1)
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
_FRAGMENT = BundleKind.FRAGMENT
_AGREED = ServiceLevel.AGREED
_NONE: Final = RightLimits()


def _needs_right(bundle: Bundle) -> bool:
    """Return whether a bundle has messages for whose groups in other rings a right is needed."""
    return bundle.level >= _AGREED and bundle.kind <= _FRAGMENT


MOST_LEFT_BYTES: Final = 16 * 1024 * 1024
"""The most bytes that sessions whose clients are gone may leave waiting; more of them is lost."""


AHEAD: Final = 64
"""The bundles of a session whose rights are asked for as the first of them begins to wait."""


class Subscriptions:
    """The subscriptions of one daemon, and the bundles that wait until all others know them.

    Attributes:
        waiting: the number of bundles that wait here.
        lost: the number of messages of sessions whose clients are gone that were dropped.
    """

    __slots__ = (
        "_asked",
        "_backlog",
        "_held",
        "_joins",
        "_leaves",
        "_left",
        "_left_bytes",
        "_limits",
        "_pauses",
        "_readers",
        "_review_at",
        "_rights",
        "_subscribed",
        "lost",
        "waiting",
    )

    def __init__(self, backlog: Backlog) -> None:
        """Begin without a view: all bundles go into the backlog, and `begin` checks them again."""
        self._backlog = backlog
        self._leaves: Callable[[str], bool] | None = None
        self._limits = _NONE
        self._readers = True  # whether all its daemons know readers
        self._pauses: Callable[[Bundle], bool] | None = None
        self._subscribed: set[str] = set()
        self._asked: set[str] = set()
        self._rights = OwnRights(_NONE)
        self._review_at = inf
        self._joins: Counter[str] = Counter()  # own joins that are not ordered yet, by group
        self._held: dict[int, deque[Bundle]] = {}  # by session; the first may not be numbered yet
        self._left: dict[int, int] = {}  # the bytes of those whose clients are gone
        self._left_bytes = 0
        self.waiting = self.lost = 0

    def begin(
        self,
        groups: Iterable[str],
        *,
        leaves: Callable[[str], bool] | None,
        readers: bool = True,
        rights: RightLimits | None = None,
        ended: Collection[int] = (),
        pauses: Callable[[Bundle], bool] | None = None,
    ) -> None:
        """Begin a view for which this daemon has announced members or readers of `groups`.

        Args:
            groups: their names.
            leaves: returns whether a name has recipients in other rings; None with one ring.
            readers: whether all its daemons know readers; if not, joins without views are as
                others.
            rights: the limits of rights to send; None if messages that leave the ring need none.
            ended: the sessions whose bundles are dropped, except those by which they end.
            pauses: whether a bundle has to wait for a quorum; None: none has to.
        """
        self._leaves, self._readers, self._pauses = leaves, readers, pauses
        needs_rights = rights is not None and leaves is not None
        self._backlog.withhold = self._withhold if needs_rights else None
        self._limits = rights or _NONE
        self._subscribed = set(groups)
        self._rights = OwnRights(self._limits)
        self._asked.clear()
        self._joins.clear()
        held, self._held, self.waiting = self._held, {}, 0
        waiting = [b for b in self._backlog.clear() if b.kind < BundleKind.SUBSCRIBE or b.message]
        for bundle in chain(waiting, *held.values()):
            if bundle.session not in ended or not bundle.message:
                self.admit(bundle)
        for session in self._left.keys() - self._held.keys():
            self._left_bytes -= self._left.pop(session)

    # ---- bundles of sessions ----

    def admit(self, bundle: Bundle) -> None:
        """Accept the next bundle of a session."""
        several = self._leaves is not None
        if bundle.kind == _JOIN:
            if bundle.flags & WITHOUT_VIEWS and not self._readers:
                bundle.ask_for_views()
            if several:
                self._want(bundle.groups[0])
        queue = self._held.get(bundle.session)
        if queue is not None:
            queue.append(bundle)
            self.waiting += 1
            self._ask_ahead(bundle)
        elif (several or self._pauses) and self._must_wait(bundle):
            self._hold(bundle.session, deque([bundle]))
        else:
            self._backlog.append(bundle)

    def _want(self, group: str) -> None:
        self._joins[group] += 1
        if group not in self._subscribed and group not in self._asked:
            self._asked.add(group)
            self._backlog.append_first(subscription_bundle(BundleKind.SUBSCRIBE, group))

    # ---- rights to send ----

    def _withhold(self, bundle: Bundle) -> bool:
        """Return whether a bundle lacks a right as its number is due; then its session waits."""
        if not _needs_right(bundle):
            return False
        if not self._lacks(bundle):
            self._rights.use(bundle.groups)
            return False
        for session, queue in self._backlog.split(self._waits_for_right).items():
            if (later := self._held.pop(session, None)) is not None:
                self._rights.go_on(session, later[0].groups)
                self.waiting -= len(later)
                queue.extend(later)
            self._hold(session, queue)
            self._ask_to_send(self._lacks(queue[0]))
            self._look_ahead(queue)
        return True

    def _waits_for_right(self, bundle: Bundle) -> bool:
        return _needs_right(bundle) and bool(self._lacks(bundle))

    def _hold(self, session: int, queue: deque[Bundle]) -> None:
        """Hold the next bundles of a session, the first of which may not be numbered yet."""
        self._held[session] = queue
        self.waiting += len(queue)
        self._rights.wait(session, queue[0].groups)

    def _lacks(self, bundle: Bundle) -> list[str]:
        """Return the names of a message that leave the ring, and to which there is no right."""
        assert self._leaves is not None
        lacks: list[str] = []
        for name in filter(self._leaves, bundle.groups):
            if not self._rights.wish(name) and name not in self._subscribed:
                lacks.append(name)
        return lacks

    def _ask_to_send(self, names: Iterable[str], *, ahead: bool = False) -> None:
        """Ask for rights; with `ahead` only for as many as are kept, as nothing waits for them."""
        rights = self._rights
        for name in names:
            if name in self._asked or name in rights.asked:
                continue
            if rights.is_full:
                oldest = rights.oldest_idle()
                if oldest is not None:
                    self._give_back(oldest)
                elif ahead:
                    continue
            rights.asked.add(name)
            self._backlog.append_first(subscription_bundle(BundleKind.SUBSCRIBE, name, SENDS_ONLY))

    def _look_ahead(self, queue: deque[Bundle]) -> None:
        for bundle in islice(queue, AHEAD):
            self._ask_ahead(bundle)

    def _ask_ahead(self, bundle: Bundle) -> None:
        """Ask for the rights that a message behind others lacks: a right costs a round trip, and a
        program may have an answer for each of many."""
        if self._leaves is None or self._backlog.withhold is None or not _needs_right(bundle):
            return
        for name in bundle.groups:
            lacks = not (self._rights.wish(name) or name in self._subscribed)
            if lacks and name not in self._rights.asked and self._leaves(name):
                self._ask_to_send((name,), ahead=True)

    def _give_back(self, name: str) -> None:
        self._rights.drop(name)
        if name not in self._subscribed and name not in self._asked:
            self._backlog.append_first(subscription_bundle(BundleKind.UNSUBSCRIBE, name))

    @property
    def rights(self) -> int:
        """Return the number of rights only to send that this daemon has or has asked for."""
        return len(self._rights)

    def review(self, now: float) -> float:
        """Give back the rights only to send that nobody uses; return when to look again."""
        if not self._rights.held:
            self._review_at = inf
        elif self._review_at == inf:
            self._review_at = now + self._limits.idle_s
        elif now >= self._review_at:
            self._review_at = now + self._limits.idle_s
            for name in self._rights.pop_unused():
                self._give_back(name)
        return self._review_at

    # ---- events of the order ----

    def on_known(self, bundle: Bundle) -> None:
        """Note that every daemon of the view holds an own SUBSCRIBE."""
        name = bundle.groups[0]
        if bundle.flags & SENDS_ONLY:
            self._rights.grant(name)
        else:
            self._asked.discard(name)
            self._subscribed.add(name)
        for session in self._rights.waiting_for(name):
            self._admit_waiting(session, self._held[session])

    def on_pause_over(self) -> None:
        """Note that a group does not pause any more in this view."""
        for session, queue in list(self._held.items()):
            self._admit_waiting(session, queue)

    def _admit_waiting(self, session: int, queue: deque[Bundle]) -> None:
        first = queue[0]
        while queue and not self._must_wait(queue[0]):
            self._backlog.append(queue.popleft())
            self.waiting -= 1
        if queue and queue[0] is first:
            return
        self._rights.go_on(session, first.groups)
        if queue:
            self._rights.wait(session, queue[0].groups)
            self._look_ahead(queue)
        else:
            del self._held[session]
            self._left_bytes -= self._left.pop(session, 0)

    def note_gone(self, session: int) -> None:
        """Note that the client of a session is gone, whose DISCONNECT waits behind all else.

        If such sessions have left too much already, only the DISCONNECT is kept, and goes on.
        """
        queue = self._held.get(session)
        if queue is None or session in self._left:
            return
        size = sum(bundle.size for bundle in queue)
        if self._left_bytes + size <= MOST_LEFT_BYTES:
            self._left[session] = size
            self._left_bytes += size
            return
        self._rights.go_on(session, queue[0].groups)
        self.waiting -= len(queue)
        self.lost += sum(
            bundle.count if bundle.kind != _FRAGMENT else bundle.index == bundle.count - 1
            for bundle in queue
            if bundle.kind <= _FRAGMENT
        )
        self._backlog.append(queue[-1])
        del self._held[session]

    def _must_wait(self, bundle: Bundle) -> bool:
        """Return whether a bundle waits for a quorum, or for a right, which a new one asks for."""
        if self._pauses is not None and self._pauses(bundle):
            return True
        if bundle.kind == _JOIN:
            return self._leaves is not None and bundle.groups[0] not in self._subscribed
        if self._backlog.withhold is None or not _needs_right(bundle):
            return False
        lacks = self._lacks(bundle)
        self._ask_to_send(lacks)
        return bool(lacks)

    def on_joined(self, group: str) -> None:
        """Note that a join of an own session is ordered."""
        if self._leaves is not None:
            self._joins[group] -= 1

    def on_unwanted(self, group: str) -> None:
        """Note that no own session is in a group any more."""
        if group in self._subscribed and not self._joins[group] and self._leaves is not None:
            self._subscribed.discard(group)
            self._rights.drop(group)
            del self._joins[group]
            self._backlog.append_first(subscription_bundle(BundleKind.UNSUBSCRIBE, group))
