"""Inbox: the deliveries of a client, from frames to messages."""

from itertools import repeat
from typing import Final

import msgspec

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.errors import BadDatagram
from groupcomm.events import CausalContext, Cause, Event, GroupView, MemberId, Message
from groupcomm.level import LEVELS
from groupcomm.session.daemon_frames import (
    decode_causes_untrusted,
    decode_delivery_untrusted,
    decode_principal_untrusted,
)
from groupcomm.session.frames import FrameKind
from groupcomm.session.reassembly import Reassembly
from groupcomm.wire.bundle import Bundle, BundleKind, body_payload, decode_body_untrusted
from groupcomm.wire.messages import decode_messages_untrusted
from groupcomm.wire.packet import Raw

SEALED: Final = b"\xffGE\x01"
"""Data that begin with this were sealed by the sender's program for a group's members, see
docs/end-to-end.md. No text in UTF-8 begins with ff.
"""

_MESSAGES: Final = int(BundleKind.MESSAGES)
_PRINCIPAL: Final = int(FrameKind.PRINCIPAL)
_FRAGMENT: Final = int(BundleKind.FRAGMENT)


class Inbox:
    """The context of a client for decoding the next delivery.

    Attributes:
        view: the view of the positions that follow, as the daemon has announced it.
        malformed: the number of bundles that were dropped because their payload does not decode.
        me: the session itself, once it is known.
        last_returned: the highest number of an own message that was received.
        principal: the owner of the sender of the next deliveries; None if the daemon tells none.
        overfull: whether unfinished messages that may not be lost exceeded their cap.
        sealed: whether a message has come that begins with `SEALED`; the reader resets it.
    """

    __slots__ = (
        "_causes",
        "_causes_frame",
        "_context",
        "_reassembly",
        "last_returned",
        "malformed",
        "me",
        "overfull",
        "principal",
        "sealed",
        "view",
    )

    def __init__(self, cap_bytes: int) -> None:
        self.view: ViewId | None = None
        self.malformed = self.last_returned = 0
        self.me: MemberId | None = None
        self.principal: str | None = None
        self.overfull = self.sealed = False
        self._reassembly = Reassembly(cap_bytes)
        self._causes: CausalContext | None = None  # the causes of the next delivery
        self._causes_frame = b""  # the last frame; bundles of one packet have equal ones
        self._context: CausalContext | None = None  # the decoded contents of that frame

    @property
    def announced(self) -> ViewId:
        """Return the view of the positions that come; raise BadDatagram if none was announced."""
        if self.view is None:
            raise BadDatagram("view", "a position comes before any VIEWID")
        return self.view

    def accept_context(self, frame: bytes) -> None:
        """Accept a CAUSES or a PRINCIPAL frame, which is about the deliveries that follow.

        Raises:
            BadDatagram: it breaks its layout.
        """
        if frame[0] == _PRINCIPAL:
            self.principal = decode_principal_untrusted(frame)
        else:
            self._accept_causes(frame)

    def _accept_causes(self, frame: bytes) -> None:
        if frame != self._causes_frame:
            self._context = decode_causes_untrusted(frame)
            self._causes_frame = frame
        self._causes = self._context

    def deliver(self, frame: bytes, events: list[Event]) -> None:
        """Append the messages of a DELIVER frame.

        Raises:
            BadDatagram: the daemon is at fault. A payload that does not decode is its sender's
                fault, as daemons do not decode it; it is counted and dropped.
        """
        sender, parts, body = decode_delivery_untrusted(frame)
        view = self.view or self.announced
        bundle = decode_body_untrusted(body)
        payload = body_payload(body)
        position = None if parts is None else Position(view, *parts, 0)
        causes = self._causes
        if causes is not None:
            self._causes = None
        try:
            if bundle.kind == _MESSAGES:
                first = _unpack(sender, bundle, payload, position, causes, self.principal, events)
                # One check a bundle, as a sender seals all its messages to a group or none.
                if first.startswith(SEALED):
                    self.sealed = True
            elif bundle.kind == _FRAGMENT:
                reassembly = self._reassembly
                message = reassembly.add(sender, bundle, payload, position, causes)
                if message is None:
                    self.overfull = reassembly.held_bytes > reassembly.cap_bytes
                    return
                if self.principal is not None:
                    message = msgspec.structs.replace(message, principal=self.principal)
                events.append(message)
                if message.data.startswith(SEALED):
                    self.sealed = True
            if sender == self.me:
                last = bundle.message + (bundle.count - 1 if bundle.kind == _MESSAGES else 0)
                self.last_returned = max(self.last_returned, last)
        except BadDatagram:
            self.malformed += 1

    def drop(self, sender: MemberId, number: int) -> None:
        """Drop the fragments of a message; number 0: of all messages of its sender."""
        self._reassembly.drop(sender, number)

    def group_changed(self, view: GroupView) -> None:
        """Drop the fragments of members that have disconnected."""
        if view.cause is Cause.DISCONNECT:
            for member in view.changed:
                self._reassembly.drop(member, 0)


def _unpack(
    sender: MemberId,
    bundle: Bundle,
    payload: Raw,
    first: Position | None,
    causes: CausalContext | None,
    principal: str | None,
    events: list[Event],
) -> bytes:
    """Append the messages of a bundle; return the data of the first one.

    `first` is the position of the first message, which the others derive theirs from.
    """
    count = bundle.count
    types, data = decode_messages_untrusted(payload, count)
    numbers = range(bundle.message, bundle.message + count)
    senders, groups, places = repeat(sender), repeat(bundle.groups), range(count)
    levels, firsts = repeat(LEVELS[bundle.level]), repeat(first)
    # Each map is written out: passing a tuple of its arguments costs a tenth of a message.
    if principal is not None:
        more = repeat(causes), repeat(principal)
        events += map(Message, senders, numbers, groups, levels, types, data, firsts, places, *more)
    elif causes is None:
        events += map(Message, senders, numbers, groups, levels, types, data, firsts, places)
    else:
        told = repeat(causes)
        events += map(Message, senders, numbers, groups, levels, types, data, firsts, places, told)
    return data[0] if count else b""
