"""The clusters that are explored: who is there, and what programs do."""

from collections.abc import Mapping
from typing import Final

import attrs

from groupcomm.config.core import CoreConfig, CounterStarts, Windows
from groupcomm.level import ServiceLevel
from groupcomm.membership.reservation import LEAD_US
from groupcomm.names import private_name
from groupcomm.session.daemon_session import SessionLimits
from tests.verification.explore.canonical import EPOCH
from tests.verification.explore.node import Constants, Node
from tests.verification.explore.node_states import NodeStates, NodeStep
from tests.verification.explore.program import (
    Act,
    Await,
    Connect,
    Disconnect,
    Join,
    Leave,
    Multicast,
)
from tests.verification.explore.transitions import KINDS, Bounds, Move, State, TransitionSystem

_GROUP: Final = "chat"
_MOST_MOVES: Final = 10_000

_OTHER_GROUP: Final = "news"

_MEMBER: Final = (Connect(), Join(_GROUP))
_MEMBER_OF_BOTH: Final = (*_MEMBER, Join(_OTHER_GROUP))
_LARGE_BYTES: Final = 2000
"""Two fragments."""


@attrs.frozen(kw_only=True)
class Scenario:
    """A cluster and its programs.

    Attributes:
        sentence: what it is about.
        sites: the daemons of each site.
        before: the acts of programs before exploration begins, in a common view; without any
            exploration begins as the daemons start. A program is named like its daemon, with a
            digit after that for a further one.
        acts: the acts after that, by program.
        again: the acts each time that a daemon was killed and has started again, by program.
        later: the daemons that start in the course of exploration, or never.
        marks: the view counters that disks have reserved for earlier starts, by daemon.
        begins_at_rest: whether exploration begins once all know of the acts before.
        apart: the pairs of daemons that never hear each other.
        windows: the limits of a ring.
        limits: the limits of a session.
        first_hop: the hop number of each ring's first token; 0 for the usual one.
    """

    sentence: str
    sites: tuple[tuple[str, ...], ...]
    before: Mapping[str, tuple[Act, ...]] = attrs.field(factory=dict)
    acts: Mapping[str, tuple[Act, ...]] = attrs.field(factory=dict)
    again: Mapping[str, tuple[Act, ...]] = attrs.field(factory=dict)
    later: tuple[str, ...] = ()
    marks: Mapping[str, int] = attrs.field(factory=dict)
    begins_at_rest: bool = False
    apart: frozenset[tuple[str, str]] = frozenset()
    windows: Windows = attrs.field(factory=Windows)
    limits: SessionLimits = attrs.field(factory=SessionLimits)
    first_hop: int = 0

    @property
    def config(self) -> CoreConfig:
        """Return the configuration of all daemons."""
        starts = CounterStarts(hop=self.first_hop)
        return CoreConfig(suite=0, sites=self.sites, windows=self.windows, starts=starts)

    def give_acts(self, node: Node) -> None:
        """Give the programs of a daemon what they do in the course of exploration."""
        acts = {_user_of(name): each for name, each in self.acts.items()}
        for program in node.programs:
            program.acts.extend(acts.get(program.user, ()))

    def programs_of(self, daemon: str) -> dict[str, tuple[tuple[Act, ...], tuple[Act, ...]]]:
        """Return the programs of a daemon, by user, with their acts before exploration begins.

        With each are those after a further start of the daemon.
        """
        names = dict.fromkeys([daemon, *self.before, *self.acts])
        return {
            _user_of(name): (self.before.get(name, ()), self.again.get(name, ()))
            for name in names
            if name[0] == daemon
        }


def _messages(*levels: ServiceLevel) -> tuple[Act, ...]:
    return tuple(Multicast((_GROUP,), level, is_ordered=level >= _A) for level in levels)


def _user_of(program: str) -> str:
    return program * 2 if program[1:] == "" else program


def _large(level: ServiceLevel) -> Act:
    return Multicast((_GROUP,), level, _LARGE_BYTES)


_A, _S, _C, _F = ServiceLevel.AGREED, ServiceLevel.SAFE, ServiceLevel.CAUSAL, ServiceLevel.FIFO
_U = ServiceLevel.UNRELIABLE

