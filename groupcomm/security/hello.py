"""Hello: each start of a daemon proves that it sends now, before its packets are accepted.

Pure. ``now`` is in seconds. A receiver that does not know a start has no replay window for it:
a datagram under its name with a valid seal may have been captured long ago. So the receiver sends a
challenge, which names the challenged start and its own. The answer names the start that has asked.

    UNKNOWN --- datagram with a valid seal ---> ASKED --- hello that names this start ---> PROVEN
            a challenge, to the daemon's address  | again: ask again, now and then     windows begin

A hello that names this start was sealed after this start drew its random id, so it is a proof,
be it a challenge or an answer; and it has the counters used before it, so earlier captures are
stale. A proof is valid once: if its windows had to be dropped, a copy of it would begin them anew.
So once any were dropped, only the answer to a new challenge counts.

Copies of datagrams of earlier starts cause challenges, and nothing else. So challenges and answers
have rate limits of their own, and copies use up nothing that a running daemon needs.

docs/security.md has the cases in which each is sent, and why no attacker can make daemons send.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from groupcomm.config.view import Incarnation
from groupcomm.errors import BadDatagram
from groupcomm.security.identity import StartId
from groupcomm.wire.hello import Hello

REPEAT_S: Final = 0.02
"""The time between the first two challenges of one start; a lost one costs this."""

LONGEST_REPEAT_S: Final = 0.32
"""The time between later ones: the start does not hear this daemon, or is over and replayed."""

MAX_ASKED: Final = 4
"""The starts of one daemon that are challenged at a time; more are replays of earlier ones."""


@attrs.define
class _Challenge:
    number: int  # the challenge's number
    again_at: float  # the time before which the challenge is not repeated
    wait_s: float = REPEAT_S


@attrs.frozen(kw_only=True)
class HelloReply:
    """The result of a hello.

    Attributes:
        trust: whether its sender has proved that it sends now.
        say: a hello to send to it; None for nothing.
    """

    trust: bool
    say: Hello | None


class Introductions:
    """The challenges of one start of one daemon.

    Attributes:
        forgot: whether windows of a start were dropped, which a copy of its proof would begin anew.

    Args:
        own: this start.
        listed: the numbers of the daemons that may be members, this one included, as a clone of it
            may appear.
        now: seconds.
    """

    __slots__ = (
        "_answers",
        "_asked",
        "_challenges",
        "_greeted",
        "_last",
        "_listed",
        "_own",
        "forgot",
    )

    def __init__(self, own: Incarnation, listed: Mapping[int, str], now: float) -> None:
        self._own = own
        self._listed = listed
        self._challenges = RateLimits(now)
        self._answers = RateLimits(now)
        self._asked: dict[
            int, dict[Incarnation, _Challenge]
        ] = {}  # starts that may be copies of old datagrams
        self._greeted: dict[
            int, dict[Incarnation, _Challenge]
        ] = {}  # starts that have named this start
        self.forgot = False
        self._last = 0  # the number of the last challenge; no number is used twice in this start

    def on_unproven(self, start: StartId, room: int, now: float) -> Hello | None:
        """Return a challenge for a start that has sent a valid seal, and has proved nothing yet.

        Args:
            start: the start of the sender.
            room: the bytes by which the datagram was longer than a hello.
            now: seconds.

        Returns:
            A challenge to send to that daemon's address; None to send nothing.

        Raises:
            BadDatagram: the daemon is not listed.
        """
        number, incarnation = start
        self._check_listed(number)
        asked = self._asked.get(number, {}).get(incarnation)
        if room < 0 or (asked is not None and now < asked.again_at):
            return None
        if not self._challenges.spend(number, now):
            return None
        return Hello(start=incarnation, asks=self._ask(self._asked, start, now))

    def on_hello(self, start: StartId, hello: Hello, *, proven: bool, now: float) -> HelloReply:
        """Process a hello with a valid seal.

        Raises:
            BadDatagram: it is for another start of this daemon, or has nothing new, or its sender
                is not listed. Nothing is sent.
        """
        number, incarnation = start
        self._check_listed(number)
        if hello.start != self._own:
            raise BadDatagram("hello", "a hello for another start of this daemon")
        answered = self._accept_answer(start, hello.answers)
        trust = not proven and (answered or not self.forgot)
        if not (trust or hello.asks):
            raise BadDatagram(
                "hello",
                f"a hello answers challenge {hello.answers}, which this daemon has not sent",
            )
        if not hello.asks or not self._answers.spend(number, now):
            return HelloReply(trust=trust, say=None)
        asks = 0 if proven or trust else self._ask(self._greeted, start, now)
        return HelloReply(trust=trust, say=Hello(start=incarnation, asks=asks, answers=hello.asks))

    def _check_listed(self, number: int) -> None:
        if number not in self._listed:
            raise BadDatagram("unlisted", f"daemon {number:x} is not in the configuration")

    def _accept_answer(self, start: StartId, answers: int) -> bool:
        number, incarnation = start
        for starts in (self._asked.get(number, {}), self._greeted.get(number, {})):
            asked = starts.get(incarnation)
            if asked is not None and asked.number == answers:
                del starts[incarnation]
                return True
        return False

    def _ask(
        self, among: dict[int, dict[Incarnation, _Challenge]], start: StartId, now: float
    ) -> int:
        """Return the number of the challenge for a start: a new one, or the last one again."""
        number, incarnation = start
        starts = among.setdefault(number, {})
        asked = starts.get(incarnation)
        if asked is None:
            while len(starts) >= MAX_ASKED:
                del starts[next(iter(starts))]
            self._last += 1
            asked = starts[incarnation] = _Challenge(self._last, now)
        asked.again_at = now + asked.wait_s
        asked.wait_s = min(2 * asked.wait_s, LONGEST_REPEAT_S)
        return asked.number


BURST_EACH: Final = 8
PER_S_EACH: Final = 50.0
BURST_ALL: Final = 2048
PER_S_ALL: Final = 4000.0
"""A thousand daemons that start at once meet within a second."""


class RateLimit:
    """A token bucket: `burst` at once, `per_s` a second. `now` is in seconds."""

    __slots__ = ("_at", "_burst", "_left", "_per_s")

    def __init__(self, burst: int, per_s: float, now: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._left = float(burst)
        self._at = now

    def allows(self, now: float) -> bool:
        """Return whether one more may be sent; spend nothing."""
        self._left = min(self._burst, self._left + (now - self._at) * self._per_s)
        self._at = now
        return self._left >= 1.0

    def spend(self) -> None:
        """Spend one."""
        self._left -= 1.0


class RateLimits:
    """A rate limit for each daemon, and one for all of them together."""

    __slots__ = ("_all", "_each")

    def __init__(self, now: float) -> None:
        self._all = RateLimit(BURST_ALL, PER_S_ALL, now)
        self._each: dict[int, RateLimit] = {}

    def spend(self, number: int, now: float) -> bool:
        """Spend one for a daemon, by its number; return False if its limit, or that of all, is
        reached.
        """
        each = self._each.get(number)
        if each is None:
            each = self._each[number] = RateLimit(BURST_EACH, PER_S_EACH, now)
        if not (each.allows(now) and self._all.allows(now)):
            return False
        each.spend()
        self._all.spend()
        return True
