"""What each level waits for, and what it does not, in whole clusters."""

from collections.abc import Callable

from groupcomm.config.core import Timing
from groupcomm.events import GroupView, Message, Ordered, Undeliverable
from groupcomm.level import ServiceLevel
from groupcomm.security.sealing import HEAD_BYTES
from groupcomm.sim.clients import Client
from groupcomm.sim.cluster import Cluster
from groupcomm.sim.faults import Faults
from groupcomm.sim.loop import random_for
from groupcomm.sim.path_faults import PathFaults
from groupcomm.sim.settings import plain_settings
from groupcomm.wire.data import decode_data_untrusted
from groupcomm.wire.packet import PacketKind

UNRELIABLE, RELIABLE, FIFO, CAUSAL, AGREED, SAFE = ServiceLevel
DELAY_S = 0.04


class Losing(PathFaults):
    """A path that loses what `loses` says; datagrams must not be encrypted."""

    loses: Callable[[bytes], bool]

    def send(self, datagram: bytes) -> bool:
        return not self.loses(datagram[HEAD_BYTES:-4]) and super().send(datagram)


def lose(cluster: Cluster, near: int, far: int, loses: Callable[[bytes], bool]) -> None:
    path = cluster.network.paths[near, far]
    faults = Losing(cluster.loop, random_for(1, "lost"), Faults(), path.transfer)
    faults.loses = loses
    path.faults = faults


def first_data(packet: bytes, seen: set[int]) -> bool:
    """The first packet of a stream that comes after `seen` was emptied, and its copies."""
    if packet[0] != PacketKind.DATA:
        return False
    number = decode_data_untrusted(packet).number
    if not seen:
        seen.add(number)
    return number in seen


def members_of(cluster: Cluster, *daemons: int) -> list[Client]:
    clients = [cluster.connect(f"user{place}", daemon) for place, daemon in enumerate(daemons)]
    cluster.run(1.0)
    for client in clients:
        client.join("g")
    cluster.run(2.0)
    return clients


def texts(client: Client) -> list[str]:
    return [event.data.decode() for event in client.events if isinstance(event, Message)]


def test_reliable_does_not_wait_behind_a_gap_and_fifo_only_for_its_sender() -> None:
    cluster = Cluster(plain_settings(daemons=3))
    sender, other, receiver = members_of(cluster, 0, 1, 2)
    lost: set[int] = set()
    lose(cluster, 0, 2, lambda packet: first_data(packet, lost))
    lose(cluster, 1, 2, lambda packet: bool(lost) and first_data(packet, lost))
    sender.multicast(["g"], b"lost", level=FIFO)
    cluster.run(0.002)  # so that it travels alone
    sender.multicast(["g"], b"reliable", level=RELIABLE)
    sender.multicast(["g"], b"fifo", level=FIFO)
    other.multicast(["g"], b"other", level=FIFO)
    cluster.run(0.5)
    assert sorted(texts(receiver)) == ["other", "reliable"]
    for path in cluster.network.paths.values():
        path.faults = None
    cluster.run(0.5)
    assert texts(receiver)[-2:] == ["lost", "fifo"]


def test_unreliable_costs_no_recovery() -> None:
    cluster = Cluster(plain_settings(daemons=3))
    sender, *receivers = members_of(cluster, 0, 1, 2)
    for far in (1, 2):
        lose(cluster, 0, far, lambda packet: packet[0] == PacketKind.UNRELIABLE)
    hops = [daemon.core.ring.away.hop for daemon in cluster.daemons]
    sent = cluster.daemons[1].core.counters.sent
    for _ in range(20):
        sender.multicast(["g"], b"gone", level=UNRELIABLE)
        cluster.run(0.05)
    assert texts(sender) == ["gone"] * 20
    assert [texts(receiver) for receiver in receivers] == [[], []]
    assert [daemon.core.ring.away.hop for daemon in cluster.daemons] == hops, "no token moved"
    rest_notices = 1 + int(1.0 / Timing().rest_interval_s)
    assert cluster.daemons[1].core.counters.sent - sent <= rest_notices, "nobody asks for anything"


def test_causal_beats_agreed_between_rings() -> None:
    cluster = Cluster(plain_settings(daemons=3, rings=3, ring_delay_s=DELAY_S))
    sender, receiver, _ = members_of(cluster, 0, 1, 2)
    cluster.run(5.0)  # silence: AGREED needs a round of notices
    sender.multicast(["g"], b"agreed", level=AGREED)
    cluster.run(0.001)
    other = cluster.connect("other", 0)
    cluster.run(1.0)
    cluster.run(5.0)
    before = len(receiver.events)
    sender.multicast(["g"], b"agreed too", level=AGREED)
    other.multicast(["g"], b"causal", level=CAUSAL)
    cluster.run(1.2 * DELAY_S)
    new = [event.data for event in receiver.events[before:] if isinstance(event, Message)]
    assert new == [b"causal"]
    cluster.run(1.2 * DELAY_S)
    new = [event.data for event in receiver.events[before:] if isinstance(event, Message)]
    assert new == [b"causal", b"agreed too"]


