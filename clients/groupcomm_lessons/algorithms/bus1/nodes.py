"""bus1's nodes and handles: the destinations of messages, and their end in one order for all.

Source: see the package. A node belongs to a peer; a peer that holds a handle of it may send to it,
and may pass the handle on in a message. Destroying a node takes a stamp from its owner's queue, and
is announced to all holders as a message with this stamp. So a message to the node is delivered if
its stamp is lower and refused if it is higher; a handle in a message is installed or invalid, by
the same rule and so for all receivers alike; and after the announcement nobody receives the handle.

How: a message registers its receivers at the nodes that it carries before it puts its first block.
So the destruction, up to its tick, knows every peer that may get a handle by a lower stamp, and
blocks it, too. A peer that registers after the tick is synchronised to it, and is too late
everywhere. Messages here always use blocks: a unicast that comes late could bring a handle after
its end.

The sender learns the fate of its message at each node. It is certain as soon as the queue of the
node's owner is synchronised to the message's stamp: a destruction that ticks after that has a
higher stamp, and one that has ticked before is known.
"""

import enum
from collections.abc import Sequence
from typing import NamedTuple

from groupcomm.errors import LocalProtocolError
from groupcomm_lessons.algorithms.bus1.multicast import Blocking, Multicast, State
from groupcomm_lessons.algorithms.bus1.queue import Queue, Stamp


class Node:
    """A destination of messages, which its owner made; `Peer.node` makes one.

    Attributes:
        owner: the peer that receives the messages to it.
        registered: peers that hold a handle, or are to get one by a message in flight.
        destroyed: the stamp of its destruction; None while it lives.
        dying: the destruction that has begun.
    """

    def __init__(self, owner: "Peer") -> None:
        self.owner = owner
        self.registered = [owner]
        self.destroyed: Stamp | None = None
        self.dying: Destruction | None = None

    def alive_at(self, stamp: Stamp) -> bool:
        """Return whether a message with this stamp is ordered before the destruction."""
        return self.destroyed is None or stamp < self.destroyed

    def register(self, peer: "Peer") -> None:
        """Register a peer, before the tick, that must learn of the destruction."""
        if peer not in self.registered:
            self.registered.append(peer)
        if self.dying is not None and peer.queue not in self.dying.destinations:
            self.dying.destinations.append(peer.queue)


class Fate(enum.Enum):
    """The fate of a message at one node that it is sent to."""

    PENDING = enum.auto()  # not decided yet
    DELIVERED = enum.auto()  # ordered before any destruction: the owner receives it
    REFUSED = enum.auto()  # ordered after the destruction: the message fails for its sender
    ABORTED = enum.auto()  # the sender has aborted the message


class Sent(NamedTuple):
    """The content of a message in a queue.

    Attributes:
        data: the user's data.
        to: the nodes that it is sent to.
        handles: the nodes whose handles are passed to every receiver.
    """

    data: bytes
    to: tuple[Node, ...]
    handles: tuple[Node, ...] = ()


class Ended(NamedTuple):
    """The content of a destruction in a queue."""

    node: Node


class Received(NamedTuple):
    """A message, as one peer receives it.

    Attributes:
        data: the user's data.
        to: the peer's living nodes that it is for.
        handles: the passed handles; None where one is invalid.
    """

    data: bytes
    to: tuple[Node, ...]
    handles: tuple[Node | None, ...]


class Destroyed(NamedTuple):
    """The announcement that a node of which the peer held a handle was destroyed."""

    node: Node


class Sending(Multicast[Sent | Ended]):
    """The steps of a message to nodes, and its fate at each."""

    def __init__(self, sender: Queue[Sent | Ended], sent: Sent, blocking: Blocking) -> None:
        super().__init__(sender, [node.owner.queue for node in sent.to], sent, blocking)
        self.to = sent.to

    @property
    def fates(self) -> dict[Node, Fate]:
        """Return the fate of the message at each node; all are known once it is over."""
        return {node: self._fate(node) for node in self.to}

    def _fate(self, node: Node) -> Fate:
        if self.aborted:
            return Fate.ABORTED
        if self.stamp is None or node.owner.queue not in self._synchronised:
            return Fate.PENDING
        return Fate.DELIVERED if node.alive_at(self.stamp) else Fate.REFUSED


