"""The events that each level waits for, and those that it does not, in whole clusters."""

from collections import Counter
from collections.abc import Callable
from itertools import permutations

import attrs
import pytest

from groupcomm.config.core import Timing
from groupcomm.events import Event, GroupView, Message, Ordered
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.security.layout import HEAD_BYTES
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.faults.paths import PathFaults
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import random_for
from groupcomm.wire.data import decode_data_untrusted
from groupcomm.wire.link import decode_link_untrusted
from groupcomm.wire.packet import PacketKind

UNRELIABLE, RELIABLE, FIFO, CAUSAL, AGREED, SAFE = ServiceLevel
DELAY_S = 0.04


class Losing(PathFaults):
    """A path that loses the datagrams that `loses` selects; they must not be encrypted."""

    loses: Callable[[bytes], bool]

    def send(self, datagram: bytes) -> bool:
        return not self.loses(datagram[HEAD_BYTES:-4]) and super().send(datagram)


def lose(cluster: Cluster, near: int, far: int, loses: Callable[[bytes], bool]) -> None:
    path = cluster.network.paths[near, far]
    faults = Losing(cluster.loop, random_for(1, "lost"), Faults(), path.transfer)
    faults.loses = loses
    path.faults = faults


def lose_nothing(cluster: Cluster) -> None:
    for path in cluster.network.paths.values():
        path.faults = None


def first_data(packet: bytes, seen: set[int]) -> bool:
    """Return the first packet of a stream that comes after `seen` was emptied, and its copies."""
    if packet[0] != PacketKind.DATA:
        return False
    number = decode_data_untrusted(packet).number
    if not seen:
        seen.add(number)
    return number in seen


def three_rings(clock_error_s: float = 0.001) -> Cluster:
    settings = plain_settings(daemons=3, sites=3, delay_s=DELAY_S)
    return Cluster(attrs.evolve(settings, clock_error_s=clock_error_s))


def members_of(cluster: Cluster, *daemons: int) -> list[SimulatedClient]:
    clients = [cluster.connect(f"user{place}", daemon) for place, daemon in enumerate(daemons)]
    cluster.run(0.3)
    for client in clients:
        client.join("g")
    cluster.run(0.7)
    return clients


def texts(client: SimulatedClient) -> list[str]:
    return [event.data.decode() for event in client.events if isinstance(event, Message)]


# ---- gaps ----


def test_reliable_does_not_wait_behind_a_gap_and_fifo_only_for_its_sender() -> None:
    cluster = Cluster(plain_settings(daemons=3))
    sender, other, receiver = members_of(cluster, 0, 1, 2)
    lost: set[int] = set()
    lose(cluster, 0, 2, lambda packet: first_data(packet, lost))
    lose(cluster, 1, 2, lambda packet: bool(lost) and first_data(packet, lost))
    sender.multicast(["g"], b"lost", level=FIFO)
    cluster.run(0.002)  # the message travels alone
    sender.multicast(["g"], b"reliable", level=RELIABLE)
    sender.multicast(["g"], b"fifo", level=FIFO)
    other.multicast(["g"], b"other's reliable", level=RELIABLE)
    other.multicast(["g"], b"other's fifo", level=FIFO)
    cluster.run(0.5)
    assert sorted(texts(receiver)) == ["other's fifo", "other's reliable", "reliable"]
    lose_nothing(cluster)
    cluster.run(0.5)
    assert texts(receiver)[-2:] == ["lost", "fifo"]


@pytest.mark.parametrize(("level", "waits"), [(RELIABLE, False), (FIFO, False), (CAUSAL, True)])
def test_only_causal_waits_for_what_its_sender_had_received(
    level: ServiceLevel, waits: bool
) -> None:
    cluster = three_rings()
    asks, answers, receiver = members_of(cluster, 0, 1, 2)
    lose(cluster, 0, 2, lambda packet: packet[0] == PacketKind.LINK)
    asks.multicast(["g"], b"question", level=CAUSAL)
    cluster.run(1.2 * DELAY_S)
    assert texts(answers) == ["question"]
    answers.multicast(["g"], b"answer", level=level)
    cluster.run(1.2 * DELAY_S)
    assert texts(receiver) == ([] if waits else ["answer"])
    lose_nothing(cluster)
    cluster.run(1.0)
    assert texts(receiver) == (["question", "answer"] if waits else ["answer", "question"])


def hops_of(cluster: Cluster) -> list[int]:
    """Return the number of times that the token has moved, as each daemon knows."""
    operations = [host.core.view_state for host in cluster.daemons]
    return [operation.ring.monitor.hop for operation in operations if operation is not None]


