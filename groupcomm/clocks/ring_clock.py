"""The ring's clock: a Lamport clock that stays near physical time.

It counts microseconds. Every stamp that is seen is followed, however far ahead (Lamport 1978,
IR2); a holder of the token pulls it up to physical time, then ticks once per packet (IR1). So
stamps extend causality whatever the physical clocks say, and rings whose clocks agree have near
stamps, which keeps the agreed order quick. The idea is that of Kulkarni et al., "Logical Physical
Clocks", OPODIS 2014, with a plain sum in place of its two parts.
"""

from groupcomm.clocks.physical import PhysicalClock


class RingClock:
    """The clock as one daemon of the ring knows it.

    Attributes:
        value: microseconds; no stamp or horizon that was seen or given is above it.
    """

    __slots__ = ("_physical", "value")

    def __init__(self, physical: PhysicalClock, value: int = 0) -> None:
        self._physical = physical
        self.value = value

    def follow(self, time: int) -> None:
        """Note a stamp or horizon of anyone."""
        if time > self.value:
            self.value = time

    def advance(self, now: float) -> int:
        """Catch up with physical time; returns the value, a horizon that may be promised."""
        physical = self._physical.read(now)
        if physical > self.value:
            self.value = physical
        return self.value

    def promise(self, now: float, above: int) -> int:
        """A horizon above `above`, so that it is news also while physical time is behind."""
        self.advance(now)
        return self.tick() if self.value <= above else self.value

    def tick(self) -> int:
        """The stamp of the next packet, above everything that was seen."""
        self.value += 1
        return self.value
