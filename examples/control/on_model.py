"""The loop in virtual time over a model of the channel: what it would cost, without a network.

The programs are those of `programs`, with the same pole, gusts, estimator and controller; messages
arrive when the model says. Each of the four ways is a link of its own: links do not depend on each
other, and the programs themselves take no time.
"""

import heapq
from random import Random
from typing import Any

from examples.control.estimator import Estimator, Tuning, push_for
from examples.control.pole import Pole
from examples.control.programs import COMMAND, ESTIMATE, GUSTS, MEASUREMENT, PERIOD_S
from examples.control.sweep import WARM_UP_S
from groupcomm_log.channel import ChannelModel

PLANT, ESTIMATOR, CONTROLLER = "plant", "estimator", "controller"

Content = tuple[float, float, float]
"""When the measurement was made, and two values."""

TOGETHER_S = 0.0005
"""Messages that arrive within this time are received together."""


class VirtualLoop:
    """The three programs in virtual time.

    Args:
        model: the model of the channel.
        level: the level of all messages.
        tuning: the tuning of the estimator.
        seed: the seed for losses and delays.
    """

    def __init__(self, model: ChannelModel, level: str, tuning: Tuning, seed: int) -> None:
        ways = (
            (MEASUREMENT, ESTIMATOR),
            (ESTIMATE, CONTROLLER),
            (COMMAND, PLANT),
            (COMMAND, ESTIMATOR),
        )
        self._links = {
            way: model.link(level, Random(f"{seed} {index}")) for index, way in enumerate(ways)
        }
        self._tuning = tuning
        self._pole = Pole(GUSTS, 0.0)
        self._estimator = Estimator(tuning)
        self._queue: list[tuple[float, int, str, int, Content]] = []
        self._sent = 0
        self._acted_on = self._answered = 0.0
        self._ages_s: list[float] = []

    def run(self, seconds: float) -> dict[str, Any]:
        """Close the loop; return the report of the plant, as its program makes it."""
        end_s = WARM_UP_S + seconds
        for period in range(1, int(end_s / PERIOD_S) + 1):
            now = period * PERIOD_S
            self._receive_until(now)
            self._pole.advance(now, counts=now > WARM_UP_S)
            if now > WARM_UP_S and self._acted_on:
                self._ages_s.append(now - self._acted_on)
            self._say(MEASUREMENT, now, (now, self._pole.measure(), 0.0))
        return {
            "rms_mrad": round(self._pole.rms * 1000, 2),
            "at_stop": self._pole.at_stop,
            "ages_ms": [round(age * 1000, 2) for age in self._ages_s],
            "views": 0,
        }

    def _say(self, kind: int, now: float, content: Content) -> None:
        """Send to all who use messages of a kind."""
        for (its, receiver), link in self._links.items():
            arrival_s = link.send(now) if its == kind else None
            if arrival_s is not None:
                self._sent += 1
                entry = (arrival_s, self._sent, receiver, kind, content)
                heapq.heappush(self._queue, entry)

    def _receive_until(self, end_s: float) -> None:
        """Have the programs receive all that arrives before a time."""
        while self._queue and self._queue[0][0] <= end_s:
            now, _, receiver, kind, content = heapq.heappop(self._queue)
            together = [(kind, content)]
            for entry in sorted(self._queue):
                if entry[0] > now + TOGETHER_S:
                    break
                if entry[2] == receiver:
                    together.append(entry[3:])
                    self._queue.remove(entry)
            heapq.heapify(self._queue)
            getattr(self, f"_at_{receiver}")(now, together)

    def _at_plant(self, now: float, received: list[tuple[int, Content]]) -> None:
        self._pole.advance(now, counts=now > WARM_UP_S)
        for _, (made_s, push, _) in received:
            if made_s > self._acted_on:
                self._acted_on = made_s
                self._pole.command(push)

    def _at_estimator(self, now: float, received: list[tuple[int, Content]]) -> None:
        by_its_clock = now + self._tuning.clock_s
        before_s = self._estimator.at_s
        for kind, (made_s, value, _) in received:
            if kind == COMMAND:
                self._estimator.hear(by_its_clock, value)
            else:
                self._estimator.measure(made_s, value)
        at_s = self._estimator.at_s
        if at_s is not None and at_s != before_s:
            self._say(ESTIMATE, now, (at_s, *self._estimator.tell(by_its_clock)))

    def _at_controller(self, now: float, received: list[tuple[int, Content]]) -> None:
        made_s, angle, rate = max(content for _, content in received)
        if made_s > self._answered:
            self._answered = made_s
            self._say(COMMAND, now, (made_s, push_for(angle, rate), 0.0))
