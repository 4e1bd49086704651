"""Places: the open connections by peer, and the one that gives way if there is no place left.

The peer with the most connections makes room, whoever comes: so nobody who opens many, and does
nothing with them or reads no answers, keeps others out. Of that peer it is a connection that waits
for a request, else one whose answer is not read yet, else a stream; the oldest one.
"""

import socket
from collections.abc import Hashable, Iterator
from heapq import nsmallest
from math import inf
from typing import Final

import trio

from groupcommd.http.connection import ConnectionState, HttpConnection
from groupcommd.http.turns import Asker, Peer
from groupcommd.http.work_share import WorkShare

GRACE_S: Final = 0.5
"""A connection has this time, in each state, before it is closed to make room for another one."""

CLOSED_AT_ONCE: Final = 256
"""One of this many places is made free at a time, as looking for them takes a while."""

_ORDER: Final = tuple(ConnectionState)


class Places:
    """The places of a server.

    Args:
        most: the number of connections that may be open.
        share: limits the time of connections.
        accepting: limits the time of accepting them.

    Attributes:
        refused: the number of connections that were closed to make room.
    """

    def __init__(self, most: int, share: WorkShare, accepting: WorkShare) -> None:
        self._most = most
        self._at_once = max(1, most // CLOSED_AT_ONCE)
        self._share = share
        self._accepting = accepting
        self._open: dict[Hashable, tuple[Peer, dict[HttpConnection, None]]] = {}
        self._count = 0
        self._left = trio.lowlevel.ParkingLot()
        self.refused = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[HttpConnection]:
        for _, connections in self._open.values():
            yield from connections

    def open(self, who: Hashable, accepted: socket.socket) -> HttpConnection:
        """Return a new connection of a peer."""
        peer, connections = self._open.setdefault(who, (Peer(), {}))
        connection = HttpConnection(accepted, self._share.of(Asker(peer)))
        connections[connection] = None
        self._count += 1
        return connection

    def leave(self, who: Hashable, connection: HttpConnection) -> None:
        """Note that a connection of a peer is closed."""
        connections = self._open[who][1]
        del connections[connection]
        if not connections:
            del self._open[who]
        self._count -= 1
        self._left.unpark_all()

    @property
    def is_full(self) -> bool:
        """Return whether there is no room for one more connection."""
        return self._count >= self._most

    async def wait_for_room(self) -> None:
        """Wait until there is room for one more connection; have some give way if necessary."""
        while self.is_full:
            async with self._accepting:
                at = self._close_some(trio.current_time())
            with trio.move_on_at(at):
                await self._left.park()

    def _close_some(self, now: float) -> float:
        """Close connections that may give way; return when the next one may if none may yet."""
        _, most = max(self._open.values(), key=lambda each: len(each[1]))
        some = nsmallest(
            self._at_once, most, key=lambda each: (_ORDER.index(each.state), each.since)
        )
        over = [each for each in some if now >= each.since + GRACE_S]
        for each in over:
            each.scope.cancel()
        self.refused += len(over)
        return inf if over else some[0].since + GRACE_S
