"""`groupcomm demo`: three real daemons, a crash, and one order in spite of it."""

import argparse
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from groupcomm.errors import GroupCommError
from groupcomm.level import LEVELS
from groupcomm_tools.commands.options import need_pyarrow
from groupcomm_tools.demo_cast import AGREED_LEVELS, GROUP, Actor, Cast
from groupcomm_tools.local_cluster import LocalCluster, LocalDaemon
from groupcomm_tools.recording.beside import recorded

EXAMPLE: Final = "groupcomm demo --text README.md"

Say = Callable[[str], None]
DAEMONS: Final = ("alfa", "bravo", "charlie")
MOST_S: Final = 30.0
DEFAULT_TEXT: Final = Path(__file__).parents[3] / "README.md"
SPOKEN: Final = "Every program sees\nthe same messages\nin the same order.\n"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--text", type=Path, metavar="FILE", help="whose lines are sent")
    parser.add_argument(
        "--record", type=Path, metavar="DIR", help="logs of what is delivered at alfa and bravo"
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the daemons running until ^C, for a look around"
    )


def run(options: argparse.Namespace) -> int:
    """Play it; 0 if all saw the same order."""
    text = SPOKEN.encode()
    if options.text is not None or DEFAULT_TEXT.exists():  # an installed package has no README
        text = (options.text or DEFAULT_TEXT).read_bytes()
    lines = [line for line in text.splitlines() if line.strip()] or [b"(an empty file)"]
    if options.record is not None:
        need_pyarrow("writes Parquet")
    return trio.run(_play, options, lines)


class Clock:
    """Tells what happens, with the seconds since the beginning."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        """A line for the spectator."""
        print(f"{time.monotonic() - self._started:6.2f} s  {text}", flush=True)


async def _play(options: argparse.Namespace, lines: Sequence[bytes]) -> int:
    clock = Clock()
    say = clock.say
    say("starting three daemons on this host")
    with trio.move_on_after(MOST_S) as patience:
        async with LocalCluster(DAEMONS) as cluster, trio.open_nursery() as nursery:
            cast = Cast(say, nursery)
            actors = [await cast.enter(cluster[name]) for name in DAEMONS]
            await cast.agree(DAEMONS)
            say(f"all three are in one view: {', '.join(DAEMONS)}")
            async with _recorded(options.record, cluster):
                await _speak(actors, lines, say)
                await cast.hear_all()
                await _crash(cast, actors, cluster[DAEMONS[-1]], say)
                await cast.hear_all()
            good = _judge(cast, say)
            if options.keep:
                patience.deadline = float("inf")
                _invite(cluster)
                await trio.sleep_forever()
            await cast.leave()
            for name in DAEMONS:
                await cluster[name].leave()
            say("all have left in order")
            nursery.cancel_scope.cancel()
    if patience.cancelled_caught:
        raise GroupCommError(f"not over after {MOST_S:g} s; is this machine overloaded?")
    return 0 if good else 1


@asynccontextmanager
async def _recorded(folder: Path | None, cluster: LocalCluster) -> AsyncIterator[None]:
    """What comes meanwhile to those daemons that survive is written down, if that is wanted."""
    if folder is None:
        yield
        return
    addresses = {name: str(cluster[name].unix) for name in DAEMONS[:-1]}
    async with recorded(addresses, [GROUP], folder):
        yield


async def _speak(actors: Sequence[Actor], lines: Sequence[bytes], say: Say) -> None:
    say("everybody sends one message of each level, and the lines of the text in turn")
    for level in LEVELS:
        for actor in actors:
            await actor.send(level, f"{level.name} from {actor.user}".encode())
    for number, line in enumerate(lines):
        await actors[number % len(actors)].send(AGREED_LEVELS[number % 2], line)


async def _crash(cast: Cast, actors: Sequence[Actor], victim: LocalDaemon, say: Say) -> None:
    survivors = DAEMONS[:-1]
    say(f"kill -9 {victim.name} (process {victim.pid}), while messages are under way")
    for actor in actors:
        await actor.send(LEVELS[-1], b"sent just before the crash")
    killed = time.monotonic()
    victim.kill()
    cast.exit(victim.name)
    await cast.agree(survivors)
    say(f"{' and '.join(survivors)} are in a new view, {_ms(killed)} after the crash")
    for actor in actors[:-1]:
        await actor.send(LEVELS[-1], b"we go on without you")
    say(f"starting {victim.name} again")
    started = time.monotonic()
    await victim.start()
    back = await cast.enter(victim)
    await cast.agree(DAEMONS)
    say(f"{victim.name} is back, in one view with the others, after {_ms(started)}")
    await back.send(LEVELS[-1], b"I am back")


def _ms(since: float) -> str:
    return f"{(time.monotonic() - since) * 1000:.0f} ms"


def _judge(cast: Cast, say: Say) -> bool:
    print(f"\n  {'level':<12}{'sent':>6}" + "".join(f"{name:>10}" for name in DAEMONS))
    for level in LEVELS:
        row = [sum(actor.sent[level] for actor in cast.all)]
        row += [
            sum(m.level == level for a in cast.all if a.daemon == name for m in a.heard)
            for name in DAEMONS
        ]
        print(f"  {level.name:<12}{row[0]:>6}" + "".join(f"{count:>10}" for count in row[1:]))
    print("  (received by the program at each daemon; charlie was away for a while)\n")
    wrong = cast.wrong()
    for text in wrong:
        print(f"groupcomm: WRONG: {text}", file=sys.stderr)
    if not wrong:
        say(f"all saw one agreed order of {len(cast.order)} messages, and nobody one twice")
    return not wrong


def _invite(cluster: LocalCluster) -> None:
    print("\nThe daemons go on until ^C. Connect to them with, for instance:")
    for daemon in cluster.daemons.values():
        print(f"  groupcomm watch demo --address {daemon.unix}")
    print(f"their configuration is {cluster.config}", flush=True)
