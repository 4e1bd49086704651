"""One peer on a real socket, in real time."""

import math
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Final, Self, TypeAlias

import trio

from groupcomm.errors import ConfigError, ForkedSession, LocalProtocolError, SessionEnded
from groupcomm.host.addresses import Address, parse_address
from groupcomm.host.forks import keep_own
from groupcomm.host.trace_file import TraceFile, now_us
from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.virtual_time import SECOND, Loop
from groupcomm_client.arguments import check_names, check_seconds
from groupcomm_client.coordination.limits import check_data
from groupcomm_client.trio_loop import epoll_of_run
from groupcomm_lessons.algorithms.direct.events import (
    Action,
    Delivered,
    Ended,
    MemberJoined,
    MemberLeft,
    NotDelivered,
    Send,
    Started,
)
from groupcomm_lessons.algorithms.direct.peer import Peer, State
from groupcomm_lessons.algorithms.direct.settings import MAX_DATA_BYTES
from groupcomm_lessons.algorithms.process import Message
from groupcomm_lessons.simulated_peers import PeerPath, PeerPaths

READ_BYTES: Final = 65_536
MAX_READS: Final = 64
"""The datagrams that are read before other tasks get their turn."""

MAX_INBOX: Final = 10_000
"""The events that may wait for the program; datagrams that bring more must be sent again."""

MAX_WAITING_PARTS: Final = 256
"""The parts of messages that may wait for one receiver; beyond that a sender waits."""

MOST_HELD_S: Final = 86_400.0
"""The longest time for which datagrams are held."""

Event: TypeAlias = Message | MemberJoined | MemberLeft | NotDelivered
"""An event that a program receives."""


