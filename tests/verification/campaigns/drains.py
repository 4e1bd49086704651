"""Rolling stops under load: daemons are drained and started again in turn, and programs move.

    python -m tests.verification.campaigns drains --rounds 30
    python -m tests.verification.campaigns drains --rounds 30 --once
    python -m tests.verification.campaigns drains --rounds 30 --once --sites

Readers at all daemons stay until their daemon is drained. For each sender a reader must get its
AGREED messages without a gap, once, in their order; no move may leave a message in doubt. With
``--once`` senders have ``exactly_once``, send at all levels from FIFO on, and some daemons are
killed in place of a drain. With ``--sites`` there are three of two, two and one daemons. The
checkers verify the traces of all daemons and sessions. Ends with one line of JSON.
"""

import tempfile
import time
from argparse import Namespace
from collections import defaultdict
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final

import attrs
import trio

from groupcomm.errors import GroupCommError, SessionEnded
from groupcomm.host.trace_file import TraceFile
from groupcomm.level import ServiceLevel
from groupcomm_client import Connection, ConnectOptions, Reconnected, connect
from groupcomm_tools.local_cluster import LocalCluster
from tests.verification.campaigns.programs import until
from tests.verification.campaigns.runner import Found, campaign, option
from tests.verification.campaigns.traces import check, note_kill

SITE: Final = {"main": "abc"}
SITES: Final = {"x": "ab", "y": "cd", "z": "e"}
KILLED: Final = "ce"
"""The daemons that are killed in place of a drain, with ``--once``."""

LEVELS: Final = tuple(level for level in ServiceLevel if level >= ServiceLevel.FIFO)
GROUP: Final = "g"
WITHIN_S: Final = 20.0


@attrs.define
class Reader:
    """A program that stays at its daemon, and is the operator that drains it.

    Attributes:
        daemon: the name of its daemon.
        connection: its session.
        got: the numbers of each sender, as they came.
    """

    daemon: str
    connection: Connection
    got: defaultdict[str, list[int]] = attrs.field(factory=lambda: defaultdict(list))


@attrs.define
class Figures:
    """The results so far; times in seconds."""

    sent: dict[str, int] = attrs.field(factory=dict)
    moves: list[Reconnected] = attrs.field(factory=list)
    drains_s: list[float] = attrs.field(factory=list)
    longest_wait_s: float = 0.0
    violations: list[str] = attrs.field(factory=list)


