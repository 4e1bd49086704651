"""Archives and subscribers in the simulator, while daemons are parted and programs crash.

Observers, one at each daemon, see what daemons deliver. `Reference` computes from that, by itself,
what the line is.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from random import Random
from typing import Any, ClassVar

import attrs

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import (
    Closed,
    Connected,
    DaemonView,
    Event,
    GroupView,
    MemberId,
    Message,
    Transition,
)
from groupcomm.level import ServiceLevel
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster, ignore
from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.faults.partitions import draw_partition
from groupcomm.sim.settings import Settings, plain_settings
from groupcomm.sim.virtual_time import SECOND, microseconds, random_for
from groupcomm.trace.recorders import RecordEvent
from groupcomm_archive.archive import (
    Archive,
    EndChannel,
    Key,
    Listening,
    ReadStore,
    SendPiece,
)
from groupcomm_client.continuity import continues
from groupcomm_client.history.frames import (
    ARCHIVES,
    Channel,
    Interval,
    Piece,
    decode_untrusted,
    encode_piece,
    events_of_untrusted,
)
from groupcomm_client.history.given import CaughtUp, Gap, Start
from groupcomm_client.history.places import Line, Progress, place_of
from groupcomm_client.history.streams import CloseChannel, OpenChannel, PauseChannel, ResumeChannel
from groupcomm_client.history.subscriber import Send, Subscriber
from tests.groupcomm_client.history.pieces import piece_of

GROUPS = ("orders", "trades")
PIECE = 7
REST_S = 20.0
GAP_WAITS_S = (0.0, 3.0)

Seen = tuple[Position, str]
"""What identifies an event of the line: its place, and the group of a view."""


def key_of(event: Line) -> Seen:
    place = place_of(event)
    assert place is not None
    if isinstance(event, GroupView):
        return place, f"view of {event.group}: {' '.join(m.name for m in event.members)}"
    if isinstance(event, DaemonView):
        return place, f"daemons {' '.join(event.daemons)}"
    return place, f"message {event.data.decode(errors='replace')}"


def keys_of(events: Iterable[Any]) -> list[Seen]:
    return [
        key_of(event)
        for event in events
        if isinstance(event, GroupView | DaemonView) or place_of(event) is not None
    ]


def gap_wait_of(me: MemberId) -> float:
    """Return how long a subscriber waits before a gap: some do not, so that both are tried."""
    return GAP_WAITS_S[me.connection % len(GAP_WAITS_S)]


class Store:
    """The store of an archive, which survives its program."""

    def __init__(self) -> None:
        self.events: list[Line] = []
        self.intervals: list[Interval] = []

    def read(self, action: ReadStore) -> Any:
        groups = set(action.groups)
        found: list[Line] = []
        upto = action.upto
        for event in self.events:
            place = place_of(event)
            assert place is not None
            if not action.after < place <= action.upto:
                continue
            if len(found) >= PIECE and place > upto:
                break
            of = event.groups if isinstance(event, Message) else [getattr(event, "group", "")]
            if isinstance(event, DaemonView) or not groups.isdisjoint(of):
                found.append(event)
            upto = place if len(found) >= PIECE else action.upto
        is_end = upto == action.upto and not action.is_last
        piece = piece_of(found, action.key[1], action.index, action.after, upto, is_end=is_end)
        return encode_piece(piece)


class Program:
    """One program at a daemon, for the length of a session."""

    def __init__(self, lines: "Lines", daemon: int) -> None:
        self.lines = lines
        self.daemon = daemon
        self.client: SimulatedClient = lines.connect(daemon)
        self.client.on_event = self._on_event
        self.client.on_end = self._on_end
        self.is_over = False
        self.channel: Channel | None = None  # by which it reads from an archive
        self.pieces: list[bytes] | None = None  # that have come by it
        self.channel_is_paused = False

    @property
    def now(self) -> float:
        return self.lines.cluster.loop.now / SECOND

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Connected):
            self.begin(event.member)
        elif not self.is_over and not isinstance(event, Closed):
            self.handle(event)

    def _on_end(self) -> None:
        self.is_over = True

    def kill(self) -> None:
        if not self.is_over and self.client.alive:
            self.client.crash()

    def begin(self, me: MemberId) -> None:
        raise NotImplementedError

    def handle(self, event: Event) -> None:
        raise NotImplementedError

    def tick(self) -> None:
        """Let time pass."""

    def send(self, actions: Iterable[Any]) -> None:
        for action in actions:
            connected = self.client.connected and not self.client.closed
            if isinstance(action, Send) and connected:
                self.client.multicast([action.to], action.data, level=action.level)
            elif isinstance(action, PauseChannel | ResumeChannel):
                self.channel_is_paused = isinstance(action, PauseChannel)
            elif isinstance(action, OpenChannel | CloseChannel):
                self.channel_is_paused = False
                self.lines.end(self.channel)
                self.channel = action.channel if isinstance(action, OpenChannel) else None
                self.pieces = self.lines.open(self.channel)

    def read_channel(self, subscriber: Subscriber) -> None:
        """Hand over what has come by the channel, or that it is broken."""
        channel, pieces = self.channel, self.pieces
        if channel is None or not self.lines.is_open(channel, pieces):
            if channel is not None:
                self.channel = None
                subscriber.handle_failure(channel.number, self.now)
            return
        while pieces and self.channel is channel and not self.channel_is_paused:
            piece = decode_untrusted(pieces.pop(0))
            assert isinstance(piece, Piece)
            self.lines.by_channel += 1
            subscriber.handle_piece(piece, events_of_untrusted(piece), self.now)


class Deliveries:
    """All that is delivered to one member of the groups, by view of daemons.

    Attributes:
        views: the views of daemons.
        seen: the events of the line, by view.
        regular: the number of events before the transition, by view.
        whole_from: the first view that it has seen from its beginning.
        joined_at: the place from which on it is a member of all groups.
        is_over: whether its session is over.
    """

    def __init__(self, groups: int = len(GROUPS)) -> None:
        self.views: list[DaemonView] = []
        self.seen: dict[ViewId, list[Line]] = defaultdict(list)
        self.regular: dict[ViewId, int] = {}
        self.whole_from: ViewId | None = None
        self.joined_at: Position | None = None
        self.is_over = False
        self._groups = groups
        self._joined = 0

    def add(self, event: object) -> None:
        match event:
            case DaemonView():
                self.views.append(event)
                self.seen[event.id].append(event)
                if self._joined == self._groups and self.whole_from is None:
                    self.whole_from = event.id
            case Transition():
                self.regular[event.view] = len(self.seen[event.view])
            case GroupView():
                self._joined += event.own
                if self._joined == self._groups and self.joined_at is None:
                    self.joined_at = event.id
                self.seen[event.id.view].append(event)
            case Message() if event.position is not None and not event.data.startswith(b"\xffGH"):
                self.seen[event.position.view].append(event)


class Observer(Program):
    """A member of the groups that keeps all that is delivered to it."""

    def __init__(self, lines: "Lines", daemon: int) -> None:
        super().__init__(lines, daemon)
        self.deliveries = Deliveries()

    def begin(self, me: MemberId) -> None:
        for group in GROUPS:
            self.client.join(group)

    def handle(self, event: Event) -> None:
        self.deliveries.add(event)

    def _on_end(self) -> None:
        super()._on_end()
        self.deliveries.is_over = True


class Reader(Program):
    """A subscriber, whose events are added to those of its program before."""

    def __init__(self, lines: "Lines", daemon: int, past: "Past") -> None:
        super().__init__(lines, daemon)
        self.past = past
        self.subscriber: Subscriber | None = None

    def begin(self, me: MemberId) -> None:
        start = self.past.progress.after or self.past.start
        self.subscriber = Subscriber(
            *(me, GROUPS, start),
            now=self.now,
            stable=self.past.stable,
            has_channels=True,
            gap_wait_s=gap_wait_of(me),
        )
        for group in GROUPS:
            self.client.join(group)

    def handle(self, event: Event) -> None:
        assert self.subscriber is not None
        self.subscriber.handle_all([event], self.now)  # type: ignore[list-item]
        self.drain()

    def tick(self) -> None:
        subscriber = self.subscriber
        if subscriber is not None and not self.is_over:
            while subscriber.deadline is not None and subscriber.deadline <= self.now:
                before = subscriber.deadline
                subscriber.wake(self.now)
                if subscriber.deadline == before:
                    break
            self.drain()

    def drain(self) -> None:
        assert self.subscriber is not None
        self.send(self.subscriber.pop_actions())
        self.read_channel(self.subscriber)
        for event in self.subscriber.waiting.pop():
            self.past.take(event)
        self.subscriber.taken(self.now)


class Past:
    """All that one subscription has given, over the programs that were killed."""

    def __init__(self, start: Start | Position, *, stable: bool) -> None:
        self.start = start
        self.stable = stable
        self.progress = Progress(start if isinstance(start, Position) else None)
        self.events: list[Any] = []
        self.gaps = self.catches = 0

    def take(self, given: Any) -> None:
        match given:
            case Message() if given.data.startswith(b"\xffGH"):  # observers send none
                raise AssertionError("a message of the protocol reached the program")
            case CaughtUp(position=position):
                self.progress.complete(position)
                self.catches += 1
            case Gap(upto=upto):
                self.progress.complete(upto)
                self.gaps += given.after is not None
                self.events.append(given)
            case _:
                place = place_of(given)
                if place is not None and self.progress.is_new(given, place):
                    self.progress.give(given, place)
                    self.events.append(given)


class Keeping(Program):
    """An archive."""

    def __init__(self, lines: "Lines", daemon: int, store: Store) -> None:
        super().__init__(lines, daemon)
        self.store = store
        self.subscriber: Subscriber | None = None
        self.archive: Archive | None = None
        self.channels: dict[Key, list[bytes]] = {}

    def begin(self, me: MemberId) -> None:
        intervals = self.store.intervals
        start = intervals[-1][1] if intervals else Start.EARLIEST
        self.subscriber = Subscriber(
            me, GROUPS, start, now=self.now, stable=True, is_archive=True, has_channels=True
        )
        self.archive = Archive(
            me, GROUPS, intervals, Listening(("@sim",), self.lines.rng.randbytes)
        )
        self.channels.clear()
        self.client.join(ARCHIVES)
        for group in GROUPS:
            self.client.join(group)

    def handle(self, event: Event) -> None:
        assert self.subscriber is not None
        assert self.archive is not None
        self.subscriber.handle_all([event], self.now)  # type: ignore[list-item]
        self.archive.handle(event, self.now)
        self.drain()

    def tick(self) -> None:
        subscriber = self.subscriber
        if subscriber is not None and not self.is_over:
            while subscriber.deadline is not None and subscriber.deadline <= self.now:
                before = subscriber.deadline
                subscriber.wake(self.now)
                if subscriber.deadline == before:
                    break
            self.drain()

    def do(self, action: SendPiece | EndChannel) -> None:
        """Send by a channel: partitions of daemons do not part it, but it breaks now and then."""
        assert self.archive is not None
        pieces = self.channels.get(action.key)
        if isinstance(action, EndChannel):
            self.channels.pop(action.key, None)
        elif pieces is not None:
            pieces.append(action.data)
            self.archive.piece_sent(action.key, self.now)

    def read(self, action: ReadStore) -> None:
        """Read a piece; or another process sends several, where there is a channel."""
        assert self.archive is not None
        pieces = self.channels.get(action.key)
        count = self.lines.rng.randrange(4) if pieces is not None else 0
        after, index = action.after, action.index
        while pieces is not None and count and after < action.upto and action.since_us is None:
            of = attrs.evolve(action, after=after, index=index, is_last=True)
            piece = self.store.read(of)
            pieces.append(piece.data)
            after, index, count = piece.upto, index + 1, count - 1
        if index == action.index:
            self.archive.read(action.key, self.store.read(action), self.now)
        else:
            self.lines.sent_from_files += index - action.index
            self.archive.streamed(action.key, index, after, self.now)

    def drain(self) -> None:
        subscriber, archive = self.subscriber, self.archive
        assert subscriber is not None
        assert archive is not None
        for given in subscriber.waiting.pop():
            if isinstance(given, Gap):
                if self.store.intervals and given.after is not None:
                    archive.stored(given.after, self.now)
                archive.begin_interval(given.upto)
            elif isinstance(given, Message | GroupView | DaemonView) and place_of(given):
                self.store.events.append(given)
        if archive.intervals and subscriber.position is not None:
            archive.stored(subscriber.position, self.now)
        archive.is_live = subscriber.state.name == "LIVE"
        self.store.intervals = list(archive.intervals)
        subscriber.taken(self.now)
        self.send(subscriber.pop_actions())
        self.read_channel(subscriber)
        while actions := archive.pop_actions():
            self.send(actions)
            for action in actions:
                if isinstance(action, ReadStore):
                    self.read(action)
                elif isinstance(action, SendPiece | EndChannel):
                    self.do(action)


class Lines:
    """A cluster with observers, archives and subscriptions, and what happens to them."""

    CLUSTER: ClassVar[type[Cluster]] = Cluster

    def __init__(
        self,
        seed: int,
        daemons: int = 3,
        archives: int = 3,
        *,
        loss: float = 0.0,
        settings: Settings | None = None,
        record: RecordEvent = ignore,
    ) -> None:
        self.rng: Random = random_for(seed, "lines")
        settings = settings or plain_settings(daemons=daemons, seed=seed, faults=Faults(loss=loss))
        self.cluster = self.CLUSTER(settings, record, start=False)
        self.cluster.start(form=not settings.faults.cold_s)
        self.stores = [Store() for _ in range(archives)]
        self.observers: list[Observer] = []
        self.keeping: list[Keeping | None] = [None] * archives
        self.pasts: list[Past] = []
        self.readers: list[Reader | None] = []
        self._users = 0
        self._sent = 0
        self._cuts: list[tuple[tuple[int, int], ...]] = []
        self.killed = 0
        self.sent_from_files = 0  # those of them that another process has sent
        self.by_channel = 0  # the pieces that came by channels

    # ---- channels ----

    def open(self, channel: Channel | None) -> list[bytes] | None:
        """Connect to the archive that listens; return where its pieces come, None without any."""
        for keeping in self.keeping:
            archive = None if keeping is None or keeping.is_over else keeping.archive
            if keeping is None or archive is None or channel is None or self.rng.random() < 0.1:
                continue
            if archive.secret_of(channel.id) == channel.key:
                return keeping.channels.setdefault(archive.connected(channel.id, keeping.now), [])
        return None

    def is_open(self, channel: Channel, pieces: list[bytes] | None) -> bool:
        """Return whether a channel is open; it may break just now."""
        if self.rng.random() < 0.02:
            self.end(channel)
        return bool(pieces) or any(
            pieces is each
            for keeping in self.keeping
            if keeping is not None and not keeping.is_over
            for each in keeping.channels.values()
        )

    def end(self, channel: Channel | None) -> None:
        """Break a channel."""
        for keeping in self.keeping:
            archive = None if keeping is None else keeping.archive
            if keeping is None or archive is None or channel is None:
                continue
            for key in [*keeping.channels]:
                stream = archive.streams.get(key)
                of_stream = None if stream is None else stream.channel
                if of_stream is None or of_stream.id == channel.id:
                    del keeping.channels[key]
                    archive.disconnected(key)

    def connect(self, daemon: int) -> SimulatedClient:
        self._users += 1
        return self.cluster.connect(f"p{self._users}", daemon, origins=True)

    def subscribe(self, start: Start | Position, *, stable: bool = True) -> Past:
        past = Past(start, stable=stable)
        self.pasts.append(past)
        self.readers.append(None)
        return past

    # ---- programs ----

    def make_archive(self, place: int, daemon: int) -> Keeping:
        return Keeping(self, daemon, self.stores[place])

    def make_reader(self, place: int, daemon: int) -> Reader:
        return Reader(self, daemon, self.pasts[place])

    def _observe(self) -> None:
        for daemon in self.cluster.up():
            if not any(o.daemon == daemon and not o.is_over for o in self.observers):
                self.observers.append(Observer(self, daemon))

    def _restart(self, share: float) -> None:
        up = self.cluster.up()
        for place, keeping in enumerate(self.keeping):
            daemon = place % len(self.cluster.daemons)
            if (keeping is None or keeping.is_over) and self.rng.random() < share and daemon in up:
                self.keeping[place] = self.make_archive(place, daemon)
        for place, reader in enumerate(self.readers):
            if (reader is None or reader.is_over) and self.rng.random() < share and up:
                self.readers[place] = self.make_reader(place, self.rng.choice(up))

    def tick(self) -> None:
        for program in [*self.keeping, *self.readers]:
            if program is not None:
                program.tick()

    # ---- events ----

    def send(self) -> None:
        observer = self.rng.choice(self.observers) if self.observers else None
        if observer is None or observer.is_over or not observer.client.writable:
            return
        self._sent += 1
        groups = self.rng.choice([["orders"], ["trades"], ["orders", "trades"]])
        level = self.rng.choice([ServiceLevel.AGREED] * 5 + [ServiceLevel.SAFE])
        data = f"{self._sent}".encode()
        for count in range(self.rng.choice([1, 1, 3])):
            observer.client.multicast(groups, b"%b.%d" % (data, count), level=level)

    def trouble(self, kinds: str) -> None:
        what = self.rng.choice(kinds.split())
        match what:
            case "archive":
                self._kill(self.rng.choice(self.keeping))
            case "reader":
                self._kill(self.rng.choice(self.readers))
            case "part" if len(self._cuts) < 2:
                pairs = draw_partition(self.rng, [0] * len(self.cluster.daemons))
                self.cluster.network.cut(pairs)
                self._cuts.append(pairs)
            case "mend":
                self.mend()
            case "daemon":
                host = self.rng.choice(self.cluster.daemons)
                if host.is_up:
                    host.kill()
                    host.boot()
            case _:
                pass

    def _kill(self, program: Program | None) -> None:
        if program is not None:
            self.killed += 1
            program.kill()

    def mend(self) -> None:
        for pairs in self._cuts:
            self.cluster.network.mend(pairs)
        self._cuts = []

    def run(self, seconds: float, troubles_per_s: float, kinds: str, sends: float = 0.3) -> None:
        loop = self.cluster.loop
        until = loop.now + microseconds(seconds)
        while loop.now < until:
            step = self.rng.uniform(0.001, 0.02)
            self.cluster.run(step)
            self._observe()
            self._restart(0.05)
            if self.rng.random() < sends:
                self.send()
            if self.rng.random() < step * troubles_per_s:
                self.trouble(kinds)
            self.tick()

    def rest(self, ready: Callable[[], bool] = lambda: False) -> None:
        """Mend everything, and run until all subscriptions are live and have had some time."""
        self.mend()
        limit = self.cluster.loop.now + microseconds(REST_S)
        quiet = 0
        while quiet < 100:
            assert self.cluster.loop.now < limit, "the subscriptions do not come to rest"
            self.cluster.run(0.01)
            self._observe()
            self._restart(1.0)
            self.tick()
            quiet = quiet + 1 if self.is_live else 0

    @property
    def is_live(self) -> bool:
        programs = [*self.keeping, *self.readers]
        return all(
            p is not None
            and not p.is_over
            and p.subscriber is not None
            and p.subscriber.state.name == "LIVE"
            for p in programs
        )


def _continues(observer: Deliveries, view: ViewId) -> bool:
    """Return whether an observer has gone on from a view with a majority, and knows it."""
    return any(
        before.id == view and continues(before, after) for before, after in pairwise(observer.views)
    )


class Reference:
    """The line, from what the observers have seen: independent of archives and subscribers."""

    def __init__(self, observers: Iterable[Deliveries]) -> None:
        self.observers = list(observers)
        views = {view.id: view for o in self.observers for view in o.views}
        self.views = sorted(v for v, view in views.items() if view.majority is not False)

    def of_view(self, view: ViewId) -> tuple[list[Seen], list[Seen]]:
        """Return the events that a view must have at least, and those it may have.

        If some daemons go on from this view directly to the next one of the line, both are what
        these deliver; of several such parts, that whose daemons know it. Else everything that
        some daemon knew to be held by all must be there. Of a view in which observers have joined,
        there must be what comes behind the first join.
        """
        at = self.views.index(view)
        following = self.views[at + 1] if at + 1 < len(self.views) else None
        everything: set[Seen] = set()
        behind: list[list[Seen]] = []  # what has come behind the joins of observers
        for observer in sorted(self.observers, key=lambda each: not _continues(each, view)):
            if view not in [v.id for v in observer.views]:
                continue
            own = [v.id for v in observer.views]
            keys = keys_of(observer.seen[view])
            everything.update(keys)
            place = own.index(view)
            after = own[place + 1] if place + 1 < len(own) else None
            goes_on = after == following and not (after is None and observer.is_over)
            if observer.whole_from is not None and observer.whole_from <= view:
                if goes_on:
                    return keys, keys
            elif goes_on and observer.joined_at is not None and observer.joined_at.view == view:
                behind.append([key for key in keys if key[0] > observer.joined_at])
        must = max(behind, key=len, default=[])
        return must or self._safe(view), sorted(everything)

    def _safe(self, view: ViewId) -> list[Seen]:
        """Return the events up to the last SAFE message that was delivered in the regular part."""
        found: list[Seen] = []
        for observer in self.observers:
            if observer.whole_from is None or observer.whole_from > view:
                continue
            regular = observer.seen[view][: observer.regular.get(view, len(observer.seen[view]))]
            safe = [
                count + 1
                for count, event in enumerate(regular)
                if isinstance(event, Message) and event.level == ServiceLevel.SAFE
            ]
            if safe and safe[-1] > len(found):
                found = keys_of(regular[: safe[-1]])
        return found

    def check(self, past: Past) -> None:
        """Raise AssertionError unless a subscription has given exactly the line."""
        self.check_keys(past.events, keys_of(past.events), past.progress.after, stable=past.stable)

    def check_keys(
        self, events: list[Any], keys: list[Seen], after: Position | None, *, stable: bool
    ) -> None:
        """Check what a subscription has given.

        Args:
            events: all that it has given; only gaps are looked at.
            keys: the keys of its events, in order.
            after: the place up to which it has given everything.
            stable: whether it has given stable events only.
        """
        places = [key[0] for key in keys]
        assert places == sorted(places), "places fall"
        assert len(keys) == len(set(keys)), "an event came twice"
        given = set(keys)
        gaps = [event for event in events if isinstance(event, Gap)]
        if not keys:
            return
        first = keys[0][0]
        known = {view: self.of_view(view) for view in self.views}
        for view, (must, may) in known.items():
            allowed = {key for key in may if key[0] >= first}
            mine = {key for key in given if key[0].view == view}
            if stable:
                extra = mine - allowed
                assert not extra, f"not on the line: {sorted(extra)[:3]}"
            for key in must:
                hidden = any(
                    (g.after is None or key[0] > g.after) and key[0] <= g.upto for g in gaps
                )
                owed = first <= key[0] <= (after or first)
                assert hidden or not owed or key in mine, f"missing: {key}"
        beyond = {key for key in given if key[0].view not in known}
        assert not beyond, f"of no view of the line: {sorted(beyond)[:3]}"
