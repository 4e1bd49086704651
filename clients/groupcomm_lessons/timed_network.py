"""Algorithms in virtual time: packets take time, and lost ones are sent again.

Below each process lie channels that lose nothing: a packet that is lost is sent again after the
timeouts of peers without a daemon (`algorithms.direct`), so loss costs time and packets.
To be quick, packets are not encoded here, and acknowledgements of the channels are not sent;
`groupcomm_lessons.simulated_peers` simulates both.

The delays and losses of a channel come from the seed and from its two ends alone: the tenth packet
from p to q takes as long whichever algorithm sends it.
"""

from collections.abc import Iterable
from random import Random
from typing import Final

import attrs

from groupcomm.sim.network.links import UDP_HEADER_BYTES
from groupcomm.sim.virtual_time import Loop, microseconds, random_for
from groupcomm_lessons.algorithms.concurrency import ConcurrentMessage
from groupcomm_lessons.algorithms.direct.settings import Timing
from groupcomm_lessons.algorithms.history import History
from groupcomm_lessons.algorithms.process import Message, Name, Packet, Process, Step, size_of
from groupcomm_lessons.algorithms.real_time import RealTime

DATA_BYTES: Final = 100
"""The size of each message."""


@attrs.frozen(kw_only=True)
class Wires:
    """The properties of all channels.

    Attributes:
        least_us, most_us: the least and the longest time that a packet takes if it is not lost, in
            microseconds; times are drawn evenly between them.
        loss: the probability that a packet is lost, 0 to below 1.
    """

    least_us: int
    most_us: int
    loss: float


@attrs.define
class Counts:
    """The counts of a run.

    Attributes:
        packets: the number of sent packets, repetitions included.
        repeated: the number of repetitions among them.
        bytes: the bytes of all packets: headers of IP and UDP, data, and stamps.
        stamps: the bytes of the stamp of each packet that carries a message, counted once.
        delays_us: the time from each sending to each delivery at another process, in microseconds.
        most_waiting: the most messages that one process held back at once.
        refused: the number of messages that a process did not accept.
    """

    packets: int = 0
    repeated: int = 0
    bytes: int = 0
    stamps: list[int] = attrs.field(factory=list)
    delays_us: list[int] = attrs.field(factory=list)
    most_waiting: int = 0
    refused: int = 0


class _Channel:
    """A channel from one process to another, with its own random source."""

    def __init__(self, rng: Random, wires: Wires) -> None:
        self._rng = rng
        self._wires = wires
        self._timing = Timing()
        self.last_us = 0

    def draw(self) -> tuple[int, int]:
        """Return the number of sendings of the next packet, and its time from the first one."""
        tries, waited_s = 1, 0.0
        while self._rng.random() < self._wires.loss:
            waited_s += self._timing.wait_s(tries)
            tries += 1
        way_us = self._rng.randint(self._wires.least_us, self._wires.most_us)
        return tries, microseconds(waited_s) + way_us


class TimedNetwork:
    """Processes, and channels between any two.

    Attributes:
        loop: the event loop of virtual time.
        history: the history of the users.
        counts: the costs so far.
    """

    def __init__(self, processes: Iterable[Process], wires: Wires, seed: int) -> None:
        self.loop = Loop()
        self.history = History()
        self.counts = Counts()
        self._processes = {process.me: process for process in processes}
        self._wires = wires
        self._seed = seed
        self._channels: dict[tuple[Name, Name], _Channel] = {}
        self._sent_at: dict[Message, int] = {}
        self._ticks: dict[Name, int] = {}
        self._numbers = dict.fromkeys(self._processes, 0)

    def send(self, name: Name) -> None:
        """Have a user send a message to all, now."""
        process = self._processes[name]
        self._set_clock(process)
        data = bytes(DATA_BYTES)
        step = process.send(data)
        self._numbers[name] += 1
        message = Message(name, self._numbers[name], process.members, data)
        self._sent_at[message] = self.loop.now
        self.history.send(message)
        self._perform(process, step)

    def has_all(self, name: Name) -> bool:
        """Return whether a process has delivered all messages."""
        return len(self.history.delivered.get(name, ())) == len(self.history.sent)

    def _perform(self, process: Process, step: Step) -> None:
        sizes: dict[int, int] = {}  # bytes by stamp; packets may share a stamp
        for packet in step.packets:
            if packet.destination == packet.source:
                self._arrive(packet)
                continue
            size = sizes.get(id(packet.stamp))
            if size is None:
                size = sizes[id(packet.stamp)] = size_of(packet.stamp)
            self._put(packet, size)
        for message in step.deliveries:
            self.history.deliver(process.me, message)
            if message.sender != process.me:
                self.counts.delays_us.append(self.loop.now - self._sent_at[message])
        self.counts.most_waiting = max(self.counts.most_waiting, len(process.waiting))
        if isinstance(process, RealTime):
            self._set_timer(process)

    def _put(self, packet: Packet, stamp_bytes: int) -> None:
        channel = self._channel(packet.source, packet.destination)
        tries, takes_us = channel.draw()
        arrival = self.loop.now + takes_us
        if self._processes[packet.destination].needs_fifo:
            arrival = channel.last_us = max(arrival, channel.last_us)
        data_bytes = 0
        if packet.message is not None:
            data_bytes = len(packet.message.data)
            self.counts.stamps.append(stamp_bytes)
        self.counts.packets += tries
        self.counts.repeated += tries - 1
        self.counts.bytes += tries * (UDP_HEADER_BYTES + data_bytes + stamp_bytes)
        self.loop.at(arrival, self._arrive, packet)

    def _channel(self, source: Name, destination: Name) -> _Channel:
        ends = source, destination
        if ends not in self._channels:
            rng = random_for(self._seed, f"channel {source} {destination}")
            self._channels[ends] = _Channel(rng, self._wires)
        return self._channels[ends]

    def _arrive(self, packet: Packet) -> None:
        process = self._processes[packet.destination]
        self._set_clock(process)
        try:
            step = process.receive(packet)
        except ConcurrentMessage:
            self.counts.refused += 1
            return
        self._perform(process, step)

    def _set_clock(self, process: Process) -> None:
        if isinstance(process, RealTime):
            self._perform(process, process.set_clock(self.loop.now))

    def _set_timer(self, process: RealTime) -> None:
        due, wanted = process.deadline, self._ticks.get(process.me)
        if due is not None and (wanted is None or due < wanted):
            self._ticks[process.me] = due
            self.loop.at(due, self._tick, process)

    def _tick(self, process: RealTime) -> None:
        if self._ticks.get(process.me) == self.loop.now:
            del self._ticks[process.me]
        self._set_clock(process)
