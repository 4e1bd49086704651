"""The clusters that are explored: who is there, and what programs do."""

from collections.abc import Mapping
from typing import Final

import attrs

from groupcomm.config.core import CoreConfig
from groupcomm.level import ServiceLevel
from groupcomm.names import private_name
from groupcomm.sim.explore.canonical import EPOCH
from groupcomm.sim.explore.node import Constants, Node
from groupcomm.sim.explore.node_states import NodeStates, NodeStep
from groupcomm.sim.explore.program import Act, Await, Connect, Disconnect, Join, Leave, Multicast
from groupcomm.sim.explore.transitions import KINDS, Bounds, Move, State, TransitionSystem

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
        before: the acts of each daemon's program before exploration begins, in a common view;
            without any exploration begins as the daemons start.
        acts: the acts after that, by daemon.
        later: the daemons that start in the course of exploration, or never.
        visit_bytes: the most bytes that one handling of the token numbers; 0 for the usual number.
        first_hop: the hop number of each ring's first token; 0 for the usual one.
    """

    sentence: str
    sites: tuple[tuple[str, ...], ...]
    before: Mapping[str, tuple[Act, ...]] = attrs.field(factory=dict)
    acts: Mapping[str, tuple[Act, ...]] = attrs.field(factory=dict)
    later: tuple[str, ...] = ()
    visit_bytes: int = 0
    first_hop: int = 0

    @property
    def config(self) -> CoreConfig:
        """Return the configuration of all daemons."""
        config = CoreConfig(suite=0, sites=self.sites)
        if self.visit_bytes:
            windows = attrs.evolve(config.windows, visit_bytes=self.visit_bytes)
            config = attrs.evolve(config, windows=windows)
        if self.first_hop:
            config = attrs.evolve(config, starts=attrs.evolve(config.starts, hop=self.first_hop))
        return config


def _messages(*levels: ServiceLevel) -> tuple[Act, ...]:
    return tuple(Multicast((_GROUP,), level, is_ordered=level >= _A) for level in levels)


def _large(level: ServiceLevel) -> Act:
    return Multicast((_GROUP,), level, _LARGE_BYTES)


_A, _S, _C, _F = ServiceLevel.AGREED, ServiceLevel.SAFE, ServiceLevel.CAUSAL, ServiceLevel.FIFO
_U = ServiceLevel.UNRELIABLE

SCENARIOS: Final[Mapping[str, Scenario]] = {
    "start-2": Scenario(sentence="Two daemons start.", sites=(("a", "b"),)),
    "start-3": Scenario(sentence="Three daemons start.", sites=(("a", "b", "c"),)),
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
        visit_bytes=1500,
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
    nodes = NodeStates(Constants(scenario.config))
    system = TransitionSystem(nodes, bounds)
    names = nodes.constants.names
    numbers = [nodes.add(Node(name, scenario.before.get(name, ())), EPOCH) for name in names]
    count = len(names)
    state = State(tuple(numbers), (0,) * count, 0, (), (), frozenset(), (0,) * len(KINDS), 0)
    steps: list[tuple[int, NodeStep]] = []
    for place in range(count):
        if names[place] in scenario.later:
            continue
        state, step = system.apply(state, Move("boot", place))
        assert step is not None
        steps.append((0, step))
    for _ in range(_MOST_MOVES):
        if not scenario.before or system.is_settled(state):
            break
        state, step = system.apply(state, system.usual(state))
        if step is not None:
            assert not step.error, step.error
            steps.append((state.elapsed, step))
    assert not scenario.before or system.is_settled(state), "there is no view to begin with"
    numbers = [
        nodes.change(
            number, lambda node: node.program.acts.extend(scenario.acts.get(node.name, ()))
        )
        for number in state.nodes
    ]
    at = state.elapsed
    state = state._replace(nodes=tuple(numbers), turn=0, elapsed=0)
    return Beginning(nodes=nodes, system=system, state=state, steps=tuple(steps), at=at)
