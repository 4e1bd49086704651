"""Causes that sessions receive: they are those of packets, and deliveries respect them.

Under loss, partitions and merges, over one ring and several.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.view import View
from groupcomm.events import CausalContext, DaemonView, Event, Message, Transition
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.order.order import Order
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.run import make_workload
from groupcomm.sim.settings import Options, draw_settings
from groupcomm.stream.packer import Causes, Packer
from groupcomm.wire.data import DataPacket
from tests.verification.simulation.contexts import Contexts

_, RELIABLE, FIFO, CAUSAL, AGREED, SAFE = ServiceLevel
FAULTS = "loss,burst,reorder,delay,capacity,partition,flapping,crash,pause,links,link-loss"


class Asking(Cluster):
    """A cluster whose programs all ask for causes, each of which is checked.

    Attributes:
        contexts: the check of each program.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.contexts: dict[SimulatedClient, Contexts] = {}
        super().__init__(*arguments, **options)

    def connect(
        self, user: str, daemon: int, *, causes: bool = True, **options: Any
    ) -> SimulatedClient:
        client = super().connect(user, daemon, causes=causes, **options)
        check, note = Contexts(), client._note

        def check_and_note(event: Event) -> None:
            check.received(event)
            note(event)

        self.contexts[client] = check
        client._note = check_and_note  # type: ignore[method-assign]
        return client


class Watch:
    """The numbers of packets, and the deliveries of programs.

    Attributes:
        packets: by view, time and ring the number of a packet, and its causes.
        told: the events of each client, whatever replaces its `on_event`.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.packets: dict[tuple[ViewId, int, int], tuple[int, Causes]] = {}
        self.told: dict[SimulatedClient, list[Event]] = defaultdict(list)
        views: dict[Packer, ViewId] = {}
        begin, number, note = Packer.__init__, Packer._number, SimulatedClient._note

        def beginning(packer: Packer, view: View, *args: Any, **options: Any) -> None:
            begin(packer, view, *args, **options)
            views[packer] = view.id

        def numbering(
            packer: Packer, last: int, bundles: Any, causes: Causes, stays: bool
        ) -> DataPacket:
            packet = number(packer, last, bundles, causes, stays)
            self.packets[views[packer], packet.time, packet.ring] = (packet.number, causes)
            return packet

        def noting(client: SimulatedClient, event: Event) -> None:
            self.told[client].append(event)
            note(client, event)

        monkeypatch.setattr(Packer, "__init__", beginning)
        monkeypatch.setattr(Packer, "_number", numbering)
        monkeypatch.setattr(SimulatedClient, "_note", noting)

    def compare(self, events: Sequence[Event], seen: Counter[str]) -> None:
        """Check that each message has the causes of its packet, and counts in `seen`."""
        transitional = False
        for event in events:
            if isinstance(event, DaemonView | Transition):
                transitional = isinstance(event, Transition)
                seen["views"] += not transitional
            if not isinstance(event, Message):
                continue
            if event.bundle is None:
                assert event.causes is None
                continue
            packet, (heard, agreed) = self.packets[event.bundle[:3]]
            if event.level < CAUSAL:
                assert event.causes == CausalContext(packet, None, ())
            else:
                assert event.causes == CausalContext(packet, agreed, heard)
            seen[event.level.name] += 1
            seen["transitional"] += transitional


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


def play(seed: int, sites: int) -> Asking:
    """Faults and much load, then peace."""
    settings = draw_settings(seed, Options(sites=sites, faults=FAULTS, duration_s=4.0))
    cluster = Asking(settings, start=False)
    workload = make_workload(cluster)
    workload.interval_us //= 10
    cluster.start()
    workload.start()
    cluster.run(settings.duration_s)
    cluster.heal(range(settings.daemons))
    cluster.run(1.5)
    workload.stop()
    cluster.settle()
    return cluster


@pytest.mark.parametrize("sites", [1, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("first_seed", [1])
def test_what_is_reported_is_what_packets_carried_and_nothing_comes_behind_what_depends_on_it(
    first_seed: int, sites: int, watch: Watch
) -> None:
    seen: Counter[str] = Counter()
    for seed in range(first_seed, first_seed + 2):
        for client, contexts in play(seed, sites).contexts.items():
            assert contexts.violations == [], f"seed {seed}"
            assert contexts.missing == 0, f"seed {seed}"
            seen["contexts"] += contexts.contexts
            watch.compare(watch.told.pop(client), seen)
    assert seen["contexts"] > 2_000
    assert min(seen[level.name] for level in LEVELS[1:]) > 400
    assert seen["views"] > 20
    assert seen["transitional"] > 5


@pytest.mark.verification
def test_deliveries_that_do_not_wait_for_their_causes_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Order, "_has_causes", lambda order, packet: True)
    violations: list[str] = []
    for seed in range(1, 11):
        if violations:
            break
        for contexts in play(seed, 3).contexts.values():
            violations += contexts.violations
    assert violations
    assert "comes after a message that depends on it" in violations[0]


@pytest.mark.verification
def test_two_rows_that_have_changed_places_are_found(watch: Watch) -> None:
    """A message before one that it depends on is reported, and only such a message."""
    client = max(play(2, 1).clients, key=lambda client: client.notified)
    events = watch.told[client]
    found = missed = 0
    for at, (before, after) in enumerate(pairwise(events)):
        if not (isinstance(before, Message) and isinstance(after, Message)):
            continue
        if before.bundle is None or after.bundle is None or before.index or after.index:
            continue
        swapped = [*events[:at], after, before, *events[at + 2 :]]
        contexts = Contexts()
        for event in swapped:
            contexts.received(event)
        found += bool(contexts.violations)
        missed += not contexts.violations
        assert bool(contexts.violations) == depends(after, before)
    assert found > 5
    assert missed > 10, "most messages that follow each other have nothing to do with each other"


def depends(after: Message, before: Message) -> bool:
    """Return whether a message names another one among its causes."""
    causes, bundle = after.causes, before.bundle
    assert causes is not None
    assert before.causes is not None
    assert bundle is not None
    if causes.agreed is None or after.bundle is None or after.bundle.view != bundle.view:
        return False
    if before.level >= AGREED:
        return (bundle.time, bundle.ring) <= causes.agreed
    return before.causes.packet <= causes.heard[bundle.ring]
