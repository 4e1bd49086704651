"""Turns: whose piece of work is done next, among peers and the connections of each.

The peer goes first whose last turn was longest ago, and of its connections the one of which the
same is true. So a peer delays others by one piece of work at a time, however many connections it
has; and of one peer, a new connection does not wait behind those that ask again and again.
"""

import ipaddress
from heapq import heappop, heappush

import attrs
import trio

IPV6_NETWORK_BITS = 64
"""Whoever has one address of IPv6 has all of such a network."""


@attrs.define(eq=False)
class Asker:
    """One that wants pieces of work to be done: a connection, or the server itself.

    Attributes:
        peer: the peer that has it.
        turn: the number of its last turn; 0 for none.
    """

    peer: "Peer"
    turn: int = 0


@attrs.define(eq=False)
class Ticket:
    """A wait for one turn.

    Attributes:
        asker: waits for it.
        called: is set when the turn has come.
        is_void: whether the asker waits no more.
    """

    asker: Asker
    called: trio.Event = attrs.field(factory=trio.Event)
    is_void: bool = False


@attrs.define(eq=False)
class Peer:
    """Whoever connects: a user of this host, or another host.

    Attributes:
        turn: the number of the last turn of all its connections; 0 for none.
        waiting: the tickets of its connections, the next one first.
    """

    turn: int = 0
    waiting: list[tuple[int, int, Ticket]] = attrs.field(factory=list)


class Turns:
    """A queue of tickets; each operation takes a time that is logarithmic in their number."""

    def __init__(self) -> None:
        self._count = 0  # turns and tickets so far
        self._peers: list[tuple[int, int, Peer]] = []  # those that wait, the next one first

    def add(self, asker: Asker) -> Ticket:
        """Return a ticket for a turn."""
        ticket, peer = Ticket(asker), asker.peer
        self._count += 1
        if not peer.waiting:
            heappush(self._peers, (peer.turn, self._count, peer))
        heappush(peer.waiting, (asker.turn, self._count, ticket))
        return ticket

    def next(self) -> Ticket | None:
        """Return the ticket whose turn it is, and note the turn; None if nobody waits."""
        while self._peers:
            _, _, peer = heappop(self._peers)
            _, _, ticket = heappop(peer.waiting)
            if not ticket.is_void:
                self.note(ticket.asker)
            if peer.waiting:
                self._count += 1
                heappush(self._peers, (peer.turn, self._count, peer))
            if not ticket.is_void:
                return ticket
        return None

    def note(self, asker: Asker) -> None:
        """Note that it is the turn of an asker."""
        self._count += 1
        asker.turn = asker.peer.turn = self._count


def network_of(host: str) -> str:
    """Return the network that counts as one peer: the address, or of IPv6 what begins it."""
    address = ipaddress.ip_address(host)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(address), IPV6_NETWORK_BITS), strict=False))
    return host
