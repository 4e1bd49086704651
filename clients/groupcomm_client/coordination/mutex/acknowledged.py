"""The mutex over agreed order, with an acknowledgement from every member.

The agreed order is the queue, so no stamps are needed. Acknowledgements show that every member has
the request; a member that keeps the resource can refuse every other member than the first.
"""

import enum

import msgspec

from groupcomm.clocks.stamp import Position
from groupcomm.events import DaemonView, MemberId
from groupcomm.level import ServiceLevel
from groupcomm_client.coordination.mutex.form import Send, TellingForm


class Kind(enum.IntEnum):
    """The kind of a message."""

    REQUEST = 0
    ACKNOWLEDGEMENT = 1  # to the requester alone
    RELEASE = 2
    STATE = 3  # the request of its sender


class Word(msgspec.Struct, frozen=True, array_like=True):
    """A message of this form of the mutex.

    Attributes:
        kind: the kind of the message.
        number: the number of the request that it concerns, as the requester counts.
        place: in a STATE, the place of the request in the agreed order; None if it has none yet.
        view: in a STATE, the view of the group for which the sender reports its request.
    """

    kind: Kind
    number: int
    place: Position | None = None
    view: Position | None = None


class AcknowledgedForm(TellingForm[Word]):
    """One member of the mutex; see `Form`."""

    def __init__(self, me: MemberId, group: str, view: DaemonView | None = None) -> None:
        """Begin before the first view of the group; see `TellingForm`."""
        super().__init__(me, group, msgspec.msgpack.Decoder(Word), view)
        self._number = 0  # the number of its present request, or of the last one
        self._placed = 0  # the number of its last request with a place in the order
        self._requests: dict[MemberId, Position] = {}
        self._acknowledged: set[MemberId] = set()

    @property
    def queue(self) -> tuple[MemberId, ...]:
        """Return the members that have requested the mutex, in the order of the grants."""
        return tuple(sorted(self._requests, key=self._requests.__getitem__))

    def request(self) -> list[Send]:
        """Multicast a request: its place in the order is its place in the queue."""
        self._wanted = True
        self._ask()
        return self._taken()

    def _ask(self) -> None:
        self._number += 1
        self._acknowledged = set()
        self._say(Word(Kind.REQUEST, self._number))

    def release(self) -> list[Send]:
        """Multicast that the request is over."""
        self._wanted = self._holds = False
        self._say(Word(Kind.RELEASE, self._number))
        return self._taken()

    def _on_word(self, sender: MemberId, word: Word, at: Position) -> None:
        match word.kind:
            case Kind.ACKNOWLEDGEMENT:
                if word.number == self._number:
                    self._acknowledged.add(sender)
            case Kind.RELEASE:
                self._requests.pop(sender, None)
            case Kind.REQUEST:
                if sender == self._me:
                    self._placed = word.number
                self._on_request(sender, word.number, at)
            case Kind.STATE:
                self._mark_reported(sender, word.view)
                if word.place is not None:
                    self._on_request(sender, word.number, word.place)
                elif word.view is not None and self._requests.get(sender, word.view) < word.view:
                    del self._requests[sender]  # its release came in another part only

    def _on_request(self, sender: MemberId, number: int, place: Position) -> None:
        self._requests[sender] = place
        self._say(Word(Kind.ACKNOWLEDGEMENT, number), to=sender)

    def _tell(self, view: Position) -> None:
        place = self._requests[self._me] if self._is_placed else None
        self._say(Word(Kind.STATE, self._number, place, view))

    def _lose_place(self) -> None:
        if self._requests.pop(self._me, None) is not None:
            self._say(Word(Kind.RELEASE, self._number))
        if self._wanted:
            self._ask()

    def _forget(self, gone: MemberId) -> None:
        self._requests.pop(gone, None)

    @property
    def _is_placed(self) -> bool:
        """Return whether the queue has the present request of this member."""
        return self._wanted and self._placed == self._number

    def _is_first(self) -> bool:
        return self._is_placed and self._requests[self._me] == min(self._requests.values())

    def _is_granted(self) -> bool:
        return self._view is not None and self._acknowledged.issuperset(self._view.members)

    def _say(self, word: Word, to: MemberId | None = None) -> None:
        self._send(word, ServiceLevel.AGREED, to)
