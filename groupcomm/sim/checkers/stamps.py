"""Checks of stamps and horizons (D3, H1 to H6), and of SAFE by the packets of daemons (S1)."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from groupcomm.sim.checkers.records import (
    ClientRecord,
    Item,
    Stay,
    reading,
)
from groupcomm.sim.checkers.report import Report
from groupcomm.trace.events import Count, Hold, Horizon, Order, Release, Stamped


class Stamps:
    """A checker of white-box events of daemons."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def fits(self, event: Stamped | Hold | Horizon | Count | Release, stay: Stay) -> bool:
        """Check D3: the ring belongs to the view."""
        if 0 <= event.ring < len(stay.blocks):
            return True
        self._report.add("D3", f"{stay} names ring {event.ring}, which is not there", event)
        return False

    def _may_act(self, event: Stamped | Hold | Horizon | Count, stay: Stay) -> bool:
        if isinstance(event, Stamped | Horizon) and event.view != stay.view.text:
            self._report.add("D3", f"{stay} speaks for view {event.view}", event)
            return False
        if not stay.part.regular:
            self._report.add("D3", f"{stay} goes on with {stay.view.text}, which is over", event)
            return False
        return self.fits(event, stay)

    # ---- numbering ----

    def stamped(self, event: Stamped, stay: Stay) -> bool:
        """Check D3, H1, H3 and H6; return False if the event numbers nothing."""
        if not self._may_act(event, stay):
            return False
        self._check_ring(event, stay)
        stream = stay.view.streams[event.ring]
        number, time = event.number, event.time
        if time <= stream.horizon:
            self._report.add(
                "H3", f"{stay} stamps {time} below the horizon {stream.horizon}", event
            )
        if time <= stay.held:
            self._report.add("H6", f"{stay} stamps {time}, having received {stay.held}", event)
        if not stream.numbers:
            for other in stay.view.stays.values():
                other.prefix[event.ring] = number - 1
        elif number != stream.numbers[-1] + 1 or time <= stream.times[-1]:
            self._report.add(
                "H1",
                f"{stay} numbers packet {number} of ring {event.ring} with stamp {time},"
                f" after packet {stream.numbers[-1]} with {stream.times[-1]}",
                event,
            )
            if number <= stream.numbers[-1] or time <= stream.times[-1]:
                return False
        stream.number(number, time, event.p)
        return True

    def _check_ring(self, event: Stamped | Horizon, stay: Stay) -> None:
        if event.ring != stay.ring:
            self._report.add("H1", f"{stay} speaks for ring {event.ring}, not its own", event)

    def hold(self, event: Hold, stay: Stay) -> None:
        """Check H1 and D2; advance the prefix and the block that follows from it."""
        if not (stay.part.regular and 0 <= event.ring < len(stay.blocks)):
            self._may_act(event, stay)
            return
        number, time, index = event.number, event.time, event.ring
        prefix = stay.prefix[index]
        early = stay.early[index]
        packet = stay.view.streams[index].packets.get(number)
        if packet is None or packet[0] != time:
            self._report.add(
                "H1", f"{stay} gets packet {number}, which no daemon sent with these values", event
            )
            return
        if number <= prefix or number in early:
            self._report.add("D2", f"{stay} gets packet {number} of ring {index} twice", event)
            return
        if time > stay.held:
            stay.held = time
        if number != prefix + 1:
            early[number] = time
            return
        while early and number + 1 in early:
            number += 1
            time = early.pop(number)
        stay.prefix[index] = number
        _raise(stay, index, time)

    # ---- horizons ----

    def horizon(self, event: Horizon, stay: Stay) -> None:
        """Check D3, H1, H2, and H3 for packets that came before."""
        if not self._may_act(event, stay):
            return
        self._check_ring(event, stay)
        stream = stay.view.streams[event.ring]
        if event.value < stream.horizon:
            self._report.add("H2", f"{stay} announces {event.value} after {stream.horizon}", event)
        stream.announce(event.value, event.upto)
        above = bisect_right(stream.numbers, event.upto)
        if above < len(stream.times) and stream.times[above] <= event.value:
            self._report.add(
                "H3",
                f"{stay} promises {event.value} after packet {event.upto}, and a later packet"
                " is lower",
                event,
            )

    def count(self, event: Count, stay: Stay) -> None:
        """Check H4."""
        if not (stay.part.regular and 0 <= event.ring < len(stay.blocks)):
            self._may_act(event, stay)
            return
        stream = stay.view.streams[event.ring]
        numbered = bool(stream.numbers) and event.upto >= stream.numbers[0]
        if numbered and stay.prefix[event.ring] < event.upto:
            self._report.add(
                "H4",
                f"{stay} counts a horizon up to packet {event.upto} of ring {event.ring},"
                f" holding {stay.prefix[event.ring]}",
                event,
            )
        if (event.value, event.upto) not in stream.announced:
            self._report.add("H4", f"{stay} counts a horizon that no daemon announced", event)
        _raise(stay, event.ring, event.value)

    # ---- releases ----

    def released(self, event: Release, packet: tuple[int, str] | None, stay: Stay) -> None:
        """Check H4: a daemon releases packets that it holds; return the packet's stamp and
        author."""
        number, index = event.number, event.ring
        held = number <= stay.prefix[index] or number in stay.early[index]
        if not held or packet is None or packet[0] != event.time:
            self._report.add(
                "H4", f"{stay} releases packet {number} of ring {index}, not holding it", event
            )

    def agreed(self, event: Release | Order, time: int, stay: Stay) -> None:
        """Check H5: no bundle of the agreed order is released beyond a block."""
        if time > stay.block:
            self._report.add("H5", f"{stay} passes its block {stay.block} with stamp {time}", event)

    def safe(self, event: Release | Order, time: int, stay: Stay) -> None:
        """Check S1: every daemon holds every packet up to this stamp."""
        if lacks := self._lacks(time, stay):
            self._report.add("S1", f"{stay} passes SAFE at {time}, and {lacks}", event)

    def safe_inside(self, event: Release, items: Sequence[Item], stay: Stay) -> bool:
        """Check S1 of a bundle; return whether it is early: not every daemon holds all up to it.

        Then all daemons of its ring hold its packet, and nobody outside is to get it.
        """
        if not (lacks := self._lacks(event.time, stay)):
            return False
        view, ring, number = stay.view, event.ring, event.number
        if len(view.rings) == 1:
            self._report.add("S1", f"{stay} passes SAFE {number}, and {lacks}", event)
            return False
        for identity in view.rings[ring]:
            other = view.stays.get(identity)
            if other is None or other.prefix[ring] < number:
                text = f"{stay} passes SAFE {number}, and {identity} of ring {ring} lacks it"
                self._report.add("S1", text, event)
                return True
        for client in _recipients(items, stay):
            home = client.home.identity if client.home is not None else ""
            if home in view.members and home not in view.rings[ring]:
                text = (
                    f"{stay} passes SAFE {number}, and {client} is to get it outside of ring {ring}"
                )
                self._report.add("S1", text, event)
                break
        return True

    def _lacks(self, time: int, stay: Stay) -> str:
        """Return who lacks what up to a time; empty if everybody holds everything."""
        stays = stay.view.stays
        for index, stream in enumerate(stay.view.streams):
            below = bisect_right(stream.times, time)
            if not below:
                continue
            needed = stream.numbers[below - 1]
            for identity in stay.view.members:
                other = stays.get(identity)
                if other is None or other.prefix[index] < needed:
                    return f"{identity} lacks a packet up to {needed} of ring {index}"
        return ""


def _recipients(items: Sequence[Item], stay: Stay) -> Iterator[ClientRecord]:
    """Yield who is to get messages, by the table of a daemon, maybe repeatedly."""
    table = stay.process.table
    for name in (name for item in items for name in item.to):
        if name in table.connected:
            yield table.connected[name]
        yield from table.groups.get(name, ())
        yield from table.groups.get(reading(name), ())


def _raise(stay: Stay, ring: int, value: int) -> None:
    """Raise the block of a ring."""
    blocks = stay.blocks
    before = blocks[ring]
    if value > before:
        blocks[ring] = value
        if before == stay.block:
            stay.block = min(blocks)
