"""Disasters of one host: its clock, its disk, its memory, its descriptors, its network card."""

import resource
import signal
from collections.abc import Callable
from math import inf
from random import Random
from typing import Final

import trio

from groupcomm.errors import GroupCommError
from groupcomm.host.trace_file import now_us
from groupcommd.cli import FAILED, OUT_OF_MEMORY
from tests.verification.campaigns.chaos.disasters import Disaster, Outcome, start_daemon
from tests.verification.campaigns.chaos.hosts import (
    RIGHT,
    find_faketime,
    limit_descriptors,
    limit_memory,
)
from tests.verification.campaigns.chaos.stage import Stage

STEPS: Final = ("+1", "-1", "+3600", "-3600", "+30d", "-30d", "+3650d")
"""Steps of a clock: a second, an hour, a month and, ahead only, ten years."""

LONG_AGO: Final = "2020-01-01 00:00:00"
SEEN_S: Final = 1.2
"""The time after which processes have seen that their clock was set."""

SIZES: Final = (100, 300, 600, 1000)
"""The bytes of the longest datagram that passes a card that loses long ones."""

STOPS_S: Final = (10.0, 20.0)


class WrongEnd(GroupCommError):
    """A daemon has ended as it must not."""


async def step_clock(stage: Stage, rng: Random) -> Outcome:
    """The wall clock of a host jumps; half of the time the daemon starts again with it."""
    return await _with_clock(stage, rng, "clock stepped", rng.choice(STEPS))


async def freeze_clock(stage: Stage, rng: Random) -> Outcome:
    """The wall clock of a host stands still, years ago."""
    return await _with_clock(stage, rng, "clock frozen", LONG_AGO)


async def _with_clock(stage: Stage, rng: Random, kind: str, how: str) -> Outcome:
    victim = rng.choice(stage.names)
    stage.hosts[victim].set_clock(how)
    await trio.sleep(SEEN_S)
    if rng.random() < 0.5:
        await stage.kill_daemon(victim)
        await start_daemon(stage, victim)
    await stage.view(stage.names, now_us())
    stage.hosts[victim].set_clock(RIGHT)
    await trio.sleep(SEEN_S)
    return Outcome(kind, None, await stage.view(stage.names, now_us()))


async def slow_disk(stage: Stage, rng: Random) -> Outcome:
    """Each write of a disk takes long."""
    return await _with_disk(stage, rng, "slow disk", rng.choice(("0.1", "0.5", "2")))


async def hung_disk(stage: Stage, rng: Random) -> Outcome:
    """Writes of a disk begin, and do not end."""
    return await _with_disk(stage, rng, "hung disk", "hangs")


async def full_disk(stage: Stage, rng: Random) -> Outcome:
    """Writes of a disk fail."""
    return await _with_disk(stage, rng, "full disk", "full")


async def _with_disk(stage: Stage, rng: Random, kind: str, how: str) -> Outcome:
    """Have views change meanwhile, as only they need the disk."""
    victim, other = rng.sample(stage.names, 2)
    stage.hosts[victim].set_disk(how)
    try:
        await stage.kill_daemon(other)
        await trio.sleep(rng.uniform(0.5, 3.0))
        await stage.cluster[other].start()
        await trio.sleep(rng.uniform(0.0, 1.0))
    finally:
        stage.hosts[victim].set_disk("")
    return Outcome(kind, None, await stage.view(stage.names, now_us()))


async def no_descriptors(stage: Stage, rng: Random) -> Outcome:
    """A daemon may open no file any more, while the view changes and programs come."""
    victim, other = rng.sample(stage.names, 2)
    pid = stage.cluster[victim].pid
    before = limit_descriptors(pid, rng.choice((0, 1, 3)))
    await stage.kill_daemon(other)
    await trio.sleep(rng.uniform(0.5, 3.0))
    await stage.cluster[other].start()
    await trio.sleep(rng.uniform(0.0, 1.0))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    return Outcome("no descriptors", None, await stage.view(stage.names, now_us()))


async def no_memory(stage: Stage, rng: Random) -> Outcome:
    """A daemon gets no more memory: it works with what it has, or ends with a sentence."""
    victim = rng.choice(stage.names)
    daemon, at = stage.cluster[victim], now_us()
    before = limit_memory(daemon.pid, rng.choice((0, 300_000, 1_000_000, 3_000_000)))
    with trio.move_on_after(rng.uniform(1.0, 4.0)):
        while daemon.running:
            await trio.sleep(0.01)
    if daemon.running:
        resource.prlimit(daemon.pid, resource.RLIMIT_AS, before)
        return Outcome("no memory, bears it", None, await stage.view(stage.names, now_us()))
    status = await daemon.ended()
    if status != FAILED or OUT_OF_MEMORY not in daemon.last_words:
        raise WrongEnd(f"{victim} ended with status {status}, and said last: {daemon.last_words}")
    await stage.note_end(victim)
    view_ms = await stage.view(stage.others(victim), at)
    return Outcome("no memory, ends", view_ms, await start_daemon(stage, victim))


async def stop_long(stage: Stage, rng: Random) -> Outcome:
    """A daemon stands still for so long that nobody expects it any more."""
    victim = rng.choice(stage.names)
    at = now_us()
    stage.cluster[victim].signal(signal.SIGSTOP)
    try:
        view_ms = await stage.view(stage.others(victim), at)
        await trio.sleep(rng.uniform(*STOPS_S))
    finally:
        stage.cluster[victim].signal(signal.SIGCONT)
    return Outcome("stop long", view_ms, await stage.view(stage.names, now_us()))


async def lose_long_datagrams(stage: Stage, rng: Random) -> Outcome:
    """A card loses long datagrams, and passes short ones: to or from a daemon, or one way only."""
    victim, other = rng.sample(stage.names, 2)
    ends: list[Callable[[tuple[str, str]], bool]] = [
        lambda pair: pair[0] == victim,
        lambda pair: pair[1] == victim,
        lambda pair: pair == (victim, other),
    ]
    concerned = rng.choice(ends)
    pairs = [pair for pair in stage.relay.ports if concerned(pair)]
    stage.relay.narrow(pairs, rng.choice(SIZES))
    await trio.sleep(rng.uniform(0.5, 4.0))
    stage.relay.narrow(pairs, inf)
    return Outcome("long datagrams lost", None, await stage.view(stage.names, now_us()))


async def deaf_card(stage: Stage, rng: Random) -> Outcome:
    """A card sends and receives nothing, or receives and sends nothing."""
    victim = rng.choice(stage.names)
    end = rng.randrange(2)
    stage.relay.cut([pair for pair in stage.relay.ports if pair[end] == victim])
    at = now_us()
    view_ms = await stage.view(stage.others(victim), at)
    await trio.sleep(rng.uniform(0.0, 1.0))
    stage.relay.mend()
    return Outcome("deaf or mute card", view_ms, await stage.view(stage.names, now_us()))


CLOCKS: Final[tuple[Disaster, ...]] = (step_clock, freeze_clock)

HOST_DISASTERS: Final[tuple[Disaster, ...]] = (
    *(CLOCKS if find_faketime() else ()),
    slow_disk,
    no_memory,
    lose_long_datagrams,
    hung_disk,
    no_descriptors,
    deaf_card,
    full_disk,
    stop_long,
)
"""The disasters of hosts, in turn; without faketime no clock can be wrong."""
