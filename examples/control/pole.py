"""A pole that falls unless it is held upright, and its motion; without I/O.

Small angles: angle'' = FALL * angle + push, as of a pole 2.5 m long whose foot a motor moves.
Left alone, an error doubles about three times a second. Gusts push it at random, and it cannot
lean farther than a stop.
"""

import math
from random import Random
from typing import Final

FALL: Final = 4.0
"""The acceleration of the fall per angle, per square second."""

SPEED: Final = math.sqrt(FALL)

STEP_S: Final = 0.001
GUST: Final = 0.3
"""The random changes of the angular rate, rad/s in the square root of a second."""

NOISE: Final = 0.002
"""The standard deviation of a measurement, rad."""

STOP: Final = 0.5
"""The angle of the stops on both sides, rad."""

MOST_PUSH: Final = 10.0
"""The largest push of the motor, rad/s2 to both sides."""


def move(angle: float, rate: float, push: float, seconds: float) -> tuple[float, float]:
    """Return angle (rad) and rate (rad/s) after some time with a constant push."""
    shift = push / FALL
    grow, swing = math.cosh(SPEED * seconds), math.sinh(SPEED * seconds)
    return (
        (angle + shift) * grow + rate / SPEED * swing - shift,
        (angle + shift) * SPEED * swing + rate * grow,
    )


class Pole:
    """A pole with its motor.

    Attributes:
        angle, rate: the state, 0 when upright, rad and rad/s.
        push: the push of the motor, rad/s2.
        at_stop: the number of counted steps at whose end it leaned against a stop.
    """

    def __init__(self, seed: int, at_s: float) -> None:
        """Stand the pole upright.

        Args:
            seed: the seed of gusts and noise; the gusts of a seed do not depend on the pushes.
            at_s: the time.
        """
        self.angle = self.rate = self.push = 0.0
        self.at_stop = 0
        self._gusts, self._noise = Random(f"gusts {seed}"), Random(f"noise {seed}")
        self._start_s = at_s
        self._steps = 0
        self._squares = 0.0
        self._counted = 0

    def advance(self, to_s: float, *, counts: bool) -> None:
        """Advance in steps of STEP_S.

        Args:
            to_s: the time at the end.
            counts: whether these steps count for the figures.
        """
        target = int((to_s - self._start_s) / STEP_S)
        for _ in range(target - self._steps):
            self.angle, self.rate = move(self.angle, self.rate, self.push, STEP_S)
            self.rate += self._gusts.gauss(0.0, GUST * math.sqrt(STEP_S))
            if abs(self.angle) >= STOP:
                self.at_stop += counts
                self.angle, self.rate = math.copysign(STOP, self.angle), 0.0
            if counts:
                self._counted += 1
                self._squares += self.angle**2
        self._steps = max(self._steps, target)

    def command(self, push: float) -> None:
        """Have the motor push from now on, as far as it can."""
        self.push = max(-MOST_PUSH, min(MOST_PUSH, push))

    def measure(self) -> float:
        """Return the angle, with noise."""
        return self.angle + self._noise.gauss(0.0, NOISE)

    @property
    def rms(self) -> float:
        """Return the root of the mean square of the counted angles, rad."""
        return math.sqrt(self._squares / self._counted) if self._counted else 0.0