SCENARIOS: Final[Mapping[str, Scenario]] = {
    "start-2": Scenario(sentence="Two daemons start.", sites=(("a", "b"),)),
    "start-3": Scenario(sentence="Three daemons start.", sites=(("a", "b", "c"),)),
    "idle-2": Scenario(
        sentence="Two daemons are in one view, in which nothing happens.",
        sites=(("a", "b"),),
        before={"a": (Connect(),)},
        begins_at_rest=True,
    ),
    "idle-3": Scenario(
        sentence="Three daemons are in one view, in which nothing happens.",
        sites=(("a", "b", "c"),),
        before={"a": (Connect(),)},
        begins_at_rest=True,
    ),
    "idle-4": Scenario(
        sentence="Four daemons are in one view, in which nothing happens.",
        sites=(("a", "b", "c", "d"),),
        before={"a": (Connect(),)},
        begins_at_rest=True,
    ),
    "marks-2": Scenario(
        sentence="Two daemons start; the disk of one holds a mark above what the other may use.",
        sites=(("a", "b"),),
        marks={"a": int(EPOCH) + 2 * LEAD_US},
    ),
    "agreed-2": Scenario(
        sentence="Two programs send one AGREED message each.",
        sites=(("a", "b"),),
        before={"a": _MEMBER, "b": _MEMBER},
        acts={"a": _messages(_A), "b": _messages(_A)},
    ),
    "agreed-3": Scenario(
        sentence="Two of three programs send one AGREED message each.",
        sites=(("a", "b", "c"),),
        before={"a": _MEMBER, "b": _MEMBER, "c": _MEMBER},
        acts={"a": _messages(_A), "b": _messages(_A)},
    ),
    "safe-3": Scenario(
        sentence="A program sends a SAFE message to three, and another one a FIFO message.",
        sites=(("a", "b", "c"),),
        before={"a": _MEMBER, "b": _MEMBER, "c": _MEMBER},
        acts={"a": _messages(_S), "c": _messages(_F)},
    ),
    "levels-2": Scenario(
        sentence="A program sends CAUSAL and SAFE, the other one AGREED and FIFO messages.",
        sites=(("a", "b"),),
        before={"a": _MEMBER, "b": _MEMBER},
        acts={"a": _messages(_C, _S), "b": _messages(_A, _F)},
    ),
    "groups-2": Scenario(
        sentence="A program joins and one leaves while the other one sends.",
        sites=(("a", "b"),),
        before={"a": (Connect(),), "b": _MEMBER},
        acts={"a": (Join(_GROUP), *_messages(_A)), "b": (*_messages(_A), Leave(_GROUP))},
    ),
    "names-2": Scenario(
        sentence="A program sends, ends its session and connects again; another one sends to it.",
        sites=(("a", "b"),),
        before={"a": _MEMBER, "b": _MEMBER},
        acts={
            "a": (*_messages(_A), Disconnect(), Connect()),
            "b": (Multicast((private_name("aa", "a"),)), *_messages(_A)),
        },
    ),
    "both-2": Scenario(
        sentence="A program sends to two groups and wants no copy; another one leaves a group.",
        sites=(("a", "b"),),
        before={"a": _MEMBER_OF_BOTH, "b": _MEMBER_OF_BOTH},
        acts={
            "a": (Multicast((_GROUP, _OTHER_GROUP), self_discard=True),),
            "b": (Leave(_GROUP), *_messages(_F)),
        },
    ),
    "large-2": Scenario(
        sentence="Two programs send messages in fragments, and one of them UNRELIABLE ones, too.",
        sites=(("a", "b"),),
        before={"a": _MEMBER, "b": _MEMBER},
        acts={"a": (_large(_F), _large(_U)), "b": (_large(_A),)},
    ),
    "causal-3": Scenario(
        sentence="A program sends an AGREED message, and another one a CAUSAL one.",
        sites=(("a", "b", "c"),),
        before={"a": _MEMBER, "b": _MEMBER, "c": _MEMBER},
        acts={"a": _messages(_C), "c": _messages(_A)},
    ),
    "reply-3": Scenario(
        sentence="Two programs send FIFO messages; a third one answers the first that it gets.",
        sites=(("a", "b", "c"),),
        before={"a": _MEMBER, "b": _MEMBER, "c": _MEMBER},
        acts={
            "a": _messages(_F),
            "b": _messages(_F),
            "c": (Await(1), *_messages(_C), Await(3), *_messages(_C)),
        },
    ),
    "late-3": Scenario(
        sentence="A third daemon starts, and its program sends a FIFO message.",
        sites=(("a", "b", "c"),),
        before={"a": _MEMBER, "b": _MEMBER},
        acts={"c": (Connect(), *_messages(_F))},
        later=("c",),
    ),
    "slices-2": Scenario(
        sentence="A program sends a message whose fragments take several visits of the token.",
        sites=(("a", "b"),),
        before={"a": _MEMBER, "b": _MEMBER},
        acts={"a": (Multicast((_GROUP,), _F, 6000),), "b": _messages(_F)},
        windows=Windows(visit_bytes=1500),
    ),
    "turns-2": Scenario(
        sentence="Two programs send two messages each, one in each visit of the token.",
        sites=(("a", "b"),),
        before={"a": _MEMBER, "b": _MEMBER},
        acts=dict.fromkeys(("a", "b"), (Multicast((_GROUP,), _A, 1000),) * 2),
        windows=Windows(visit_bytes=1000),
    ),
    "hops-2": Scenario(
        sentence="Two programs send one AGREED message each, and hop numbers pass 2**32.",
        sites=(("a", "b"),),
        before={"a": _MEMBER, "b": _MEMBER},
        acts={"a": _messages(_A), "b": _messages(_A)},
        first_hop=2**32 - 3,
    ),
    "sites-2": Scenario(
        sentence="Two sites of one daemon each send AGREED messages.",
        sites=(("a",), ("b",)),
        before={"a": _MEMBER, "b": _MEMBER},
        acts={"a": _messages(_A), "b": _messages(_A)},
    ),
    "sites-3": Scenario(
        sentence="Three sites of one daemon each send AGREED, UNRELIABLE and CAUSAL messages.",
        sites=(("a",), ("b",), ("c",)),
        before={"a": _MEMBER, "b": _MEMBER, "c": _MEMBER},
        acts={"a": _messages(_A), "b": _messages(_U), "c": _messages(_C)},
    ),
    "pair-3": Scenario(
        sentence="A site of two daemons and one of one daemon send AGREED and SAFE messages.",
        sites=(("a", "b"), ("c",)),
        before={"a": _MEMBER, "b": _MEMBER, "c": _MEMBER},
        acts={"a": _messages(_A), "c": _messages(_S)},
    ),
    "local-3": Scenario(
        sentence="The group of one site sends, and a program of the other site joins it.",
        sites=(("a", "b"), ("c",)),
        before={"a": _MEMBER_OF_BOTH, "b": _MEMBER, "c": (Connect(), Join(_OTHER_GROUP))},
        acts={
            "a": (*_messages(_F), Multicast((_OTHER_GROUP,), _C)),
            "b": _messages(_C),
            "c": (Join(_GROUP), Leave(_GROUP)),
        },
    ),
    "again-2": Scenario(
        sentence="A program sends an AGREED message; with that both send another one.",
        sites=(("a", "b"),),
        before={"a": _MEMBER, "b": _MEMBER},
        acts={
            "a": (Await(1), *_messages(_A)),
            "b": (*_messages(_A), Await(1), *_messages(_A)),
        },
        limits=SessionLimits(backlog_cap_bytes=50_000),
    ),
    "back-2": Scenario(
        sentence="Two programs send one AGREED message each, again once a daemon was killed.",
        sites=(("a", "b"),),
        before={"a": _MEMBER, "b": _MEMBER},
        acts={"a": _messages(_A), "b": _messages(_A)},
        again={"a": (*_MEMBER, *_messages(_A)), "b": (*_MEMBER, *_messages(_A))},
    ),
    "echo-3": Scenario(
        sentence="A program sends a CAUSAL message, gets a FIFO answer, and sends another one.",
        sites=(("a", "b", "c"),),
        before={"a": _MEMBER, "b": _MEMBER, "c": _MEMBER},
        acts={"b": (Await(1), *_messages(_F)), "c": (*_messages(_C), Await(2), *_messages(_C))},
    ),
    "line-3": Scenario(
        sentence="Three sites in a line: the outer ones do not hear each other. Two send.",
        sites=(("a",), ("b",), ("c",)),
        before={"a": _MEMBER, "b": _MEMBER, "c": _MEMBER},
        acts={"a": _messages(_A), "c": _messages(_U)},
        apart=frozenset((("a", "c"),)),
    ),
    "kept-3": Scenario(
        sentence="Two programs of one site send to a group of that site, then to one of both.",
        sites=(("a", "b"), ("c",)),
        before={
            "a": _MEMBER_OF_BOTH,
            "b": _MEMBER_OF_BOTH,
            "c": (Connect(), Join(_OTHER_GROUP)),
        },
        begins_at_rest=True,
        acts=dict.fromkeys(("a", "b"), (*_messages(_F), Multicast((_OTHER_GROUP,), _F))),
    ),
    "swap-2": Scenario(
        sentence="Of two programs at one daemon one leaves a group; the other joins it, and sends.",
        sites=(("a",), ("b",)),
        before={"a": _MEMBER, "b": _MEMBER, "b2": (Connect(),)},
        acts={
            "a": (Await(1), *_messages(_F)),
            "b": (Leave(_GROUP),),
            "b2": (Join(_GROUP), *_messages(_F)),
        },
    ),
    "window-2": Scenario(
        sentence="A site may have two packets in flight, and its program sends four messages.",
        sites=(("a",), ("b",)),
        before={"a": _MEMBER, "b": _MEMBER},
        acts={"a": (*_messages(_F), *_messages(_F), *_messages(_F), *_messages(_F))},
        windows=Windows(stream_packets=2),
    ),
}
"""By name."""


