"""The fuzzer's targets: none is missing, each takes its seed, and any bytes do no harm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.errors import BadDatagram
from groupcomm.wire.control import decode_control_untrusted
from groupcomm.wire.membership import ControlKind
from tests.sources import ROOT, label
from tests.verification.campaigns.fuzz import targets
from tests.verification.campaigns.fuzz.seeds import SEEDS
from tests.verification.campaigns.fuzz.targets import PACKAGES, TARGETS, run, untrusted

ROOTS = ("daemon", "clients")

each_target = pytest.mark.parametrize("name", sorted(TARGETS))


def test_no_decoder_is_missing() -> None:
    decoders = set(untrusted())
    missing = decoders - TARGETS.keys()
    assert not missing, (
        f"give these a place in tests/verification/campaigns/fuzz/targets.py: {sorted(missing)}"
    )
    assert len(decoders) > 50, "the search finds decoders"
    assert SEEDS.keys() == TARGETS.keys(), "every target has a seed"
    packages = [path.parent for path in ROOT.glob("*/*/__init__.py") if path.parts[-3] in ROOTS]
    assert {label(path) for path in packages} == PACKAGES.keys() - {"groupcomm"}


@each_target
def test_seeds_are_accepted_and_get_behind_the_first_checks(name: str) -> None:
    for seed in SEEDS[name]:
        TARGETS[name](seed)


def test_there_is_a_seed_for_each_kind_of_control_message() -> None:
    assert {seed[0] for seed in SEEDS["wire.membership.message"]} == set(ControlKind)
    packets = map(decode_control_untrusted, SEEDS["wire.control.control"])
    assert {packet.kind for packet in packets} >= set(ControlKind)


@pytest.mark.verification
@each_target
@given(raw=st.binary(max_size=200))
def test_any_bytes_decode_or_are_refused(name: str, raw: bytes) -> None:
    run(name, raw)


@each_target
@given(data=st.data())
def test_a_seed_with_changes_decodes_or_is_refused(name: str, data: st.DataObject) -> None:
    raw = bytearray(data.draw(st.sampled_from(SEEDS[name])))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(raw)))
        end = data.draw(st.integers(start, min(len(raw), start + 8)))
        raw[start:end] = data.draw(st.binary(max_size=8))
    run(name, bytes(raw))


@each_target
def test_values_within_values_are_refused_however_deep_they_are(name: str) -> None:
    """Also as one field more than is known, where MessagePack and JSON let one be."""
    deep = 5_000
    run(name, b"\x91" * deep)
    for seed in SEEDS[name]:
        for at, byte in enumerate(seed[:8]):
            if 0x90 <= byte < 0x9F:
                run(name, seed[:at] + bytes((byte + 1,)) + seed[at + 1 :] + b"\x91" * deep)
        if seed[:1] == b"{":
            run(name, seed[:-1] + b',"more":' + b"[" * deep)


def test_a_decoder_that_raises_anything_else_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(raw: bytes) -> None:
        if len(raw) < 2:
            raise BadDatagram("short")
        raw[100]

    monkeypatch.setitem(targets.TARGETS, "careless", careless)
    run("careless", b"")
    with pytest.raises(IndexError):
        run("careless", b"ab")
