"""Private messages while their targets go, and names change hands, in whole clusters."""

import functools

import pytest

from groupcomm.events import Connected, Message, Undeliverable
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings
from tests.groupcomm.sim.checked_cluster import CheckedCluster

DELAY_S = 0.04
POSITIONED = LEVELS[1:]
ORDERED = (ServiceLevel.AGREED, ServiceLevel.SAFE)


def received(client: SimulatedClient) -> list[int]:
    return [event.number for event in client.events if isinstance(event, Message)]


def bounced(client: SimulatedClient) -> list[int]:
    return [event.number for event in client.events if isinstance(event, Undeliverable)]


class Succession:
    """A name whose owner leaves while somebody in another ring writes to it, and its heir."""

    def __init__(self, level: ServiceLevel) -> None:
        checked = CheckedCluster(plain_settings(daemons=2, sites=2, delay_s=DELAY_S))
        self.cluster = checked.cluster
        self.sender = self.cluster.connect("sender", 0)
        self.owner = self.cluster.connect("name", 1)
        self.cluster.run(1.0)
        self._level = level
        self.sent: list[int] = []
        self.write(100)
        self.owner.disconnect()
        self.heir = self.cluster.connect("name", 1)
        self.write(300)
        checked.finish()

    def write(self, count: int) -> None:
        for _ in range(count):
            number = self.sender.multicast([self.owner.name], b"x", level=self._level)
            self.sent.append(number)
            self.cluster.run(0.001)


@functools.cache
def succession_at(level: ServiceLevel) -> Succession:
    """Return the same run for all tests, which only look at it."""
    return Succession(level)


@pytest.mark.parametrize("level", LEVELS)
def test_a_names_next_owner_gets_only_what_was_sent_to_it(level: ServiceLevel) -> None:
    succession = succession_at(level)
    assert isinstance(succession.heir.events[0], Connected)
    assert succession.heir.name == succession.owner.name
    old, new = received(succession.owner), received(succession.heir)
    assert old == succession.sent[: len(old)], "the owner gets the first ones"
    assert new == succession.sent[-len(new) :], "the heir the last ones"
    assert len(old) >= 50
    assert len(new) >= 50
    assert not set(new) & set(bounced(succession.sender)), "what comes back is not for the heir"


@pytest.mark.parametrize("level", POSITIONED)
def test_a_private_message_is_received_or_comes_back(level: ServiceLevel) -> None:
    succession = succession_at(level)
    old, back, new = (
        received(succession.owner),
        bounced(succession.sender),
        received(succession.heir),
    )
    assert back, "some were on their way when the owner left"
    assert back == sorted(set(back))
    assert sorted(set(old + back + new)) == succession.sent
    if level in ORDERED:  # lower levels may arrive before their position, and come back as well
        assert old + back + new == succession.sent


def test_unreliable_messages_to_nobody_are_dropped_in_silence() -> None:
    succession = succession_at(ServiceLevel.UNRELIABLE)
    assert bounced(succession.sender) == []
    assert len(received(succession.owner) + received(succession.heir)) < len(succession.sent)


@pytest.mark.parametrize("level", POSITIONED)
def test_a_private_message_to_one_who_crashed_comes_back(level: ServiceLevel) -> None:
    cluster = Cluster(plain_settings(daemons=2))
    sender, target = cluster.connect("sender", 0), cluster.connect("target", 1)
    cluster.run(1.0)
    before = sender.multicast([target.name], b"x", level=level)
    cluster.run(0.5)
    target.crash()
    cluster.run(0.5)
    after = sender.multicast([target.name], b"x", level=level)
    cluster.run(0.5)
    assert received(target) == [before]
    assert bounced(sender) == [after]


def test_a_name_that_appears_between_fragments_is_still_nobody() -> None:
    """All fragments have the first one's target: the message comes back, complete."""
    cluster = Cluster(plain_settings(daemons=2))
    sender = cluster.connect("sender", 0)
    cluster.run(1.0)
    number = sender.multicast(["#heir#bravo"], bytes(4_000_000))
    heir = cluster.connect("heir", 1)
    cluster.run(3.0)
    assert heir.connected
    assert received(heir) == []
    assert bounced(sender) == [number]


@pytest.mark.parametrize("level", LEVELS)
def test_who_has_connected_gets_what_is_sent_to_its_name_from_then_on(level: ServiceLevel) -> None:
    """Even at a daemon that does not know the session yet."""
    checked = CheckedCluster(plain_settings(daemons=2))
    cluster = checked.cluster
    sender = cluster.connect("sender", 0)
    cluster.run(1.0)
    owner = cluster.connect("name", 1)
    while not owner.connected:
        cluster.run(0.0001)
    sizes = [1, 1, 10_000]
    sent = [sender.multicast([owner.name], bytes(size), level=level) for size in sizes]
    checked.finish()
    assert received(owner) == sent
    assert bounced(sender) == []
