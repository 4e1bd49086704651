"""The states in which daemons have been, and the steps that they have taken.

A step is computed once, however many states of the cluster it is a part of: there are far fewer
states of daemons than of clusters. `PassingNodes` are for one path that nobody goes again: they
keep no state.
"""

import io
import pickle
import zlib
from collections.abc import Callable, Iterable
from functools import cache
from types import MethodType
from typing import Any, Final

import attrs

from groupcomm.config.view import View
from groupcomm.membership.states import MembershipState
from groupcomm.security.layout import FOR_ONE, HEAD_BYTES
from groupcomm.sim.cluster.process import CoreFailure
from groupcomm.trace.events import TraceEvent
from tests.verification.explore.canonical import TICK, digest_of
from tests.verification.explore.node import Constants, Node, NodeEvent, Packet

NEVER: Final = 2**62
"""Ticks that never pass."""

_LARGE_BYTES: Final = 4_500
"""An image that is still so large after compression is the model of those after it."""

_MOST_MODELS: Final = 1_000

_CRC_BYTES: Final = 4
_SCOPE_AT: Final = 2


def _constant(_name: str) -> object:
    """Stand in an image for the object of this name; see `_Unpickler`."""
    raise AssertionError("an image is loaded without its constants")


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, constants: Constants) -> None:
        super().__init__(file, -1)
        self._constants = constants.names_of

    def reducer_override(self, obj: Any) -> Any:
        name = self._constants.get(id(obj))
        if name is not None:
            return _constant, (name,)
        if isinstance(obj, memoryview):  # a part of a packet
            return memoryview, (bytes(obj),)
        if isinstance(obj, MethodType):  # one that was replaced has another name than its place
            kind: type = type(obj.__self__)
            return getattr, (obj.__self__, _attribute_of(kind, obj.__func__))
        return NotImplemented


@cache
def _attribute_of(kind: type, function: Callable[..., Any]) -> str:
    """Return the name under which a class has a function."""
    return next(
        name
        for each in kind.__mro__
        for name, value in vars(each).items()
        if value is function or getattr(value, "__func__", None) is function  # of a class method
    )


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, constants: Constants) -> None:
        super().__init__(file)
        self._objects = constants.objects

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if global_name == _constant.__name__:
            return self._objects.__getitem__
        return super().find_class(module_name, global_name)


@attrs.frozen(kw_only=True)
class NodeState:
    """One state of a daemon.

    Attributes:
        image: the daemon, pickled and compressed; b"" if it is not kept.
        model: the number of the image that this one was compressed with.
        at: the time of its last step, in seconds.
        due: ticks from that to its next step; a number that is never reached without one.
        is_up: whether it runs.
        may_act: the programs that can do their next act, by their index.
        is_read: whether it reads what its programs send.
        is_storing: whether its disk has something to store.
        starts: the number of its starts.
        view: the key of the view that is installed, if it is in it and in order; b"" otherwise.
        has_groups: whether it has a view and knows its groups.
        members: the daemons of this view.
        holds_packets: whether it holds packets that some daemon may not have delivered.
    """

    image: bytes
    model: int
    at: float
    due: int
    is_up: bool
    may_act: tuple[int, ...]
    is_read: bool
    is_storing: bool
    starts: int
    view: bytes
    has_groups: bool
    members: tuple[str, ...]
    holds_packets: bool


@attrs.frozen(kw_only=True)
class NodeStep:
    """One step of a daemon.

    Attributes:
        state: the number of the next state.
        sent: the numbers of the packets that it sends, each with the place of its target.
        events: what has happened.
        error: the invariant that was broken; "" for none.
    """

    state: int
    sent: tuple[tuple[int, int], ...] = ()
    events: tuple[TraceEvent, ...] = ()
    error: str = ""


Sent = tuple[tuple[int, int], ...]
"""Packets that are sent: the place of the target, and the number of the packet."""


