"""The stage of a bus1 story: it chooses the next steps of multicasts, and the calls."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from examples.ordering.story import Run, run_of
from groupcomm.trace.steps import AlgorithmStep, MessageId, StepTrace
from groupcomm_lessons.algorithms.bus1.multicast import Blocking, Multicast, Step, What
from groupcomm_lessons.algorithms.bus1.nodes import (
    Destroyed,
    Destruction,
    Node,
    Peer,
    Received,
    Sending,
)
from groupcomm_lessons.algorithms.bus1.queue import Queue
from groupcomm_lessons.algorithms.history import History
from groupcomm_lessons.algorithms.process import Message, Name

Bus: TypeAlias = Queue[Any]
TELEPHONE: Final = "telephone"
"""The text in the trace in place of a call's stamp."""

Way = Callable[[Bus, Sequence[Bus], Message, Blocking], Multicast[Any]]


class BusStage:
    """Peers that take every message that their queues release; and a telephone beside the bus.

    Args:
        queues: the queues of the peers, by name.
        way: the class of multicasts.
        blocking: the value at which blocks are put.

    Attributes:
        history: the history of the peers.
        now: the number of steps so far; the time of the trace.
        held_back: the messages that a block kept in each peer's queue.
    """

    def __init__(
        self,
        queues: Mapping[Name, Bus],
        way: Way = Multicast,
        blocking: Blocking = Blocking.AT_CLOCK,
    ) -> None:
        self.history = History()
        self.now = 0
        self.held_back: dict[Name, list[str]] = {}
        self._queues = queues
        self._way = way
        self._blocking = blocking
        self._events: list[AlgorithmStep] = []
        self._traces = {name: StepTrace(self, self._events.append, name) for name in queues}
        self._names = {queue: name for name, queue in queues.items()}
        self._under_way: dict[Message, Multicast[Any]] = {}
        self._blocks: dict[Name, dict[Message, int]] = {name: {} for name in queues}

    # ---- multicasts ----

    def start(self, sender: Name, to: str) -> Message:
        """Begin a multicast of a peer without doing a step."""
        queues = [self._queues[name] for name in to]
        message = self.next_message(sender, to)
        return self.begin(message, self._way(self._queues[sender], queues, message, self._blocking))

    def next_message(self, sender: Name, to: str) -> Message:
        """Return the next message of a peer."""
        number = 1 + sum(message.sender == sender for message in self.history.sent)
        return Message(sender, number, tuple(to), b"")

    def begin(self, message: Message, multicast: Multicast[Any]) -> Message:
        """Begin a multicast that was made elsewhere."""
        self.now += 1
        self._under_way[message] = multicast
        self.history.send(message)
        self._traces[message.sender].sent(message.id, message.destinations)
        return message

    def until(self, message: Message, what: What) -> None:
        """Do the steps of a multicast that come before this one."""
        while (step := self._under_way[message].ready[0]).what is not what:
            self._do(message, step)

    def do(self, message: Message, what: What, *names: Name) -> None:
        """Do this step at these peers, in this order."""
        for name in names:
            self._do(message, Step(what, self._queues[name]))

    def step(self, message: Message) -> bool:
        """Do the next step of a multicast; return whether there was one."""
        ready = self._under_way[message].ready
        if ready:
            self._do(message, ready[0])
        return bool(ready)

    def finish(self, message: Message) -> None:
        """Do all steps that are left."""
        while self.step(message):
            pass

    def abort(self, message: Message) -> None:
        """Abort a multicast; deliver the messages that it has held back."""
        self.now += 1
        self._under_way[message].abort()
        for name, blocks in self._blocks.items():
            if blocks.pop(message, None) is not None:
                self._take_all(name)

    def forget(self, message: Message) -> None:
        """Stop the steps of a multicast for ever."""
        del self._under_way[message]

    def send(self, sender: Name, to: str) -> Message:
        """Send a message without interruption."""
        message = self.start(sender, to)
        self.finish(message)
        return message

    def _do(self, message: Message, step: Step[Any]) -> None:
        self.now += 1
        name, multicast = self._names[step.queue], self._under_way[message]
        multicast.do(step)
        if step.what is What.BLOCK:
            estimate = 0 if multicast.blocking is Blocking.AT_CLOCK else multicast.sender.clock
            self._blocks[name][message] = max(step.queue.clock, estimate)
        elif step.what is What.QUEUE:
            self._blocks[name].pop(message, None)
            self._traces[name].received(message.id, message.sender)
            self._take_all(name, message)

    def _take_all(self, name: Name, queued: Message | None = None) -> None:
        """Take all messages that the queue releases; the last one may have to wait."""
        trace, before = self._traces[name], self.held_back.get(name, [])
        taken = list(iter(lambda: self.take(name), None))
        for message in taken:
            if str(message) in before:
                trace.took(message.id)
            self.history.deliver(name, message)
            trace.delivered(message.id)
        if queued and queued not in taken and (waits := self._before(name, queued)):
            self.held_back.setdefault(name, []).append(str(queued))
            trace.buffered(queued.id, waits)

    def _before(self, name: Name, queued: Message) -> list[MessageId]:
        """Return the messages whose blocks stand before this one."""
        stamp = self._under_way[queued].stamp
        assert stamp is not None
        return [each.id for each, at in self._blocks[name].items() if at < stamp.value]

    def take(self, name: Name) -> Message | None:
        """Take the next message of a peer."""
        taken = self._queues[name].pop()
        return None if taken is None else taken[1]

    def stamps(self, *messages: Message) -> dict[str, int]:
        """Return the values of the stamps of these messages."""
        found = {str(message): self._under_way[message].stamp for message in messages}
        return {name: stamp.value for name, stamp in found.items() if stamp is not None}

    # ---- beside the bus, and the end ----

    def call(self, caller: Name, called: Name) -> Message:
        """Have one peer call another by telephone; the bus has no part in it."""
        call = self.next_message(caller, called)
        self.now += 1
        self.history.send(call)
        self._traces[caller].sent(call.id, call.destinations, TELEPHONE)
        self.now += 1
        self._traces[called].received(call.id, caller)
        self.history.deliver(called, call)
        self._traces[called].delivered(call.id)
        return call

    def end(self, **seen: object) -> Run:
        """Finish all multicasts; return the run."""
        for message in self._under_way:
            self.finish(message)
        return run_of(self.history, self._events, held_back=self.held_back, **seen)


