"""Lamport's mutex: stamped requests and acknowledgements over FIFO messages.

The five rules of the paper, with the group's views in place of its fixed set of processes: a member
that has gone neither asks nor is waited for. When members come along that do not share the history
(they join, or two parts of a network meet), all tell what they have asked for, and nothing is
granted until everybody has. That is said with CAUSAL messages, since it must come after the view
that made it necessary; a FIFO message could overtake it, and miss who has just joined.

Source: Lamport, "Time, clocks, and the ordering of events in a distributed system", CACM 21(7),
1978, section "Ordering the events totally".
"""

import enum
from typing import NamedTuple

import msgspec

from groupcomm.clocks.stamp import Position
from groupcomm.events import GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_client.conversation import Received
from groupcomm_client.coordination.mutex.form import Send


class Kind(enum.IntEnum):
    """What a message says."""

    REQUEST = 0
    ACKNOWLEDGEMENT = 1
    RELEASE = 2
    STATE = 3  # what its sender has asked for; `asked` is 0 if it is nothing


class Word(msgspec.Struct, frozen=True, array_like=True):
    """One message.

    Attributes:
        kind: what it says.
        clock: of its sender when it was sent; at least 1.
        asked: the clock of the request that it is about, if it is about one.
        view: in a STATE: the view of the group that made its sender tell.
    """

    kind: Kind
    clock: int
    asked: int
    view: Position | None = None


class Request(NamedTuple):
    """Requests are granted in this order (total order by clock, ties by process)."""

    clock: int
    member: MemberId


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Word)


class LamportForm:
    """One member; see `Form`."""

    def __init__(self, me: MemberId, group: str) -> None:
        """Begin before the first view of the group."""
        self._me = me
        self._group = group
        self._clock = 0
        self._wanted = False
        self._requests: dict[MemberId, Request] = {}
        self._heard: dict[MemberId, int] = {}  # the clock of the last message of each
        self._silent: set[MemberId] = set()  # who has not told what it has asked for,
        self._since: Position | None = None  # in this view or later
        self._holds = False
        self._view: GroupView | None = None
        self._sends: list[Send] = []

    @property
    def queue(self) -> tuple[MemberId, ...]:
        """Who has asked, in the order of the grants."""
        return tuple(request.member for request in sorted(self._requests.values()))

    @property
    def holds(self) -> bool:
        """Whether its request is granted."""
        return self._holds

    def request(self) -> list[Send]:
        """Rule 1: queue it, and tell all; once all others have told theirs."""
        self._wanted = True
        self._ask()
        return self._taken()

    def release(self) -> list[Send]:
        """Rule 3: take it out of the queue, and tell all."""
        self._wanted = self._holds = False
        mine = self._requests.pop(self._me, None)
        if mine is not None:
            self._say(Kind.RELEASE, mine.clock)
        return self._taken()

    def handle(self, event: Received) -> list[Send]:
        """Take one event of the connection."""
        match event:
            case GroupView() if event.group == self._group and self._me in event.members:
                self._on_view(event)
            case Message():
                word = _decode_untrusted(event.data)
                if word is not None:
                    self._on_word(event.sender, word)
        self._look()
        return self._taken()

    def _look(self) -> None:
        """Rule 5: its request is the first, and something later has come from everybody."""
        mine = self._requests.get(self._me)
        if self._view is None or self._silent:
            return  # a holder goes on meanwhile
        if mine is None or min(self._requests.values()) != mine:
            self._holds = False
        elif not self._holds:
            others = (member for member in self._view.members if member != self._me)
            self._holds = all((self._heard.get(other, 0), other) > mine for other in others)

    def _on_view(self, view: GroupView) -> None:
        before = frozenset(self._view.members if self._view is not None else ())
        self._view = view
        for gone in before.difference(view.members):
            self._requests.pop(gone, None)
            self._heard.pop(gone, None)
        self._silent.intersection_update(view.members)
        if set(view.vs_set) != set(view.members) or not before:
            self._silent = set(view.members)
            self._since = view.id
            mine = self._requests.get(self._me)
            self._say(Kind.STATE, 0 if mine is None else mine.clock)
        self._ask()

    def _on_word(self, sender: MemberId, word: Word) -> None:
        if self._view is None:
            return
        if word.kind is Kind.STATE and word.view == self._since:
            self._silent.discard(sender)
        if sender in self._view.members and sender != self._me:
            self._clock = max(self._clock, word.clock) + 1  # IR2(b)
            self._heard[sender] = word.clock
            if word.kind is not Kind.ACKNOWLEDGEMENT:
                self._on_asked(sender, word)
        self._ask()

    def _on_asked(self, sender: MemberId, word: Word) -> None:
        """Rule 2: queue it, and acknowledge it with a later stamp. Rule 4: take it out."""
        if word.kind is Kind.RELEASE or not word.asked:
            self._requests.pop(sender, None)
        else:
            self._requests[sender] = Request(word.asked, sender)
            self._say(Kind.ACKNOWLEDGEMENT, word.asked, to=sender)

    def _ask(self) -> None:
        """Make the request that is wanted, as soon as it cannot come before an older one."""
        if self._wanted and not self._silent and self._view and self._me not in self._requests:
            self._requests[self._me] = Request(self._clock + 1, self._me)
            self._say(Kind.REQUEST, self._clock + 1)

    def _say(self, kind: Kind, asked: int, to: MemberId | None = None) -> None:
        self._clock += 1  # IR1
        if kind is Kind.STATE:
            word, level = Word(kind, self._clock, asked, self._since), ServiceLevel.CAUSAL
        else:
            word, level = Word(kind, self._clock, asked), ServiceLevel.FIFO
        self._sends.append(Send(_encoder.encode(word), level, to))

    def _taken(self) -> list[Send]:
        sends, self._sends = self._sends, []
        return sends


def _decode_untrusted(data: bytes) -> Word | None:
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
