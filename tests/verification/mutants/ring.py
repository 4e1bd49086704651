"""Wrong ways to stamp, to number and to repair."""

from collections.abc import Callable
from math import inf

from msgspec import structs

from groupcomm.clocks.ring_clock import RingClock
from groupcomm.order.order import Order
from groupcomm.ring.far_columns import FarColumns
from groupcomm.ring.reception import Reception
from groupcomm.ring.ring import Ring
from groupcomm.ring.states import TokenState
from groupcomm.ring.token_monitor import TokenMonitor
from groupcomm.stream.stream import Stream
from groupcomm.wire.columns import Far
from groupcomm.wire.data import DataPacket
from groupcomm.wire.horizon import HorizonNotice
from groupcomm.wire.token import Row, Token
from tests.verification.mutants.mutant import Right, mutant, site_mutant

_FAR_AHEAD_US = 500_000
_TOO_MUCH_US = 5000
_FOR_EVER_S = 1e9
_BITS_32 = 2**32 - 1


@mutant((RingClock, "follow"))
def clock_ignores_stamps(_right: Right) -> Right:
    """A holder of the token does not set its clock above the stamps it has received."""

    def follow(_self: RingClock, _time: int) -> None:
        """Forget the stamp."""

    return follow


@mutant((RingClock, "follow"))
def far_stamp_ignored(right: Right) -> Right:
    """A clock does not follow a stamp half a second ahead of it, as if that were an error."""

    def follow(self: RingClock, time: int) -> None:
        if not self.value or time <= self.value + _FAR_AHEAD_US:
            right(self, time)

    return follow


@mutant((Order, "drain"))
def forgets_by_own_frontier(right: Right) -> Right:
    """A daemon forgets the packets that it can deliver itself, although others may lack them."""

    def drain(self: Order, *may_go_on: Callable[[], bool]) -> bool:
        done: bool = right(self, *may_go_on)
        for stream in self._streams:
            stream.forget(self.blocks.least)
        return done

    return drain


@mutant((Token, "read_rows"))
def frontier_is_highest(right: Right) -> Right:
    """The frontier of a ring is the highest of its daemons' frontiers, not the least."""

    def read_rows(self: Token, own: Row, ring: int) -> tuple[int, int]:
        _, held = right(self, own, ring)
        return max(row.frontier for row in self.rows), held

    return read_rows


@mutant((Ring, "on_token"))
def hop_in_32_bits(right: Right) -> Right:
    """Hop numbers of the token are compared modulo 2**32."""

    def on_token(self: Ring, token: Token, now: float) -> None:
        if token.hop & _BITS_32 <= self.last_hop & _BITS_32:
            return
        right(self, token, now)

    return on_token


@mutant((Ring, "_answers"))
def held_though_some_is_missing(_right: Right) -> Right:
    """A daemon reports all packets up to one that asks as held, though earlier ones are missing."""

    def answers(self: Ring) -> tuple[int, int] | None:
        number = self._holdings.owed
        packet = self._stream.packets.get(number)
        return (number, packet.time) if number and packet is not None else None

    return answers


@mutant((HorizonNotice, "encode"))
def horizon_beyond_clock(right: Right) -> Right:
    """A horizon notice promises five milliseconds more than its issuer's clock."""

    def encode(self: HorizonNotice) -> bytes:
        self.horizon += _TOO_MUCH_US
        encoded: bytes = right(self)
        return encoded

    return encode


@mutant((Ring, "step"))
def horizon_without_token(right: Right) -> Right:
    """A daemon goes on promising horizons for its ring after it has passed the token."""

    def step(self: Ring, now: float) -> None:
        right(self, now)
        if self.state is TokenState.AWAY:
            last = self._token.last
            self._horizons.horizon_if_due(last, self._held, self._frontier, now)

    return step


@mutant((Stream, "learn"))
def lost_tail_unnoticed(_right: Right) -> Right:
    """A lost packet is noticed by a later packet of its stream only."""

    def learn(_self: Stream, _number: int) -> None:
        """Forget the number."""

    return learn


@mutant((Ring, "_number"), (Ring, "_pass"))
def numbers_reused(right_number: Right, right_pass: Right) -> tuple[Right, Right]:
    """The copy of a token that is sent again lacks the numbers that its sender has given."""
    came_with: dict[Ring, int] = {}

    def number(self: Ring, token: Token, budget: int, now: float, *, far: bool) -> list[DataPacket]:
        came_with[self] = token.last
        packets: list[DataPacket] = right_number(self, token, budget, now, far=far)
        return packets

    def pass_on(self: Ring, token: Token, now: float) -> None:
        right_pass(self, token, now)
        token.last = came_with.pop(self, token.last)
        self.monitor._copy = token.encode(self._key)

    return number, pass_on


@mutant((TokenMonitor, "_ask"), (TokenMonitor, "rests"), faults="loss,burst,partition")
def request_sent_once(right_ask: Right, right_rests: Right) -> tuple[Right, Right]:
    """A request for the token is not repeated, though it may be lost."""

    def ask(self: TokenMonitor, now: float, *, urgent: bool) -> None:
        at_once = self._asking.at == inf and self.at_rest and urgent
        due = at_once or self._asking.at <= now
        right_ask(self, now, urgent=urgent)
        if due:
            self._asking.at = now + _FOR_EVER_S

    def rests(self: TokenMonitor, hop: int, holder: int, now: float, *, wanted: bool) -> None:
        due = self._asking.at
        right_rests(self, hop, holder, now, wanted=wanted)
        if due < inf:
            self._asking.at = due

    return ask, rests


@mutant((Ring, "on_token"))
def token_copy_taken(right: Right) -> Right:
    """A copy of a token that was here already counts as the token."""

    def on_token(self: Ring, token: Token, now: float) -> None:
        self.last_hop = min(self.last_hop, token.hop - 1)
        right(self, token, now)

    return on_token


@mutant((Reception, "on_token"))
def unreceived_member_stays(_right: Right) -> Right:
    """A daemon stays in a ring with a member whose packets do not arrive."""

    def on_token(_self: Reception, _token: Token, _entered: frozenset[int], _now: float) -> None:
        """Note nothing."""

    return on_token


@site_mutant((Far, "passed"))
def far_columns_take_no_turns(right: Right) -> Right:
    """A token that has no room for all columns tells the same ones at each visit."""

    def passed(self: Far, rows: int, columns: int) -> Far:
        found: Far = right(self, rows, columns)
        return structs.replace(found, first=0)

    return passed


@site_mutant((FarColumns, "on_rest"))
def left_out_stays_unsaid(_right: Right) -> Right:
    """A token rests although it has left out what senders of other rings wait for."""

    def on_rest(_self: FarColumns, _token: Token, *_rest: object) -> None:
        """Note nothing."""

    return on_rest


BUGS = (
    clock_ignores_stamps,
    far_columns_take_no_turns,
    far_stamp_ignored,
    forgets_by_own_frontier,
    frontier_is_highest,
    held_though_some_is_missing,
    hop_in_32_bits,
    horizon_beyond_clock,
    horizon_without_token,
    left_out_stays_unsaid,
    lost_tail_unnoticed,
    numbers_reused,
    request_sent_once,
    token_copy_taken,
    unreceived_member_stays,
)