class NodeStage(BusStage):
    """A stage with messages to a node of the first peer; all others hold a handle of it.

    Args:
        names: the names of the peers, one letter each.
    """

    def __init__(self, names: str) -> None:
        self._peers = {name: Peer(at) for at, name in enumerate(names)}
        self._owner = names[0]
        owner = self._peers[self._owner]
        self._node: Node = owner.node()
        for peer in self._peers.values():
            self._node.register(peer)
            peer.handles.add(self._node)
        self._end: Message | None = None
        super().__init__({name: peer.queue for name, peer in self._peers.items()})

    def start(self, sender: Name, to: str = "") -> Message:
        """Begin a message of a peer to the node."""
        message = self.next_message(sender, to or self._owner)
        return self.begin(message, self._peers[sender].send(str(message).encode(), [self._node]))

    def destroy(self) -> Message:
        """Begin the destruction of the node; the announcement is a message, too."""
        self._end = self.next_message(self._owner, "".join(self._peers))
        destruction: Destruction = self._peers[self._owner].destroy(self._node)
        return self.begin(self._end, destruction)

    def fates(self, *messages: Message) -> dict[str, str]:
        """Return the fates of these messages at the node, as their senders know them."""
        found = {}
        for message in messages:
            sending = self._under_way[message]
            assert isinstance(sending, Sending)
            found[str(message)] = sending.fates[self._node].name.lower()
        return found

    def take(self, name: Name) -> Message | None:
        """See `BusStage.take`; refused messages are never taken."""
        match self._peers[name].pop():
            case Destroyed():
                return self._end
            case Received(data=data):
                sent = self.history.sent
                return next(message for message in sent if str(message).encode() == data)
            case None:
                return None