@attrs.frozen(kw_only=True)
class Beginning:
    """Where exploration begins.

    Attributes:
        nodes: the states of daemons.
        system: what can happen.
        state: the first state.
        steps: the steps before it, each with its time in ticks.
        at: the ticks before exploration begins.
    """

    nodes: NodeStates
    system: TransitionSystem
    state: State
    steps: tuple[tuple[int, NodeStep], ...]
    at: int


def begin(scenario: Scenario, bounds: Bounds) -> Beginning:
    """Start the cluster of a scenario, and bring it to where exploration begins.

    Raises:
        AssertionError: a daemon breaks an invariant before that, or there is no view.
    """
    constants = Constants(scenario.config, scenario.limits, scenario.apart)
    nodes = NodeStates(constants)
    system = TransitionSystem(nodes, bounds)
    names = nodes.constants.names
    first = [Node(name, scenario.programs_of(name), scenario.marks.get(name, 0)) for name in names]
    numbers = [nodes.add(node, EPOCH) for node in first]
    count = len(names)
    state = State(tuple(numbers), (0,) * count, 0, (), (), frozenset(), (0,) * len(KINDS), 0)
    steps: list[tuple[int, NodeStep]] = []
    for place in range(count):
        if names[place] in scenario.later:
            continue
        state, step = system.apply(state, Move("boot", place))
        assert step is not None
        steps.append((0, step))
    is_ready = system.is_at_rest if scenario.begins_at_rest else system.is_settled
    for _ in range(_MOST_MOVES):
        if not scenario.before or is_ready(state):
            break
        state, step = system.apply(state, system.usual(state))
        if step is not None:
            assert not step.error, step.error
            steps.append((state.elapsed, step))
    assert not scenario.before or is_ready(state), "there is no view to begin with"
    numbers = [nodes.change(number, scenario.give_acts) for number in state.nodes]
    at = state.elapsed
    state = state._replace(nodes=tuple(numbers), turn=0, elapsed=0)
    return Beginning(nodes=nodes, system=system, state=state, steps=tuple(steps), at=at)
