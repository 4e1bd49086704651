"""A daemon around a membership that only notes its calls.

All packets of its view are of the first ring, and are their own numbers.
"""

from collections.abc import Callable
from typing import Any

import attrs

from groupcomm.clocks.ring_clock import PhysicalClock
from groupcomm.config.core import CoreConfig
from groupcomm.config.view import Incarnation, View
from groupcomm.errors import BadDatagram, Contradiction
from groupcomm.membership.recovered_set import RecoveredSet
from groupcomm.stream.ranges import Range, ranges_of
from groupcomm.wire.membership import Holding, Past, RosterNotice


class FakeClock(PhysicalClock):
    """Physical time, as a test sets it.

    Attributes:
        first: the reading at time 0.
        corrected: the reading that it was corrected to; None if it was not.
    """

    def __init__(self) -> None:
        super().__init__(0.0, 0.0)
        self.first = 1000
        self.corrected: int | None = None

    def read(self, now: float) -> int:
        return self.first + int(now * 1e6)

    def correct(self, now: float, reading: int) -> None:
        self.corrected = reading


@attrs.define
class FakeContext:
    """The context of membership, and its frozen view (groupcomm/membership/context.py).

    Attributes:
        held: numbers of the view that stands still.
        log: the calls, in order.
        rosters: the rosters that others have sent.
        lost: the numbers of the daemons whose packets do not arrive.
        unreached: the numbers of the daemons to which packets are sent in vain.
        routes: the links that it was told to use, each time.
        credulous: whether it believes others' statements about the frozen view.
        sound: whether its deliveries agree with the recovered set.
        on_end: called when a view ends, whose rest may change the roster.
        pieces: the calls of `end` that a view takes to end.
        excused: the numbers of the daemons that were excused, each time.
        contradicted: the numbers whose packets contradict those that are held.
    """

    key: bytes = b""
    rings: int = 1
    held: set[int] = attrs.field(factory=set)
    obligation: frozenset[int] = frozenset()
    log: list[str] = attrs.field(factory=list)
    physical: FakeClock = attrs.field(factory=FakeClock)
    clock: int = 0
    used: int = 0
    credulous: bool = True
    sound: bool = True
    contradicted: set[int] = attrs.field(factory=set)
    on_end: Callable[[], None] = lambda: None
    pieces: int = 1
    excused: list[int] = attrs.field(factory=list)
    ended: tuple[RecoveredSet | None, frozenset[int]] = (None, frozenset())
    recovered_set: RecoveredSet | None = None
    routes: list[tuple[tuple[int, int], ...]] = attrs.field(factory=list)
    rosters: list[RosterNotice] = attrs.field(factory=list)
    lost: set[int] = attrs.field(factory=set)
    unreached: set[int] = attrs.field(factory=set)
    forgotten: list[tuple[int, Incarnation]] = attrs.field(factory=list)
    installed: list[tuple[View, RecoveredSet | None, frozenset[int]]] = attrs.field(factory=list)

    def is_plausible(self, past: Past) -> bool:
        return self.credulous

    def prepare(self, recovered_set: RecoveredSet, transitional_members: frozenset[int]) -> bool:
        self.recovered_set = recovered_set
        return self.sound or len(transitional_members) == 1

    def freeze(self) -> "FakeContext":
        self.log.append("freeze")
        return self

    def not_received(self, now: float) -> set[int]:
        return self.lost

    def not_reached(self, now: float) -> set[int]:
        return self.unreached

    def on_roster(self, notice: RosterNotice, now: float) -> bool:
        self.rosters.append(notice)
        return False

    @property
    def past(self) -> Any:
        if not self.key:
            return None
        first = Holding(0, tuple(ranges_of(self.held)), (), 0)
        others = (Holding(0, (), (), 0),) * (self.rings - 1)
        return Past(self.key, (first, *others), tuple(sorted(self.obligation)))

    def reroute(self, links: tuple[tuple[int, int], ...], now: float) -> None:
        self.routes.append(links)

    def excuse(self, number: int, now: float) -> None:
        self.excused.append(number)

    def forget(self, number: int, incarnation: Incarnation) -> None:
        self.forgotten.append((number, incarnation))

    def missing(self, recovered_set: RecoveredSet) -> list[list[Range]]:
        lacking = [
            number
            for first, last in recovered_set.spans[0]
            for number in range(first, last + 1)
            if number not in self.held
        ]
        return [ranges_of(lacking), *([] for _ in range(self.rings - 1))]

    def packet(self, ring: int, number: int) -> bytes | None:
        return b"%d" % number if number in self.held else None

    def receive_repair(self, raw: bytes, recovered_set: RecoveredSet) -> tuple[int, int] | None:
        if not raw.isdigit():
            raise BadDatagram("packet", f"{raw!r} is no number")
        number = int(raw)
        if number in self.contradicted:
            raise Contradiction("content", f"packet {number} is another one here")
        if number in self.held or not recovered_set.holds(0, number):
            return None
        self.held.add(number)
        return 0, number

    def accept_obligation(
        self, recovered_set: RecoveredSet, transitional_members: frozenset[int]
    ) -> None:
        assert not any(self.missing(recovered_set)), "who is bound holds the union"
        self.log.append("bind")
        self.obligation |= transitional_members | recovered_set.obligation

    def end(self, following: View, transitional_members: frozenset[int], *, whole: bool) -> bool:
        self.log.append("end")
        self.pieces = 0 if whole else self.pieces - 1
        if self.pieces > 0:
            return False
        self.pieces, self.ended = 1, (self.recovered_set, transitional_members)
        self.on_end()
        return True

    def install(self, view: View, agreed_with: CoreConfig) -> "FakeContext":
        self.log.append("install")
        self.installed.append((view, *self.ended))
        self.ended = (None, frozenset())
        self.key, self.held, self.obligation = view.key, set(), frozenset()
        self.rings = len(view.rings)
        return self
