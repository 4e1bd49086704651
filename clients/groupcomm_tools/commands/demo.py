"""`groupcomm demo`: three real daemons, a crash, and one order in spite of it.

A program at each daemon sends, notes what it receives, and compares it in the end.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import trio

from groupcomm.clocks.stamp import Position
from groupcomm.errors import GroupCommError, SessionError
from groupcomm.events import DaemonView, Message
from groupcomm.host.option_types import existing_file
from groupcomm.level import AGREED_LEVELS, LEVELS, ServiceLevel
from groupcomm_client import connect
from groupcomm_client.connection import Connection
from groupcomm_tools.commands.options import need_pyarrow
from groupcomm_tools.local_cluster import LocalCluster, LocalDaemon
from groupcomm_tools.recording.recorder_process import recorded
from groupcomm_tools.stopping import run_tasks

GROUP: Final = "demo"
LOOK_S: Final = 0.005
QUIET_S: Final = 0.3
"""Seconds without a new message, after which a program has received everything sent before."""

PAUSE_S: Final = 0.05
"""Seconds between two messages of those that stay."""


class Participant:
    """One program at one daemon.

    Attributes:
        user: name of the program.
        daemon: name of its daemon.
        received: all messages, in the order in which they came.
        sent: number of messages sent, by level.
        view: daemons of the latest view that it was notified of.
        present: its daemon is alive.
    """

    def __init__(self, user: str, daemon: str, connection: Connection) -> None:
        self.user = user
        self.daemon = daemon
        self.received: list[Message] = []
        self.sent: Counter[ServiceLevel] = Counter()
        self.view: tuple[str, ...] = ()
        self.present = True
        self.received_at = trio.current_time()
        self._connection = connection

    async def send(self, level: ServiceLevel, data: bytes) -> None:
        """Send one message to the group."""
        self.sent[level] += 1
        await self._connection.multicast(GROUP, data, level=level)

    async def listen(self) -> None:
        """Note everything that the program receives."""
        async for event in self._connection:
            if isinstance(event, Message):
                self.received.append(event)
                self.received_at = trio.current_time()
            elif isinstance(event, DaemonView):
                self.view = event.daemons

    @property
    def agreed(self) -> list[Position]:
        """Return the positions of the received messages that are in the agreed order."""
        return [m.position for m in self.received if m.level in AGREED_LEVELS and m.position]


class Participants:
    """All programs, also those whose daemon has died.

    Attributes:
        all: the programs in the order in which they connected.
    """

    def __init__(self, say: Callable[[str], None], nursery: trio.Nursery) -> None:
        self._say = say
        self._nursery = nursery
        self._done = trio.Event()
        self.all: list[Participant] = []

    async def enter(self, daemon: LocalDaemon) -> Participant:
        """Connect one more program, as a member of the group."""
        participant: Participant = await self._nursery.start(self._run_program, daemon)
        self.all.append(participant)
        return participant

    async def _run_program(
        self,
        daemon: LocalDaemon,
        task_status: trio.TaskStatus[Participant] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        user = f"{daemon.name[0]}{len(self.all) + 1}"
        try:
            async with connect(str(daemon.unix), user=user) as connection:
                await connection.join(GROUP)
                participant = Participant(user, daemon.name, connection)
                task_status.started(participant)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(participant.listen)
                    await self._done.wait()
                    nursery.cancel_scope.cancel()
        except* SessionError:
            self._say(f"the program at {daemon.name} was notified that its daemon is lost")

    def exit(self, daemon: str) -> None:
        """Note that a daemon is dead, and with it its connections."""
        for participant in self.all:
            if participant.daemon == daemon:
                participant.present = False

    async def agree(self, daemons: Sequence[str]) -> None:
        """Wait until all present programs are notified of one view with these daemons."""
        while any(a.present and a.view != tuple(sorted(daemons)) for a in self.all):
            await trio.sleep(LOOK_S)

    async def wait_until_quiet(self) -> None:
        """Wait until no program has received a new message for QUIET_S."""
        asked_at = trio.current_time()
        while any(
            trio.current_time() - max(participant.received_at, asked_at) < QUIET_S
            for participant in self.all
            if participant.present
        ):
            await trio.sleep(LOOK_S)

    async def go_on(self) -> None:
        """Send messages for ever, each PAUSE_S, and keep none; a killed daemon's program is left
        out.
        """
        number = 0
        while True:
            for participant in self.all:
                participant.received.clear()
                with suppress(SessionError):
                    await participant.send(LEVELS[number % len(LEVELS)], b"%d" % number)
                number += 1
                await trio.sleep(PAUSE_S)

    async def leave(self) -> None:
        """Disconnect all programs in order."""
        self._done.set()
        await trio.sleep(LOOK_S)

    # ---- the comparison ----

    @property
    def order(self) -> list[Position]:
        """Return the agreed order, as all programs together have seen it."""
        return sorted({position for participant in self.all for position in participant.agreed})

    def wrong(self) -> list[str]:
        """Return the faults: messages out of order, duplicated, or missing."""
        found: list[str] = []
        for participant in self.all:
            names = Counter((m.sender, m.number) for m in participant.received)
            found += [f"{participant.user} got {name} twice" for name, n in names.items() if n > 1]
            if participant.agreed != sorted(participant.agreed):
                found.append(f"{participant.user} saw another order")
        stayed = [participant for participant in self.all if participant.present]
        first = [a for a in stayed if a.agreed and a.agreed[0] == self.order[0]]
        found += [
            f"{participant.user} lacks messages that {first[0].user} has"
            for participant in first[1:]
            if participant.agreed != first[0].agreed
        ]
        return found


EXAMPLE: Final = "groupcomm demo --text README.md"

Say = Callable[[str], None]
DAEMONS: Final = ("alfa", "bravo", "charlie")
MOST_S: Final = 60.0
"""Seconds until the demo gives up: it takes about 5, and longer on a machine that others use."""
DEFAULT_TEXT: Final = Path(__file__).parents[3] / "README.md"
SHORT_TEXT: Final = "Every program sees\nthe same messages\nin the same order.\n"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--text", type=existing_file, metavar="FILE", help="file whose lines are sent"
    )
    parser.add_argument(
        "--record", type=Path, metavar="DIR", help="record the deliveries at alfa and bravo"
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="leave the daemons running until ^C, with messages and a page for the browser",
    )


def run(options: argparse.Namespace) -> int:
    """Play the demo; return 0 if all programs saw the same order."""
    text = SHORT_TEXT.encode()
    if options.text is not None or DEFAULT_TEXT.exists():  # an installed package has no README
        text = (options.text or DEFAULT_TEXT).read_bytes()
    lines = [line for line in text.splitlines() if line.strip()] or [b"(an empty file)"]
    if options.record is not None:
        need_pyarrow("writes Parquet")
    try:
        return run_tasks(_play, options, lines)
    except* BrokenPipeError:
        why = "the demo was stopped, as the reader of its output has ended"
        raise GroupCommError(f"{why}; read all of it") from None


class Narrator:
    """A narrator that prints events, with the seconds since the beginning."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        """Print a line for the spectator."""
        print(f"{time.monotonic() - self._started:6.2f} s  {text}", flush=True)


async def _play(options: argparse.Namespace, lines: Sequence[bytes]) -> int:
    clock = Narrator()
    say = clock.say
    say("starting three daemons on this host")
    with trio.move_on_after(MOST_S) as patience:
        http = ("--http", "127.0.0.1:0") if options.keep else ()
        async with LocalCluster(DAEMONS, options=http) as cluster, trio.open_nursery() as nursery:
            everybody = Participants(say, nursery)
            participants = [await everybody.enter(cluster[name]) for name in DAEMONS]
            await everybody.agree(DAEMONS)
            say(f"all three are in one view: {', '.join(DAEMONS)}")
            async with _recorded(options.record, cluster):
                await _send_all(participants, lines, say)
                await everybody.wait_until_quiet()
                await _crash(everybody, participants, cluster[DAEMONS[-1]], say)
                await everybody.wait_until_quiet()
            good = _compare(everybody, say)
            if options.keep:
                patience.deadline = float("inf")
                _print_addresses(cluster)
                await everybody.go_on()
            await everybody.leave()
            for name in DAEMONS:
                await cluster[name].leave()
            say("all daemons have left in order")
            nursery.cancel_scope.cancel()
    if patience.cancelled_caught:
        raise GroupCommError(
            f"the demo was not over after {MOST_S:g} s: end other programs that use this machine"
        )
    return 0 if good else 1


@asynccontextmanager
async def _recorded(folder: Path | None, cluster: LocalCluster) -> AsyncIterator[None]:
    """Record the deliveries of surviving daemons meanwhile, if a folder is given."""
    if folder is None:
        yield
        return
    addresses = {name: str(cluster[name].unix) for name in DAEMONS[:-1]}
    async with recorded(addresses, [GROUP], folder):
        yield


async def _send_all(participants: Sequence[Participant], lines: Sequence[bytes], say: Say) -> None:
    say("each program sends one message of each level, and the lines of the text in turn")
    for level in LEVELS:
        for participant in participants:
            await participant.send(level, f"{level.name} from {participant.user}".encode())
    for number, line in enumerate(lines):
        await participants[number % len(participants)].send(AGREED_LEVELS[number % 2], line)


async def _crash(
    everybody: Participants, participants: Sequence[Participant], victim: LocalDaemon, say: Say
) -> None:
    survivors = DAEMONS[:-1]
    say(f"kill -9 {victim.name} (process {victim.pid}), while messages are in flight")
    for participant in participants:
        await participant.send(LEVELS[-1], b"sent just before the crash")
    killed = time.monotonic()
    victim.kill()
    everybody.exit(victim.name)
    await everybody.agree(survivors)
    say(f"{' and '.join(survivors)} are in a new view, {_ms(killed)} after the crash")
    for participant in participants[:-1]:
        await participant.send(LEVELS[-1], b"we go on without you")
    say(f"starting {victim.name} again")
    started = time.monotonic()
    await victim.start()
    back = await everybody.enter(victim)
    await everybody.agree(DAEMONS)
    say(f"{victim.name} is back, in one view with the others, after {_ms(started)}")
    await back.send(LEVELS[-1], b"I am back")


def _ms(since: float) -> str:
    return f"{(time.monotonic() - since) * 1000:.0f} ms"


def _compare(everybody: Participants, say: Say) -> bool:
    print(f"\n  {'level':<12}{'sent':>6}" + "".join(f"{name:>10}" for name in DAEMONS))
    for level in LEVELS:
        row = [sum(participant.sent[level] for participant in everybody.all)]
        row += [
            sum(m.level == level for a in everybody.all if a.daemon == name for m in a.received)
            for name in DAEMONS
        ]
        print(f"  {level.name:<12}{row[0]:>6}" + "".join(f"{count:>10}" for count in row[1:]))
    print(f"  {'':<12}{'':>6}   received by the program at each daemon")
    away = everybody.all[-1].daemon
    print(f"  {away} lacks the messages sent while it was down.")
    lost = sum(
        sum(participant.sent[level] for participant in everybody.all)
        - max(sum(m.level == level for m in a.received) for a in everybody.all if a.present)
        for level in AGREED_LEVELS
    )
    if lost:
        print(
            f"  {lost} SAFE of its program, sent just before the crash, died with it: no other"
            "\n  daemon held it, so no program has received it."
        )
    print()
    wrong = everybody.wrong()
    for text in wrong:
        print(f"groupcomm: WRONG: {text}", file=sys.stderr)
    if not wrong:
        say(
            f"all programs saw one agreed order of {len(everybody.order)} messages, without"
            " duplicates"
        )
    return not wrong


def _print_addresses(cluster: LocalCluster) -> None:
    first, *_, last = cluster.daemons.values()
    print("\nThe daemons go on until ^C, and their programs send messages. In a browser:")
    for daemon in cluster.daemons.values():
        print(f"  http://{daemon.http}/  {daemon.name}")
    print(f"After kill -9 {last.pid} the page of {first.name} shows that {last.name} is gone.")
    print("In a terminal, for instance:")
    print(f"  groupcomm watch demo --address {first.unix}")
    print(f"Their configuration is {cluster.config}", flush=True)
