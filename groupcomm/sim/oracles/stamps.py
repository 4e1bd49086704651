"""Stamps and horizons (H1 to H6), and SAFE by what every daemon holds (S1)."""

from bisect import bisect_left, bisect_right
from collections import deque
from typing import Final

from groupcomm.sim.oracles.report import Report
from groupcomm.sim.oracles.world import KEPT, Daemon, World
from groupcomm.sim.trace import Count, Hold, Horizon, Order, Release, Stamped

_NOTHING: Final = -1


class _Ring:
    """What a ring has numbered and promised.

    Attributes:
        numbers: of its packets, rising.
        times: their stamps, rising.
        horizon: the highest it has announced.
        announced: the latest KEPT pairs (value, upto) that it has announced.
    """

    __slots__ = ("announced", "horizon", "numbers", "order", "times")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.times: list[int] = []
        self.horizon = _NOTHING
        self.announced: set[tuple[int, int]] = set()
        self.order: deque[tuple[int, int]] = deque()

    def time_of(self, number: int) -> int:
        """The stamp of a packet; -1 if there is none of that number."""
        numbers = self.numbers
        if not numbers:
            return _NOTHING
        at = number - numbers[0]
        if not (0 <= at < len(numbers) and numbers[at] == number):
            at = bisect_left(numbers, number)
            if at == len(numbers) or numbers[at] != number:
                return _NOTHING
        return self.times[at]

    def announce(self, value: int, upto: int) -> None:
        """Note a promise."""
        self.horizon = max(self.horizon, value)
        self.announced.add((value, upto))
        self.order.append((value, upto))
        if len(self.order) > KEPT:
            self.announced.discard(self.order.popleft())


class Stamps:
    """Judges white-box events of daemons."""

    def __init__(self, world: World, report: Report) -> None:
        self._world = world
        self._report = report
        self._rings: dict[int, _Ring] = {}

    def _ring(self, index: int) -> _Ring:
        ring = self._rings.get(index)
        if ring is None:
            ring = self._rings[index] = _Ring()
        return ring

    def _check_ring(self, event: Stamped | Horizon, daemon: Daemon) -> None:
        if event.view != daemon.view:
            self._report.add("D3", f"{daemon} speaks for view {event.view}", event)
        if event.ring != daemon.ring:
            self._report.add("H1", f"{daemon} speaks for ring {event.ring}, not its own", event)

    # ---- numbering ----

    def stamped(self, event: Stamped, daemon: Daemon) -> None:
        """D3, H1, H3, H6."""
        self._check_ring(event, daemon)
        ring = self._ring(event.ring)
        number, time = event.number, event.time
        if time <= ring.horizon:
            self._report.add(
                "H3", f"{daemon} stamps {time} below the horizon {ring.horizon}", event
            )
        if time <= daemon.held:
            self._report.add("H6", f"{daemon} stamps {time}, having received {daemon.held}", event)
        if not ring.numbers:
            for other in self._world.daemons.values():
                other.prefix[event.ring] = number - 1
        elif number != ring.numbers[-1] + 1 or time <= ring.times[-1]:
            self._report.add(
                "H1",
                f"{daemon} numbers packet {number} of ring {event.ring} with stamp {time},"
                f" after packet {ring.numbers[-1]} with {ring.times[-1]}",
                event,
            )
            if number <= ring.numbers[-1] or time <= ring.times[-1]:
                return
        ring.numbers.append(number)
        ring.times.append(time)

    def hold(self, event: Hold, daemon: Daemon) -> None:
        """H1 and D2; move the prefix and the block that follows from it."""
        number, time, index = event.number, event.time, event.ring
        prefix = daemon.prefix[index]
        early = daemon.early[index]
        if self._ring(index).time_of(number) != time:
            self._report.add("H1", f"{daemon} gets packet {number}, which nobody sent so", event)
            return
        if number <= prefix or number in early:
            self._report.add("D2", f"{daemon} gets packet {number} of ring {index} twice", event)
            return
        if time > daemon.held:
            daemon.held = time
        if number != prefix + 1:
            early[number] = time
            return
        while early and number + 1 in early:
            number += 1
            time = early.pop(number)
        daemon.prefix[index] = number
        self._raise(daemon, index, time)

    def _raise(self, daemon: Daemon, ring: int, value: int) -> None:
        blocks = daemon.blocks
        before = blocks[ring]
        if value > before:
            blocks[ring] = value
            if before == daemon.block:
                daemon.block = min(blocks)

    # ---- horizons ----

    def horizon(self, event: Horizon, daemon: Daemon) -> None:
        """D3, H1, H2, and H3 for packets that were there already."""
        self._check_ring(event, daemon)
        ring = self._ring(event.ring)
        if event.value < ring.horizon:
            self._report.add("H2", f"{daemon} announces {event.value} after {ring.horizon}", event)
        ring.announce(event.value, event.upto)
        above = bisect_right(ring.numbers, event.upto)
        if above < len(ring.times) and ring.times[above] <= event.value:
            self._report.add(
                "H3",
                f"{daemon} promises {event.value} after packet {event.upto}, and a later packet"
                " is lower",
                event,
            )

    def count(self, event: Count, daemon: Daemon) -> None:
        """H4."""
        ring = self._ring(event.ring)
        numbered = bool(ring.numbers) and event.upto >= ring.numbers[0]
        if numbered and daemon.prefix[event.ring] < event.upto:
            self._report.add(
                "H4",
                f"{daemon} counts a horizon up to packet {event.upto} of ring {event.ring},"
                f" holding {daemon.prefix[event.ring]}",
                event,
            )
        if (event.value, event.upto) not in ring.announced:
            self._report.add("H4", f"{daemon} counts a horizon that nobody announced", event)
        self._raise(daemon, event.ring, event.value)

    # ---- releases ----

    def released(self, event: Release, daemon: Daemon) -> None:
        """H4: a daemon releases what it holds."""
        number, index = event.number, event.ring
        held = number <= daemon.prefix[index] or number in daemon.early[index]
        if not held or self._ring(index).time_of(number) != event.time:
            self._report.add(
                "H4", f"{daemon} releases packet {number} of ring {index}, not holding it", event
            )

    def agreed(self, event: Release | Order, time: int, daemon: Daemon) -> None:
        """H5: nothing of the agreed order beyond a block."""
        if time > daemon.block:
            self._report.add(
                "H5", f"{daemon} passes its block {daemon.block} with stamp {time}", event
            )

    def safe(self, event: Release | Order, time: int, daemon: Daemon) -> None:
        """S1: every daemon holds everything up to this stamp."""
        for index, ring in self._rings.items():
            below = bisect_right(ring.times, time)
            needed = ring.numbers[below - 1] if below else _NOTHING
            for other in self._world.daemons.values():
                if other.prefix[index] < needed:
                    self._report.add(
                        "S1",
                        f"{daemon} passes SAFE at {time}, and {other} lacks packet"
                        f" {other.prefix[index] + 1} of ring {index}",
                        event,
                    )
                    return
