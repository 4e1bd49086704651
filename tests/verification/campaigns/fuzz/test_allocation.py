"""No length or count in an input makes a decoder allocate memory for missing bytes."""

import tracemalloc
from collections.abc import Iterable, Iterator
from typing import Final

import pytest

from tests.verification.campaigns.fuzz import targets
from tests.verification.campaigns.fuzz.identity_targets import IDENTITY_TARGETS
from tests.verification.campaigns.fuzz.machine_targets import MACHINE_TARGETS
from tests.verification.campaigns.fuzz.port_targets import PORT_TARGETS
from tests.verification.campaigns.fuzz.seeds import SEEDS
from tests.verification.campaigns.fuzz.targets import TARGETS, run

pytestmark = pytest.mark.verification

SMALL_BYTES: Final = 16 * 1024
"""The memory besides twice the input: objects of a decoder, of its errors and of the checks."""

ZLIB_BYTES: Final = 48 * 1024  # of a window
OWN_BYTES: Final = {
    "client.filters.compressing.decompress": ZLIB_BYTES,
    "wire.control.inflate_packets": ZLIB_BYTES + 16 * 1024,
    "groups.announcement.rows": ZLIB_BYTES + 16 * 1024,
    "groups.announcement.announcement": ZLIB_BYTES + 16 * 1024,  # and a first buffer for the output
}

MACHINES: Final = {**MACHINE_TARGETS, **IDENTITY_TARGETS, **PORT_TARGETS}
"""Their memory is that of a whole daemon or program."""

SLOW: Final = ("joining.host", "session.spread.session.receive", "archive")
"""Targets that take seconds: each input makes a session, a cluster file, a file. A few places of
each are tested; all with `make campaigns`."""

PLACES: Final = 20
"""The offsets of a seed at which fields are written."""

LENGTHS: Final = {
    width: (0, 2 ** (8 * width) - 1, *(n for n in (2**31, 2**32) if n < 2 ** (8 * width)))
    for width in (2, 4, 8)
}
VARINTS: Final = (b"\x80\x80\x80\x80\x08", b"\x80\x80\x80\x80\x10", b"\xff" * 9 + b"\x01")
"""2**31, 2**32 and 2**64 - 1, seven bits a byte."""

WRAPPING: Final = {
    width: ((most // 2 + 1, most // 2 + 1), (most, 1), (most, most))
    for width, most in ((2, 2**16 - 1), (4, 2**32 - 1))
}
"""Two counts whose sum wraps in a field of this width, so that it is 0 or little there."""


def sorted_names(names: Iterable[str]) -> list[object]:
    """Return parameters of a test, sorted by name; slow targets run with `make campaigns`."""
    return [pytest.param(n, marks=[pytest.mark.long] * (n in SLOW)) for n in sorted(names)]


def taken(name: str, raw: bytes) -> int:
    """Return bytes that a target has at most while it has this input."""
    tracemalloc.start()
    try:
        run(name, raw)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def whole_seeds(name: str) -> list[bytes]:
    """Return the seeds of a target that are not the beginning of another one."""
    seeds = SEEDS[name]
    return [seed for seed in seeds if sum(other.startswith(seed) for other in seeds) == 1]


def one_field(seed: bytes, places: int = PLACES) -> Iterator[bytes]:
    """Yield a seed with one length or count at its edges, at any place."""
    edges = [value.to_bytes(width) for width, all_ in LENGTHS.items() for value in all_]
    for at in range(0, len(seed), max(1, -(-len(seed) // places))):
        for field in (*edges, *VARINTS):
            yield seed[:at] + field + seed[at + len(field) :]
        more = int.from_bytes(seed[at : at + 4]) + 1  # one more than there are
        yield seed[:at] + (more % 2**32).to_bytes(4) + seed[at + 4 :]


def two_counts(seed: bytes) -> Iterator[bytes]:
    """Yield a seed with two counts, beside each other or near, whose sum wraps."""
    for width, pairs in WRAPPING.items():
        for at in range(0, len(seed), max(1, -(-len(seed) // PLACES))):
            for gap in (0, 2, width):
                between = seed[at + width : at + width + gap]
                for one, other in pairs:
                    field = one.to_bytes(width) + between + other.to_bytes(width)
                    yield seed[:at] + field + seed[at + len(field) :]


def check(name: str, inputs: Iterator[bytes]) -> None:
    allowed = SMALL_BYTES + OWN_BYTES.get(name, 0)
    for raw in inputs:
        if taken(name, raw) > 2 * len(raw) + allowed:  # a cache may have grown just now
            assert taken(name, raw) <= 2 * len(raw) + allowed, raw.hex()


@pytest.mark.parametrize("name", sorted_names(TARGETS.keys() - MACHINES.keys()))
def test_a_length_at_its_edges_takes_no_memory(name: str) -> None:
    for seed in whole_seeds(name):
        check(name, one_field(seed))


@pytest.mark.parametrize("name", SLOW)
def test_a_length_at_its_edges_takes_no_memory_at_a_few_places(name: str) -> None:
    for seed in whole_seeds(name):
        check(name, one_field(seed, 3))


@pytest.mark.parametrize(
    "name", sorted_names(n for n in TARGETS if n.startswith(("wire", "session")))
)
def test_counts_whose_sum_wraps_take_no_memory(name: str) -> None:
    for seed in whole_seeds(name):
        check(name, two_counts(seed))


def test_a_decoder_that_believes_a_count_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def believes(raw: bytes) -> None:
        bytes(min(int.from_bytes(raw[:4]), 2**24))

    monkeypatch.setitem(targets.TARGETS, "believes", believes)
    with pytest.raises(AssertionError, match="000"):
        check("believes", one_field(bytes(8)))
