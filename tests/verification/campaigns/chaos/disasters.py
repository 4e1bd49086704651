"""Disasters of a running cluster, one at a time; each ends with all daemons in one view again."""

import signal
from collections.abc import Sequence
from itertools import cycle
from random import Random
from typing import Final, Protocol

import attrs
import trio

from groupcomm.host.trace_file import now_us
from groupcomm.sim.faults.faults import Faults
from tests.verification.campaigns.chaos.stage import Stage

TOKEN_TIMEOUT_S: Final = 0.6


@attrs.define
class Outcome:
    """The observations of one disaster.

    Attributes:
        kind: its name.
        view_ms: the time until all remaining programs were told of their view; None if no view was
            due.
        heal_ms: the time from its end until all were told of one view with every daemon.
    """

    kind: str
    view_ms: float | None = None
    heal_ms: float | None = None


async def kill_daemon(stage: Stage, rng: Random) -> Outcome:
    """A daemon is killed, and started again."""
    victim = rng.choice(stage.names)
    view_ms = await stage.view(stage.others(victim), await stage.kill_daemon(victim))
    await trio.sleep(rng.uniform(0.0, 0.5))
    return Outcome("kill daemon", view_ms, await start_daemon(stage, victim))


async def leave_daemon(stage: Stage, rng: Random) -> Outcome:
    """A daemon leaves in order, and is started again."""
    victim = rng.choice(stage.names)
    at = now_us()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.leave, victim)
        view_ms = await stage.view(stage.others(victim), at)
    await stage.lost(victim)
    return Outcome("leave daemon", view_ms, await start_daemon(stage, victim))


async def start_daemon(stage: Stage, name: str) -> float:
    """Start a daemon that has ended; return the milliseconds until all are in one view."""
    at = now_us()
    await stage.cluster[name].start()
    return await stage.view(stage.names, at)


async def stop_daemon(stage: Stage, rng: Random) -> Outcome:
    """A daemon stands still for a while."""
    victim, seconds = rng.choice(stage.names), rng.uniform(0.2, 3.0)
    at, view_ms = now_us(), None
    stage.cluster[victim].signal(signal.SIGSTOP)
    try:
        if seconds > 2 * TOKEN_TIMEOUT_S:
            view_ms = await stage.view(stage.others(victim), at)
        await trio.sleep(max(0.0, seconds - (now_us() - at) / 1e6))
    finally:
        stage.cluster[victim].signal(signal.SIGCONT)
    return Outcome("stop daemon", view_ms, await stage.view(stage.names, now_us()))


async def kill_program(stage: Stage, rng: Random) -> Outcome:
    """A program is killed while it sends, and started again."""
    view_ms = await stage.kill_program(rng.choice(stage.names))
    return Outcome("kill program", view_ms, await stage.view(stage.names, now_us()))


async def stop_program(stage: Stage, rng: Random) -> Outcome:
    """A program does not read for a while."""
    program = stage.programs[rng.choice(stage.names)]
    program.signal(signal.SIGSTOP)
    await trio.sleep(rng.uniform(0.2, 2.0))
    program.signal(signal.SIGCONT)
    return Outcome("stop program", None, await stage.view(stage.names, now_us()))


async def isolate(stage: Stage, rng: Random) -> Outcome:
    """Nothing passes between a daemon and the others."""
    victim = rng.choice(stage.names)
    at = now_us()
    stage.relay.cut(list(stage.relay.between([victim], stage.others(victim))))
    view_ms = await stage.view(stage.others(victim), at)
    await stage.view([victim], at)
    await trio.sleep(rng.uniform(0.0, 1.0))
    stage.relay.mend()
    return Outcome("partition", view_ms, await stage.view(stage.names, now_us()))


async def cut_one_way(stage: Stage, rng: Random) -> Outcome:
    """Nothing passes from one daemon to another, but back."""
    source, target = rng.sample(stage.names, 2)
    stage.relay.cut([(source, target)])
    await trio.sleep(rng.uniform(0.2, 3.0))
    stage.relay.mend()
    return Outcome("one-way cut", None, await stage.view(stage.names, now_us()))


async def hold(stage: Stage, rng: Random) -> Outcome:
    """Hold all datagrams to a daemon, and release them at once."""
    victim, seconds = rng.choice(stage.names), rng.uniform(0.2, 2.0)
    stage.relay.hold([pair for pair in stage.relay.ports if pair[1] == victim], seconds)
    await trio.sleep(seconds)
    return Outcome("hold", None, await stage.view(stage.names, now_us()))


async def lossy(stage: Stage, rng: Random) -> Outcome:
    """Datagrams are lost, doubled, reordered and corrupted."""
    share = rng.choice((0.01, 0.05, 0.2))
    stage.relay.suffer(
        Faults(
            loss=share, duplication=share, corruption=share / 10, reorder_packets=rng.choice((0, 8))
        )
    )
    await trio.sleep(rng.uniform(0.5, 2.0))
    stage.relay.suffer(None)
    return Outcome("loss", None, await stage.view(stage.names, now_us()))


class Disaster(Protocol):
    """Cause a disaster, wait until all daemons are together again, and return the observations."""

    __name__: str

    async def __call__(self, stage: Stage, rng: Random) -> Outcome: ...


def in_turn(one: Sequence[Disaster], other: Sequence[Disaster]) -> tuple[Disaster, ...]:
    """Return disasters of two kinds, one of each after the other; the shorter ones come again."""
    both = zip(range(max(len(one), len(other))), cycle(one), cycle(other))
    return tuple(disaster for _, *pair in both for disaster in pair)


DISASTERS: Final[tuple[Disaster, ...]] = (
    kill_daemon,
    isolate,
    stop_daemon,
    kill_program,
    kill_daemon,
    cut_one_way,
    leave_daemon,
    hold,
    isolate,
    stop_program,
    lossy,
    kill_daemon,
)
"""The disasters in turn; important ones come most often."""
