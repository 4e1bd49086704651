"""The acts of simulated programs: messages of every level and kind, joins, leaves, side channels.

More than 20 multicasts per simulated second from eight clients, each of them usually in two of
three groups, so that a multicast reaches five or six clients on average. They come in flurries:
several daemons get messages at about the same time, and have to put them in order.
"""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import attrs

from groupcomm.events import Connected, Event, Message
from groupcomm.level import AGREED_LEVELS, LEVELS, ServiceLevel
from groupcomm.names import private_name
from groupcomm.session.client_session import Minority
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.virtual_time import SECOND, Loop

GROUPS = ("chat", "prices", "zürich/日本")
SEND_INTERVAL_US = SECOND // 4
MOST_SENDS = 150
"""The most sends of a run on average; in long runs the time between two of them grows."""

MEAN_FLURRY = 3
FLURRY_US = SECOND // 1000
"""The sends of a flurry and the time between them, on average."""

MOST_ALIKE = 13
"""The most messages of one send."""

READERS = "user2"
READ_GROUP = GROUPS[1]
"""Users whose names begin so join this group without views."""

PAUSING: dict[tuple[str, str], Minority] = {
    **dict.fromkeys([(GROUPS[0], user) for user in ("user0", "user1", "user4", "user6")], "pause"),
    **dict.fromkeys([(GROUPS[2], user) for user in ("user3", "user4")], "leave"),
}
"""What these users want of these groups where there is no quorum; others want all messages."""

CHURN_SENDS = 4
"""The number of sends for each join or leave."""

SERIES_INTERVAL_US = SECOND // 300
RECONNECT_US = SECOND // 4
SIDE_CHANNEL_SHARE = 0.015
STRANGERS = 0.04
"""The share of the acts of programs with groups of a site that may be another site's groups."""

Connect = Callable[[str, int], SimulatedClient]
"""Connects a user to a daemon, by its index."""


@attrs.define(eq=False, repr=False)
class Halls:
    """The groups that each site has for itself, which programs of others join or address rarely.

    Args:
        rng: the random source.
        sites: the site of each daemon, by index.
        own: the groups of which each site has one of its own; the others are of all sites.
    """

    _rng: Random
    _sites: Sequence[int]
    _own: frozenset[str]

    def place(self, daemon: int, groups: tuple[str, ...]) -> tuple[str, ...]:
        """Return the destinations that a program of a daemon means, each once."""
        return tuple(dict.fromkeys(self._place(daemon, group) for group in groups))

    def answer(self, client: SimulatedClient) -> tuple[str, ...]:
        """Return a group of a client, to which another one reacts; or none."""
        if not client.asked or self._rng.random() < 0.5:
            return ()
        return (self._rng.choice(sorted(client.asked)),)

    def _place(self, daemon: int, group: str) -> str:
        if group not in self._own:
            return group
        site = self._sites[daemon]
        if self._rng.random() < STRANGERS:
            site = self._rng.choice(self._sites)
        return f"{group}{site}"