class Destruction(Multicast[Sent | Ended]):
    """The steps of an announcement; destinations may be added up to the tick.

    Once it has its stamp, others may have acted on it: from then on it must be finished.
    """

    def __init__(self, node: Node) -> None:
        queues = [peer.queue for peer in node.registered]
        super().__init__(node.owner.queue, queues, Ended(node))
        self.node = node

    def _tick(self) -> None:
        super()._tick()
        self.node.destroyed = self.stamp

    def abort(self) -> None:
        """See `Multicast.abort`; the node lives on.

        Raises:
            LocalProtocolError: the destruction has its stamp.
        """
        if self.stamp is not None:
            raise LocalProtocolError("the node is destroyed from its stamp on; finish it")
        super().abort()
        self.node.dying = None

    @property
    def state(self) -> State:
        """See `Multicast.state`."""
        state = super().state
        stamped = state is State.UNDER_WAY and self.stamp is not None
        return State.COMMITTED if stamped else state


class Peer:
    """One peer of the bus.

    Attributes:
        queue: its queue.
        handles: the nodes that it may send to.
    """

    def __init__(self, queue_id: int, clock: int = 0) -> None:
        self.queue: Queue[Sent | Ended] = Queue(queue_id, clock)
        self.handles: set[Node] = set()

    def node(self) -> Node:
        """Make a node, and hold its first handle."""
        node = Node(self)
        self.handles.add(node)
        return node

    def send(
        self,
        data: bytes,
        to: Sequence[Node],
        handles: Sequence[Node] = (),
        blocking: Blocking = Blocking.AT_CLOCK,
    ) -> Sending:
        """Begin to send to nodes; the caller does the steps, and then looks at the fates.

        Raises:
            LocalProtocolError: this peer has no handle of a node, or the call asks for no blocks.
        """
        if unknown := [node for node in (*to, *handles) if node not in self.handles]:
            raise LocalProtocolError(
                f"peer {self.queue.id} has no handle of {len(unknown)} of these nodes;"
                " it never got one, or the node was destroyed"
            )
        if blocking is Blocking.NONE:
            raise LocalProtocolError("messages to nodes need blocks; NONE is for plain queues")
        owners = list(dict.fromkeys(node.owner for node in to))
        for node in handles:
            if node.destroyed is not None:
                self.queue.synchronise(node.destroyed.value)
            else:
                for owner in owners:
                    node.register(owner)
        return Sending(self.queue, Sent(data, tuple(to), tuple(handles)), blocking)

    def destroy(self, node: Node) -> Destruction:
        """Begin to destroy a node; the caller does the steps.

        Raises:
            LocalProtocolError: the node is another peer's, or was destroyed before.
        """
        if node.owner is not self:
            raise LocalProtocolError(
                f"peer {self.queue.id} cannot destroy a node of peer {node.owner.queue.id}"
            )
        if node.dying is not None:
            raise LocalProtocolError("this node is being destroyed, or was; do it once")
        node.dying = Destruction(node)
        return node.dying

    def pop(self) -> Received | Destroyed | None:
        """Pop the next item; messages to nodes that were destroyed before them are refused."""
        while (taken := self.queue.pop()) is not None:
            stamp, item = taken
            if isinstance(item, Ended):
                if item.node in self.handles:
                    self.handles.remove(item.node)
                    return Destroyed(item.node)
            elif (received := self._receive(stamp, item)) is not None:
                return received
        return None

    def _receive(self, stamp: Stamp, sent: Sent) -> Received | None:
        mine = [node for node in sent.to if node.owner is self and node.alive_at(stamp)]
        if not mine:
            return None
        handles = tuple(node if node.alive_at(stamp) else None for node in sent.handles)
        self.handles.update(node for node in handles if node is not None)
        return Received(sent.data, tuple(mine), handles)