def test_unreliable_costs_no_recovery() -> None:
    cluster = Cluster(plain_settings(daemons=3))
    sender, *receivers = members_of(cluster, 0, 1, 2)
    for far in (1, 2):
        lose(cluster, 0, far, lambda packet: packet[0] == PacketKind.UNRELIABLE)
    hops = hops_of(cluster)
    kinds: Counter[int] = Counter()
    cluster.network.observers.append(
        lambda _source, _target, datagram, _goes_on: kinds.update([datagram[HEAD_BYTES]])
    )
    for _ in range(20):
        sender.multicast(["g"], b"gone", level=UNRELIABLE)
        cluster.run(0.05)
    assert texts(sender) == ["gone"] * 20
    assert [texts(receiver) for receiver in receivers] == [[], []]
    assert hops_of(cluster) == hops, "no token moved"
    assert kinds.pop(PacketKind.UNRELIABLE) == 20 * 2, "once to each, never again"
    del kinds[PacketKind.CONTROL]  # beacons do not count
    rest_notices = kinds.pop(PacketKind.REST)
    assert rest_notices <= 2 * (1 + int(1.0 / Timing().rest_interval_s)), "as in silence"
    assert not kinds, "nobody asks for anything"


def test_unreliable_goes_only_to_sites_that_have_members() -> None:
    cluster = Cluster(plain_settings(daemons=(2, 1, 1)))
    sender, near, far = (cluster.connect(f"user{at}", at) for at in (0, 1, 2))
    cluster.run(1.0)
    near.join("near")
    for member in (near, far):
        member.join("everywhere")
    cluster.run(2.0)
    carried: Counter[bool] = Counter()

    def observe(source: int, target: int, datagram: bytes, _goes_on: bool) -> None:
        packet = datagram[HEAD_BYTES:-4]
        if packet[0] == PacketKind.LINK:
            assert decode_link_untrusted(packet).packet[0] == PacketKind.UNRELIABLE
            carried[target == 2] += 1

    cluster.network.observers.append(observe)
    for group in ("near", near.name, "nobody"):
        for at, origin in enumerate((sender, near)):
            origin.multicast([group], f"{group} {at}".encode(), level=UNRELIABLE)
    cluster.run(0.5)
    assert len(texts(near)) == 4
    assert not carried
    near.multicast(["everywhere"], b"all", level=UNRELIABLE)
    sender.multicast([far.name], b"private", level=UNRELIABLE)
    sender.multicast(["near", "everywhere"], b"both", level=UNRELIABLE)
    cluster.run(0.5)
    assert sorted(texts(far)) == ["all", "both", "private"]
    assert carried[True] == 2, "what one daemon sends at once shares a packet"


# ---- between rings ----


def test_causal_beats_agreed_between_rings() -> None:
    cluster = three_rings()
    sender, receiver, _ = members_of(cluster, 0, 1, 2)
    other = cluster.connect("other", 0)
    cluster.run(10.0)  # after a silence AGREED needs a round of notices
    sender.multicast(["g"], b"agreed", level=AGREED)
    other.multicast(["g"], b"causal", level=CAUSAL)
    cluster.run(0.9 * DELAY_S)
    assert texts(receiver) == []
    cluster.run(0.3 * DELAY_S)
    assert texts(receiver) == ["causal"]
    cluster.run(DELAY_S)
    assert texts(receiver) == ["causal", "agreed"]


def test_one_unstable_safe_delays_later_agreed() -> None:
    cluster = three_rings()
    sender, receiver, _ = members_of(cluster, 0, 1, 2)
    other = cluster.connect("other", 0)
    cluster.run(1.0)
    sender.multicast(["g"], b"safe", level=SAFE)
    cluster.run(0.001)
    other.multicast(["g"], b"agreed", level=AGREED)
    cluster.run(1.6 * DELAY_S)
    assert texts(receiver) == [], "AGREED alone would be there"
    cluster.run(DELAY_S)
    assert texts(receiver) == ["safe", "agreed"]


@pytest.mark.parametrize("member", [True, False])
@pytest.mark.parametrize(("level", "ways"), [(AGREED, 1), (SAFE, 2)])
def test_ordered_answers_when_its_promise_holds(
    level: ServiceLevel, ways: int, member: bool
) -> None:
    cluster = three_rings()
    insider, _, _ = members_of(cluster, 0, 1, 2)
    outsider = cluster.connect("outsider", 0)
    cluster.run(1.0)
    sender = insider if member else outsider
    number = sender.multicast(["g"], b"?", level=level, ordered=True)
    cluster.run(0.9 * ways * DELAY_S)
    assert not any(isinstance(event, Ordered) for event in sender.events), "lower may still come"
    cluster.run(0.5 * DELAY_S)
    answers = [event for event in sender.events if isinstance(event, Ordered)]
    assert [answer.number for answer in answers] == [number]
    delivered = [event.position for event in insider.events if isinstance(event, Message)]
    assert delivered == [answers[0].position]