@attrs.define(eq=False, repr=False)
class Workload:
    """Load that keeps the clients of a cluster busy from its start to its stop.

    Args:
        loop: virtual time.
        rng: the random source of the clients' acts.
        connect: opens a session of a client.
        up: returns the daemons that accept connections, by index.
        daemons: the names of the daemons.
        users: the number of programs.
        fragment_bytes: the largest size of a fragment, in bytes; larger messages are split.
        interval_us: the mean time between two sends, in microseconds.
        fresh_names: whether each session of a user has a name of its own; otherwise a daemon that
            does not know yet that the last one is over would refuse the next one.
        readers: whether some join a group without views; all daemons must know that.
        halls: the groups that each site has for itself, if any.
        minority: whether some join groups so that they pause, or leave, without a quorum.

    Attributes:
        clients: for each user the present session, or the last one.
        sent: the number of multicasts so far.
        interval_us: the mean time between two sends, in microseconds.
    """

    _loop: Loop
    _rng: Random
    _open: Connect = attrs.field(alias="connect")
    _up: Callable[[], list[int]]
    _daemons: list[str]
    _users: int
    _fragment_bytes: int
    interval_us: int
    _fresh_names: bool = False
    _readers: bool = True
    _halls: Halls | None = None
    _minority: bool = False
    _running: bool = False
    _period: int = 0  # counts starts, so that the acts of an earlier start end
    _sessions: int = 0
    clients: dict[int, SimulatedClient] = attrs.field(factory=dict)
    sent: int = 0

    def start(self) -> None:
        """Connect all users and keep them busy; also after a stop."""
        loop, period = self._loop, self._period + 1
        self._running, self._period = True, period
        for user in range(self._users):
            loop.at(loop.now + user * 5_000, self.connect, user)
        loop.at(loop.now + self.after(self.interval_us), self._send_next, period)
        loop.at(loop.now + self.after(CHURN_SENDS * self.interval_us), self._churn, period)

    def stop(self) -> None:
        """Stop new acts, and connect no program."""
        self._running = False

    def after(self, mean_us: int) -> int:
        """Return a random time with this mean, as between independent events."""
        return 1 + int(self._rng.expovariate(1.0 / mean_us))

    def connected(self) -> list[SimulatedClient]:
        """Return the clients that can act now."""
        return [client for client in self.clients.values() if client.connected]

    # ---- clients come and go ----

    def connect(self, user: int) -> None:
        """Open a session of a user without one, at any daemon that runs."""
        old = self.clients.get(user)
        if self._running and (old is None or not old.alive):
            up = self._up()
            if not up:
                self._on_end(user)
                return
            self._sessions += 1
            name = f"user{user}.{self._sessions}" if self._fresh_names else f"user{user}"
            client = self._open(name, self._rng.choice(up))
            client.on_event = partial(self._on_event, client)
            client.on_end = partial(self._on_end, user)
            self.clients[user] = client

    def _on_end(self, user: int) -> None:
        self._loop.at(self._loop.now + self.after(RECONNECT_US), self.connect, user)

    def _on_event(self, client: SimulatedClient, event: Event) -> None:
        if not self._running:
            return
        if isinstance(event, Message):
            if self._rng.random() < SIDE_CHANNEL_SHARE:
                self._loop.at(self._loop.now + self.after(50), self._side_channel, client)
        elif isinstance(event, Connected) and not client.closed:  # one read may have both
            for group in self._rng.sample(GROUPS, 2):
                self.join(client, group)

    def join(self, client: SimulatedClient, group: str) -> None:
        """Have a client join a group, with views or without."""
        reads = self._readers and group.startswith(READ_GROUP) and client.user.startswith(READERS)
        wish: Minority = "deliver"
        if self._minority and client.knows_pauses:
            wish = PAUSING.get((group, client.user[:5]), wish)
        client.join(self._place(client, (group,))[0], views=not reads, minority=wish)

    def _place(self, client: SimulatedClient, groups: tuple[str, ...]) -> tuple[str, ...]:
        return groups if self._halls is None else self._halls.place(client.daemon, groups)

    def _churn(self, period: int) -> None:
        """Let a user join or leave a group; joins are as frequent as leaves."""
        if not self._running or period != self._period:
            return
        self._loop.at(
            self._loop.now + self.after(CHURN_SENDS * self.interval_us), self._churn, period
        )
        clients = self.connected()
        if clients:
            client, group = self._rng.choice(clients), self._rng.choice(GROUPS)
            (group,) = self._place(client, (group,))
            if group not in client.asked:
                self.join(client, group)
            elif len(client.asked) > 1 and self._rng.random() < 0.5:
                client.leave(group)

    # ---- messages ----

    def _send_next(self, period: int) -> None:
        if not self._running or period != self._period:
            return
        loop, several = self._loop, self._rng.randint(1, 2 * MEAN_FLURRY - 1)
        loop.at(loop.now + self.after(MEAN_FLURRY * self.interval_us), self._send_next, period)
        for _ in range(several):
            loop.at(loop.now + self.after(FLURRY_US), self._send_one, period)

    def _send_one(self, period: int) -> None:
        if self._running and period == self._period:
            self.send_something()

    def send_something(self) -> None:
        """Have some client send: a message, or a burst of them, or a series of large ones."""
        clients = [client for client in self.connected() if client.writable]
        if clients:
            client, lot = self._rng.choice(clients), self._rng.random()
            if lot < 0.008:
                self._send_large((client, self._rng.randint(1, 4)))
                return
            several = self._rng.randint(5, 20) if lot < 0.018 else 1
            for _ in range(several):
                self._send_alike(client)

    def _send_alike(self, client: SimulatedClient) -> None:
        """Send messages that share a bundle, as a program does that has several to send."""
        level, groups = self._rng.choice(LEVELS), self._destination()
        for left in reversed(range(self._rng.randint(1, MOST_ALIKE))):
            self.send(client, level, self._size(), groups, more=left > 0)

    def _send_large(self, series: tuple[SimulatedClient, int]) -> None:
        """Send one of a series of large messages; their fragments and levels interleave."""
        client, left = series
        if self._running and client.connected and client.writable:
            self.send(client, self._rng.choice(LEVELS), self._large())
            if left > 1:
                later = self._loop.now + self.after(SERIES_INTERVAL_US)
                self._loop.at(later, self._send_large, (client, left - 1))

    def _side_channel(self, told_by: SimulatedClient) -> None:
        """Have a user of another daemon react to a message of a client, as if by telephone."""
        others = [client for client in self.connected() if client.daemon != told_by.daemon]
        if others and self._running:
            groups = () if self._halls is None else self._halls.answer(told_by)
            self.send(self._rng.choice(others), self._rng.choice(AGREED_LEVELS), 20, groups)

    def send(
        self,
        client: SimulatedClient,
        level: ServiceLevel,
        size: int,
        groups: tuple[str, ...] = (),
        *,
        more: bool = False,
    ) -> None:
        """Have a client send one message, to a random destination if none is given."""
        rng = self._rng
        self.sent += 1
        client.multicast(
            self._place(client, groups or self._destination()),
            rng.randbytes(size),
            level=level,
            type=rng.randrange(65536),
            self_discard=rng.random() < 0.05,
            ordered=level in AGREED_LEVELS and rng.random() < 0.1,
            more=more,
        )

    def _destination(self) -> tuple[str, ...]:
        rng, lot = self._rng, self._rng.random()
        if lot < 0.06:  # to one client, which may have ended
            return (self._private_name(),)
        if lot < 0.08:
            return (rng.choice(GROUPS), self._private_name())
        if lot < 0.18:
            return tuple(rng.sample(GROUPS, 2))
        return (rng.choice(GROUPS),)

    def _private_name(self) -> str:
        if self._rng.random() < 0.1:
            return private_name("nobody", self._rng.choice(self._daemons))
        return self._rng.choice(list(self.clients.values())).name

    def _size(self) -> int:
        lot = self._rng.random()
        if lot < 0.005:
            return self._large()
        return self._rng.randint(100, 1000) if lot < 0.3 else self._rng.randint(0, 100)

    def _large(self) -> int:
        """Return about as many bytes as fit this number of fragments, or one more."""
        return self._rng.randint(1, 6) * self._fragment_bytes + self._rng.randint(-60, 60)


