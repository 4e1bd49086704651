"""Stamps and horizons (H1 to H6), and SAFE by what every daemon holds (S1)."""

from bisect import bisect_right

from groupcomm.sim.oracles.report import Report
from groupcomm.sim.oracles.world import Daemon, World
from groupcomm.sim.trace import Count, Hold, Horizon, Order, Release, Stamped


class _Ring:
    """What a ring has numbered and promised; `times` starts with packet `first`."""

    __slots__ = ("first", "horizon", "times")

    def __init__(self) -> None:
        self.first = 0
        self.times: list[int] = []
        self.horizon = -1


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

    def stamped(self, event: Stamped, daemon: Daemon) -> None:
        """H1, H3, H6."""
        ring = self._ring(event.ring)
        times = ring.times
        if not times:
            ring.first = event.number
            for other in self._world.daemons.values():
                other.prefix[event.ring] = event.number - 1
        elif event.number != ring.first + len(times) or event.time <= times[-1]:
            self._report.add(
                "H1",
                f"{daemon} numbers packet {event.number} of ring {event.ring} with stamp"
                f" {event.time}, after packet {ring.first + len(times) - 1} with {times[-1]}",
                event,
            )
        if event.time <= ring.horizon:
            self._report.add(
                "H3", f"{daemon} stamps {event.time} below the horizon {ring.horizon}", event
            )
        if event.time <= daemon.held:
            self._report.add(
                "H6", f"{daemon} stamps {event.time}, having received {daemon.held}", event
            )
        times.append(event.time)

    def hold(self, event: Hold, daemon: Daemon) -> None:
        """Move the prefix and the block that follows from it."""
        number, time, index = event.number, event.time, event.ring
        if time > daemon.held:
            daemon.held = time
        prefix = daemon.prefix[index]
        if number != prefix + 1:
            if number > prefix:
                daemon.early[index][number] = time
            return
        early = daemon.early[index]
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

    def horizon(self, event: Horizon, daemon: Daemon) -> None:
        """H2, and H3 for packets that were there already."""
        ring = self._ring(event.ring)
        if event.value < ring.horizon:
            self._report.add("H2", f"{daemon} announces {event.value} after {ring.horizon}", event)
        ring.horizon = max(ring.horizon, event.value)
        above = max(0, event.upto + 1 - ring.first)
        if any(time <= event.value for time in ring.times[above:]):
            self._report.add(
                "H3",
                f"{daemon} promises {event.value} after packet {event.upto}, and a later packet"
                " is lower",
                event,
            )

    def count(self, event: Count, daemon: Daemon) -> None:
        """H4."""
        if daemon.prefix[event.ring] < event.upto and self._is_numbered(event):
            self._report.add(
                "H4",
                f"{daemon} counts a horizon up to packet {event.upto} of ring {event.ring},"
                f" holding {daemon.prefix[event.ring]}",
                event,
            )
        self._raise(daemon, event.ring, event.value)

    def _is_numbered(self, event: Count) -> bool:
        """Before a ring's first packet every horizon counts."""
        ring = self._ring(event.ring)
        return bool(ring.times) and event.upto >= ring.first

    def agreed(self, event: Release | Order, time: int, daemon: Daemon) -> None:
        """H5: nothing of the agreed order beyond a block."""
        if time > daemon.block:
            self._report.add(
                "H5", f"{daemon} passes its block {daemon.block} with stamp {time}", event
            )

    def safe(self, event: Release, daemon: Daemon) -> None:
        """S1: every daemon holds everything up to this stamp."""
        for index, ring in self._rings.items():
            needed = ring.first + bisect_right(ring.times, event.time) - 1
            for other in self._world.daemons.values():
                if other.prefix[index] < needed:
                    self._report.add(
                        "S1",
                        f"{daemon} releases SAFE {event.time}/{event.ring}, and {other} lacks"
                        f" packet {other.prefix[index] + 1} of ring {index}",
                        event,
                    )
                    return
