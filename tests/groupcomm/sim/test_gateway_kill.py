"""A gateway is killed under load: the time until traffic flows again, and the messages for it."""

from collections import Counter
from functools import partial
from random import Random

import pytest

from groupcomm.config.core import Timing
from groupcomm.events import DaemonView, Event, Message
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.names import daemon_number
from groupcomm.security.layout import HEAD_BYTES
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.network.links import equal_links
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import SECOND
from groupcomm.wire.control import decode_control_untrusted
from groupcomm_tools.plan.kinds import kind_of
from tests.groupcomm.sim.checked_cluster import CheckedCluster

WAY_S = 0.04
WAYS = 5
"""Joins there, joins back, commits with lacking packets, "I hold all", announcements."""

SPARE_S = 0.02
"""The time for all work within the sites."""

TOKEN_TIMEOUT_S = Timing().token_timeout_s
RATE = 30
CRC_BYTES = 4
"""The time between a packet and the next one, in clusters of simulations."""

LEAST_REPAIRS = 50
"""A member may lack the packets that other sites have sent within a token timeout."""


class Killed:
    """Three sites of two daemons, a member at each; one daemon is killed while all send.

    Attributes:
        view_s, traffic_s: the time until all others were told of a view, and until they got a
            message of another site in it.
        repairs: the number of times that a packet of the old view was sent to a host.
        in_vain: the number of messages passed on to the dead daemon.
    """

    def __init__(self, victim: int) -> None:
        links = equal_links(3, WAY_S)
        self._checked = CheckedCluster(plain_settings(daemons=(2, 2, 2), links=links))
        self._cluster = cluster = self._checked.cluster
        self._victim = victim
        self._rng = Random(victim)
        self._going = True
        self._views: dict[int, int] = {}
        self._traffic: dict[int, int] = {}
        self.repairs: Counter[tuple[int, bytes]] = Counter()
        self.in_vain = 0
        self._members = self._checked.connect(6)
        self._checked.join("g", self._members)
        cluster.loop.at(cluster.loop.now, self._send)
        cluster.run(0.5)
        self._watch()
        killed_at = cluster.loop.now
        cluster.daemons[victim].kill()
        cluster.run(1.0)
        self.view_s = (max(self._views.values()) - killed_at) / SECOND
        self.traffic_s = (max(self._traffic.values()) - killed_at) / SECOND

    def _send(self, _: object) -> None:
        for member in self._members:
            if member.connected and member.writable:
                level = self._rng.choice(LEVELS)
                member.multicast(["g"], self._rng.randbytes(200), level=level)
        if self._going:
            self._cluster.loop.at(self._cluster.loop.now + SECOND // RATE, self._send)

    def _watch(self) -> None:
        self._cluster.network.observers.append(self._observe)
        for member in self._members:
            if member.daemon != self._victim:
                member.on_event = partial(self._on_event, member)

    def _on_event(self, member: SimulatedClient, event: Event) -> None:
        now, host = self._cluster.loop.now, member.daemon
        if isinstance(event, DaemonView):
            self._views[host] = now
        elif isinstance(event, Message) and event.level >= ServiceLevel.RELIABLE:
            sender = next(m for m in self._members if m.name == event.sender.name)
            if host in self._views and sender.daemon // 2 != host // 2:
                self._traffic.setdefault(host, now)

    def _observe(self, source: int, target: int, datagram: bytes, goes_on: bool) -> None:
        kind = kind_of(datagram)
        if kind in ("join", "commit", "repair"):
            packet = decode_control_untrusted(datagram[HEAD_BYTES:-CRC_BYTES])
            origin = daemon_number(self._cluster.daemons[source].name)
            self.in_vain += target == self._victim and packet.origin != origin
            if kind == "repair":
                self.repairs[target, packet.payload] += 1

    def finish(self) -> None:
        """Nothing was lost, doubled or out of order."""
        self._going = False
        self._cluster.daemons[self._victim].boot()
        self._cluster.form()
        self._checked.finish()


@pytest.mark.parametrize("victim", [pytest.param(0, marks=pytest.mark.long), 4])
def test_nobody_waits_for_the_dead_and_nothing_is_said_twice(victim: int) -> None:
    """Daemons that send a thousand datagrams more need a processor for it, which is late then."""
    killed = Killed(victim)
    assert killed.view_s <= TOKEN_TIMEOUT_S + WAYS * WAY_S + SPARE_S
    assert killed.traffic_s <= TOKEN_TIMEOUT_S + (WAYS + 1) * WAY_S + SPARE_S
    assert len(killed.repairs) > LEAST_REPAIRS
    assert set(killed.repairs.values()) == {1}, "no link loses anything"
    assert killed.in_vain == 0
    killed.finish()