def test_one_unstable_safe_delays_later_agreed() -> None:
    cluster = Cluster(plain_settings(daemons=3, rings=3, ring_delay_s=DELAY_S))
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


def test_ordered_answers_when_its_promise_holds_and_to_no_member_as_well() -> None:
    cluster = Cluster(plain_settings(daemons=3, rings=3, ring_delay_s=DELAY_S))
    members_of(cluster, 1, 2)
    outsider = cluster.connect("outsider", 0)
    cluster.run(1.0)
    for level, ways in ((AGREED, 1), (SAFE, 2)):
        outsider.multicast(["g"], b"?", level=level, ordered=True)
        cluster.run(0.9 * ways * DELAY_S)
        answers = sum(isinstance(event, Ordered) for event in outsider.events)
        assert answers == ways - 1, "something lower may still come"
        cluster.run(0.4 * DELAY_S)
        assert isinstance(outsider.events[-1], Ordered)


def test_private_messages_before_and_after_their_target_disconnects() -> None:
    for level in (RELIABLE, FIFO, CAUSAL, AGREED, SAFE):
        cluster = Cluster(plain_settings(daemons=2))
        sender, target = members_of(cluster, 0, 1)
        sender.multicast([target.name], b"before", level=level)
        cluster.run(0.5)
        assert texts(target) == ["before"]
        target.crash()
        sender.multicast([target.name], b"with it", level=level)  # it is not gone everywhere yet
        cluster.run(0.5)
        sender.multicast([target.name], b"after", level=level)
        cluster.run(0.5)
        bounced = [event.number for event in sender.events if isinstance(event, Undeliverable)]
        assert bounced[-1] == 4, "join, before, with it, after"
        assert texts(target) == ["before"]


def test_a_names_next_owner_does_not_get_the_last_ones_message() -> None:
    cluster = Cluster(plain_settings(daemons=2, rings=2, ring_delay_s=DELAY_S))
    sender, target = members_of(cluster, 0, 1)
    target.disconnect()
    heir = cluster.connect("user1", 1)
    sender.multicast([target.name], b"for the last one", level=AGREED)
    cluster.run(1.0)
    assert heir.connected
    assert heir.name == target.name
    assert texts(heir) == []
    assert any(isinstance(event, Undeliverable) for event in sender.events)


def test_fragments_go_to_members_from_the_first_to_the_last() -> None:
    cluster = Cluster(plain_settings(daemons=3))
    sender, stays, leaves = members_of(cluster, 0, 1, 2)
    late = cluster.connect("late", 1)
    cluster.run(1.0)
    sender.multicast(["g"], bytes(4_000_000), level=AGREED)
    cluster.run(0.001)  # some fragments are numbered, some wait for the window
    late.join("g")
    leaves.leave("g")
    cluster.run(2.0)
    assert [len(texts(client)) for client in (sender, stays, leaves, late)] == [1, 1, 0, 0]
    views = [event for event in late.events if isinstance(event, GroupView)]
    assert views, "it did join meanwhile"


def test_a_message_to_several_groups_arrives_once_and_not_at_who_discards_it() -> None:
    cluster = Cluster(plain_settings(daemons=2))
    sender, receiver = members_of(cluster, 0, 1)
    sender.join("h")
    receiver.join("h")
    cluster.run(0.5)
    sender.multicast(["g", "h", receiver.name], b"once", level=AGREED)
    sender.multicast(["g", "h"], b"not to me", level=FIFO, self_discard=True)
    cluster.run(0.5)
    assert texts(sender) == ["once"]
    assert texts(receiver) == ["once", "not to me"]


def test_a_name_that_appears_between_fragments_is_still_nobody() -> None:
    """All fragments mean whom the first one meant: the message comes back, whole."""
    cluster = Cluster(plain_settings(daemons=2))
    (sender,) = members_of(cluster, 0)
    name = "#heir#bravo"
    sender.multicast([name], bytes(4_000_000), level=AGREED)
    heir = cluster.connect("heir", 1)
    cluster.run(3.0)
    assert heir.connected
    assert texts(heir) == []
    assert [event.target for event in sender.events if isinstance(event, Undeliverable)] == [name]
