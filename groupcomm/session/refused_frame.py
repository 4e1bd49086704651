"""The REFUSED frame: a client may not do what it has asked for, and its session goes on.

::

    kind u8, message number u64, count u32, verb u8, level u8, quota u8, group name, principal name

Number 0 stands for no request: the client may not be a member any more, and leaves the group.
"""

import struct
from typing import Final

from groupcomm.errors import BadDatagram
from groupcomm.events import Refused
from groupcomm.level import LEVELS
from groupcomm.security.access import VERBS, Verb
from groupcomm.session.frames import FrameKind

_LENGTH = struct.Struct("!I")
_HEAD = struct.Struct("!BQIBBB")
_VERBS: Final = tuple(Verb)


def encode_refused(event: Refused) -> bytes:
    """A whole frame."""
    verb = VERBS[event.verb]
    head = _HEAD.pack(FrameKind.REFUSED, event.number, event.count, verb, event.level, event.quota)
    names = [name.encode() for name in (event.group, event.principal)]
    body = head + b"".join(bytes((len(name),)) + name for name in names)
    return _LENGTH.pack(len(body)) + body


def decode_refused_untrusted(frame: bytes) -> Refused:
    """Decode a frame from its kind on.

    Raises:
        BadDatagram: it breaks its layout. No other exception, whatever the bytes.
    """
    try:
        _, number, count, verb, level, quota = _HEAD.unpack_from(frame)
        middle = _HEAD.size + 1 + frame[_HEAD.size]
        end = middle + 1 + frame[middle]
        group = frame[_HEAD.size + 1 : middle].decode()
        principal = frame[middle + 1 : end].decode()
    except (struct.error, IndexError):
        raise BadDatagram("short", f"a REFUSED frame of {len(frame)} bytes") from None
    except UnicodeDecodeError:
        raise BadDatagram("name", "not UTF-8") from None
    if len(frame) != end or verb >= len(_VERBS) or level >= len(LEVELS) or quota > 1 or not count:
        raise BadDatagram("refused", f"verb {verb}, level {level}, quota {quota}, count {count}")
    return Refused(
        number=number,
        count=count,
        verb=_VERBS[verb].word,
        group=group,
        principal=principal,
        level=LEVELS[level],
        quota=quota == 1,
    )
