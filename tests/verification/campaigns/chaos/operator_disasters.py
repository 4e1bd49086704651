"""Disasters that only operators cause: wrong files, wrong keys, one daemon twice."""

import shutil
import signal
import sys
from random import Random
from typing import Final

import trio

from groupcomm.errors import GroupCommError
from groupcomm.host.key_file import write_key_file
from groupcomm.host.trace_file import now_us
from tests.verification.campaigns.chaos.disasters import Disaster, Outcome, start_daemon
from tests.verification.campaigns.chaos.stage import Stage

TWICE_S: Final = 10.0
"""A second daemon has refused to start by then."""


class NotRefused(GroupCommError):
    """A mistake was accepted, or refused without a word about it."""


async def wrong_key(stage: Stage, rng: Random) -> Outcome:
    """A daemon starts with the key of another cluster, then with the right one."""

    def with_key(config: str) -> str:
        path = stage.cluster.folder / "other.key"
        if not path.exists():
            write_key_file(path)
        return config.replace("cluster.key", path.name)

    return await _start_apart(stage, rng, "wrong key", with_key)


async def wrong_roster(stage: Stage, rng: Random) -> Outcome:
    """A daemon starts with a file that lacks another one, then with the right one."""

    def without_one(config: str) -> str:
        lines = config.splitlines(keepends=True)
        listed = [line for line in lines if line.partition(" = ")[0] in stage.names]
        missing = rng.choice([line for line in listed if not line.startswith(f"{victim} ")])
        return "".join(line for line in lines if line != missing)

    victim = rng.choice(stage.names)
    return await _start_apart(stage, rng, "wrong roster", without_one, victim)


async def _start_apart(
    stage: Stage, rng: Random, kind: str, change: object, victim: str = ""
) -> Outcome:
    """Start a daemon with a changed configuration: it is in a view of its own until it is right."""
    assert callable(change)
    victim = victim or rng.choice(stage.names)
    right = stage.cluster[victim]
    path = stage.cluster.folder / f"{victim}.toml"
    path.write_text(change(stage.cluster.config.read_text()))
    path.chmod(0o600)
    view_ms = await stage.view(stage.others(victim), await stage.kill_daemon(victim))
    wrong = stage.cluster.daemons[victim] = right.with_config(path)
    at = now_us()
    await wrong.start()
    await stage.view([victim], at)
    await trio.sleep(rng.uniform(0.0, 2.0))
    await stage.view(stage.others(victim), at)
    await stage.kill_daemon(victim)
    stage.cluster.daemons[victim] = right
    return Outcome(kind, view_ms, await start_daemon(stage, victim))


async def broken_config(stage: Stage, rng: Random) -> Outcome:
    """A running daemon is to read a file that cannot be used: all stays as it was."""
    victim = rng.choice(stage.names)
    daemon, path = stage.cluster[victim], stage.cluster.config
    right = path.read_text()
    before = len(daemon.lines())
    broken = rng.choice((right[: len(right) // 2] + "[", right + "\nno_such_key = 1\n", ""))
    path.write_text(broken)
    daemon.signal(signal.SIGHUP)

    def is_said() -> bool:
        return any("configuration" in line["text"] for line in daemon.lines()[before:])

    try:
        await stage.until(f"{victim} says that the file cannot be used", is_said)
    finally:
        path.write_text(right)
    daemon.signal(signal.SIGHUP)
    await trio.sleep(rng.uniform(0.0, 0.5))
    return Outcome("broken configuration", None, await stage.view(stage.names, now_us()))


async def second_daemon(stage: Stage, rng: Random) -> Outcome:
    """A daemon is started a second time, with its folder or with a copy of it; it refuses."""
    victim = rng.choice(stage.names)
    folder = stage.cluster.folder / f"{victim}.state"
    said = "is in use by another daemon"
    if rng.random() < 0.5:
        copy = stage.cluster.folder / f"{victim}.copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        folder, said = copy, "in use"
    unix = stage.cluster.folder / "second.sock"
    command = [
        *(sys.executable, "-m", "groupcommd", "--config", str(stage.cluster.config)),
        *("--name", victim, "--state-dir", str(folder), "--unix", str(unix)),
    ]
    await _expect_refusal(command, said)
    return Outcome("second daemon", None, await stage.view(stage.names, now_us()))


async def _expect_refusal(command: list[str], said: str) -> None:
    with trio.move_on_after(TWICE_S):
        done = await trio.run_process(command, capture_stderr=True, check=False)
        text = done.stderr.decode()
        if done.returncode not in (1, 2) or said not in text or "Traceback" in text:
            raise NotRefused(f"a second daemon ended with {done.returncode}, and said {text!r}")
        return
    raise NotRefused("a second daemon with the same identity goes on")


OPERATOR_DISASTERS: Final[tuple[Disaster, ...]] = (
    wrong_key,
    second_daemon,
    wrong_roster,
    broken_config,
)
