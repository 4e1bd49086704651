"""The token monitor: ensures that a passed token arrives, asks for it, and detects its loss.

Pure. ``now`` is in seconds. It works while the token is at another daemon. A passed token is sent
again until something proves that it arrived; from then on the next holder is responsible for it. A
daemon that wants the token sends a request: at once if the token is known to rest, otherwise only
if the token fails to come by.
"""

from math import inf

from groupcomm.config.core import Timing
from groupcomm.config.view import RING
from groupcomm.ring.context import RingContext
from groupcomm.wire.token import TokenRequest


class Repeater:
    """The times at which to repeat something; intervals double from `first_s` up to `longest_s`.

    Attributes:
        at: the next time; inf while nothing is to be repeated.
    """

    __slots__ = ("_first_s", "_longest_s", "_wait_s", "at")

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._wait_s = first_s
        self.at = inf

    def start(self, now: float, wait_s: float | None = None) -> None:
        """Start again: the first time comes after the first interval, or after `wait_s`."""
        if wait_s is None:
            wait_s = self._first_s
        self._wait_s = max(wait_s, self._first_s)
        self.at = now + wait_s

    def stop(self) -> None:
        """Repeat no more, as it was answered."""
        self.at = inf

    def pop_due(self, now: float) -> bool:
        """Return whether it is time; if so, set the next time."""
        if now < self.at:
            return False
        self.at = now + self._wait_s
        self._wait_s = min(2 * self._wait_s, self._longest_s)
        return True


class TokenMonitor:
    """The knowledge of one daemon about a token that it does not have.

    Attributes:
        silence_s: the silence of the token that is worth a line in the log.
        heard_at: the time at which the token, or a notice of it, was last heard or sent on.
        hop: the highest hop number seen.
        passed_at: the time at which the token last left this daemon.
        at_rest: whether the token is known to rest or linger.
        deadline: the time at which `step` is due.
        token_losses: the number of times that the token was silent for a whole token timeout.
        token_retransmissions: the number of copies sent of tokens that nothing showed to have
            arrived.
    """

    __slots__ = (
        "_ask_holder",
        "_asking",
        "_context",
        "_copy",
        "_copy_to",
        "_holder",
        "_key",
        "_me",
        "_passes_within_s",
        "_repeats",
        "_ring",
        "_timeout_s",
        "at_rest",
        "deadline",
        "heard_at",
        "hop",
        "passed_at",
        "silence_s",
        "token_losses",
        "token_retransmissions",
    )

    def __init__(
        self,
        ring: int,
        me: int,
        key: bytes,
        timing: Timing,
        *,
        hop: int,
        holder: int,
        context: RingContext,
        now: float,
    ) -> None:
        self._ring = ring
        self._me = me
        self._key = key
        self._context = context
        self._timeout_s = timing.token_timeout_s
        self.silence_s = timing.token_timeout_s / 2
        self._repeats = Repeater(timing.token_retransmit_s, timing.longest_wait_s)
        self._asking = Repeater(timing.request_retry_s, timing.longest_wait_s)
        self._passes_within_s = 2 * timing.token_retransmit_s  # even if a copy is needed
        self._copy = b""  # the passed token, until its arrival is known
        self._copy_to = me
        self._holder = holder  # the daemon that sent the last rest notice
        self._ask_holder = False  # whether the next request is the first one since that notice
        self.at_rest = True
        self.heard_at = self.passed_at = now
        self.hop = hop
        self.deadline = inf
        self.token_losses = 0
        self.token_retransmissions = 0

    # ---- events ----

    def passed_on(self, packet: bytes, to: int, hop: int, now: float) -> None:
        """Note that the token has just left for another daemon."""
        self.hop = hop
        self.at_rest = False
        self._copy = packet
        self._copy_to = to
        self._repeats.start(now)
        if self._asking.at != inf:
            self._asking.stop()
        self.heard_at = self.passed_at = now

    def came_by(self, hop: int) -> None:
        """Note that the token is here, so the daemon need not ask for it."""
        self.hop = hop
        self.at_rest = False
        if self._repeats.at != inf:  # the token comes by often, and a look costs less than a call
            self._repeats.stop()
        if self._asking.at != inf:
            self._asking.stop()

    def rests(self, hop: int, holder: int, now: float, *, wanted: bool) -> None:
        """Note that the token rests with `holder`; if `wanted`, ask that daemon at once."""
        self.hop = hop
        self.at_rest = True
        self._holder = holder
        self._ask_holder = False
        if self._repeats.at != inf:
            self._repeats.stop()
        if wanted:
            self._ask_at_once(now)

    def lingers(self, holder: int, now: float, *, wanted: bool) -> None:
        """Note that `holder` has numbered a packet and keeps the token until asked for it."""
        self.at_rest = True
        self._holder = holder
        self._ask_holder = False
        if wanted:
            self._ask_at_once(now)

    def arrived_there(self) -> None:
        """Note the proof that the token that was passed on has arrived."""
        if self._repeats.at != inf:
            self._repeats.stop()

    def postpone(self, until: float) -> None:
        """Note no loss of the token before this time: this daemon could not hear it."""
        self.heard_at = max(self.heard_at, until - self._timeout_s)

    # ---- actions ----

    def step(self, now: float, *, wanted: bool, urgent: bool, missing_at: float) -> None:
        """Send the token again, ask for it, or note its loss, if it is time for that.

        Args:
            now: seconds.
            wanted: whether this daemon wants the token now.
            urgent: whether only this daemon can know of the need, so that it asks at once.
            missing_at: the time at which it will want the token to ask for missing packets; inf if
                none are missing.
        """
        if now >= self._repeats.at and self._repeats.pop_due(now):
            self.token_retransmissions += 1
            self._context.ring_counts.repeated_tokens += 1
            self._context.send(self._copy_to, self._copy)
        if now >= self.heard_at + self._timeout_s:
            self.heard_at = now
            self.token_losses += 1
        if wanted:
            self._ask(now, urgent=urgent)
        elif self._asking.at != inf:
            self._asking.stop()
        deadline = self.heard_at + self._timeout_s
        if self._repeats.at < deadline:
            deadline = self._repeats.at
        if self._asking.at < deadline:
            deadline = self._asking.at
        elif missing_at < deadline and self._asking.at == inf:
            deadline = missing_at
        self.deadline = deadline

    def _ask(self, now: float, *, urgent: bool) -> None:
        """Request a resting token at once; a circulating one only when it fails to come by.

        The first request of a resting token wakes only its holder. Later ones go to all: the holder
        may have changed, and a request also proves that the token moved on.
        """
        if self._asking.at == inf:
            if not self.at_rest:
                self._asking.start(now, self._passes_within_s)
            elif urgent:
                self._ask_at_once(now)
            else:
                self._asking.start(now)  # the holder may have noticed the need itself
        if self._asking.pop_due(now):
            target, self._ask_holder = self._holder if self._ask_holder else RING, False
            request = TokenRequest(ring=self._ring, daemon=self._me, hop=self.hop)
            self._context.send(target, request.encode(self._key))

    def _ask_at_once(self, now: float) -> None:
        self._asking.start(now, 0.0)
        self._ask_holder = True
