"""The UDP socket: datagrams arrive, in bursts and alone, with the kernel's help and without."""

import time

import pytest

from groupcomm.host.addresses import Address
from groupcommd.network.udp import UdpSocket

LOOPBACK = Address("127.0.0.1", 0)


def pair() -> tuple[UdpSocket, UdpSocket]:
    """One that can send to two."""
    two = UdpSocket(LOOPBACK, {})
    return UdpSocket(LOOPBACK, {"two": two.address}), two


def drained(source: UdpSocket, count: int) -> list[bytes]:
    """Return arrivals within a second, or as soon as there are enough."""
    found: list[bytes] = []
    end = time.monotonic() + 1.0
    while len(found) < count and time.monotonic() < end:
        found += source.drain()
    return found


@pytest.mark.parametrize("helped", [True, False])
def test_bursts_arrive_whole_and_in_order(helped: bool) -> None:
    one, two = pair()
    if not helped:
        one.gso = False
    sizes = [1400] * 70 + [100, 1400, 1400, 7, 7, 60_000, 1400, 1, 1400]
    burst = [bytes([index]) * size for index, size in enumerate(sizes)]
    one.send([("two", datagram) for datagram in burst])
    assert drained(two, len(burst)) == burst
    assert one.lost == 0
    one.close()
    two.close()


def test_it_knows_from_whom_each_datagram_came() -> None:
    ears = UdpSocket(LOOPBACK, {})
    assert ears.source_of(0) is None
    mouths = [UdpSocket(LOOPBACK, {"ears": ears.address}) for _ in range(2)]
    for mouth in (*mouths, mouths[0]):
        mouth.send([("ears", bytes(1000))] * 40)
    found: list[Address | None] = []
    while len(found) < 120:
        found += [ears.source_of(at) for at in range(len(ears.drain()))]
    one, other = (mouth.address for mouth in mouths)
    assert found == [one] * 40 + [other] * 40 + [one] * 40
    for each in (ears, *mouths):
        each.close()


def test_one_datagram_goes_to_all_others_or_to_one() -> None:
    ears = [UdpSocket(LOOPBACK, {}) for _ in range(3)]
    names = "abc"
    mouth = UdpSocket(LOOPBACK, {n: ear.address for n, ear in zip(names, ears, strict=True)})
    mouth.send([(None, b"all"), ("b", b"one"), (None, b"all again")])
    assert [drained(ear, 2) for ear in (ears[0], ears[2])] == [[b"all", b"all again"]] * 2
    assert drained(ears[1], 3) == [b"all", b"one", b"all again"]
    mouth.send([(None, b"alone")])
    assert [drained(ear, 1) for ear in ears] == [[b"alone"]] * 3
    for each in (mouth, *ears):
        each.close()


def test_daemons_of_other_sites_get_only_what_is_for_them() -> None:
    near, far = UdpSocket(LOOPBACK, {}), UdpSocket(LOOPBACK, {})
    one = UdpSocket(LOOPBACK, {"near": near.address, "far": far.address}, remote={"far"})
    one.send([(None, b"all of the site"), ("far", b"you")])
    one.send([(None, b"all again")])
    assert drained(near, 2) == [b"all of the site", b"all again"]
    assert drained(far, 1) == [b"you"]
    for each in (one, near, far):
        each.close()


def test_what_is_for_its_own_name_goes_to_its_own_address() -> None:
    """Another daemon with the name was heard: an earlier start of this one, or a clone."""
    one, two = pair()
    one.send([("one", b"you are not me")])
    one.send([("one", b"1"), ("two", b"2"), ("one", b"3")])
    assert drained(one, 3) == [b"you are not me", b"1", b"3"]
    assert drained(two, 1) == [b"2"]
    one.close()
    two.close()


def test_what_the_system_refuses_is_counted_as_lost() -> None:
    one, two = pair()
    one.send([("two", bytes(70_000))])
    assert one.lost == 1
    two.close()
    for _ in range(3):
        one.send([("two", b"nobody is there")])
        assert one.drain() == []
    one.close()


def test_an_address_in_use_is_refused() -> None:
    one = UdpSocket(LOOPBACK, {})
    with pytest.raises(OSError, match="in use"):
        UdpSocket(one.address, {})
    one.close()
