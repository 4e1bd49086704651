"""The filter in the kernel: the datagrams that pass, and the share of the rest."""

import socket
from collections.abc import Iterator, Sequence

import pytest

from groupcomm.host.addresses import Address
from groupcomm.security.layout import SUITE_AES_GCM, SUITE_NONE
from groupcommd.network.junk import MAX_JUMP, PASSED_OF, ClusterPattern, attach, program
from groupcommd.network.udp import MAX_SOURCES, UdpSocket
from tests.groupcomm.security.daemons import ALICE, BOB, CAROL, CLUSTER, sealer

COUNT = 12_000
MOST = COUNT * 3 // PASSED_OF


def wanted(*senders: int) -> ClusterPattern:
    return ClusterPattern(SUITE_AES_GCM, CLUSTER, frozenset(senders))


class Ends:
    """A daemon's socket, and two that send to it, of which the first is another daemon's."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.senders = [socket.socket(family, socket.SOCK_DGRAM) for _ in range(2)]
        for sender in self.senders:
            sender.bind((host, 0))
        fellow = Address(*self.senders[0].getsockname()[:2])
        self.daemon = UdpSocket(Address(host, 0), {"fellow": fellow})
        for sender in self.senders:
            sender.connect(self.daemon.socket.getsockname()[:2])

    def passed(self, datagram: bytes, count: int, *, sender: int = 0) -> int:
        """Return the number of datagrams that come, of those sent."""
        came = 0
        for _ in range(count):
            self.senders[sender].send(datagram)
            came += len(self.daemon.drain())
        return came

    def close(self) -> None:
        for each in (*self.senders, self.daemon.socket):
            each.close()


@pytest.fixture(params=["127.0.0.1", "::1"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    made = Ends(request.param)
    yield made
    made.close()


@pytest.mark.parametrize("others", [(ALICE,), (CAROL, ALICE, BOB), range(MAX_JUMP)])
def test_all_of_the_cluster_passes_and_little_else(ends: Ends, others: Sequence[int]) -> None:
    real = sealer().seal(b"p")
    ends.daemon.filter(wanted(*others))
    assert ends.daemon.filtered
    assert ends.passed(real, 50) == 50
    strange = [
        b"%b%c%b" % (real[:at], real[at] ^ 0xFF, real[at + 1 :]) for at in (0, 1, 5, 8, 9, 12)
    ]
    if len(others) < MAX_JUMP:
        strange.append(sealer(sender=77 << 32 | 78).seal(b"p"))
    for datagram in [*strange, sealer(SUITE_NONE).seal(b"p"), bytes(len(real)), b"s"]:
        assert ends.passed(datagram, 1000) < 10
    assert 0 < ends.passed(bytes(100), COUNT) < MOST
    ends.daemon.filter(None)
    assert not ends.daemon.filtered
    assert ends.passed(b"short", 50) == 50


def test_what_comes_from_elsewhere_passes_once_it_was_right(ends: Ends) -> None:
    real = sealer().seal(b"p")
    ends.daemon.filter(wanted(ALICE))
    assert 0 < ends.passed(real, COUNT, sender=1) < MOST
    ends.daemon.learn(clean=False)
    assert ends.passed(real, COUNT, sender=1) < MOST
    ends.daemon.learn(clean=True)
    assert ends.passed(real, 50, sender=1) == 50
    assert ends.passed(real, 50) == 50


def test_so_many_places_are_known(ends: Ends) -> None:
    real = sealer().seal(b"p")
    ends.daemon.filter(wanted(ALICE))
    for port in range(1, 2 * MAX_SOURCES):
        ends.daemon._seen.add(("127.0.0.1", port))
        ends.daemon.learn(clean=True)
    assert len(ends.daemon._sources) == MAX_SOURCES + 1
    assert ends.passed(real, 50) == 50, "what is configured is not forgotten"


def test_what_the_system_drops_is_reported(ends: Ends) -> None:
    ends.daemon.filter(wanted(ALICE))
    passed = ends.passed(bytes(100), 500)
    assert ends.daemon.dropped == 500 - passed


def test_a_system_without_filters_drops_nothing(
    monkeypatch: pytest.MonkeyPatch, ends: Ends
) -> None:
    monkeypatch.setattr("groupcommd.network.udp.attach", lambda *_: False)
    ends.daemon.filter(wanted(ALICE))
    assert not ends.daemon.filtered
    assert ends.passed(bytes(100), 50) == 50


def test_a_socket_that_takes_no_filter_is_reported() -> None:
    closed = socket.socket()
    closed.close()
    assert not attach(closed, program(wanted(ALICE), []))
