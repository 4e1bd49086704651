"""Confirmation: whether a session was still where the others are when it had done something.

Pure. A program, its daemon, or their host may have stood still, so that others have gone on without
it: its own events tell it later. To make sure it sends a *mark* to itself, SAFE, behind what it has
done. If the mark comes in the regular part of a view, every daemon of that view holds it, and
everything before it; so no later view, in which others may go on, began before. If it comes in the
transitional part, the next view tells.
"""

import msgspec

from groupcomm.events import MemberId, Message
from groupcomm_client.coordination.place import Place
from groupcomm_client.events import Received
from groupcomm_client.undecodable import UNDECODABLE


class Mark(msgspec.Struct, frozen=True, tag="mark", array_like=True):
    """A message of a member to itself; `number` rises."""

    number: int


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Mark)


class Confirmation:
    """The marks of one session.

    Args:
        me: the session.
        group: the group whose views tell when a view of daemons has begun.
    """

    def __init__(self, me: MemberId, group: str) -> None:
        self._me = me
        self._place = Place(me, group)
        self._asked = self._seen = 0

    def ask(self) -> bytes:
        """Return the next mark, to be sent SAFE to this session itself."""
        self._asked += 1
        return _encoder.encode(Mark(self._asked))

    @property
    def is_there(self) -> bool:
        """Return whether the last mark has come, and the view in which it came goes on, or the next
        view is there."""
        return self._seen == self._asked and not self._place.is_transitional

    def handle(self, event: Received) -> None:
        """Note an event."""
        self._place.note(event)
        match event:
            case Message() if event.sender == self._me and event.groups == (self._me.name,):
                self._seen = max(self._seen, _number_untrusted(event.data))
            case _:
                pass


def _number_untrusted(data: bytes) -> int:
    try:
        return _decoder.decode(data).number
    except UNDECODABLE:
        return 0
