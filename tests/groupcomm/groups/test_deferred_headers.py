"""Headers go out once the whole ring holds what they stand for, and say all but the bodies."""

from groupcomm.clocks.stamp import Stamp
from groupcomm.groups.pruning import DeferredHeaders
from groupcomm.stream.stream import Stream
from groupcomm.wire.data import DataPacket, decode_data_untrusted, decode_headers_untrusted
from tests.groupcomm.wire.packets import KEY, example_bundle

LIMIT = 400


def packet(number: int, *, stays: bool = True) -> DataPacket:
    made = DataPacket(
        ring=0,
        number=number,
        time=1000 + number,
        daemon=1,
        previous=number - 1,
        bundles=[example_bundle(), example_bundle(("g",))],
        vector=(3, 4) if number % 2 else None,
        agreed=Stamp(9, 1) if number % 2 else None,
        reference=0 if number % 2 else number - 1,
        local_only=stays,
    )
    made.raw = made.encode(KEY)
    return decode_data_untrusted(made.raw)


def holding(count: int) -> tuple[DeferredHeaders, Stream]:
    stream = Stream(0, 0)
    withheld = DeferredHeaders(KEY, stream, LIMIT)
    for number in range(1, count + 1):
        stream.accept(packet(number))
        withheld.defer(stream.packets[number])
    return withheld, stream


def test_a_header_waits_until_the_whole_ring_holds_its_packet() -> None:
    withheld, stream = holding(3)
    assert withheld.form_for_other_ring(stream.packets[1]) is None
    assert withheld.pop_ready(0) == []
    ((first, raw),) = withheld.pop_ready(2)
    assert first == 1
    assert [one.number for one in decode_headers_untrusted(raw).packets] == [1, 2]
    assert withheld.pop_ready(2) == []
    assert withheld.form_for_other_ring(stream.packets[2]) == stream.packets[2].header()
    assert withheld.form_for_other_ring(stream.packets[3]) is None


def test_a_header_says_all_of_its_packet_but_groups_and_bodies() -> None:
    for number in (1, 2):
        whole = packet(number)
        header = decode_data_untrusted(whole.header())
        for field in ("ring", "number", "time", "daemon", "previous", "vector", "reference"):
            assert getattr(header, field) == getattr(whole, field), field
        assert header.agreed == whole.agreed
        assert header.pruned
        assert not header.local_only
        for short, full in zip(header.bundles, whole.bundles, strict=True):
            assert (short.session, short.user, short.level) == (full.session, full.user, full.level)
            assert (short.message, short.count, short.groups) == (full.message, full.count, ())
        assert b"hello" not in header.raw
        assert header.encode(KEY) == header.raw


def test_packets_of_headers_are_filled_and_not_longer_than_allowed() -> None:
    withheld, _ = holding(20)
    out = withheld.pop_ready(20)
    assert all(len(raw) <= LIMIT for _, raw in out)
    assert len(out) == 10
    headers = [one for _, raw in out for one in decode_headers_untrusted(raw).packets]
    assert [one.number for one in headers] == list(range(1, 21))


def test_what_is_forgotten_needs_no_header() -> None:
    """A member that serves the links was quicker; the token has not come here since then."""
    withheld, stream = holding(3)
    stream.forget(1002)
    ((first, _),) = withheld.pop_ready(3)
    assert first == 3


def test_what_does_not_stay_is_given_whole() -> None:
    withheld, _ = holding(1)
    whole = packet(5, stays=False)
    assert withheld.form_for_other_ring(whole) == whole.raw
