"""An estimator of the pole's state and a controller: a Kalman filter and its feedback; no I/O.

The filter is at the time of its newest measurement, however late that came. An estimate is the
state *now*: advanced by the model, with the known pushes. So the delay from the plant to the
estimator costs knowledge, not phase; later delays are not compensated, unless the estimator knows
them (`Tuning`).

Source: Kalman, "A New Approach to Linear Filtering and Prediction Problems", 1960.
"""

from typing import Final

import attrs

from examples.control.pole import FALL, GUST, MOST_PUSH, NOISE, move

BANDWIDTH: Final = 4.0
"""The bandwidth of the closed loop, rad/s, without delays."""

DAMPING: Final = 0.8

KEPT_PUSHES: Final = 256


@attrs.frozen(kw_only=True)
class Tuning:
    """The knowledge of an estimator about delays and clocks.

    Attributes:
        ahead_s: the time from now to the estimated state, at which the push will act. As the
            estimator knows the controller, it knows the pushes in flight, too.
        clock_s: the time by which its host's clock is ahead of the sensor's.
    """

    ahead_s: float = 0.0
    clock_s: float = 0.0


class Estimator:
    """An estimator of the state from noisy measurements.

    Attributes:
        at_s: the time of the newest measurement; None before the first.
    """

    def __init__(self, tuning: Tuning | None = None) -> None:
        self._ahead_s = 0.0 if tuning is None else tuning.ahead_s
        self.at_s: float | None = None
        self._angle = self._rate = 0.0
        self._pushes: list[tuple[float, float]] = []  # commands, with their beginnings
        # The covariances: of the angle, of angle and rate, of the rate.
        self._aa, self._ar, self._rr = 1.0, 0.0, 1.0

    def push(self, at_s: float, push: float) -> None:
        """Note the push of the motor from a time on."""
        self._pushes.append((at_s, max(-MOST_PUSH, min(MOST_PUSH, push))))
        del self._pushes[:-KEPT_PUSHES]

    def hear(self, now_s: float, push: float) -> None:
        """Note a command that comes now; one that looks ahead has noted it when it was caused."""
        if not self._ahead_s:
            self.push(now_s, push)

    def tell(self, now_s: float) -> tuple[float, float]:
        """Return the state for the controller: that at which its push will act."""
        acts_s = now_s + self._ahead_s
        told = self.state(acts_s)
        if self._ahead_s:
            self.push(acts_s, push_for(*told))
        return told

    def measure(self, at_s: float, angle: float) -> None:
        """Process a measurement, unless it is older than the newest one."""
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
        """Let the uncertainty grow: by the model, and by gusts."""
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
        """Return angle and rate at a time, not before the newest measurement."""
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
    """Return the push that gives the closed loop BANDWIDTH and DAMPING."""
    return -(FALL + BANDWIDTH**2) * angle - 2 * DAMPING * BANDWIDTH * rate
