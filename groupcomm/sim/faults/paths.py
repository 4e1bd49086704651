"""The faults of single datagrams on one path between two daemons."""

import heapq
from collections.abc import Callable
from random import Random
from typing import Any

import attrs

from groupcomm.sim.faults.faults import TOKEN_TIMEOUT_S, Faults
from groupcomm.sim.virtual_time import SECOND, Loop, microseconds

BURST_LOSS = 0.75
"""Share of datagrams lost within a burst."""

BURST_SHARE = 0.015
"""Share of a path's datagrams that fall into bursts."""

HOLD_US = 50_000
"""A datagram that nothing overtakes is held no longer than this."""

LATE_SHARE = 0.002
LATE_US = microseconds(3 * TOKEN_TIMEOUT_S)
"""On paths with a delay, a few datagrams come this late, after others that were sent later."""

COPY_DELAY_US = microseconds(10 * TOKEN_TIMEOUT_S)
"""Half of the copies come directly after their originals, the others at most this much later."""


class Forged(bytes):
    """A datagram without a valid seal; the mark lets the simulator count what it injected."""

    __slots__ = ()


def corrupt(rng: Random, datagram: bytes) -> Forged:
    """Flip some bits, cut the end off or append garbage; never the same bytes."""
    kind = rng.randrange(3)
    if kind == 0:
        flipped = bytearray(datagram)
        for bit in rng.sample(range(8 * len(datagram)), min(rng.randint(1, 8), len(datagram))):
            flipped[bit // 8] ^= 1 << bit % 8
        return Forged(flipped)
    if kind == 1:
        return Forged(datagram[: rng.randrange(len(datagram))])
    return Forged(datagram + rng.randbytes(rng.randint(1, 64)))


@attrs.define(eq=False, repr=False)
class PathFaults:
    """The faults of one path: they decide which copies of a datagram arrive, their times and
    damage.

    Args:
        loop: virtual time.
        rng: the random source of this path.
        faults: the faults and their strength.
        transfer: sends (datagram, extra delay in us, whether it may overtake others) on its way
            and returns the time of its arrival.
    """

    _loop: Loop
    _rng: Random
    _faults: Faults
    _transfer: Callable[[bytes, int, bool], int]
    _lossy: bool = attrs.field(init=False)
    _burst: bool = False
    _in_flight: list[int] = attrs.field(factory=list)  # a heap of arrival times
    _ended: bool = False
    _held: list[tuple[int, int, bytes]] = attrs.field(factory=list)  # freed at this count of sent
    _sent: int = 0
    _jammed: list[bytes] = attrs.field(factory=list)  # held until the jam is over, in order
    _jammed_until: int = 0
    lost: int = 0

    def __attrs_post_init__(self) -> None:
        self._lossy = self._faults.loss > 0.0 or self._faults.burst_packets > 0

    def send(self, datagram: bytes) -> bool:
        """Pass on the remains of a datagram; return False if there are none."""
        faults, rng = self._faults, self._rng
        self._sent += 1
        if self._held:
            self._free_overtaken()
        if (self._lossy and self._is_lost()) or (faults.capacity_packets and self._is_full()):
            self.lost += 1
            return False
        if faults.corruption and rng.random() < faults.corruption:
            datagram = corrupt(rng, datagram)
        if faults.duplication and rng.random() < faults.duplication:
            self._copy(datagram)
        if faults.reorder_packets and rng.random() < 0.5:
            self._hold(datagram)
        else:
            self._go(datagram)
        return True

    def flush(self) -> None:
        """Release all held datagrams, as the faults have ended. Late ones are lost."""
        self._ended = True
        self._jam_ended(self._jammed_until)
        for _, _, datagram in sorted(self._held, key=lambda held: held[1]):
            self._go(datagram)
        self._held.clear()

    def jam(self, until: int) -> None:
        """Hold all datagrams until a time."""
        self._jammed_until = until
        self._loop.at(until, self._jam_ended, until)

    def _jam_ended(self, until: int) -> None:
        if until == self._jammed_until:
            self._jammed_until = 0
            jammed, self._jammed = self._jammed, []
            for datagram in jammed:
                self._go(datagram)

    def _copy(self, datagram: bytes) -> None:
        lot = self._rng.random()
        if lot < 0.5:
            self._go(datagram)
        else:
            late_us = int((2.0 * lot - 1.0) ** 4 * COPY_DELAY_US)
            self._loop.at(self._loop.now + late_us, self._go_late, datagram)

    def _go_late(self, datagram: bytes) -> None:
        if not self._ended:
            self._go(datagram)

    def _go(self, datagram: bytes) -> None:
        faults = self._faults
        if self._jammed_until:
            self._jammed.append(datagram)
            return
        delay = 0
        overtake = faults.reorder_packets > 0
        if faults.delay_mean_s:
            if self._rng.random() < LATE_SHARE:
                late_us = int(self._rng.random() * LATE_US)
                self._loop.at(self._loop.now + late_us, self._arrive_late, datagram)
                return
            delay += int(self._rng.expovariate(1.0 / faults.delay_mean_s) * SECOND)
        arrival = self._transfer(datagram, delay, overtake)
        if faults.capacity_packets:
            heapq.heappush(self._in_flight, arrival)

    def _arrive_late(self, datagram: bytes) -> None:
        """Deliver a late datagram, unless faults have ended: a host cut off must stay unheard."""
        if not self._ended:
            self._transfer(datagram, 0, True)

    def _is_lost(self) -> bool:
        faults, rng = self._faults, self._rng
        if faults.burst_packets:
            # Gilbert's two states; their means put BURST_SHARE of all datagrams into bursts.
            leave = 1.0 / faults.burst_packets
            enter = leave * BURST_SHARE / (1.0 - BURST_SHARE)
            if rng.random() < (leave if self._burst else enter):
                self._burst = not self._burst
            if self._burst and rng.random() < BURST_LOSS:
                return True
        return faults.loss > 0.0 and rng.random() < faults.loss

    def _is_full(self) -> bool:
        flying = self._in_flight
        while flying and flying[0] <= self._loop.now:
            heapq.heappop(flying)
        # A full queue drops a random one of the datagrams that meet there: half of the new ones.
        queued, capacity = len(flying) + len(self._jammed), self._faults.capacity_packets
        return queued >= capacity and (queued >= 2 * capacity or self._rng.random() < 0.5)

    def _hold(self, datagram: bytes) -> None:
        free_at = self._sent + self._rng.randint(1, self._faults.reorder_packets)
        held = (free_at, self._sent, datagram)
        heapq.heappush(self._held, held)
        self._loop.at(self._loop.now + HOLD_US, self._hold_ended, held)

    def _hold_ended(self, held: Any) -> None:
        if held in self._held:
            self._held.remove(held)
            heapq.heapify(self._held)
            self._go(held[2])

    def _free_overtaken(self) -> None:
        while self._held and self._held[0][0] < self._sent:
            self._go(heapq.heappop(self._held)[2])
