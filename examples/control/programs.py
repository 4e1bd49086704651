"""The three programs of the loop: plant, estimator and controller, each at its own daemon.

The example itself runs them. Each prints ``{"ready": ...}`` once it is a member of the group. The
plant waits for the time to begin, and reports at the end; the others run until they are ended.

Every message carries the time of the measurement behind it (CLOCK_MONOTONIC), so that receivers
know its age, and the plant knows the age of its commands. It begins with the wall clock at which it
was sent, for models of the channel (`groupcomm spark channel --sent-at 0`).
"""

import argparse
import struct
import sys
import time
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import trio

from examples.common.command import run
from examples.common.stage import tell, told
from examples.control.estimator import Estimator, Tuning, push_for
from examples.control.pole import Pole
from groupcomm.events import DaemonView, Message
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm_client import Connection, connect
from groupcomm_client.events import Received

PERIOD_S: Final = 0.02
GUSTS: Final = 1
"""The seed of the gusts, the same in all runs."""

MEASUREMENT, ESTIMATE, COMMAND = 1, 2, 3
_DATA: Final = struct.Struct("!Qddd")
"""When it was sent, nanoseconds since 1970; when the measurement was made, and two values; the
second is 0 where there is only one."""


class Member:
    """A program's connection to the group of the loop."""

    def __init__(self, connection: Connection, group: str, level: ServiceLevel) -> None:
        self.connection = connection
        self._group = group
        self._level = level

    async def say(self, kind: int, made_s: float, first: float, second: float = 0.0) -> None:
        """Send a message to all others."""
        data = _DATA.pack(time.time_ns(), made_s, first, second)
        await self.connection.multicast(
            self._group, data, level=self._level, type=kind, self_discard=True
        )


def values(events: Iterable[Received], kind: int) -> list[tuple[float, float, float]]:
    """Yield the values of messages of a kind, in the order in which they came."""
    return [
        _DATA.unpack(event.data)[1:]
        for event in events
        if isinstance(event, Message) and event.type == kind
    ]


class Plant:
    """The plant: the pole, its sensor and its motor."""

    def __init__(self, member: Member, window_s: tuple[float, float]) -> None:
        """Stand the pole upright.

        Args:
            member: the plant's connection to the group.
            window_s: the begin and the end of the counted time, CLOCK_MONOTONIC.
        """
        self._member = member
        self._window = window_s
        self._pole = Pole(GUSTS, time.monotonic())
        self._newest_s = 0.0
        self._ages_s: list[float] = []
        self._views = 0

    async def live(self) -> dict[str, Any]:
        """Run until the end of the window; return the report."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._obey)
            await self._sense()
            nursery.cancel_scope.cancel()
        return {
            "rms_mrad": round(self._pole.rms * 1000, 2),
            "at_stop": self._pole.at_stop,
            "ages_ms": [round(age * 1000, 2) for age in self._ages_s],
            "views": self._views,
        }

    def _advance(self) -> float:
        """Advance the pole to the present time."""
        now = time.monotonic()
        self._pole.advance(now, counts=self._window[0] <= now)
        return now

    async def _sense(self) -> None:
        due = trio.current_time()
        while (now := self._advance()) < self._window[1]:
            # The command is read in every period, so an old one counts for as long as it acts.
            if now >= self._window[0] and self._newest_s:
                self._ages_s.append(now - self._newest_s)
            await self._member.say(MEASUREMENT, now, self._pole.measure())
            due = max(due + PERIOD_S, trio.current_time() - PERIOD_S)
            await trio.sleep_until(due)

    async def _obey(self) -> None:
        """Apply the newest command, ignoring older ones that come late."""
        while True:
            events = await self._member.connection.receive_batch()
            if self._advance() >= self._window[0]:
                self._views += sum(isinstance(event, DaemonView) for event in events)
            for made_s, push, _ in values(events, COMMAND):
                if made_s > self._newest_s:
                    self._newest_s = made_s
                    self._pole.command(push)


async def estimate(member: Member, tuning: Tuning) -> None:
    """Turn measurements into estimates, until the session ends."""
    estimator = Estimator(tuning)
    while True:
        events = await member.connection.receive_batch()
        now = time.monotonic() + tuning.clock_s
        for _, push, _ in values(events, COMMAND):
            estimator.hear(now, push)
        before_s = estimator.at_s
        for made_s, angle, _ in values(events, MEASUREMENT):
            estimator.measure(made_s, angle)
        if estimator.at_s is not None and estimator.at_s != before_s:
            await member.say(ESTIMATE, estimator.at_s, *estimator.tell(now))


async def control(member: Member) -> None:
    """Turn the newest estimate into a command, until the session ends."""
    newest_s = 0.0
    while True:
        found = values(await member.connection.receive_batch(), ESTIMATE)
        made_s, angle, rate = max(found, default=(0.0, 0.0, 0.0))
        if made_s > newest_s:
            newest_s = made_s
            await member.say(COMMAND, made_s, push_for(angle, rate))


async def live(options: argparse.Namespace) -> int:
    """Run one of the three programs."""
    level = ServiceLevel[options.level.upper()]
    async with connect(options.address) as connection:
        await connection.join(options.group)
        tell({"ready": options.name})
        member = Member(connection, options.group, level)
        if options.name == "plant":
            begin_s, end_s = await told()
            tell(await Plant(member, (begin_s, end_s)).live())
        elif options.name == "estimator":
            await estimate(member, Tuning(ahead_s=options.ahead_s, clock_s=options.clock_s))
        else:
            await control(member)
    return 0


def main() -> int:
    """Run one program; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", choices=("plant", "estimator", "controller"), required=True)
    parser.add_argument("--address", required=True, help="of its daemon")
    parser.add_argument("--group", required=True, help="of the loop")
    parser.add_argument("--ahead-s", type=float, default=0.0, help="of the estimator")
    parser.add_argument("--clock-s", type=float, default=0.0, help="of the estimator")
    parser.add_argument("--level", choices=[level.name.lower() for level in LEVELS], required=True)
    options = parser.parse_args()
    return run(options.name, partial(live, options))


if __name__ == "__main__":
    sys.exit(main())