class PacketTable:
    """All packets that were sent, numbered."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.packets: list[Packet] = []
        self._numbers: dict[Packet, int] = {}

    def sent(self, node: Node, datagrams: Iterable[tuple[str | None, bytes]]) -> Sent:
        """Return the packets of datagrams that a daemon sends, for each of their targets."""
        return tuple(
            (place, self._number_of(node, target, datagram))
            for target, datagram in datagrams
            for place, name in enumerate(self.constants.names)
            if name != node.name and target in (None, name)
        )

    def _number_of(self, node: Node, target: str | None, datagram: bytes) -> int:
        packet = Packet(
            node.name,
            node.starts,
            node.disk.restarts,
            target or "",
            datagram[_SCOPE_AT] == FOR_ONE,
            datagram[HEAD_BYTES:-_CRC_BYTES],
        )
        number = self._numbers.get(packet)
        if number is None:
            number = self._numbers[packet] = len(self.packets)
            self.packets.append(packet)
        return number


class NodeStates:
    """All states of daemons that were reached, and their steps.

    Attributes:
        constants: what is the same in all states.
        states: the states, by number.
        packet_table: all packets.
        computed: the number of steps that were computed.
    """

    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.states: list[NodeState] = []
        self.packet_table = PacketTable(constants)
        self.computed = 0
        self._by_digest: dict[bytes, int] = {}
        self._steps: dict[tuple[int, int, Any], NodeStep] = {}
        self._models = [b""]  # images that others have much in common with
        self._model_of: dict[str, int] = {}  # that of each daemon's next image

    @property
    def packets(self) -> list[Packet]:
        """Return all packets, by number."""
        return self.packet_table.packets

    def add(self, node: Node, now: float) -> int:
        """Return the number of the state of a daemon."""
        parts = (
            node.core,
            node.programs,
            node.starts,
            node.disk,
            node.before,
            node.has_forgotten,
            node.to_store,
            node.journal.history,
            node.name,
        )
        digest = digest_of(parts, now, self.constants.names_of)
        number = self._by_digest.get(digest)
        if number is None:
            number = self._by_digest[digest] = len(self.states)
            model = self._model_of.get(node.name, 0)
            self.states.append(_state_of(node, now, self._image_of(node), model))
        return number

    def step(self, number: int, lag: int, event: NodeEvent, key: object) -> NodeStep:
        """Return a step of a daemon.

        Args:
            number: its state.
            lag: ticks since its last step.
            event: what happens.
            key: the event, in a form that is quick to hash.
        """
        known = self._steps.get((number, lag, key))
        if known is None:
            known = self._steps[number, lag, key] = self._compute(number, lag, event)
        return known

    def load(self, number: int) -> Node:
        """Return a daemon in one of its states."""
        state = self.states[number]
        decompressor = zlib.decompressobj(zdict=self._models[state.model])
        image = decompressor.decompress(state.image)
        node: Node = _Unpickler(io.BytesIO(image), self.constants).load()
        return node

    def change(self, number: int, change: Callable[[Node], object]) -> int:
        """Return the state of a daemon after a change that takes no step."""
        node = self.load(number)
        change(node)
        return self.add(node, self.states[number].at)

    def _image_of(self, node: Node) -> bytes:
        file = io.BytesIO()
        _Pickler(file, self.constants).dump(node)
        image = file.getvalue()
        compressor = zlib.compressobj(1, zdict=self._models[self._model_of.get(node.name, 0)])
        compressed = compressor.compress(image) + compressor.flush()
        if len(compressed) > _LARGE_BYTES and len(self._models) < _MOST_MODELS:
            self._model_of[node.name] = len(self._models)
            self._models.append(image)
        return compressed

    def _compute(self, number: int, lag: int, event: NodeEvent) -> NodeStep:
        self.computed += 1
        node = self.load(number)
        now = self.states[number].at + lag * TICK
        sent, events, error = _step_of(node, event, now, self.packet_table)
        state = number if error else self.add(node, now)
        return NodeStep(state=state, sent=sent, events=events, error=error)


class PassingNodes:
    """Daemons that go along one path, from states that were reached.

    Each state counts until the next step of its daemon.

    Args:
        nodes: the states that were reached.
        numbers: the states to begin with.
    """

    def __init__(self, nodes: NodeStates, numbers: Iterable[int]) -> None:
        self.constants = nodes.constants
        self.packet_table = nodes.packet_table
        self.states: dict[int, NodeState] = {}
        self._live: dict[int, Node] = {}
        self._next = len(nodes.states)
        for number in numbers:
            self.states[number] = nodes.states[number]
            self._live[number] = nodes.load(number)

    @property
    def packets(self) -> list[Packet]:
        """Return all packets, by number."""
        return self.packet_table.packets

    def step(self, number: int, lag: int, event: NodeEvent, key: object) -> NodeStep:
        """Take a step of a daemon; see `NodeStates.step`."""
        node = self._live.pop(number)
        now = self.states[number].at + lag * TICK
        sent, events, error = _step_of(node, event, now, self.packet_table)
        number, self._next = self._next, self._next + 1
        self.states[number] = _state_of(node, now, b"", 0)
        self._live[number] = node
        return NodeStep(state=number, sent=sent, events=events, error=error)


def _step_of(
    node: Node, event: NodeEvent, now: float, table: PacketTable
) -> tuple[Sent, tuple[TraceEvent, ...], str]:
    """Return the packets, the events and the broken invariant of a step that a daemon takes."""
    try:
        datagrams = node.step(event, now, table.constants)
    except Exception as error:  # a core breaks an invariant of its own
        return (), node.journal.pop(), str(CoreFailure(node.name, error))
    return table.sent(node, datagrams), node.journal.pop(), ""


def _those_who_may_act(node: Node) -> tuple[int, ...]:
    return tuple(place for place, program in enumerate(node.programs) if program.may_act)


def _state_of(node: Node, now: float, image: bytes, model: int) -> NodeState:
    core = node.core
    view: View | None = None
    due = NEVER
    holds_packets = knows_groups = False
    if core is not None:
        due = NEVER if core.deadline > 1e15 else -int((now - core.deadline) // TICK)
        if core.state is MembershipState.OPERATIONAL:
            view = core.view
        if core.view_state is not None:
            holds_packets = core.view_state.holds_packets
            knows_groups = core.view_state.delivery.complete
    return NodeState(
        image=image,
        model=model,
        at=now,
        due=due,
        is_up=core is not None,
        may_act=() if core is None else _those_who_may_act(node),
        is_read=all(program.is_read for program in node.programs),
        is_storing=node.to_store is not None,
        starts=node.starts,
        view=b"" if view is None else view.key,
        has_groups=view is not None and knows_groups,
        members=() if view is None else tuple(daemon.name for daemon in view.daemons),
        holds_packets=holds_packets,
    )
