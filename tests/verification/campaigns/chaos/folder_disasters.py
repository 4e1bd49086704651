"""Disasters of state folders: deleted, restored from a backup, or those of a copied machine.

While the daemon is away some of the others are restarted one by one, as in a rolling upgrade: they
know nothing then of its earlier starts, and the rest do.
"""

import shutil
from pathlib import Path
from random import Random
from typing import Final

import trio

from groupcomm.host.trace_file import now_us
from tests.verification.campaigns.chaos.disasters import Disaster, Outcome, start_daemon
from tests.verification.campaigns.chaos.stage import Stage

MOST_STARTS: Final = 3
"""The most starts since the backup was made."""


async def empty_folder(stage: Stage, rng: Random) -> Outcome:
    """The state folder of a daemon is deleted while it is down."""
    victim = rng.choice(stage.names)
    view_ms = await stage.view(stage.others(victim), await stage.kill_daemon(victim))
    shutil.rmtree(stage.cluster[victim].state)
    return await _come_back(stage, rng, "empty folder", victim, view_ms)


async def old_folder(stage: Stage, rng: Random) -> Outcome:
    """A daemon comes back with a backup of its state folder that knows some starts less."""
    victim = rng.choice(stage.names)
    backup = _copy(stage, victim)
    for _ in range(rng.randint(1, MOST_STARTS)):
        await stage.kill_daemon(victim)
        await start_daemon(stage, victim)
    view_ms = await stage.view(stage.others(victim), await stage.kill_daemon(victim))
    _restore(stage, victim, backup)
    return await _come_back(stage, rng, "old folder", victim, view_ms)


async def copied_folder(stage: Stage, rng: Random) -> Outcome:
    """The copy of a machine runs in its place, then the machine itself again: both have counted the
    same number of starts."""
    victim = rng.choice(stage.names)
    view_ms = await stage.view(stage.others(victim), await stage.kill_daemon(victim))
    machine = _copy(stage, victim)
    await start_daemon(stage, victim)
    await trio.sleep(rng.uniform(0.0, 1.0))
    await stage.view(stage.others(victim), await stage.kill_daemon(victim))
    _restore(stage, victim, machine)
    return await _come_back(stage, rng, "copied folder", victim, view_ms)


def _copy(stage: Stage, name: str) -> Path:
    state = stage.cluster[name].state
    copy = state.with_suffix(".backup")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(state, copy)
    return copy


def _restore(stage: Stage, name: str, backup: Path) -> None:
    state = stage.cluster[name].state
    shutil.rmtree(state)
    backup.rename(state)


async def _come_back(
    stage: Stage, rng: Random, kind: str, victim: str, view_ms: float | None
) -> Outcome:
    """Restart some of the others, then start the daemon; all have to meet."""
    others = stage.others(victim)
    most = len(others) if stage.objects is None else len(others) - 1  # one must keep their state
    for other in rng.sample(others, rng.randint(0, most)):
        await stage.kill_daemon(other)
        await trio.sleep(rng.uniform(0.0, 1.0))
        at = now_us()
        await stage.cluster[other].start()
        await stage.view(others, at)
    return Outcome(kind, view_ms, await start_daemon(stage, victim))


FOLDER_DISASTERS: Final[tuple[Disaster, ...]] = (empty_folder, old_folder, copied_folder)
"""The disasters of state folders, in turn."""
