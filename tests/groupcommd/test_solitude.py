"""A daemon that hears no other one says so, and what may be the cause."""

import attrs
import pytest

from groupcomm.engine import Status
from groupcomm.engine.status import PeerStatus
from groupcommd.operators.solitude import ALONE_S, LOGGED_S, Solitude
from tests.groupcomm.engine.cluster import Cluster


def status(at: float, *heard_at: float) -> Status:
    """The status of the daemon a, one of three, which has heard these at these times."""
    cluster = Cluster("abc")
    cluster.start("a")
    peers = [
        PeerStatus(name=name, heard_at=heard, left=False, reading=None, joined_at=heard, advised=())
        for name, heard in zip("bc", heard_at, strict=False)
    ]
    return attrs.evolve(cluster.cores["a"].status(0.0), at=at, peers=tuple(peers))


def test_a_daemon_that_hears_nobody_names_the_others_and_the_causes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    solitude = Solitude()
    for at in (100.0, 100.0 + ALONE_S - 1.0):
        solitude.check(status(at), {})
        assert not caplog.messages
    solitude.check(status(100.0 + ALONE_S), {})
    (line,) = caplog.messages
    assert line.startswith("no other daemon has been heard for 30 s, of b, c: start the others,")
    assert "if this host is a copy of another one, or was copied" in line
    solitude.check(status(100.0 + LOGGED_S), {})
    assert len(caplog.messages) == 1
    solitude.check(status(100.0 + ALONE_S + LOGGED_S), {})
    assert len(caplog.messages) == 2, "once an hour"


def test_a_daemon_that_hears_one_of_the_others_says_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    solitude = Solitude()
    for at in (100.0, 200.0, 300.0):
        solitude.check(status(at, at - 1.0), {})
    assert not caplog.messages
    solitude.check(status(300.0 + ALONE_S, 299.0), {})
    assert len(caplog.messages) == 1
