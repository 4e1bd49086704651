"""The UDP socket: datagrams arrive, in bursts and alone, with the kernel's help and without."""

import struct
import time

import pytest

from groupcomm.engine import Segmentation
from groupcomm.host.addresses import Address
from groupcomm.wire.segments import TRAINS_OF_SOURCE, Cutter
from groupcommd.network.networks import Networks
from groupcommd.network.path_mtu import PER_CALL, PathMtu
from groupcommd.network.udp import SOL_UDP, UDP_SEGMENT, UdpSocket

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
    burst = [bytes([index + 3]) * size for index, size in enumerate(sizes)]
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


# ---- segments ----


def large(counter: int, size: int = 60_000) -> bytes:
    """Return a datagram with the fields of a head that segments need."""
    return bytes((1, 1)) + bytes(35) + counter.to_bytes(8, "big") + bytes([counter]) * (size - 45)


@pytest.mark.parametrize("helped", [True, False])
@pytest.mark.parametrize("size", [1406, 8972])
def test_large_datagrams_go_in_segments_and_arrive_whole(helped: bool, size: int) -> None:
    one, two = pair()
    if not helped:
        one.gso = False
    one.use_segmentation(Segmentation(frozenset({"two"}), size))
    burst = [b"a", b"b" * size, large(1), large(2), b"c" * size, b"d", large(3, size + 1), b"e"]
    one.send([("two", datagram) for datagram in burst])
    one.send([(None, large(4))])
    assert drained(two, len(burst) + 1) == [*burst, large(4)]
    assert two.segments == {"joined": 4, "given_up": 0, "junk": 0, "kept_bytes": 0}
    assert (one.lost, two.pop_strange()) == (0, 0 if helped else pytest.approx(100, abs=90))
    one.close()
    two.close()


def test_only_daemons_that_join_segments_get_any() -> None:
    ears = [UdpSocket(LOOPBACK, {}) for _ in range(3)]
    old, new, strange = ears
    places = {n: ear.address for n, ear in zip(("old", "new", "strange"), ears, strict=True)}
    mouth = UdpSocket(LOOPBACK, places, remote={"old"})
    mouth.send([(None, large(1))])
    assert drained(new, 1) == [large(1)], "whole, as long as nobody joins segments"
    assert drained(strange, 1) == [large(1)]
    mouth.use_segmentation(Segmentation(frozenset({"new"}), 1406))
    mouth.send([("old", large(2)), ("new", large(3)), (None, large(4)), (None, b"small")])
    assert drained(old, 1) == [large(2)]
    assert drained(new, 3) == [large(3), large(4), b"small"]
    assert drained(strange, 1) == [b"small"], "it is not in the view, whose data it cannot use"
    assert (new.segments["joined"], old.segments["joined"]) == (2, 0)
    for each in (mouth, *ears):
        each.close()


def test_who_does_not_know_the_places_of_daemons_displaces_no_segments_of_theirs() -> None:
    one, two = pair()
    two.use({"one": one.address}, (), {})
    one.use_segmentation(Segmentation(frozenset({"two"}), 1406))
    first, rest = Cutter().cut(large(1), 1406)[:1406], Cutter().cut(large(1), 1406)[1406:]
    one.send([("two", first)])
    assert two.drain() == []
    stranger = UdpSocket(LOOPBACK, {"two": two.address})
    count = 4 * TRAINS_OF_SOURCE
    strange = 0
    for counter in range(count):
        stranger.send([("two", Cutter().cut(large(counter % 251, 5000), 1406)[:1406])])
        assert two.drain() == []
        strange += two.pop_strange()
    assert strange == count, "they count as junk, which the system is told to drop if it is much"
    kept = two.segments["kept_bytes"]
    assert kept < (TRAINS_OF_SOURCE + 1) * 2000
    for at in range(0, len(rest), 1406):
        one.send([("two", rest[at : at + 1406])])
    assert drained(two, 1) == [large(1)]
    for each in (one, two, stranger):
        each.close()


def test_segments_and_whole_datagrams_may_be_received_as_one() -> None:
    one, two = pair()
    segments, whole = Cutter().cut(large(1, 5 * 1377), 1406), b"\1" * 1406
    run = whole + segments[: 3 * 1406] + whole + whole + segments[3 * 1406 :] + b"\1" * 9
    command = [(SOL_UDP, UDP_SEGMENT, struct.pack("=H", 1406))]
    one.socket.sendmsg([run], command, 0, two.socket.getsockname())
    assert drained(two, 5) == [whole, whole, whole, large(1, 5 * 1377), b"\1" * 9]
    one.close()
    two.close()


def test_several_networks_count_their_segments_together() -> None:
    one, two = pair()
    joined = Networks.__new__(Networks)
    joined._networks = [one, two]
    one.joiner.joined, two.joiner.joined, two.joiner.junk = 3, 4, 5
    assert joined.segments == {"joined": 7, "given_up": 0, "junk": 5, "kept_bytes": 0}
    joined.use_segmentation(Segmentation(frozenset({"two"}), 1406))
    one.send([("two", large(1))])
    assert drained(two, 1) == [large(1)]
    assert joined.measure_path() == 65_507
    joined.close()


def test_loopback_carries_the_largest_datagrams() -> None:
    one, two = pair()
    assert one.measure_path() == 65_507, "the most that IP has"
    assert two.measure_path() is None, "there is nobody else"
    one.close()
    two.close()


def test_paths_are_measured_in_turn_and_forgotten_with_their_daemons() -> None:
    paths = PathMtu()
    targets = [("127.0.0.1", port) for port in range(1, 2 * PER_CALL)]
    assert paths.measure(targets) == 65_507
    assert paths.measure(targets) == 65_507
    assert set(paths._found) == set(targets)
    assert paths.measure([("::1", 9)]) == 65_488
    assert paths.measure([]) is None
