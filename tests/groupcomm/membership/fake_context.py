"""A daemon around a membership that only notes its calls.

All packets of its view are of the first ring, and are their own numbers.
"""

from collections.abc import Callable

import attrs

from groupcomm.config.view import Incarnation, View
from groupcomm.engine.probe import NoProbe, Probe
from groupcomm.errors import BadDatagram, Contradiction
from groupcomm.membership.recovered_set import RecoveredSet
from groupcomm.stream.ranges import Range, ranges_of
from groupcomm.wire.membership import Holding, Past, RosterNotice


@attrs.define
class FakeContext:
    """The context of membership (groupcomm/membership/context.py).

    Attributes:
        held: numbers of the view that stands still.
        log: the calls, in order.
        rosters: the rosters that others have sent.
        lost: the numbers of the daemons whose packets do not arrive.
        unreached: the numbers of the daemons to which packets are sent in vain.
        routes: the links that it was told to use, each time.
        credulous: whether it believes others' statements about the frozen view.
        sound: whether its deliveries agree with the recovered set.
        on_install: called when a view is installed, whose rest may change the roster.
        contradicted: the numbers whose packets contradict those that are held.
    """

    key: bytes = b""
    rings: int = 1
    held: set[int] = attrs.field(factory=set)
    obligation: frozenset[int] = frozenset()
    log: list[str] = attrs.field(factory=list)
    physical: int = 1000
    clock: int = 0
    used: int = 0
    corrected: int | None = None
    credulous: bool = True
    sound: bool = True
    contradicted: set[int] = attrs.field(factory=set)
    on_install: Callable[[], None] = lambda: None
    routes: list[tuple[tuple[int, int], ...]] = attrs.field(factory=list)
    rosters: list[RosterNotice] = attrs.field(factory=list)
    lost: set[int] = attrs.field(factory=set)
    unreached: set[int] = attrs.field(factory=set)
    forgotten: list[tuple[int, Incarnation]] = attrs.field(factory=list)
    installed: list[tuple[View, RecoveredSet | None, frozenset[int]]] = attrs.field(factory=list)
    probe: Probe = attrs.field(factory=NoProbe)

    @property
    def old(self) -> "FakeContext":
        return self

    def is_plausible(self, past: Past) -> bool:
        return self.credulous

    def prepare(self, recovered_set: RecoveredSet, transitional_members: frozenset[int]) -> bool:
        return self.sound or len(transitional_members) == 1

    def freeze(self) -> None:
        self.log.append("freeze")

    def not_received(self, now: float) -> set[int]:
        return self.lost

    def not_reached(self, now: float) -> set[int]:
        return self.unreached

    def on_roster(self, notice: RosterNotice) -> bool:
        self.rosters.append(notice)
        return False

    @property
    def past(self) -> Past | None:
        if not self.key:
            return None
        first = Holding(0, tuple(ranges_of(self.held)), (), 0)
        others = (Holding(0, (), (), 0),) * (self.rings - 1)
        return Past(self.key, (first, *others), tuple(sorted(self.obligation)))

    def reading(self, now: float) -> int:
        return self.physical + int(now * 1e6)

    def set_reading(self, now: float, reading: int) -> None:
        self.corrected = reading

    def reroute(self, links: tuple[tuple[int, int], ...]) -> None:
        self.routes.append(links)

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

    def old_packet(self, ring: int, number: int) -> bytes | None:
        return b"%d" % number if number in self.held else None

    def accept_repair(self, packet: bytes, recovered_set: RecoveredSet) -> tuple[int, int] | None:
        if not packet.isdigit():
            raise BadDatagram("packet", f"{packet!r} is no number")
        number = int(packet)
        if number in self.contradicted:
            raise Contradiction("content", f"packet {number} is another one here")
        if number in self.held or not recovered_set.holds(0, number):
            return None
        self.held.add(number)
        return 0, number

    def bind(self, recovered_set: RecoveredSet, transitional_members: frozenset[int]) -> None:
        assert not any(self.missing(recovered_set)), "who is bound holds the union"
        self.log.append("bind")
        self.obligation |= transitional_members | recovered_set.obligation

    def install(
        self, view: View, recovered_set: RecoveredSet | None, transitional_members: frozenset[int]
    ) -> None:
        self.log.append("install")
        self.on_install()
        self.installed.append((view, recovered_set, transitional_members))
        self.key, self.held, self.obligation = view.key, set(), frozenset()
        self.rings = len(view.rings)
