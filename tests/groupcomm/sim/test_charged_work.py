"""Work that takes virtual time: a burst to a large group ends no view, as no step is long."""

import attrs
import pytest

from groupcomm.engine import intake, session_output
from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm.session import daemon_session
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings

MEMBERS, BURST = 40, 400
UNIT_US = 200
"""A slow machine: the burst takes 3 s of its members' daemon's processor."""


def views_of_a_burst() -> int:
    """Return the number of views after the first one, once a burst has reached all its members."""
    settings = plain_settings(daemons=3, seed=1)
    cluster = Cluster(attrs.evolve(settings, unit_us=UNIT_US))
    cluster.run(1.0)
    members = [cluster.connect(f"u{number}", 1) for number in range(MEMBERS)]
    sender = cluster.connect("sender", 0)
    cluster.run(0.5)
    for member in members:
        member.join("g")
        cluster.run(0.02)
    first = views(cluster)
    for number in range(BURST):
        sender.multicast(["g"], b"%d" % number, level=ServiceLevel.AGREED)
        sender.multicast(["h"], b"", level=ServiceLevel.AGREED)  # so that they share no bundle
    for _ in range(100):
        cluster.run(0.2)
        if all(received(member) == BURST for member in members):
            break
    assert [received(member) for member in members] == [BURST] * MEMBERS
    return views(cluster) - first


def views(cluster: Cluster) -> int:
    """Return the number of times that any daemon has left a view."""
    return sum(host.core.membership.reasons.total() for host in cluster.daemons)


def received(client: object) -> int:
    return sum(isinstance(event, Message) for event in client.events)  # type: ignore[attr-defined]


def test_a_burst_to_a_large_group_ends_no_view() -> None:
    assert views_of_a_burst() == 0


def test_without_the_bounds_of_a_step_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, bound in (
        (intake, "STEP_WORK"),
        (intake, "SESSION_WORK"),
        (daemon_session, "MOST_BACKLOG_WORK"),
        (session_output, "STEP_FRAMES"),
    ):
        monkeypatch.setattr(module, bound, 10**6)
    assert views_of_a_burst() > 0
