"""Properties of every decoder, for any bytes."""

from collections.abc import Callable
from typing import Any, TypeVar

from groupcomm.errors import BadDatagram

Target = Callable[[bytes], None]
"""Takes any bytes. It may raise the errors in `targets.REFUSALS`; any other exception,
AssertionError included, is a bug."""


_Value = TypeVar("_Value")


def known(value: _Value | None) -> _Value:
    """Return the decoded value; raise BadDatagram if it is None, like decoders of others' formats
    do."""
    if value is None:
        raise BadDatagram("unknown")
    return value


def exact(decode: Callable[[bytes], Any], encode: Callable[[Any, bytes], bytes]) -> Target:
    """Check that a decoded value has one encoding; `encode` takes the value and the bytes that it
    came from."""

    def target(raw: bytes) -> None:
        assert encode(decode(raw), raw) == raw

    return target


def frame(decode: Callable[[bytes], Any], encode: Callable[[Any], bytes]) -> Target:
    """Check that a decoded value survives the encoding of a daemon or client; a frame has a
    kind."""

    def target(raw: bytes) -> None:
        value = decode(raw or b"\0")
        assert decode(encode(value)[4:]) == value

    return target


def stable(decode: Callable[[bytes], Any], encode: Callable[[Any], bytes]) -> Target:
    """Check that a decoded value survives its encoding; None stands for refused bytes."""

    def target(raw: bytes) -> None:
        value = known(decode(raw))
        assert decode(encode(value)) == value

    return target