class Campaign:
    """One cluster whose daemons stop in turn.

    Args:
        cluster: the daemons.
        traces: the folder of all traces.
        options: `programs`, `rounds` and `rate`.

    Attributes:
        trace: the trace of the kills.
    """

    def __init__(self, cluster: LocalCluster, traces: Path, options: Namespace) -> None:
        self._cluster, self._names = cluster, list(cluster.daemons)
        self._options = options
        self._traces, self._traced = traces, ConnectOptions(trace=traces)
        self.trace = TraceFile(traces / "harness.jsonl")
        self._readers: dict[str, Reader] = {}
        self._over = False
        self.figures = Figures()

    async def run(self) -> None:
        """All rounds; then wait until readers have everything."""
        async with trio.open_nursery() as nursery:
            for name in self._names:
                await nursery.start(self._read, name)
            for number in range(self._options.programs):
                nursery.start_soon(self._send, f"u{number}", self._names[number % len(self._names)])
            for number in range(self._options.rounds):
                await trio.sleep(0.5)
                await self._round(self._names[number % len(self._names)], nursery)
            self._over = True
            await until("all senders have ended", lambda: self._done)
            await until("readers have the last messages", self._have_all)
            nursery.cancel_scope.cancel()

    async def _round(self, name: str, nursery: trio.Nursery) -> None:
        """Drain a daemon, or kill it, and start it again."""
        if self._options.once and name in KILLED:
            self._cluster[name].kill()
            await self._cluster[name].ended()
            note_kill(self.trace, self._traces, name)
        else:
            await self._drain(name)
        others = [each for each in self._names if each != name]
        await self._cluster.settle(others)
        await self._cluster[name].start()
        await self._cluster.settle(self._names)
        await nursery.start(self._read, name)

    async def _drain(self, name: str) -> None:
        begun = time.monotonic()
        daemon = self._cluster[name]
        answer = await self._readers[name].connection.ask(f"drain {WITHIN_S} reader.{name}")
        assert "error" not in answer, answer
        with trio.fail_after(2 * WITHIN_S):
            while daemon.running:
                await trio.sleep(0.01)
        status = await daemon.ended()
        self.figures.drains_s.append(time.monotonic() - begun)
        last = next(line for line in reversed(daemon.lines()) if "staying" in line)
        if status or last["staying"]:
            text = f"{name} ends with {status}; {last['staying']} have not moved"
            self.figures.violations.append(text)

    async def _read(
        self, name: str, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Read at a daemon until it stops; check then what came."""
        address = str(self._cluster[name].unix)
        async with connect(address, user=f"reader.{name}", options=self._traced) as connection:
            reader = self._readers[name] = Reader(name, connection)
            with suppress(SessionEnded):
                await connection.join(GROUP)
                task_status.started()
                async for message in connection.messages():
                    user, _, number = message.data.decode().partition(" ")
                    reader.got[user].append(int(number))
        self._judge(reader)

    def _judge(self, reader: Reader) -> None:
        """Note each sender whose messages a reader has not got one after the other."""
        for user, numbers in reader.got.items():
            if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
                wrong = next(at for at, number in enumerate(numbers) if number != numbers[0] + at)
                self.figures.violations.append(
                    f"reader at {reader.daemon}: {user}: {numbers[wrong - 1]} is followed by"
                    f" {numbers[wrong]}"
                )

    @property
    def _done(self) -> bool:
        return bool(len(self.figures.sent) == self._options.programs)

    def _have_all(self) -> bool:
        sent = self.figures.sent
        return all(
            reader.got[user][-1:] == [sent[user] - 1]
            for reader in self._readers.values()
            for user in sent
        )

    async def _send(self, user: str, first: str) -> None:
        """Send at a rate until the end, as one of two kinds: some also receive."""
        at = self._names.index(first)
        names = self._names[at:] + self._names[:at]
        addresses = ",".join(str(self._cluster[name].unix) for name in names)
        receives = int(user[1:]) % 2 == 1
        async with AsyncExitStack() as stack:
            once = self._options.once
            options = {"reconnect": True, "exactly_once": once, "options": self._traced}
            opened = connect(addresses, user=user, **options)
            connection = await stack.enter_async_context(opened)
            nursery = await stack.enter_async_context(trio.open_nursery())
            if receives:
                await connection.join(GROUP)
                nursery.start_soon(self._watch, connection)
            number = 0
            while not self._over:
                begun = time.monotonic()
                level = LEVELS[number // 3 % len(LEVELS)] if once else ServiceLevel.AGREED
                await connection.multicast(GROUP, f"{user} {number}".encode(), level=level)
                waited_s = time.monotonic() - begun
                self.figures.longest_wait_s = max(self.figures.longest_wait_s, waited_s)
                number += 1
                await trio.sleep(1 / self._options.rate)
            await connection.multicast(GROUP, f"{user} {number}".encode())
            self.figures.sent[user] = number + 1
            await trio.sleep_forever()

    async def _watch(self, connection: Connection) -> None:
        """Receive everything, and note the moves."""
        with suppress(SessionEnded):
            async for event in connection:
                if isinstance(event, Reconnected):
                    self.figures.moves.append(event)
                    if not (event.moved or self._options.once) or event.in_doubt:
                        self.figures.violations.append(f"not a move: {event}")


@campaign(
    option("rounds", 30, "drains"),
    option("programs", 20, "senders"),
    option("rate", 50.0, "messages a second of each"),
    option("sites", False, "three sites of five daemons in place of one of three"),
    option("once", False, "senders with exactly_once, and kills among the drains"),
)
async def run(options: Namespace) -> Found:
    """Run it; return the results."""
    with tempfile.TemporaryDirectory(prefix="drains-") as folder:
        traces = Path(folder)
        sites = SITES if options.sites else SITE
        names = "".join(sites.values())
        async with LocalCluster(names, options=("--trace", folder), sites=sites) as cluster:
            await cluster.settle(names)
            campaign = Campaign(cluster, traces, options)
            figures = campaign.figures
            try:
                await campaign.run()
            except* GroupCommError as errors:
                figures.violations += map(str, errors.exceptions)
            for daemon in cluster.daemons.values():
                await daemon.leave()
            campaign.trace.close()
        figures.violations += check(traces)
    return {
        "drains": len(figures.drains_s),
        "sent": sum(figures.sent.values()),
        "moves_seen": len(figures.moves),
        "drain_s_longest": round(max(figures.drains_s, default=0.0), 2),
        "send_s_longest": round(figures.longest_wait_s, 2),
        "violations": figures.violations,
    }
