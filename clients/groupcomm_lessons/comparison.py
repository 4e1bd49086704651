"""Algorithms on the same load over the same network: the cost of each, and the orders that held.

The load is drawn from the seed once: the senders and the times. Messages are sent often enough that
some are always in flight. Packets take from half of the delay to one and a half times as long, so
that they overtake each other.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs

from groupcomm.errors import ConfigError
from groupcomm.sim.virtual_time import random_for
from groupcomm_lessons.algorithms.catalogue import ALGORITHMS, Entry
from groupcomm_lessons.algorithms.process import Name, Order, Process
from groupcomm_lessons.algorithms.real_time import RealTime
from groupcomm_lessons.timed_network import TimedNetwork, Wires

MAX_PROCESSES: Final = 64
MAX_MESSAGES: Final = 100_000
MAX_DELAY_MS: Final = 10_000.0
MAX_LOSS: Final = 0.9

LEAST_GAP_US: Final = 1000
"""The approximate time between two messages if packets take no time."""


@attrs.frozen(kw_only=True)
class ComparisonLoad:
    """The load that every algorithm gets.

    Attributes:
        processes: the number of processes, 2 to 64.
        messages: the number of all messages, 1 to 100,000.
        delay_ms: the average delay of a packet, 0 to 10,000.
        loss: the probability that a packet is lost, and sent again; 0 to 0.9.
        seed: the seed of all random choices.

    Raises:
        ConfigError: a number is outside its range.
    """

    processes: int = 5
    messages: int = 200
    delay_ms: float = 10.0
    loss: float = 0.0
    seed: int = 1

    def __attrs_post_init__(self) -> None:
        for name, least, most in (
            ("processes", 2, MAX_PROCESSES),
            ("messages", 1, MAX_MESSAGES),
            ("delay_ms", 0, MAX_DELAY_MS),
            ("loss", 0, MAX_LOSS),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ConfigError(
                    f"--{name.replace('_', '-')} is {value}; it must be {least} to {most:g}"
                )

    @property
    def wires(self) -> Wires:
        """Return the network."""
        delay_us = self.delay_ms * 1000
        return Wires(least_us=int(delay_us / 2), most_us=int(delay_us * 1.5), loss=self.loss)

    @property
    def gap_us(self) -> int:
        """Return the average time between two messages."""
        return max(LEAST_GAP_US, int(self.delay_ms * 500))

    @property
    def names(self) -> tuple[Name, ...]:
        """Return the names of the processes."""
        width = len(str(self.processes))
        return tuple(f"p{number:0{width}}" for number in range(1, self.processes + 1))

    def draw(self) -> list[tuple[int, Name]]:
        """Return the sending time of each message, in microseconds, and its sender."""
        rng = random_for(self.seed, "load")
        now, found = 0, []
        for _ in range(self.messages):
            now += int(rng.expovariate(1 / self.gap_us))
            found.append((now, rng.choice(self.names)))
        return found


@attrs.frozen(kw_only=True)
class ComparisonRow:
    """The results of one algorithm.

    Attributes:
        entry: the catalogue entry of the algorithm.
        held: the orders that held.
        missing: the number of deliveries that never came.
        messages: the number of sent messages.
        packets, repeated, bytes: packets, repetitions and bytes on the wire; see `timed.Counts`.
        stamp_bytes, most_stamp_bytes: the average and the largest stamp of a packet with a message,
            in bytes.
        delay_ms, most_delay_ms: the average and the longest time from a sending to a delivery at
            another process.
        most_waiting: the most messages that one process held back at once.
    """

    entry: Entry
    held: frozenset[Order]
    missing: int
    messages: int
    packets: int
    repeated: int
    bytes: int
    stamp_bytes: float
    most_stamp_bytes: int
    delay_ms: float
    most_delay_ms: float
    most_waiting: int

    @property
    def broken(self) -> list[Order]:
        """Return the orders that the algorithm claims, and that did not hold."""
        return [order for order in Order if order in self.entry.type.claims - self.held]

    @property
    def is_wrong(self) -> bool:
        """Return whether it broke a guarantee, or lost a message that its rule does not lose."""
        return bool(self.broken or (self.missing and not self.entry.loses))

    def as_json(self) -> dict[str, Any]:
        """Return everything, as JSON."""
        return {
            "name": self.entry.name,
            "claims": [order.value for order in Order if order in self.entry.type.claims],
            "held": [order.value for order in Order if order in self.held],
            "broken": [order.value for order in self.broken],
            "missing": self.missing,
            "in_turn": self.entry.in_turn,
            "note": self.entry.note,
            "messages": self.messages,
            "packets": self.packets,
            "packets_per_message": round(self.packets / self.messages, 2),
            "repeated": self.repeated,
            "bytes": self.bytes,
            "bytes_per_message": round(self.bytes / self.messages, 1),
            "stamp_bytes": round(self.stamp_bytes, 1),
            "most_stamp_bytes": self.most_stamp_bytes,
            "delay_ms": round(self.delay_ms, 2),
            "most_delay_ms": round(self.most_delay_ms, 2),
            "most_waiting": self.most_waiting,
        }


def chosen(text: str) -> list[Entry]:
    """Return the algorithms that a command line names: ``all``, or names with commas between them.

    Raises:
        ConfigError: there is no such algorithm.
    """
    if text == "all":
        return list(ALGORITHMS.values())
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in ALGORITHMS:
            raise ConfigError(
                f"--algorithms: no algorithm is named {name!r}; there are: all,"
                f" {', '.join(ALGORITHMS)}"
            )
    return [ALGORITHMS[name] for name in names]


def compare(entries: Sequence[Entry], load: ComparisonLoad) -> Iterator[ComparisonRow]:
    """Run them, one after the other."""
    for entry in entries:
        yield run(entry, load)


def run(entry: Entry, load: ComparisonLoad) -> ComparisonRow:
    """Run one algorithm to the end of its load."""
    processes = [make(entry, name, load) for name in load.names]
    network = TimedNetwork(processes, load.wires, load.seed)
    if entry.in_turn:
        _Turns(network, load).begin()
    else:
        for time, name in load.draw():
            network.loop.at(time, network.send, name)
    while (due := network.loop.deadline) is not None:
        network.loop.run(due)
    counts, history = network.counts, network.history
    return ComparisonRow(
        entry=entry,
        held=history.held(),
        missing=len(history.missing) + counts.refused,
        messages=len(history.sent),
        packets=counts.packets,
        repeated=counts.repeated,
        bytes=counts.bytes,
        stamp_bytes=_mean(counts.stamps),
        most_stamp_bytes=max(counts.stamps, default=0),
        delay_ms=_mean(counts.delays_us) / 1000,
        most_delay_ms=max(counts.delays_us, default=0) / 1000,
        most_waiting=counts.most_waiting,
    )


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values) if values else 0.0


def make(entry: Entry, name: Name, load: ComparisonLoad) -> Process:
    """Return a process; a timed one waits until all packets that are not lost must have come."""
    if entry.type is RealTime:
        return RealTime(name, load.names, wait=load.wires.most_us + 1)
    return entry.type(name, load.names)


class _Turns:
    """A load in turns: a user sends its message once it has delivered all earlier ones.

    Messages are sent in the order of the load, with its intervals.
    """

    def __init__(self, network: TimedNetwork, load: ComparisonLoad) -> None:
        self._network = network
        self._load = load.draw()
        self._look_again_us = load.gap_us

    def begin(self) -> None:
        """Return the first message."""
        self._network.loop.at(self._load[0][0], self._turn, 0)

    def _turn(self, number: int) -> None:
        loop, (time, name) = self._network.loop, self._load[number]
        if not self._network.has_all(name):
            if loop.deadline is not None:  # otherwise no message arrives any more
                loop.at(loop.now + self._look_again_us, self._turn, number)
            return
        self._network.send(name)
        if number + 1 < len(self._load):
            loop.at(loop.now + self._load[number + 1][0] - time, self._turn, number + 1)
