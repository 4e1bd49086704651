"""Messages that stay in their site: no body crosses a link, nobody misses any, all is in order."""

from random import Random

import pytest

from groupcomm.events import GroupView, Message
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.network.links import SimulatedLink
from groupcomm.sim.settings import plain_settings
from tests.groupcomm.sim.checked_cluster import CheckedCluster, with_few_notices

SIZES = (2, 2, 2)
MARK = b"only for the inside "
NUMBERED = [level for level in LEVELS if level > ServiceLevel.UNRELIABLE]


class Watched:
    """Three sites, a program at each daemon, and the packets with the mark that cross links."""

    def __init__(self, faults: Faults | None = None, seed: int = 1) -> None:
        links = [
            SimulatedLink(sites=(0, 1), delay_s=0.02),
            SimulatedLink(sites=(1, 2), delay_s=0.02),
        ]
        settings = plain_settings(daemons=SIZES, links=links, seed=seed, faults=faults)
        self.checked = CheckedCluster(with_few_notices(settings))
        self.cluster = self.checked.cluster
        self.clients = self.checked.connect(sum(SIZES))
        self.crossed = 0
        self.cluster.network.observers.append(self._observe)

    def _observe(self, source: int, target: int, datagram: bytes, _: bool) -> None:
        sites = self.cluster.daemons[source].site, self.cluster.daemons[target].site
        if sites[0] != sites[1]:
            self.crossed += datagram.count(MARK)

    def join(self, group: str, *members: int) -> None:
        for member in members:
            self.clients[member].join(group)
        while not all(has_joined(self.clients[member], group) for member in members):
            self.cluster.run(0.05)

    def got(self, member: int) -> list[bytes]:
        return [e.data for e in self.clients[member].events if isinstance(e, Message)]


def has_joined(client: SimulatedClient, group: str) -> bool:
    return any(isinstance(event, GroupView) and event.group == group for event in client.events)


def test_a_group_inside_one_site_puts_no_body_on_any_link() -> None:
    watched = Watched()
    watched.join("inside", 0, 1)
    watched.join("all", 0, 2, 4)
    for number in range(200):
        level = LEVELS[number % len(LEVELS)]
        for sender in (0, 1):
            watched.clients[sender].multicast(["inside"], MARK + b"%d" % number, level=level)
        to_one = b"goes to all" if level == ServiceLevel.SAFE else MARK + b"to one"
        watched.clients[0].multicast(["#user1#bravo"], to_one, level=level)
        if number % 5 == 0:
            watched.clients[0].multicast(["all"], b"all %d" % number, level=level)
        watched.cluster.run(0.01)
    watched.checked.finish()
    assert watched.crossed == 0
    assert sum(MARK in data for data in watched.got(0)) == 400
    assert len(watched.got(1)) == 600
    for member in (2, 4):
        assert len(watched.got(member)) == 40


@pytest.mark.long
def test_large_messages_stay_too_and_one_who_joins_between_gets_whole_ones_only() -> None:
    watched = Watched()
    watched.join("g", 0, 1)
    body = MARK + bytes(40_000)
    for _ in range(10):
        watched.clients[0].multicast(["g"], body, level=ServiceLevel.RELIABLE)
        watched.clients[1].multicast(["g"], body, level=ServiceLevel.AGREED)
    watched.cluster.run(0.002)
    watched.clients[2].join("g")
    for _ in range(20):
        watched.cluster.run(0.005)
        watched.clients[0].multicast(["g"], body, level=ServiceLevel.RELIABLE)
        watched.clients[1].multicast(["g"], body, level=ServiceLevel.FIFO)
    watched.checked.finish()
    assert 0 < len(watched.got(2)) < len(watched.got(0)) == 60
    assert all(data == body for data in watched.got(2))


def test_bodies_cross_while_somebody_outside_is_a_member_and_then_no_more() -> None:
    watched = Watched()
    watched.join("g", 0, 3)
    watched.clients[0].multicast(["g"], MARK)
    watched.cluster.run(0.2)
    assert watched.crossed > 0
    assert watched.got(3) == [MARK]
    watched.clients[3].leave("g")
    watched.cluster.run(0.5)
    watched.crossed = 0
    for level in NUMBERED:
        watched.clients[0].multicast(["g"], MARK, level=level)
    watched.cluster.run(0.5)
    assert watched.crossed == 0
    watched.clients[3].join("g")
    watched.clients[3].leave("g")
    watched.join("g", 2)
    watched.clients[0].multicast(["g"], MARK + b"again")
    watched.checked.finish()
    assert watched.crossed > 0
    assert watched.got(2) == [MARK + b"again"]


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.long) for s in (2, 3))])
def test_whoever_joins_and_leaves_while_others_send_misses_nothing(seed: int) -> None:
    """The checkers know the members of each group at each delivery."""
    watched = Watched(Faults(loss=0.05, reorder_packets=8), seed)
    rng = Random(seed)
    groups = ["g", "h", "i"]
    joined: set[tuple[str, str]] = set()
    for turn in range(150):
        client = watched.clients[rng.randrange(len(watched.clients))]
        if client.connected and client.writable:
            group = rng.choice(groups)
            if turn % 3 == 0:
                if (client.user, group) in joined:
                    client.leave(group)
                else:
                    client.join(group)
                joined ^= {(client.user, group)}
            wanted = rng.sample(groups, rng.choice((1, 1, 2)))
            client.multicast(wanted, rng.randbytes(30), level=rng.choice(LEVELS))
        watched.cluster.run(rng.choice((0.0, 0.005, 0.03)))
    watched.cluster.end_faults()
    watched.checked.finish()


@pytest.mark.parametrize("victims", [pytest.param((0,), marks=pytest.mark.long), (0, 1), (2,)])
def test_what_stays_survives_with_its_site(victims: tuple[int, ...]) -> None:
    """A gateway dies, a whole site does, or a relay: the others agree on the deliveries."""
    watched = Watched()
    watched.join("inside", 0, 1)
    watched.join("all", *range(6))
    for number in range(60):
        for sender in (0, 1):
            client = watched.clients[sender]
            if client.connected and client.writable:
                level = NUMBERED[number % len(NUMBERED)]
                client.multicast(["inside"], MARK + b"%d" % number, level=level)
                client.multicast(["all"], b"%d" % number, level=NUMBERED[-1 - number % 5])
        if number == 30:
            for victim in victims:
                watched.cluster.daemons[victim].kill()
        watched.cluster.run(0.004)
    for victim in victims:
        watched.cluster.daemons[victim].boot_now()
    watched.cluster.run(3.0)
    watched.cluster.form()
    watched.checked.finish()


@pytest.mark.long
def test_a_narrow_link_that_is_full_holds_up_only_what_crosses_it() -> None:
    links = [SimulatedLink(sites=(0, 1), delay_s=0.02, bytes_per_s=125_000)]
    checked = CheckedCluster(plain_settings(daemons=(2, 1), links=links))
    cluster = checked.cluster
    loud, inside, far = checked.connect(3)
    for client, group in ((loud, "all"), (far, "all"), (inside, "inside")):
        client.join(group)
    cluster.run(1.0)
    sent = 0
    for _ in range(200):
        while loud.connected and loud.writable:
            loud.multicast(["all"], bytes(1000))
            loud.flush()
        if inside.writable:
            inside.multicast(["inside"], bytes(500))
            sent += 1
        cluster.run(0.005)
    got = sum(isinstance(event, Message) for event in inside.events)
    assert got > 0.9 * sent > 0.9 * 190
