"""The PRINCIPAL frame: whose session has sent the deliveries behind it, until the next such frame.

::

    kind u8, principal name

Only a client that asked gets it, in front of a delivery whose sender is another principal's than
that of the delivery before. An empty name: nobody knows.
"""

import struct
from typing import Final

from groupcomm.errors import BadDatagram
from groupcomm.session.frames import FrameKind

_LENGTH = struct.Struct("!I")
_HEAD: Final = bytes((FrameKind.PRINCIPAL,))


def encode_principal(principal: str) -> bytes:
    """Return a whole frame for a principal of at most 255 bytes."""
    name = principal.encode()
    body = b"%b%c%b" % (_HEAD, len(name), name)
    return _LENGTH.pack(len(body)) + body


def decode_principal_untrusted(frame: bytes) -> str:
    """Return the principal in a frame, from its kind on.

    Raises:
        BadDatagram: it breaks its layout. No other exception, whatever the bytes.
    """
    if len(frame) < 2 or len(frame) != 2 + frame[1]:
        raise BadDatagram("short", f"a PRINCIPAL frame of {len(frame)} bytes")
    try:
        return bytes(frame[2:]).decode()
    except UnicodeDecodeError:
        raise BadDatagram("name", "not UTF-8") from None
