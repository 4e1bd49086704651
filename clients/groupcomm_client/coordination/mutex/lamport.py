"""Lamport's mutex: stamped requests and acknowledgements over FIFO messages.

These are the five rules of the paper, with the group's views in place of its fixed set of
processes: a member that has gone neither requests nor is waited for. Members report their requests
to newcomers with CAUSAL messages, since a report must come after the view that made it necessary; a
FIFO message could overtake the view, and miss the member that has just joined.

Source: Lamport, "Time, clocks, and the ordering of events in a distributed system", CACM 21(7),
1978, section "Ordering the events totally".
"""

import enum
from typing import NamedTuple

import msgspec

from groupcomm.clocks.stamp import Position
from groupcomm.events import DaemonView, GroupView, MemberId
from groupcomm.level import ServiceLevel
from groupcomm_client.coordination.mutex.form import Send, TellingForm


class Kind(enum.IntEnum):
    """The kind of a message."""

    REQUEST = 0
    ACKNOWLEDGEMENT = 1
    RELEASE = 2
    STATE = 3  # the request of its sender; `asked` is 0 if there is none


class Word(msgspec.Struct, frozen=True, array_like=True):
    """A message of Lamport's form of the mutex.

    Attributes:
        kind: the kind of the message.
        clock: the sender's clock when it was sent; at least 1.
        asked: the clock of the request that it concerns.
        view: in a STATE, the view of the group for which the sender reports its request.
    """

    kind: Kind
    clock: int
    asked: int
    view: Position | None = None


class Request(NamedTuple):
    """A request; requests are granted in this order (total order by clock, ties by process)."""

    clock: int
    member: MemberId


class LamportForm(TellingForm[Word]):
    """One member of the mutex; see `Form`."""

    def __init__(self, me: MemberId, group: str, view: DaemonView | None = None) -> None:
        """Begin before the first view of the group; see `TellingForm`."""
        super().__init__(me, group, msgspec.msgpack.Decoder(Word), view)
        self._clock = 0
        self._requests: dict[MemberId, Request] = {}
        self._heard: dict[MemberId, int] = {}  # the clock of the last message of each member

    @property
    def queue(self) -> tuple[MemberId, ...]:
        """Return the members that have requested the mutex, in the order of the grants."""
        return tuple(request.member for request in sorted(self._requests.values()))

    def request(self) -> list[Send]:
        """Rule 1: queue the request and send it to all, once all others have reported theirs."""
        self._wanted = True
        self._ask()
        return self._taken()

    def release(self) -> list[Send]:
        """Rule 3: remove the request from the queue, and tell all members."""
        self._wanted = self._holds = False
        self._lose_place()
        return self._taken()

    def _lose_place(self) -> None:
        """Take back the request; `_ask` makes it anew where it is wanted."""
        mine = self._requests.pop(self._me, None)
        if mine is not None:
            self._say(Kind.RELEASE, mine.clock)

    def _on_view(self, view: GroupView) -> None:
        super()._on_view(view)
        self._ask()

    def _on_word(self, sender: MemberId, word: Word, at: Position) -> None:
        if word.kind is Kind.STATE:
            self._mark_reported(sender, word.view)
        assert self._view is not None
        if sender in self._view.members and sender != self._me:
            self._clock = max(self._clock, word.clock) + 1  # IR2(b)
            self._heard[sender] = word.clock
            if word.kind is not Kind.ACKNOWLEDGEMENT:
                self._on_asked(sender, word)
        self._ask()

    def _on_asked(self, sender: MemberId, word: Word) -> None:
        """Rule 2: queue a request, and acknowledge it with a later stamp. Rule 4: remove it."""
        if word.kind is Kind.RELEASE or not word.asked:
            self._requests.pop(sender, None)
        else:
            self._requests[sender] = Request(word.asked, sender)
            self._say(Kind.ACKNOWLEDGEMENT, word.asked, to=sender)

    def _ask(self) -> None:
        """Make the pending request as soon as it cannot come before an older one."""
        if self._wanted and not self._silent and self._view and self._me not in self._requests:
            self._requests[self._me] = Request(self._clock + 1, self._me)
            self._say(Kind.REQUEST, self._clock + 1)

    def _tell(self, view: Position) -> None:
        mine = self._requests.get(self._me)
        self._say(Kind.STATE, 0 if mine is None else mine.clock)

    def _forget(self, gone: MemberId) -> None:
        self._requests.pop(gone, None)
        self._heard.pop(gone, None)

    def _is_first(self) -> bool:
        mine = self._requests.get(self._me)
        return mine is not None and mine == min(self._requests.values())

    def _is_granted(self) -> bool:
        """Rule 5: return whether every member has sent a message later than the request."""
        mine, view = self._requests[self._me], self._view
        assert view is not None
        others = (member for member in view.members if member != self._me)
        return all((self._heard.get(other, 0), other) > mine for other in others)

    def _say(self, kind: Kind, asked: int, to: MemberId | None = None) -> None:
        self._clock += 1  # IR1
        if kind is Kind.STATE:
            self._send(Word(kind, self._clock, asked, self._since), ServiceLevel.CAUSAL)
        else:
            self._send(Word(kind, self._clock, asked), ServiceLevel.FIFO, to)
