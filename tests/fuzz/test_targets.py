"""The fuzzer's targets: all decoders are among them, and they hold for a few random bytes."""

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.errors import BadDatagram
from groupcomm.wire.packet import HEAD_BYTES
from tests.core.wire.packets import CODECS, KEY, Codec, Packet
from tests.fuzz import targets

ROOT = Path(__file__).parent.parent.parent


def test_every_decoder_has_a_target() -> None:
    defined = {
        node.name
        for path in (ROOT / "groupcomm").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.endswith("_untrusted")
    }
    source = (ROOT / "tests/fuzz/targets.py").read_text()
    assert {name for name in defined if name not in source} == set()
    assert {codec.kind for codec in CODECS} == set(targets.PACKETS)


@given(data=st.binary(max_size=120))
def test_targets_hold_for_random_bytes(data: bytes) -> None:
    for choice in range(len(targets.TARGETS)):
        targets.run(bytes((choice,)) + data)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.kind.name)
def test_targets_take_what_is_valid(codec: Codec) -> None:
    example = codec.example.encode(KEY)
    targets.packet(example)
    targets.sealed_packet(bytes(16) + example)
    targets.keyed_packet(example[:1] + example[HEAD_BYTES:])


def test_a_decoder_that_takes_a_second_form_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    request = next(codec for codec in CODECS if codec.kind.name == "REQUEST")
    example = request.example.encode(KEY)

    def careless(data: bytes) -> Packet:
        return request.decode(data[: len(example)])

    monkeypatch.setitem(targets.PACKETS, request.kind, careless)
    targets.packet(example)
    with pytest.raises(AssertionError):
        targets.packet(example + b"more")
    monkeypatch.undo()
    with pytest.raises(BadDatagram):
        targets.packet(example + b"more")
