"""The mutex over agreed order, with an acknowledgement from every member.

The agreed order is the queue: nobody needs stamps of its own. Acknowledgements show that everybody
has the request; a member that keeps the resource can refuse whoever is not the first.

As with Lamport's form, members that do not share the history have all tell what they have asked
for. Since that is ordered with everything else, all know at the same place of the order when the
last one has told.
"""

import enum

import msgspec

from groupcomm.clocks.stamp import Position
from groupcomm.events import GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_client.conversation import Received
from groupcomm_client.coordination.mutex.form import Send


class Kind(enum.IntEnum):
    """What a message says."""

    REQUEST = 0
    ACKNOWLEDGEMENT = 1  # to who has asked, alone
    RELEASE = 2
    STATE = 3  # what its sender has asked for


class Word(msgspec.Struct, frozen=True, array_like=True):
    """One message.

    Attributes:
        kind: what it says.
        number: of the request that it is about, in its requester's count.
        place: in a STATE: of the request in the agreed order, None if it has none yet.
        view: in a STATE: the view of the group that made its sender tell.
    """

    kind: Kind
    number: int
    place: Position | None = None
    view: Position | None = None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Word)


class AcknowledgedForm:
    """One member; see `Form`."""

    def __init__(self, me: MemberId, group: str) -> None:
        """Begin before the first view of the group."""
        self._me = me
        self._group = group
        self._number = 0  # of its present request, or of the last one
        self._placed = 0  # number of its last request that has a place in the order
        self._wanted = False
        self._requests: dict[MemberId, Position] = {}
        self._acknowledged: set[MemberId] = set()
        self._silent: set[MemberId] = set()  # who has not told what it has asked for,
        self._since: Position | None = None  # at this view
        self._holds = False
        self._view: GroupView | None = None
        self._sends: list[Send] = []

    @property
    def queue(self) -> tuple[MemberId, ...]:
        """Who has asked, in the order of the grants."""
        return tuple(sorted(self._requests, key=self._requests.__getitem__))

    @property
    def holds(self) -> bool:
        """Whether its request is granted."""
        return self._holds

    def request(self) -> list[Send]:
        """Multicast a request: its place in the order is its place in the queue."""
        self._wanted = True
        self._number += 1
        self._acknowledged = set()
        self._say(Word(Kind.REQUEST, self._number))
        return self._taken()

    def release(self) -> list[Send]:
        """Multicast that the request is over."""
        self._wanted = self._holds = False
        self._say(Word(Kind.RELEASE, self._number))
        return self._taken()

    def handle(self, event: Received) -> list[Send]:
        """Take one event of the connection."""
        match event:
            case GroupView() if event.group == self._group and self._me in event.members:
                self._on_view(event)
            case Message() if event.position is not None:
                word = _decode_untrusted(event.data)
                if word is not None:
                    self._on_word(event.sender, word, event.position)
        self._look()
        return self._taken()

    def _look(self) -> None:
        """Its request is the first, and everybody has acknowledged it."""
        mine = self._requests.get(self._me)
        if self._view is None or self._silent:
            return  # a holder goes on meanwhile
        if mine is None or not self._wanted or min(self._requests.values()) != mine:
            self._holds = False
        elif not self._holds and self._placed == self._number:
            self._holds = self._acknowledged.issuperset(self._view.members)

    def _on_view(self, view: GroupView) -> None:
        before, self._view = self._view, view
        self._requests = {m: place for m, place in self._requests.items() if m in view.members}
        self._silent.intersection_update(view.members)
        if set(view.vs_set) != set(view.members) or before is None:
            self._silent = set(view.members)
            self._since = view.id
            is_placed = self._wanted and self._placed == self._number
            place = self._requests[self._me] if is_placed else None
            self._say(Word(Kind.STATE, self._number, place, view.id))

    def _on_word(self, sender: MemberId, word: Word, at: Position) -> None:
        if word.kind is Kind.ACKNOWLEDGEMENT:
            if word.number == self._number:
                self._acknowledged.add(sender)
        elif word.kind is Kind.RELEASE:
            self._requests.pop(sender, None)
        elif word.kind is Kind.REQUEST:
            if sender == self._me:
                self._placed = word.number
            self._on_request(sender, word.number, at)
        else:
            if word.view == self._since:
                self._silent.discard(sender)
            if word.place is not None:
                self._on_request(sender, word.number, word.place)

    def _on_request(self, sender: MemberId, number: int, place: Position) -> None:
        self._requests[sender] = place
        self._say(Word(Kind.ACKNOWLEDGEMENT, number), to=sender)

    def _say(self, word: Word, to: MemberId | None = None) -> None:
        self._sends.append(Send(_encoder.encode(word), ServiceLevel.AGREED, to))

    def _taken(self) -> list[Send]:
        sends, self._sends = self._sends, []
        return sends


def _decode_untrusted(data: bytes) -> Word | None:
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
