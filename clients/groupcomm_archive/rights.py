"""The rights of those who ask an archive: only requests that the rules allow reach it.

Pure: requests and what the daemon says about them in; requests that may go on, questions and
refusals out. The rules are those of the archive's own daemon, which knows the owner of each session
as the session's daemon has authenticated it. docs/history.md says what is promised.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, TypeAlias

from groupcomm.events import MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm.names import daemon_of, is_group
from groupcomm_client.history.frames import Find, Read, decode_untrusted, encode
from groupcomm_client.history.refusals import Refusal
from groupcomm_client.history.subscriber import Send

LIFE_S: Final = 5.0
"""The time for which a decision holds; then the daemon is asked again, as rules change."""

MOST_HELD: Final = 1000
"""The requests that wait for a decision; others are dropped, and their programs repeat them."""

MOST_KNOWN: Final = 10_000
"""The decisions that are remembered."""

Pair: TypeAlias = tuple[str, str]
"""A principal and a group."""

Key: TypeAlias = tuple[MemberId, int]
"""A stream: its subscriber, and its number there."""


class Rights:
    """The decisions about those who ask; call `admit` for each message, then see `questions`.

    Attributes:
        ended: streams that must end, as their subscribers may not read any more; the caller clears
            it.
    """

    def __init__(self, me: MemberId) -> None:
        """Begin in a session of the archive."""
        self._me = me
        self.ended: list[Key] = []
        self._daemon = daemon_of(str(me))
        self._known: dict[Pair, tuple[bool, float]] = {}  # decisions, and when they were made
        self._asked: set[Pair] = set()
        self._held: deque[Message] = deque()
        self._readers: dict[Key, tuple[Pair, ...]] = {}
        self._refusals: list[Send] = []

    def admit(self, message: Message, now: float) -> bool:
        """Return whether a message may go on to the archive now; else it is held, or refused.

        A request for what is no name of a group gets no answer: nobody can join such a group.
        """
        request = decode_untrusted(message.data)
        if not isinstance(request, Find | Read) or message.sender == self._me:
            return True
        if not all(map(is_group, request.groups)):
            return False
        pairs = _pairs(message, request)
        if not all(self._is_decided(pair, now) for pair in pairs):
            if len(self._held) < MOST_HELD:
                self._held.append(message)
            return False
        refused = next((pair for pair in pairs if not self._known[pair][0]), None)
        if refused is not None:
            self._refuse(message.sender, request.number, refused)
            return False
        if isinstance(request, Read):
            self._readers[message.sender, request.number] = pairs
        return True

    def _is_decided(self, pair: Pair, now: float) -> bool:
        known = self._known.get(pair)
        return known is not None and now < known[1] + LIFE_S

    def questions(self, now: float) -> list[Pair]:
        """Return what the daemon is to be asked now; `decide` is for the answer."""
        pairs: set[Pair] = set()
        for message in self._held:
            request = decode_untrusted(message.data)
            assert isinstance(request, Find | Read)
            pairs.update(_pairs(message, request))
        for of_stream in self._readers.values():
            pairs.update(of_stream)
        found = {pair for pair in pairs - self._asked if not self._is_decided(pair, now)}
        self._asked |= found
        return sorted(found)

    def decide(self, decisions: Iterable[tuple[Pair, bool]], now: float) -> list[Message]:
        """Note what the daemon has answered; return the requests that may go on now, in order."""
        if len(self._known) > MOST_KNOWN:
            self._known = {pair: each for pair, each in self._known.items() if pair in self._asked}
        for pair, may in decisions:
            self._known[pair] = may, now
            self._asked.discard(pair)
        for key, pairs in list(self._readers.items()):
            refused = next((p for p in pairs if not self._known.get(p, (True, now))[0]), None)
            if refused is not None:
                del self._readers[key]
                self.ended.append(key)
                self._refuse(key[0], key[1], refused)
        held, self._held = self._held, deque()
        return [message for message in held if self.admit(message, now)]

    def keep(self, streams: Iterable[Key]) -> None:
        """Forget the streams that are over."""
        present = set(streams)
        self._readers = {key: pairs for key, pairs in self._readers.items() if key in present}

    def _refuse(self, to: MemberId, number: int, pair: Pair) -> None:
        principal, group = pair
        if principal:  # else the daemon does not know the session yet, and the program asks again
            refusal = Refusal(number, group, principal, self._daemon)
            self._refusals.append(Send(to.name, encode(refusal), ServiceLevel.FIFO))

    def pop_actions(self) -> list[Send]:
        """Remove and return the refusals to send."""
        refusals, self._refusals = self._refusals, []
        return refusals


def _pairs(message: Message, request: Find | Read) -> tuple[Pair, ...]:
    return tuple((message.principal or "", group) for group in request.groups)
