"""The states in which daemons have been, and the steps that they have taken.

A step is computed once, however many states of the cluster it is a part of: there are far fewer
states of daemons than of clusters.
"""

import io
import pickle
from collections.abc import Callable
from typing import Any, Final

import attrs

from groupcomm.config.view import View
from groupcomm.membership.states import MembershipState
from groupcomm.security.layout import FOR_ONE, HEAD_BYTES
from groupcomm.sim.cluster.process import CoreFailure
from groupcomm.sim.explore.canonical import TICK, digest_of
from groupcomm.sim.explore.node import Constants, Node, NodeEvent, Packet
from groupcomm.trace.events import TraceEvent

NEVER: Final = 2**62
"""Ticks that never pass."""

_CRC_BYTES: Final = 4
_SCOPE_AT: Final = 2


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, constants: Constants) -> None:
        super().__init__(file, -1)
        self._constants = constants.names_of

    def persistent_id(self, obj: Any) -> str | None:
        return self._constants.get(id(obj))

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, memoryview):  # a part of a packet
            return memoryview, (bytes(obj),)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, constants: Constants) -> None:
        super().__init__(file)
        self._objects = constants.objects

    def persistent_load(self, name: str) -> object:
        return self._objects[name]


@attrs.frozen(kw_only=True)
class NodeState:
    """One state of a daemon.

    Attributes:
        image: the daemon, pickled.
        at: the time of its last step, in seconds.
        due: ticks from that to its next step; a number that is never reached without one.
        is_up: whether it runs.
        may_act: whether its program can do its next act.
        acts: the number of acts of its program that are left.
        is_storing: whether its disk has something to store.
        starts: the number of its starts.
        view: the key of the view that is installed, if it is in it and in order; b"" otherwise.
        members: the daemons of this view.
    """

    image: bytes
    at: float
    due: int
    is_up: bool
    may_act: bool
    acts: int
    is_storing: bool
    starts: int
    view: bytes
    members: tuple[str, ...]


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


class NodeStates:
    """All states of daemons that were reached, and their steps."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.states: list[NodeState] = []
        self.packets: list[Packet] = []
        self.computed = 0
        self._by_digest: dict[bytes, int] = {}
        self._packets: dict[Packet, int] = {}
        self._steps: dict[tuple[int, int, Any], NodeStep] = {}

    def add(self, node: Node, now: float) -> int:
        """Return the number of the state of a daemon."""
        digest = digest_of(
            (
                node.core,
                node.program,
                node.starts,
                node.mark,
                node.to_store,
                node.journal.history,
                node.name,
            ),
            now,
            self.constants.names_of,
        )
        number = self._by_digest.get(digest)
        if number is None:
            number = self._by_digest[digest] = len(self.states)
            self.states.append(self._state_of(node, now))
        return number

    def _state_of(self, node: Node, now: float) -> NodeState:
        file = io.BytesIO()
        _Pickler(file, self.constants).dump(node)
        core = node.core
        view: View | None = None
        due = NEVER
        if core is not None:
            due = NEVER if core.deadline > 1e15 else -int((now - core.deadline) // TICK)
            if core.state is MembershipState.OPERATIONAL:
                view = core.view
        return NodeState(
            image=file.getvalue(),
            at=now,
            due=due,
            is_up=core is not None,
            may_act=core is not None and node.program.may_act,
            acts=len(node.program.acts),
            is_storing=node.to_store is not None,
            starts=node.starts,
            view=b"" if view is None else view.key,
            members=() if view is None else tuple(daemon.name for daemon in view.daemons),
        )

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
        node: Node = _Unpickler(io.BytesIO(self.states[number].image), self.constants).load()
        return node

    def change(self, number: int, change: Callable[[Node], object]) -> int:
        """Return the state of a daemon after a change that takes no step."""
        node = self.load(number)
        change(node)
        return self.add(node, self.states[number].at)

    def _compute(self, number: int, lag: int, event: NodeEvent) -> NodeStep:
        self.computed += 1
        node = self.load(number)
        now = self.states[number].at + lag * TICK
        try:
            sent = node.step(event, now, self.constants)
        except Exception as error:  # a core breaks an invariant of its own
            events = node.journal.pop()
            return NodeStep(state=number, events=events, error=str(CoreFailure(node.name, error)))
        events = node.journal.pop()
        packets = tuple(
            (place, self._packet(node, target, datagram))
            for target, datagram in sent
            for place, name in enumerate(self.constants.names)
            if name != node.name and target in (None, name)
        )
        return NodeStep(state=self.add(node, now), sent=packets, events=events)

    def _packet(self, node: Node, target: str | None, datagram: bytes) -> int:
        packet = Packet(
            node.name,
            node.starts,
            target or "",
            datagram[_SCOPE_AT] == FOR_ONE,
            datagram[HEAD_BYTES:-_CRC_BYTES],
        )
        number = self._packets.get(packet)
        if number is None:
            number = self._packets[packet] = len(self.packets)
            self.packets.append(packet)
        return number
