"""The compression filter: messages that become smaller travel in zlib's format (RFC 1950).

It uses zlib and not a newer method, because Python and all other languages have it. Incoming data
are of unknown origin: they are never decompressed to more than the size of a message.
"""

import zlib
from typing import Final

import msgspec

from groupcomm.errors import LocalProtocolError
from groupcomm.events import Message
from groupcomm.wire.messages import MAX_MESSAGE_BYTES
from groupcomm_client.filters.chain import with_data
from groupcomm_client.filters.roles import (
    CannotUndo,
    Filter,
    Outgoing,
    Path,
    ReceiveFilter,
    SendFilter,
)

SMALLEST_BYTES: Final = 64
"""Shorter messages hardly ever become smaller, and are not compressed."""

_AS_IT_IS: Final = b"\x00"
_ZLIB: Final = b"\x01"


class _Compress(SendFilter):
    def __init__(self, effort: int) -> None:
        self._effort = effort

    def process(self, message: Outgoing, path: Path) -> None:
        data = _AS_IT_IS + message.data
        if len(message.data) >= SMALLEST_BYTES:
            packed = _ZLIB + zlib.compress(message.data, self._effort)
            data = min(data, packed, key=len)
        path.send_on(msgspec.structs.replace(message, data=data))


class _Decompress(ReceiveFilter):
    def process(self, message: Message, path: Path) -> None:
        if message.data[:1] == _AS_IT_IS:
            path.receive_on(with_data(message, message.data[1:]))
        elif message.data[:1] == _ZLIB:
            data = decompress_untrusted(memoryview(message.data)[1:])
            path.receive_on(with_data(message, data))
        else:
            raise CannotUndo(
                "it is neither compressed by zlib nor unchanged: its sender has a newer version"
            )


def decompress_untrusted(packed: bytes | memoryview, most: int = MAX_MESSAGE_BYTES) -> bytes:
    """Decompress data to `most` bytes at most.

    Raises:
        CannotUndo: there would be more, or the data are not zlib's.
    """
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(packed, most + 1)
    except zlib.error as error:
        raise CannotUndo(f"it does not decompress: {error}") from None
    if len(data) > most:
        raise CannotUndo(
            f"it would have more than {most} bytes when decompressed, so it is left unchanged"
        )
    if not unpacking.eof or unpacking.unused_data:
        raise CannotUndo("it does not decompress: its end is missing, or data follow its end")
    return data


def compression(effort: int = 1) -> Filter:
    """Return a compression filter; the function itself is a factory of them.

    Args:
        effort: 1 (fast) to 9 (small).

    Raises:
        LocalProtocolError: `effort` is none of these numbers.
    """
    if not 1 <= effort <= 9:
        raise LocalProtocolError(f"effort is {effort}; it must be 1 to 9")
    return Filter("zlib", _Compress(effort), _Decompress(), on_wire=True)