LARGEST_BYTES = 100_000
MOST_FOR_STARVING = 5
"""Large messages for a program that does not read: more bytes than may wait for it."""

STARVING_INTERVAL_US = SECOND // 20
MANY_GROUPS = tuple(f"storm{number}" for number in range(12))


class Storm:
    """A storm: one rough act on a workload's clients for every two messages."""

    def __init__(self, loop: Loop, rng: Random, workload: Workload) -> None:
        self._loop = loop
        self._rng = rng
        self._workload = workload
        self._running = True
        self._paused: list[SimulatedClient] = []
        self._acts = (
            SimulatedClient.crash,
            SimulatedClient.disconnect,
            self._join_many,
            self._leave_all,
            self._stop_reading,
            self._starve,
            self._send_large,
            self._send_many,
        )
        loop.at(loop.now + workload.interval_us, self._next)

    def stop(self) -> None:
        """Let all paused programs read again, and do nothing more."""
        self._running = False
        for client in self._paused:
            self._read_on(client)
        self._paused.clear()

    def _next(self, _: None) -> None:
        if not self._running:
            return
        interval_us = self._workload.after(2 * self._workload.interval_us)
        self._loop.at(self._loop.now + interval_us, self._next)
        clients = self._workload.connected()
        if clients:
            self._rng.choice(self._acts)(self._rng.choice(clients))

    def _join_many(self, client: SimulatedClient) -> None:
        for group in MANY_GROUPS:
            if group not in client.asked:
                client.join(group)

    def _leave_all(self, client: SimulatedClient) -> None:
        for group in sorted(client.asked):
            client.leave(group)
        self._workload.join(client, self._rng.choice(GROUPS))

    def _stop_reading(self, client: SimulatedClient) -> None:
        client.set_reading(False)
        self._paused.append(client)
        pause = self._workload.after(SECOND)
        self._loop.at(self._loop.now + pause, partial(self._end_pause, client))

    def _starve(self, client: SimulatedClient) -> None:
        """Pause a program's reading and send it so much that its daemon may cut it off."""
        client.set_reading(False)
        self._paused.append(client)
        self._send_to_starving((client, self._rng.randint(1, MOST_FOR_STARVING)))

    def _send_to_starving(self, series: tuple[SimulatedClient, int]) -> None:
        """Send one of a series of large messages; after the last one the program reads again, or
        leaves."""
        client, left = series
        later = self._loop.now + self._workload.after(STARVING_INTERVAL_US)
        others = [c for c in self._workload.connected() if c is not client and c.writable]
        if left and others and self._running and client.alive:
            sender, level = self._rng.choice(others), self._rng.choice(LEVELS)
            size = self._rng.randint(LARGEST_BYTES // 2, LARGEST_BYTES)
            self._workload.send(sender, level, size, (client.name,))
            self._loop.at(later, self._send_to_starving, (client, left - 1))
            return
        if client.connected and self._rng.random() < 0.5:
            client.disconnect()
        self._loop.at(later, partial(self._end_pause, client))

    def _end_pause(self, client: SimulatedClient, _: None) -> None:
        if client in self._paused:
            self._paused.remove(client)
            self._read_on(client)

    def _read_on(self, client: SimulatedClient) -> None:
        if client.alive:
            client.set_reading(True)

    def _send_large(self, client: SimulatedClient) -> None:
        if client.writable:
            level = self._rng.choice(LEVELS)
            self._workload.send(client, level, self._rng.randint(10_000, LARGEST_BYTES))

    def _send_many(self, client: SimulatedClient) -> None:
        level = self._rng.choice(LEVELS)
        for _ in range(40):
            if client.writable:
                self._workload.send(client, level, self._rng.randint(0, 300))
