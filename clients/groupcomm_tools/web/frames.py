"""The frames of the server: requests and events as JSON in text frames; messages in binary ones.

A binary frame has the length of its head in two bytes (network byte order), the head as JSON, and
the data of a message. Each request has a number, and gets one answer with it. docs/browsers.md has
them all.
"""

import json
import struct
from typing import Annotated, Any, Final, Literal

import msgspec

from groupcomm.errors import BadDatagram
from groupcomm.events import Message
from groupcomm_client.history.given import CaughtUp, Compacted, Gap, Given
from groupcomm_tools.event_text import describe, position_text

_LENGTH: Final = struct.Struct("!H")

_Number = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]  # JavaScript has no larger ones
_Level = Literal["UNRELIABLE", "RELIABLE", "FIFO", "CAUSAL", "AGREED", "SAFE"]


class Request(
    msgspec.Struct, kw_only=True, tag_field="do", tag=str.lower, forbid_unknown_fields=True
):
    """What a browser asks for; `id` is the number of the answer."""

    id: _Number


class Connect(Request):
    """Open the session; the first frame. With groups it reads their history, from `start` on."""

    user: str | None = None
    token: str = ""
    groups: tuple[str, ...] = ()
    start: str = "latest"


class Join(Request):
    """Become a member."""

    group: str


class Leave(Request):
    """End a membership."""

    group: str


class Multicast(Request):
    """Send the data of this frame."""

    groups: tuple[str, ...]
    level: _Level = "AGREED"
    type: int = 0
    self_discard: bool = False


_DECODER: Final = msgspec.json.Decoder(Connect | Join | Leave | Multicast)


def decode_untrusted(frame: str | bytes) -> tuple[Request, bytes]:
    """Return a request of a browser, and the data that came with it.

    Raises:
        BadDatagram: it is none.
    """
    head, data = frame, b""
    if isinstance(frame, bytes):
        end = _LENGTH.size + int.from_bytes(frame[: _LENGTH.size])
        head, data = frame[_LENGTH.size : end], frame[end:]
    try:
        request: Request = _DECODER.decode(head)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BadDatagram("no request", str(error)) from None
    if isinstance(frame, bytes) is not isinstance(request, Multicast):
        raise BadDatagram("multicast comes in a binary frame, and no other request does")
    return request, data


def encode(told: dict[str, Any]) -> str:
    """Return a text frame."""
    return json.dumps(told, ensure_ascii=False)


def encode_event(event: Given, most_bytes: int) -> str | bytes:
    """Return the frame of an event; a larger message is only named, without its data."""
    if isinstance(event, CaughtUp):
        return encode({"event": "caught up", "position": position_text(event.position)})
    if isinstance(event, Gap | Compacted):
        name = "gap" if isinstance(event, Gap) else "compacted"
        after, upto = position_text(event.after), position_text(event.upto)
        return encode({"event": name, "after": after, "upto": upto})
    if not isinstance(event, Message):
        return encode(describe(event))
    told = {
        "event": "message",
        "level": event.level.name,
        "position": position_text(event.position),
        "sender": event.sender.name,
        "groups": event.groups,
        "type": event.type,
    }
    if len(event.data) > most_bytes:
        return encode({**told, "event": "too large", "bytes": len(event.data)})
    head = encode(told).encode()
    return _LENGTH.pack(len(head)) + head + event.data
