"""The filter in the kernel: what passes it, and how much of the rest."""

import socket
import sys

import pytest

from groupcomm.security.layout import SUITE_AES_GCM, SUITE_NONE
from groupcommd.socket_filter import MAX_SENDERS, PASSED_OF, attach, detach, program
from tests.core.security.daemons import ALICE, BOB, CAROL, CLUSTER, sealer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux has it")

COUNT = 6000


class Ends:
    """Two sockets, the second one filtered as that of a daemon with these others."""

    def __init__(self, senders: list[int], suite: int = SUITE_AES_GCM) -> None:
        self.receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.receiver.bind(("127.0.0.1", 0))
        self.receiver.setblocking(False)
        assert attach(self.receiver, program(suite, CLUSTER, senders))
        self._sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sender.connect(self.receiver.getsockname())

    def passed(self, datagram: bytes, count: int) -> int:
        """How many of so many come."""
        came = 0
        for _ in range(count):
            self._sender.send(datagram)
            try:
                came += self.receiver.recv(65_536) == datagram
            except BlockingIOError:
                continue
        return came

    def close(self) -> None:
        self.receiver.close()
        self._sender.close()


@pytest.mark.parametrize("others", [[ALICE], [CAROL, ALICE, BOB], list(range(MAX_SENDERS + 1))])
def test_all_of_the_cluster_passes_and_little_else(others: list[int]) -> None:
    ends, real = Ends(others), sealer().seal(b"p")
    assert ends.passed(real, 50) == 50
    strange = [
        b"%b%c%b" % (real[:at], real[at] ^ 0xFF, real[at + 1 :]) for at in (0, 1, 5, 8, 9, 12)
    ]
    if len(others) <= MAX_SENDERS:
        strange.append(sealer(sender=77 << 32 | 78).seal(b"p"))
    for datagram in [*strange, sealer(SUITE_NONE).seal(b"p"), bytes(len(real))]:
        assert ends.passed(datagram, 1000) < 1000 * 6 / PASSED_OF
    assert 0 < ends.passed(bytes(100), COUNT) < 3 * COUNT / PASSED_OF
    ends.close()


def test_it_can_be_taken_away() -> None:
    ends = Ends([ALICE])
    assert ends.passed(b"short", 50) < 50
    assert detach(ends.receiver)
    assert ends.passed(b"short", 50) == 50
    assert not detach(ends.receiver)
    ends.close()


def test_a_system_that_has_no_filters_gets_all() -> None:
    one, other = socket.socketpair()
    with one, other:
        one.close()
        assert not attach(one, program(SUITE_AES_GCM, CLUSTER, [ALICE]))
