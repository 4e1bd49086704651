"""Clients' connections: move bytes between their sockets and the core's sessions.

One task reads from all of them. Each has a task that begins and ends it, and a second one while its
socket accepts no more output. Whatever a client does, it ends its own connection at most.
"""

import enum
import errno
import logging
import select
import socket
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from itertools import chain, islice, zip_longest
from math import inf
from time import monotonic
from typing import Final

import trio

from groupcomm.engine import (
    ClientBytes,
    ClientCharged,
    ClientGone,
    ClientOpened,
    DaemonCore,
    Input,
    Output,
)
from groupcomm.errors import Code
from groupcomm.host.tcp import is_unanswered, set_up_tcp
from groupcomm.host.tls import PeerCertificate
from groupcomm.security.quotas import Quotas
from groupcomm.session.daemon_frames import encode_closed
from groupcomm.session.daemon_session import SessionLimits
from groupcomm.session.frames import ALIVE_BYTES
from groupcomm.session.requests import Price
from groupcomm.wire.packet import parts_behind
from groupcommd.host.bounded_log import BoundedLog
from groupcommd.host.process import MAX_CONNECTIONS
from groupcommd.programs.connection import AuthenticatedPeer, Connection, ConnectionState
from groupcommd.programs.listeners import Listener, Refusals
from groupcommd.programs.local_users import origin_of
from groupcommd.programs.peer_names import PeerRefused
from groupcommd.programs.spread_socket import MAX_PARTS, SpreadBroken, SpreadSocket

HELLO_S: Final = 5.0
"""A client that has not sent its HELLO in this time is disconnected."""

LINGER_S: Final = 5.0
"""After the end of its session a client has this time to read its output."""

READ_BYTES: Final = 65_536
TURN_BYTES: Final = 4 * READ_BYTES
"""Read from one connection in one turn; the rest makes the socket readable again at once."""

AHEAD_BYTES: Final = 4 * 1024 * 1024
"""Read from all connections of a principal and not processed by the core yet."""

LEAST_BYTES: Final = 4096
"""Read from one connection in one turn, however many connections its principal has."""

READS_A_ROUND: Final = 32
"""Reads of what comes in one round of the event loop, and as many of what came before: some 1 ms.
The others are left to the next rounds.
"""

READS_AN_END: Final = 4
"""The reads that take the time in which the task of a connection ends."""

WRITE_BYTES: Final = 256 * 1024

WRITES_A_TURN: Final = 128
"""Connections that one turn writes to, some 0.8 ms; the others have theirs in the next rounds."""

WRITE_S: Final = 0.002
"""The time after which a turn writes to no further connection: some get much, as Spread's do."""

LATE_WRITES: Final = 16
"""Writes between two turns, once sockets accept more; other sockets are left to the turns."""

LOOKS_A_ROUND: Final = 500
"""Connections that are looked at in one round of the event loop."""

ACCEPT_PAUSE_S: Final = 0.1

MAX_TURNED_AWAY: Final = 16
"""Programs that at one time get the answer that there is no room for them."""


class Left(enum.Enum):
    """What a read has left in a stream."""

    NOTHING = enum.auto()
    MORE = enum.auto()
    END = enum.auto()


_NO_ROOM: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_log = logging.getLogger("groupcommd")  # lines that programs cause go through `Connections.log`


