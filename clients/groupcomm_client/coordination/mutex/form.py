"""The common part of the forms of the mutex: a queue of requests that all members keep."""

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

import attrs
import msgspec

from groupcomm.clocks.stamp import Position
from groupcomm.events import DaemonView, GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_client.continuity import Continuity
from groupcomm_client.coordination.place import Place
from groupcomm_client.events import Received
from groupcomm_client.undecodable import UNDECODABLE


@attrs.frozen
class Send:
    """A message of the form, to be sent.

    Attributes:
        data: the data of the message.
        level: its service level.
        to: the one member that gets it; None for the whole group.
    """

    data: bytes
    level: ServiceLevel
    to: MemberId | None = None


class Form(Protocol):
    """One member's side of a mutex, as a state machine: events in, messages out.

    A member has one request at a time: it calls `request`, at some time `holds` becomes true, and
    it calls `release`.
    """

    @property
    def breaks(self) -> int:
        """Return how often others may have gone on without this member."""

    @property
    def holds(self) -> bool:
        """Return whether the request of this member is granted."""

    @property
    def queue(self) -> tuple[MemberId, ...]:
        """Return the members that have requested the mutex, as far as known, in the order of the
        grants."""

    def request(self) -> list[Send]:
        """Request the mutex."""

    def release(self) -> list[Send]:
        """Release the mutex, or withdraw the request."""

    def handle(self, event: Received) -> list[Send]:
        """Handle one event of the connection."""


_encoder = msgspec.msgpack.Encoder()

WordT = TypeVar("WordT", bound=msgspec.Struct)


class TellingForm(ABC, Generic[WordT]):
    """A form whose members report their requests to each other when their histories differ.

    Members that join, or come from another part of the network, do not know the queue. Then every
    member reports its request, and nothing is granted until all have; the holder continues
    meanwhile.

    A member that was cut off, so that the others may have let another one in, does not hold the
    mutex any more. Its request loses its place, and is made anew behind those of the others. See
    `Form`.
    """

    def __init__(
        self,
        me: MemberId,
        group: str,
        decoder: msgspec.msgpack.Decoder[WordT],
        view: DaemonView | None,
    ) -> None:
        """Begin before the first view of the group.

        Args:
            me: the session of this member.
            group: the group of the members that compete.
            decoder: the decoder of the messages.
            view: the last view of daemons that the session was shown; None if there was none.
        """
        self._me = me
        self._group = group
        self._decoder = decoder
        self._wanted = self._holds = False
        self._view: GroupView | None = None
        self._silent: set[MemberId] = set()  # members that have not reported
        self._since: Position | None = None  # the position of this view
        self._sends: list[Send] = []
        self._continuity = Continuity(view)
        self.breaks = 0
        self._place = Place(me, group)
        self._is_cut_off = False  # until the next view of the group, with which it asks anew

    @property
    def holds(self) -> bool:
        """Return whether the request of this member is granted."""
        return self._holds

    def handle(self, event: Received) -> list[Send]:
        """Handle one event of the connection."""
        self._place.note(event)
        match event:
            case GroupView() if event.group == self._group and self._me in event.members:
                self._on_view(event)
            case Message() if event.position is not None and self._view is not None:
                word = self._decode_untrusted(event.data)
                if word is not None and event.sender in self._view.members:
                    self._on_word(event.sender, word, event.position)
            case DaemonView() if self._continuity.is_broken_by(event):
                self._is_cut_off, self._holds = self._place.is_behind, False
                self.breaks += 1
        if not self._silent and not self._is_cut_off:
            self._holds = self._is_first() and (self._holds or self._is_granted())
        return self._taken()

    def _on_view(self, view: GroupView) -> None:
        before = frozenset(() if self._view is None else self._view.members)
        self._view = view
        for gone in before.difference(view.members):
            self._forget(gone)
        self._silent.intersection_update(view.members)
        if self._is_cut_off and not self._place.is_behind:
            self._is_cut_off = False
            self._lose_place()
        if not before or set(view.vs_set) != set(view.members):
            self._silent = set(view.members)
            self._since = view.id
            self._tell(view.id)

    def _mark_reported(self, sender: MemberId, at: Position | None) -> None:
        if at == self._since:
            self._silent.discard(sender)

    def _decode_untrusted(self, data: bytes) -> WordT | None:
        try:
            return self._decoder.decode(data)
        except UNDECODABLE:
            return None

    def _send(self, word: WordT, level: ServiceLevel, to: MemberId | None = None) -> None:
        self._sends.append(Send(_encoder.encode(word), level, to))

    def _taken(self) -> list[Send]:
        sends, self._sends = self._sends, []
        return sends

    # ---- differences between the forms ----

    @abstractmethod
    def _on_word(self, sender: MemberId, word: WordT, at: Position) -> None:
        """Handle a message of a member."""

    @abstractmethod
    def _tell(self, view: Position) -> None:
        """Report the request of this member, in this view."""

    @abstractmethod
    def _lose_place(self) -> None:
        """Take the request of this member out of the queue, and make it anew if it is wanted."""

    @abstractmethod
    def _forget(self, gone: MemberId) -> None:
        """Forget a member that has gone."""

    @abstractmethod
    def _is_first(self) -> bool:
        """Return whether this member's request is the first of the queue."""

    @abstractmethod
    def _is_granted(self) -> bool:
        """Return whether every member knows of the request; called only if it is the first."""