class Telephone:
    """Each client that receives `cause` has `answers` sent at once, whatever the network does."""

    def __init__(
        self, told: SimulatedClient, cause: type[Event], answers: SimulatedClient, text: str
    ) -> None:
        self.heard_before = False
        self._told = told
        self._cause = cause
        self._answers = answers
        self._text = text
        told.on_event = self._on_event

    def _on_event(self, event: Event) -> None:
        self._told.events.append(event)
        if isinstance(event, self._cause):
            self._told.on_event = self._told.events.append
            self.heard_before = f"{self._text}?" in texts(self._answers)
            self._answers.multicast(["g"], f"{self._text}!".encode())


@pytest.mark.parametrize(
    ("cause", "level"),
    [
        (Message, AGREED),
        pytest.param(Message, SAFE, marks=pytest.mark.long),
        pytest.param(Ordered, AGREED, marks=pytest.mark.long),
        (Ordered, SAFE),
    ],
)
def test_what_is_caused_over_a_telephone_comes_after_its_cause(
    level: ServiceLevel, cause: type[Event]
) -> None:
    """Clocks are up to a second apart: stamps alone would put many answers before their causes."""
    cluster = three_rings(clock_error_s=1.0)
    clients = members_of(cluster, 0, 1, 2)
    calls: list[Telephone] = []
    for turn, (asks, listens, answers) in enumerate(2 * [*permutations(clients)]):
        told = asks if cause is Ordered else listens
        calls.append(Telephone(told, cause, answers, str(turn)))
        asks.multicast(["g"], f"{turn}?".encode(), level=level, ordered=True)
        cluster.run(0.25)
    expected = [f"{turn}{sign}" for turn in range(len(calls)) for sign in "?!"]
    assert [texts(client) for client in clients] == [expected] * 3
    assert not all(call.heard_before for call in calls), "else CAUSAL would do"


# ---- recipients ----


@pytest.mark.parametrize("level", [RELIABLE, FIFO, CAUSAL, AGREED, SAFE])
def test_fragments_go_to_members_from_the_first_to_the_last(level: ServiceLevel) -> None:
    cluster = Cluster(plain_settings(daemons=3))
    sender, stays, leaves = members_of(cluster, 0, 1, 2)
    late = cluster.connect("late", 1)
    cluster.run(1.0)
    sender.multicast(["g"], bytes(2_000_000), level=level)
    cluster.run(0.001)  # some fragments are numbered, some wait for the window
    late.join("g")
    leaves.leave("g")
    cluster.run(1.0)
    assert [len(texts(client)) for client in (sender, stays, leaves, late)] == [1, 1, 0, 0]
    assert any(isinstance(event, GroupView) for event in late.events), "it did join meanwhile"
    assert leaves.groups == set()


@pytest.mark.parametrize("level", LEVELS[1:])
def test_a_sender_that_dies_between_fragments_has_sent_nothing(level: ServiceLevel) -> None:
    cluster = Cluster(plain_settings(daemons=2))
    sender, receiver = members_of(cluster, 0, 1)
    sender.multicast(["g"], bytes(2_000_000), level=level)
    cluster.run(0.0005)  # its daemon has read half of the message
    sender.crash()
    cluster.run(1.0)
    assert texts(receiver) == []
    last = receiver.events[-1]
    assert isinstance(last, GroupView)
    assert [member.name for member in last.members] == [receiver.name]


@pytest.mark.parametrize("level", LEVELS)
def test_a_message_to_several_groups_arrives_once_and_not_at_who_discards_it(
    level: ServiceLevel,
) -> None:
    cluster = Cluster(plain_settings(daemons=2))
    sender, receiver = members_of(cluster, 0, 1)
    sender.join("h")
    receiver.join("h")
    cluster.run(0.5)
    everywhere = ["g", "h", receiver.name, sender.name]
    sender.multicast(everywhere, b"once", level=level)
    sender.multicast(everywhere, b"not to me", level=level, self_discard=True)
    cluster.run(0.5)
    assert texts(sender) == ["once"]
    assert texts(receiver) == ["once", "not to me"]