class Connections:
    """All connections of one daemon.

    One task reads from all of them, as many as a round of the event loop may, in the order in which
    their bytes have come: programs may rely on it, as on the order of two joins. What it reads in a
    round causes one turn. Trio would resume a task for each readable socket, all of them in one
    round, in any order.

    Args:
        core: the core with the sessions.
        nursery: runs one task for each connection.
        turn: has the core process `inputs`; never raises.
        quotas: the limits of each principal.
        session_timeout_s: the time for which a host may not answer; 0 for any time.
        most: the number of connections that may be open at one time.
        log: writes the lines that programs cause.

    Attributes:
        inputs: the acts of clients and all other events, for the core's next step.
        log: see above.
        refusals: counters of the programs whose session did not begin.
        quotas: the number of connections of each principal.
        session_timeout_s: see above; may be replaced.
        vanished: the number of connections that were ended as their hosts answered nothing.
    """

    def __init__(
        self,
        core: DaemonCore,
        nursery: trio.Nursery,
        turn: Callable[[], None],
        quotas: Quotas | None = None,
        *,
        session_timeout_s: float = SessionLimits().session_timeout_s,
        most: int = MAX_CONNECTIONS,
        log: BoundedLog | None = None,
    ) -> None:
        self._core = core
        self._nursery = nursery
        self._turn = turn
        self._open: dict[int, Connection] = {}  # the connections that the core knows
        self.inputs: list[Input] = []
        self.log = log or BoundedLog()
        self.refusals = Refusals(self.log)
        self.session_timeout_s = session_timeout_s
        self.vanished = 0
        self.quotas = ConnectionQuotas(quotas or Quotas(), most)
        self._accepted = 0  # open connections, those without a HELLO included
        self._turned_away = 0  # connections among these that only get the reason of their refusal
        self._poll = select.epoll()  # tells of sockets in the order in which bytes have come
        self._by_descriptor: dict[int, Connection] = {}
        self._arrivals: list[tuple[int, Connection]] = []  # a heap of those to be read, by arrival
        self._arrived = 0  # arrivals until now
        self._unfed = trio.Event()  # set when something waits for the next round
        self._unwritten: dict[int, None] = {}  # connections with output, those that wait longest
        self._written_late = 0  # writes since the last turn, once sockets accepted more
        nursery.start_soon(self._feed_rest)
        nursery.start_soon(self._read_all)

    def __len__(self) -> int:
        return len(self._open)

    @property
    def numbers(self) -> list[int]:
        """Return the numbers of all connections."""
        return list(self._open)

    def certificate_of(self, number: int) -> PeerCertificate | None:
        """Return the certificate that a client has shown; None without one, or if it has gone."""
        connection = self._open.get(number)
        return None if connection is None else connection.certificate

    def certificates(self) -> dict[int, PeerCertificate]:
        """Return the certificates that clients have shown, by number of the connection."""
        return {
            n: each.certificate for n, each in self._open.items() if each.certificate is not None
        }

    def principals(self) -> Iterator[tuple[int, str]]:
        """Yield the number and the principal of each connection."""
        for number, connection in self._open.items():
            yield number, connection.principal

    def principal_of(self, number: int) -> str | None:
        """Return the principal of a connection; None if it has ended."""
        connection = self._open.get(number)
        return None if connection is None else connection.principal

    # ---- accept ----

    async def listen(self, listener: Listener) -> None:
        """Accept connections for ever."""
        listener.why_taken = self._core.why_name_taken
        while True:
            await trio.lowlevel.wait_readable(listener.socket)
            await listener.wait_for_room()
            try:
                accepted, _ = listener.socket.accept()
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno in _NO_ROOM:
                    self.refusals.note(
                        "no room", f"no room for another connection: {error.strerror}"
                    )
                    await trio.sleep(ACCEPT_PAUSE_S)
                continue
            accepted.setblocking(False)
            self._accepted += 1
            if self._accepted <= self.quotas.most:
                self._nursery.start_soon(self._serve, accepted, listener)
            else:
                self._turn_away(accepted, listener)

    def _turn_away(self, accepted: socket.socket, listener: Listener) -> None:
        """Close a connection for which there is no room; say so as far as the reserve allows."""
        text = (
            f"this daemon has {self.quotas.most} connections, the most it may have: try again later"
        )
        self.refusals.note("full", text, origin_of(accepted))
        if self._turned_away >= MAX_TURNED_AWAY:
            self._accepted -= 1
            accepted.close()
            return
        self._turned_away += 1
        self._nursery.start_soon(self._say_why, accepted, listener, text)

    async def _say_why(self, accepted: socket.socket, listener: Listener, text: str) -> None:
        try:
            await listener.refuse_untold(accepted, Code.REJECT_QUOTA, text)
        finally:
            self._turned_away -= 1
            self._accepted -= 1
            trio.lowlevel.notify_closing(accepted)
            accepted.close()

    async def _serve(self, accepted: socket.socket, listener: Listener) -> None:
        """Serve one connection from its begin to its end."""
        connection = Connection(self._core.next_connection(), trio.CancelScope(), accepted)
        if accepted.family != socket.AF_UNIX:
            set_up_tcp(accepted, self.session_timeout_s)
        where = origin_of(accepted)
        if listener.add(connection):
            text = "too many connections have not sent their HELLO; the oldest is closed"
            self.refusals.note("half-open", text, where)
        try:
            with connection.scope:
                with trio.move_on_after(HELLO_S) as patience:
                    peer = await listener.authenticate(accepted)
                    self._open_session(connection, peer)
                    await self._await_hello(connection, patience)
                if patience.cancelled_caught:
                    self.refusals.note(
                        "slow", f"the program has not sent its HELLO in {HELLO_S:g} s", where
                    )
                    return
                listener.remove(connection)
                await connection.await_end()
        except PeerRefused as refused:
            self.refusals.note(refused.reason, str(refused), where)
        except OSError as error:
            self._note_end(error, where)
        except MemoryError:
            self.refusals.note("no room", "no memory is left for this connection", where)
        except Exception:
            self.log.line(
                "failed",
                logging.ERROR,
                "this daemon has failed to serve connection %d, and closes it: please report "
                "the error below",
                connection.number,
                exc_info=True,
            )
        finally:
            listener.remove(connection)
            self._accepted -= 1
            trio.lowlevel.notify_closing(accepted)
            self._by_descriptor.pop(accepted.fileno(), None)
            accepted.close()
            self._close_session(connection)

    def _note_end(self, error: OSError, where: str = "") -> None:
        """Note why a connection ends; most errors only mean that the client is gone."""
        if isinstance(error, SpreadBroken):
            self.log.line(
                "spread: closed",
                logging.INFO,
                "the connection of a client of Spread is closed: %s",
                error,
            )
        elif error.errno in _NO_ROOM:
            text = f"no room for another connection: {error.strerror}"
            self.refusals.note("no room", text, where)

    def _open_session(self, connection: Connection, peer: AuthenticatedPeer) -> None:
        """Have the core open a session for a connection.

        Raises:
            PeerRefused: the principal has as many connections as it may have.
        """
        if text := self.quotas.open(peer.principal, self._accepted):
            with suppress(OSError):
                peer.socket.send(encode_closed(Code.REJECT_QUOTA, text))
            raise PeerRefused("quota", text)
        number = connection.number
        connection.admit(peer)
        self._open[number] = connection
        descriptor = connection.plain.fileno()
        self._by_descriptor[descriptor] = connection
        self._poll.register(descriptor, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)
        self.inputs.append(ClientOpened(number, peer.principal))
        if peer.received:
            connection.pause()
            self.feed([ClientBytes(number, peer.received)])
        _log.debug("connection %d is of %s", number, peer.principal)

    def _close_session(self, connection: Connection) -> None:
        before, connection.state = connection.state, ConnectionState.CLOSED
        if before is not ConnectionState.ADMITTING:
            del self._open[connection.number]
            if isinstance(connection.socket, SpreadSocket):
                connection.socket.close()  # its half message counts no more
            self.quotas.close(connection.principal)
            self.inputs.append(ClientGone(connection.number))
            if before is not ConnectionState.GREETING:  # otherwise the next turn is early enough
                self._unfed.set()

    # ---- read ----

    async def _await_hello(self, connection: Connection, patience: trio.CancelScope) -> None:
        """Wait until the HELLO has come; the time limit pauses while the core has input."""
        while connection.state is ConnectionState.GREETING and not connection.over:
            if connection.readable:
                await connection.await_change()
                continue
            left_s = patience.deadline - trio.current_time()
            patience.deadline = inf
            await connection.await_change()
            patience.deadline = trio.current_time() + left_s

    async def _read_all(self) -> None:
        """Read for ever from those connections at which bytes have come."""
        while True:
            await trio.lowlevel.wait_readable(self._poll.fileno())
            for descriptor, events in self._poll.poll(0):
                connection = self._by_descriptor[descriptor]
                connection.hung_up |= bool(events & ~select.EPOLLIN)
                self._arrive(connection)
            self._read()
            if self.inputs:
                self._turn()

    def _arrive(self, connection: Connection) -> None:
        """Note that there is something to read: it has its place behind what came before."""
        if not connection.arrived and not connection.over:
            self._arrived += 1
            connection.arrived = self._arrived
            if connection.readable:
                heappush(self._arrivals, (connection.arrived, connection))

    def _read_on(self, connection: Connection) -> None:
        """Read again from a connection, as the core accepts more; what has come has its place."""
        if connection.arrived and not connection.readable:
            heappush(self._arrivals, (connection.arrived, connection))
            self._unfed.set()
        connection.read_on()

    def _read(self) -> None:
        """Read once from those connections whose bytes have come first."""
        reads = 0
        while self._arrivals and reads < READS_A_ROUND:
            reads += 1
            _, connection = heappop(self._arrivals)
            connection.arrived = 0
            if connection.state is ConnectionState.CLOSED:
                continue
            try:
                left = self._read_bytes(connection)
            except Exception as error:  # one connection's: its task tells of it
                connection.end(error)
                reads += READS_AN_END
                continue
            if left is Left.END:
                connection.end()
                reads += READS_AN_END
            elif left is Left.MORE or connection.hung_up:
                self._arrive(connection)
        if self._arrivals:
            self._unfed.set()

    def _read_bytes(self, connection: Connection) -> Left:
        """Pass to the core what has come; return what is left."""
        room, found = self._share(connection), Left.NOTHING
        with suppress(BlockingIOError):
            while room > 0:
                size = min(room, READ_BYTES)
                data = connection.socket.recv(size)
                if not data:
                    return Left.END
                if connection.state is not ConnectionState.CLOSING:
                    if len(data) == ALIVE_BYTES and self._is_heartbeat(connection, data):
                        break
                    self.inputs.append(ClientBytes(connection.number, data))
                    connection.pause()
                if len(data) < size:
                    break
                room -= size
            else:
                found = Left.MORE
        if isinstance(connection.socket, SpreadSocket):
            self._charge(connection, connection.socket.pop_spent())
            if connection.socket.more:
                found = Left.MORE
        return found

    def _charge(self, connection: Connection, price: Price) -> None:
        """Have the core charge the translation of a client's messages, before more is read."""
        if price.work and connection.state is not ConnectionState.CLOSING:
            self.inputs.append(ClientCharged(connection.number, price))
            connection.pause()

    def _is_heartbeat(self, connection: Connection, data: bytes) -> bool:
        """Return whether these bytes are a heartbeat, which needs no step of the core."""
        return connection.readable and self._core.note_heartbeat(
            connection.number, data, trio.current_time()
        )

    def _share(self, connection: Connection) -> int:
        """Return the number of bytes that may be read ahead from a connection."""
        count = self.quotas.count(connection.principal)
        return max(LEAST_BYTES, min(TURN_BYTES, AHEAD_BYTES // count))

    def feed(self, inputs: Sequence[Input]) -> None:
        """Have the core process inputs in the next round of the loop."""
        self.inputs += inputs
        self._unfed.set()

    async def _feed_rest(self) -> None:
        """Process in each round of the loop what the round before has left: input, output, ends."""
        while True:
            await self._unfed.wait()
            self._unfed = trio.Event()
            self._read()
            if self.inputs or self._unwritten:
                self._turn()

    # ---- write ----

    def carry_out(self, output: Output) -> None:
        """Carry out a step's output: write, close what the core has closed, and read on."""
        connections = self._open
        for number in output.greeted:
            if number in connections:
                connections[number].greet()
        if output.ready or self._unwritten:
            self._write_all(output.ready)
        for number in output.ended:
            connection = connections.get(number)
            if connection is not None:
                self._read_on(connection)
                connection.begin_end(LINGER_S)
                self._shut_if_written(connection)
        for number in output.readable:
            if number in connections:
                self._read_on(connections[number])

    def _write_all(self, ready: Collection[int]) -> None:
        """Write to connections with new output, then to those that wait, as many as a turn may.

        Where many are ready they wait for their turn, so that other daemons and the programs that
        get little need not wait for all of them.
        """
        self._written_late = 0
        until, now, later = monotonic() + WRITE_S, list(ready), self._unwritten
        later.update(dict.fromkeys(now))
        longest = list(islice(later, WRITES_A_TURN))
        turns = chain.from_iterable(zip_longest(now[: WRITES_A_TURN // 2], longest))
        for number in islice(filter(later.__contains__, turns), WRITES_A_TURN):
            del later[number]
            connection = self._open.get(number)
            if connection is not None and not connection.writing:
                self._write(connection)
                if connection.state is ConnectionState.CLOSING:
                    self._shut_if_written(connection)
            if monotonic() >= until:
                break
        if later:
            self._unfed.set()

    async def end_vanished(self) -> None:
        """End the connections to hosts that do not answer; to be called once a second.

        Programs that send heartbeats are watched by the core. This is for Spread's, and for those
        whose output is in the way, so that the core does not read.
        """
        timeout_s = self.session_timeout_s
        for count, connection in enumerate(list(self._open.values()) if timeout_s else (), 1):
            if not count % LOOKS_A_ROUND:
                await trio.lowlevel.checkpoint()
            watched = connection.writing or isinstance(connection.socket, SpreadSocket)
            is_open = connection.state is not ConnectionState.CLOSED
            if is_open and watched and is_unanswered(connection.plain, timeout_s):
                self.vanished += 1
                connection.scope.cancel()
                self.log.line(
                    "vanished",
                    logging.WARNING,
                    "connection %d (%s) is ended: its host has answered nothing for %g s"
                    " (clients.session_timeout_s)",
                    connection.number,
                    connection.principal,
                    timeout_s,
                    extra={"principal": connection.principal, "silent_s": timeout_s},
                )

    def _shut_if_written(self, connection: Connection) -> None:
        """End the stream to a client; its task ends once the client closes its end, too."""
        waits = connection.pending or connection.writing or connection.number in self._unwritten
        if connection.state is ConnectionState.CLOSING and not waits:
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_WR)

    def _write(self, connection: Connection) -> None:
        """Write as much as the socket accepts; a task writes the rest."""
        is_drained = False  # the core has no more output
        try:
            while connection.pending or not is_drained:
                if not connection.pending:
                    parts = self._core.pop_output(connection.number, WRITE_BYTES)
                    is_drained = sum(map(len, parts)) < WRITE_BYTES
                    if not parts:
                        break
                    connection.pending = parts
                sent = connection.socket.sendmsg(connection.pending[:MAX_PARTS])
                connection.pending = parts_behind(connection.pending, sent)
        except BlockingIOError:
            if not connection.writing:
                connection.writing = True
                self._nursery.start_soon(self._write_later, connection)
        except OSError as error:
            self._note_end(error)
            connection.scope.cancel()

    async def _write_later(self, connection: Connection) -> None:
        """Write the rest as the socket accepts more; where many do, leave it to the next turns."""
        with suppress(OSError, trio.ClosedResourceError):
            while connection.state is not ConnectionState.CLOSED:
                await trio.lowlevel.wait_writable(connection.socket)
                if self._written_late >= LATE_WRITES:
                    self._unwritten[connection.number] = None
                    self._unfed.set()
                    break
                self._written_late += 1
                self._write(connection)
                if self._core.deadline <= trio.current_time():
                    self._turn()  # senders were waiting for this client
                    self._write(connection)  # their messages: nothing else writes here meanwhile
                if not connection.pending:
                    break
        connection.writing = False
        self._shut_if_written(connection)

    async def drain(self, seconds: float) -> None:
        """Wait until clients have read their output, for `seconds` at most."""
        with trio.move_on_after(seconds):
            while self._unwritten or any(c.writing for c in self._open.values()):
                await trio.sleep(0.01)


LISTENER_SHARE: Final = 4
"""Half-open connections of one listener may be this fraction of all connections: 1/4."""


class ConnectionQuotas:
    """The number of connections of each principal, and its limit.

    Without a quota, a principal may have as many connections as it leaves to others: alone it may
    have half of all, so that no principal can keep the others out.

    Attributes:
        quotas: the limits of each principal.
        most: the number of all connections that may be open.
    """

    def __init__(self, quotas: Quotas, most: int) -> None:
        self.quotas = quotas
        self.most = most
        self._counts: Counter[str] = Counter()

    def open(self, principal: str, taken: int) -> str:
        """Count one more connection; return "", or why it may not be opened.

        Args:
            principal: the owner of the new connection.
            taken: all open connections, with this one and those whose owner is not known yet.
        """
        count, most = self._counts[principal], self.quotas.connections
        if most is None:
            if count >= self.most - taken + 1:
                return (
                    f"{principal} has {count} connections, as many as it leaves to all "
                    "others: close one first"
                )
        elif count >= most:
            return f"{principal} has {count} connections, as many as it may have: close one first"
        self._counts[principal] += 1
        return ""

    def count(self, principal: str) -> int:
        """Return the number of connections of a principal."""
        return self._counts[principal]

    def close(self, principal: str) -> None:
        """Count one connection less."""
        self._counts[principal] -= 1
        if not self._counts[principal]:
            del self._counts[principal]

    def connections(self) -> dict[str, int]:
        """Return the number of connections of each principal."""
        return dict(self._counts)
