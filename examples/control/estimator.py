"""What is known of the pole, and what to do about it: a Kalman filter and a controller; no I/O.

The filter stands at the time of the newest measurement that it has got, however late that came.
What is told is the state *now*: moved on by the model, with the pushes known of. So the way from
the plant to the estimator costs knowledge, not phase; the ways behind it are not made up for,
unless the estimator is told how long they take (`Tuning`).

Source: Kalman, "A New Approach to Linear Filtering and Prediction Problems", 1960.
"""

from typing import Final

import attrs

from examples.control.pole import FALL, GUST, MOST_PUSH, NOISE, move

BANDWIDTH: Final = 4.0
"""Of the closed loop, rad/s, if nothing took any time."""

DAMPING: Final = 0.8

KEPT_PUSHES: Final = 256


@attrs.frozen(kw_only=True)
class Tuning:
    """How an estimator is run.

    Attributes:
        ahead_s: it tells the state so much later than now: that at which the push will act. As it
            knows the controller, it knows the pushes on their way, too.
        clock_s: how far its host's clock is ahead of the sensor's.
    """

    ahead_s: float = 0.0
    clock_s: float = 0.0


class Estimator:
    """Knows the state from noisy measurements.

    Attributes:
        at_s: the time of the newest measurement; None before the first.
    """

    def __init__(self, tuning: Tuning | None = None) -> None:
        self._ahead_s = 0.0 if tuning is None else tuning.ahead_s
        self.at_s: float | None = None
        self._angle = self._rate = 0.0
        self._pushes: list[tuple[float, float]] = []  # when each began
        # Covariances: of the angle, of angle and rate, of the rate.
        self._aa, self._ar, self._rr = 1.0, 0.0, 1.0

    def push(self, at_s: float, push: float) -> None:
        """Note what the motor does from some time on."""
        self._pushes.append((at_s, max(-MOST_PUSH, min(MOST_PUSH, push))))
        del self._pushes[:-KEPT_PUSHES]

    def hear(self, now_s: float, push: float) -> None:
        """Note a command that comes now; one that looks ahead has noted it when it was caused."""
        if not self._ahead_s:
            self.push(now_s, push)

    def tell(self, now_s: float) -> tuple[float, float]:
        """What the controller is to be told now: the state at which its push will act."""
        acts_s = now_s + self._ahead_s
        told = self.state(acts_s)
        if self._ahead_s:
            self.push(acts_s, push_for(*told))
        return told

    def measure(self, at_s: float, angle: float) -> None:
        """Take a measurement; one that is older than the newest tells nothing and is left."""
        if self.at_s is None:
            self.at_s, self._angle = at_s, angle
            return
        if at_s <= self.at_s:
            return
        self._angle, self._rate = self.state(at_s)
        self._grow(at_s - self.at_s)
        self.at_s = at_s
        surprise, spread = angle - self._angle, self._aa + NOISE**2
        gain_angle, gain_rate = self._aa / spread, self._ar / spread
        self._angle += gain_angle * surprise
        self._rate += gain_rate * surprise
        self._rr -= gain_rate * self._ar
        self._ar *= 1 - gain_angle
        self._aa *= 1 - gain_angle

    def _grow(self, seconds: float) -> None:
        """Let what is not known grow: by the model, and by gusts."""
        a, ra = move(1.0, 0.0, 0.0, seconds)
        ar, r = move(0.0, 1.0, 0.0, seconds)
        aa = a * a * self._aa + 2 * a * ar * self._ar + ar * ar * self._rr
        cross = a * ra * self._aa + (a * r + ar * ra) * self._ar + ar * r * self._rr
        rr = ra * ra * self._aa + 2 * ra * r * self._ar + r * r * self._rr
        gust = GUST**2
        self._aa = aa + gust * seconds**3 / 3
        self._ar = cross + gust * seconds**2 / 2
        self._rr = rr + gust * seconds

    def state(self, at_s: float) -> tuple[float, float]:
        """Angle and rate at a time, not before the newest measurement."""
        if self.at_s is None:
            return 0.0, 0.0
        angle, rate, now_s, push = self._angle, self._rate, self.at_s, 0.0
        for begin_s, next_push in self._pushes:
            if begin_s >= at_s:
                break
            if begin_s > now_s:
                angle, rate = move(angle, rate, push, begin_s - now_s)
                now_s = begin_s
            push = next_push
        return move(angle, rate, push, at_s - now_s)


def push_for(angle: float, rate: float) -> float:
    """What the motor should do: the closed loop then has BANDWIDTH and DAMPING."""
    return -(FALL + BANDWIDTH**2) * angle - 2 * DAMPING * BANDWIDTH * rate
