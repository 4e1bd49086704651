"""Delays until programs are notified that a daemon has gone, and that it is back.

There are three daemons with a program at each, and no other traffic. A delay ends when the last of
the programs concerned receives the `DaemonView`.
"""

import enum
import random
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import attrs
import trio

from groupcomm.errors import GroupCommError
from groupcomm.events import DaemonView
from groupcomm_client import connect
from groupcomm_tools.bench.plan import GROUP
from groupcomm_tools.local_cluster import LocalCluster, LocalDaemon
from groupcomm_tools.relay import Relay
from groupcommd.config.config_file import read_addresses

NAMES: Final = ("alfa", "bravo", "charlie")
REST, VICTIM = NAMES[:-1], NAMES[-1]
PATIENCE_S: Final = 30.0
QUIET_S: Final = (0.3, 0.6)
"""Pause in seconds before an event; drawn anew, so that events fall at any point of the daemons'
periods.
"""


class Disturbance(enum.Enum):
    """The way in which a daemon is disturbed."""

    KILL = "kill"  # kill -9; then the daemon is started again
    LEAVE = "leave"  # SIGTERM; then the daemon is started again
    PARTITION = "partition"  # the daemon is cut off from the others; then the network heals


@attrs.frozen(kw_only=True)
class Event:
    """A disturbance, under some timings.

    Attributes:
        kind: the disturbance.
        preset: preset of the daemons' configuration.
    """

    kind: Disturbance
    preset: str


@attrs.frozen(kw_only=True)
class EventTimes:
    """Delays of an event, in milliseconds.

    Attributes:
        view_ms: the time from the disturbance to the new view at the programs.
        merged_ms: the time from the start of the process, or from the healing, to the view of all
            daemons at the programs.
    """

    view_ms: float
    merged_ms: float


class Watcher:
    """Programs at daemons, which note the latest view that they are notified of, and when."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[tuple[str, ...], float]] = {}

    async def watch(self, daemon: LocalDaemon) -> None:
        """Run the program at a daemon."""
        async with connect(str(daemon.unix)) as connection:
            await connection.join(GROUP)
            async for event in connection:
                if isinstance(event, DaemonView):
                    self._seen[daemon.name] = (event.daemons, trio.current_time())

    async def wait_for_view(self, view: tuple[str, ...], programs: Iterable[str]) -> float:
        """Wait until the programs at these daemons are in a view; return when the last one was
        notified.

        Raises:
            GroupCommError: they are not notified in time.
        """
        names = tuple(programs)
        with trio.move_on_after(PATIENCE_S):
            while any(self._seen.get(name, ((),))[0] != view for name in names):
                await trio.sleep(0.005)
            return max(self._seen[name][1] for name in names)
        raise GroupCommError(
            f"programs at {', '.join(names)} were not notified within {PATIENCE_S:g} s of a view of"
            f" {', '.join(view)}"
        )


async def measure_event(event: Event) -> EventTimes:
    """Cause an event once, with daemons of its own; return its delays.

    Raises:
        GroupCommError: a view does not come.
    """
    measured = _parted if event.kind is Disturbance.PARTITION else _gone
    with TemporaryDirectory(prefix="groupcomm-") as folder:
        via = Path(folder) / "via.json"
        options = ["--via", str(via)] if event.kind is Disturbance.PARTITION else []
        cluster = LocalCluster(NAMES, f'preset = "{event.preset}"', options=options)
        relay = Relay(read_addresses(cluster.config))
        relay.write(via)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(relay.run)
            async with cluster, _watching(cluster, event) as watcher:
                times = await measured(event, cluster, relay, watcher)
            nursery.cancel_scope.cancel()
    return times


@asynccontextmanager
async def _watching(cluster: LocalCluster, event: Event) -> AsyncIterator[Watcher]:
    """Run programs at all surviving daemons, until they are notified of the view of all."""
    await cluster.settle(NAMES)
    names = NAMES if event.kind is Disturbance.PARTITION else REST
    watcher = Watcher()
    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(watcher.watch, cluster[name])
        await watcher.wait_for_view(NAMES, names)
        await _quiet()
        yield watcher
        nursery.cancel_scope.cancel()


async def _gone(event: Event, cluster: LocalCluster, _: Relay, watcher: Watcher) -> EventTimes:
    victim = cluster[VICTIM]
    began = trio.current_time()
    victim.signal(signal.SIGKILL if event.kind is Disturbance.KILL else signal.SIGTERM)
    viewed = await watcher.wait_for_view(REST, REST)
    await victim.ended()
    await _quiet()
    restarted = trio.current_time()
    await victim.start()
    merged = await watcher.wait_for_view(NAMES, REST)
    return EventTimes(view_ms=(viewed - began) * 1000, merged_ms=(merged - restarted) * 1000)


async def _parted(_: Event, cluster: LocalCluster, relay: Relay, watcher: Watcher) -> EventTimes:
    began = trio.current_time()
    relay.cut(relay.between(REST, [VICTIM]))
    viewed = max(
        await watcher.wait_for_view(REST, REST), await watcher.wait_for_view((VICTIM,), [VICTIM])
    )
    await _quiet()
    healed = trio.current_time()
    relay.mend()
    merged = await watcher.wait_for_view(NAMES, NAMES)
    return EventTimes(view_ms=(viewed - began) * 1000, merged_ms=(merged - healed) * 1000)


async def _quiet() -> None:
    await trio.sleep(random.uniform(*QUIET_S))