class DirectPeer:
    """One peer; made by `open`. Every call is safe to cancel.

    Attributes:
        name: the name of the peer.
        is_forsaken: whether it belongs to the process that has forked this one.
    """

    def __init__(
        self, peer: Peer, bound: socket.socket, seed: int, trace: TraceFile | None
    ) -> None:
        """Take over a peer that has not begun; `open` makes one."""
        self.name = peer.me
        self._peer = peer
        self._socket = bound
        self._trace = trace
        self._loop = Loop()
        self._loop.now = now_us()
        self._ways = PeerPaths(self._loop, seed, peer.me, self._deliver)
        self._inbox: deque[Event] = deque()
        self._ended: Ended | None = None
        self._changed = trio.Event()
        self._timer = trio.CancelScope()
        self.is_forsaken = False
        keep_own(self)

    def forsake(self) -> object:
        """See `groupcomm.host.forks`."""
        self._socket.close()
        self.is_forsaken = True
        return epoll_of_run()

    def _check_own(self) -> None:
        if self.is_forsaken:
            raise ForkedSession("this peer")

    @property
    def address(self) -> str:
        """Return the address at which it listens, for others to join."""
        return _address_of(self._socket.getsockname())

    @property
    def members(self) -> tuple[str, ...]:
        """Return all present members, itself among them, sorted."""
        return self._peer.members

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the founding members that have not come yet; messages wait for them."""
        return self._peer.missing

    # ---- messages ----

    async def multicast(self, data: bytes, to: Iterable[str] | None = None) -> None:
        """Send a message to all members, itself among them, or to some.

        The first message waits until all members are present; every message waits while too many
        parts are in flight.

        Raises:
            LocalProtocolError: the algorithm cannot send to some of the members; a receiver is not
                a member; or the data are no bytes, or too large.
            SessionEnded: this peer has left or was refused.
        """
        check_data("the message", data, MAX_DATA_BYTES)
        to = None if to is None else check_names(to)
        await self._until(self._may_send)
        with self._turn() as now:
            self._act(self._peer.multicast(data, to, now=now))

    def _may_send(self) -> bool:
        full = self._peer.waiting_parts >= MAX_WAITING_PARTS
        return self._peer.state is State.RUNNING and not full

    async def receive(self) -> Message:
        """Return the next message, skipping other events.

        Raises:
            SessionEnded: this peer has left or was refused, and no message is left.
        """
        while True:
            event = await self.next_event()
            if isinstance(event, Message):
                return event

    async def next_event(self) -> Event:
        """Return the next message, or the next change of the members.

        Raises:
            SessionEnded: this peer has left or was refused, and no event is left.
        """
        await self._until(lambda: bool(self._inbox))
        return self._inbox.popleft()

    def __aiter__(self) -> Self:
        """Iterate over all messages until the end."""
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.receive()
        except SessionEnded:
            raise StopAsyncIteration from None

    async def _until(self, ready: Callable[[], bool]) -> None:
        self._check_own()
        await trio.lowlevel.checkpoint()
        while not ready():
            if self._ended is not None:
                raise SessionEnded(0, self._ended.reason or f"{self.name} has left")
            await self._changed.wait()

    # ---- faults ----

    def set_minimum_delay(self, name: str, seconds: float) -> None:
        """Delay everything that is sent to another member by at least this time; 0 ends the delay.

        Raises:
            ConfigError: there is no such member, or the delay is so long that the member would
                count it as silence.
            LocalProtocolError: it is no number.
        """
        check_seconds("seconds", seconds)
        longest_s = self._peer.timing.longest_delay_s
        if not 0 <= seconds <= longest_s:
            raise ConfigError(
                f"the delay to {name} is {seconds}; it must be 0 to {longest_s:g} s, "
                "half of Timing.silence_s, or it would look like silence"
            )
        with self._turn():
            self._way_to(name).minimum_us = round(seconds * SECOND)

    def set_faults(
        self,
        name: str,
        *,
        loss: float = 0.0,
        duplication: float = 0.0,
        corruption: float = 0.0,
        reorder: int = 0,
    ) -> None:
        """Apply these faults, and no others, to datagrams for another member from now on.

        Args:
            name: the name of the member.
            loss, duplication, corruption: the probability for each datagram, 0 to 1.
            reorder: the number of later datagrams that may overtake one, 0 to 64.

        Raises:
            ConfigError: there is no such member, or a fault is out of its range.
        """
        for what, value, most in (
            ("loss", loss, 1),
            ("duplication", duplication, 1),
            ("corruption", corruption, 1),
            ("reorder", reorder, 64),
        ):
            if not isinstance(value, int | float) or not 0 <= value <= most:
                raise ConfigError(f"{what} is {value}; it must be 0 to {most}")
        faults = Faults(
            loss=loss, duplication=duplication, corruption=corruption, reorder_packets=int(reorder)
        )
        with self._turn():
            self._way_to(name).suffer(faults if faults.on_paths else None)

    def cut(self, name: str) -> None:
        """Let no datagram reach another member until `mend`."""
        with self._turn():
            self._way_to(name).cut()

    def mend(self, name: str) -> None:
        """Let datagrams reach another member again."""
        with self._turn():
            self._way_to(name).mend()

    def hold(self, name: str, seconds: float) -> None:
        """Hold all datagrams for another member for some time, then send them in order.

        Raises:
            ConfigError: there is no such member.
            LocalProtocolError: it is no number of seconds, or one over a day.
        """
        seconds = check_seconds("seconds", seconds)
        if seconds > MOST_HELD_S:
            raise LocalProtocolError(f"seconds is {seconds:g}; at most {MOST_HELD_S:g} are allowed")
        with self._turn():
            self._way_to(name).hold(seconds)

    def _way_to(self, name: str) -> PeerPath:
        known = {*self.members, *self._peer.missing} - {self.name}
        if not isinstance(name, str) or name not in known:
            raise ConfigError(
                f"{name!r} is not another member; the others are {', '.join(sorted(known))}"
            )
        return self._ways.to(name)

    # ---- time and datagrams ----

    async def run(self) -> None:
        """Communicate with the others until cancelled; `open` runs it."""
        with self._turn() as now:
            self._act(self._peer.begin(now))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_time)
            while True:
                await trio.lowlevel.wait_readable(self._socket)
                self._read()

    async def welcomed(self) -> None:
        """Wait until a sponsor has welcomed this latecomer.

        Raises:
            SessionEnded: no sponsor does.
        """
        await self._until(lambda: self._peer.state is State.RUNNING)

    async def leave(self) -> None:
        """Leave, and wait until all others have the messages that were sent to them."""
        with self._turn() as now:
            self._act(self._peer.leave(now))
        while self._ended is None:
            await self._changed.wait()

    @contextmanager
    def _turn(self) -> Iterator[float]:
        """Do the work that is due, pass the time in seconds, and set the timer afterwards."""
        self._check_own()
        self._loop.run(now_us())
        try:
            yield self._loop.now / SECOND
        finally:
            if self._trace is not None:
                self._trace.flush()
            self._set_timer()

    def _act(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Send():
                    self._ways.send(action)
                case Delivered(message):
                    self._inbox.append(message)
                case Ended():
                    self._ended = action
                case Started():
                    pass
                case _:
                    self._inbox.append(action)
        self._changed.set()
        self._changed = trio.Event()

    def _read(self) -> None:
        with self._turn() as now:
            for _ in range(MAX_READS):
                try:
                    datagram, source = self._socket.recvfrom(READ_BYTES)
                except BlockingIOError:
                    return
                except OSError:
                    continue  # an answer to an earlier datagram: that port is closed
                room = len(self._inbox) < MAX_INBOX
                self._act(self._peer.receive(datagram, _address_of(source), now=now, room=room))

    async def _keep_time(self) -> None:
        while True:
            with trio.CancelScope() as self._timer:
                self._set_timer()
                await trio.sleep_forever()
            with self._turn() as now:
                self._act(self._peer.pass_time(now))

    def _set_timer(self) -> None:
        ways, peer = self._loop.deadline, self._peer.deadline
        due_us = min(
            math.inf if ways is None else ways, math.inf if peer is None else peer * SECOND + 1
        )
        self._timer.deadline = trio.current_time() + (due_us - self._loop.now) / SECOND

    def _deliver(self, address: str, datagram: bytes) -> None:
        target = _target_of(address)
        if target is not None:
            try:
                self._socket.sendto(datagram, target)
            except OSError:
                return  # the datagram is lost, as datagrams may be


def _address_of(source: tuple[str, int] | tuple[str, int, int, int]) -> str:
    return str(Address(source[0], source[1]))


@lru_cache(maxsize=1024)
def _target_of(address: str) -> tuple[str, int] | None:
    """Return the address in the system's form; None if another peer's address is invalid."""
    try:
        found = parse_address(address, "address")
    except ConfigError:
        return None
    return found.host, found.port
