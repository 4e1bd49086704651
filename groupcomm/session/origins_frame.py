"""The ORIGINS frame: which daemons of a new view came from the same view before it.

::

    kind u8, daemons u16, per daemon: name (u8 + UTF-8), number u16

Daemons with one number came together. Only a client that asked gets it, behind VIEWID and in front
of the views of its groups. Each client is told its own part of that in `GroupView.vs_set`; the rest
matters to those who are told of all parts, as Spread's clients are.
"""

import struct
from collections.abc import Mapping
from typing import Final

from groupcomm.errors import BadDatagram
from groupcomm.session.frames import FrameKind

_LENGTH = struct.Struct("!I")
_HEAD = struct.Struct("!BH")
_NUMBER = struct.Struct("!H")
_KIND: Final = int(FrameKind.ORIGINS)


def encode_origins(origins: Mapping[str, int]) -> bytes:
    """Return a whole frame for the numbers of daemons, by name."""
    parts = [_HEAD.pack(_KIND, len(origins))]
    for daemon, number in origins.items():
        name = daemon.encode()
        parts.append(b"%c%b%b" % (len(name), name, _NUMBER.pack(number)))
    body = b"".join(parts)
    return _LENGTH.pack(len(body)) + body


def decode_origins_untrusted(frame: bytes) -> dict[str, int]:
    """Return the numbers of daemons, by name, in a frame from its kind on.

    Raises:
        BadDatagram: it breaks its layout. No other exception, whatever the bytes.
    """
    origins: dict[str, int] = {}
    try:
        _, count = _HEAD.unpack_from(frame)
        offset = _HEAD.size
        for _ in range(count):
            end = offset + 1 + frame[offset]
            name = bytes(frame[offset + 1 : end]).decode()
            (origins[name],) = _NUMBER.unpack_from(frame, end)
            offset = end + _NUMBER.size
    except (struct.error, IndexError):
        raise BadDatagram("short", f"an ORIGINS frame of {len(frame)} bytes") from None
    except UnicodeDecodeError:
        raise BadDatagram("name", "not UTF-8") from None
    if offset != len(frame) or len(origins) != count:
        raise BadDatagram("origins", f"{count} daemons in {len(frame)} bytes")
    return origins
