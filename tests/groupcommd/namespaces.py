"""Real interfaces: a namespace for each site, or for each daemon, where this host allows it.

`make namespaces` runs it, and `make test` with the rest; it says what it has done, or why it
cannot.
"""

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import trio

from groupcomm.errors import GroupCommError
from groupcomm.events import Message
from groupcomm.host.key_file import write_key_file
from groupcomm_client import connect
from groupcomm_tools.local_cluster import START_S, LocalDaemon
from tests.verification.campaigns.peers.nodes import Node, open_nodes

MTU = 1420
"""The MTU of a common tunnel; datagrams of the default size have to pass it."""

DELAY_MS = 20
COUNT = 20
LARGE = 30_000
SITES: Final = {"north": "ab", "south": "cd", "east": "ef"}


def write_config(folder: Path, sites: Mapping[str, Mapping[str, str]], head: str = "") -> Path:
    """A configuration with a key; daemons have TOML for their addresses."""
    write_key_file(folder / "key")
    lines = ['key_file = "key"', 'clients.tcp = "off"', 'clients.spread_unix = "off"', head]
    for site, daemons in sites.items():
        lines.append(f"[sites.{site}.daemons]")
        lines += [f"{name} = {where}" for name, where in daemons.items()]
    path = folder / "cluster.toml"
    path.write_text("\n".join(lines))
    return path


async def until_view(daemons: Mapping[str, LocalDaemon], names: str) -> str:
    """Wait for one view of only these daemons; return its id."""
    wanted = tuple(names)
    with trio.fail_after(START_S):
        while True:
            views = {daemons[name].view for name in names}
            if len(views) == 1 and (view := views.pop())[1] == wanted:
                return view[0]
            await trio.sleep(0.01)


async def talk(
    daemons: Mapping[str, LocalDaemon], sender: str, receiver: str, times: int = 400
) -> None:
    """Messages that fill their datagrams go from one daemon to another, in order."""
    texts = [b"%03d" % number * times for number in range(COUNT)]
    async with (
        connect(str(daemons[sender].unix)) as one,
        connect(str(daemons[receiver].unix)) as other,
    ):
        await other.join("room")
        for text in texts:
            await one.multicast("room", text)
        got: list[bytes] = []
        with trio.fail_after(START_S):
            while len(got) < COUNT:
                event = await other.receive()
                got += [event.data] if isinstance(event, Message) else []
    assert got == texts


def daemons_of(folder: Path, config: Path, places: Mapping[str, Node]) -> dict[str, LocalDaemon]:
    """Daemons that are to run on nodes."""
    return {
        name: LocalDaemon(folder, name, config, (), prefix=node.prefix)
        for name, node in places.items()
    }


@asynccontextmanager
async def running(daemons: Mapping[str, LocalDaemon]) -> AsyncIterator[None]:
    """All of them, for the length of a block."""
    try:
        async with trio.open_nursery() as nursery:
            for daemon in daemons.values():
                nursery.start_soon(daemon.start)
        yield
    finally:
        for daemon in daemons.values():
            daemon.stop()


async def part_and_merge(folder: Path) -> str:
    """Run three sites of two daemons; pull the cable of one, and put it in again."""
    with open_nodes(3, MTU, ()) as nodes:
        delayed = all(node.delay(DELAY_MS) for node in nodes)
        there = dict(zip(SITES, nodes, strict=True))
        sites = {
            site: {name: f'"{there[site].address}:{4803 + at}"' for at, name in enumerate(names)}
            for site, names in SITES.items()
        }
        head = "\n".join(f"links.{a}-{b}.delay_ms = {DELAY_MS}" for a, b in combinations(SITES, 2))
        places = {name: there[site] for site, names in SITES.items() for name in names}
        daemons = daemons_of(folder, write_config(folder, sites, head), places)
        async with running(daemons):
            await until_view(daemons, "abcdef")
            await talk(daemons, "a", "f")
            there["south"].plug(0, up=False)
            await until_view(daemons, "abef")
            await until_view(daemons, "cd")
            there["south"].plug(0, up=True)
            await until_view(daemons, "abcdef")
            await talk(daemons, "d", "b")
    far = f"{DELAY_MS} ms apart" if delayed else "without delay, as netem is missing"
    return f"three sites {far}: one was cut off and came back"


async def pull_cables(folder: Path) -> str:
    """Run two daemons on two networks; pull the cable of the one in use, then the other one."""
    with open_nodes(2, MTU, (), networks=2) as nodes:
        there = dict(zip("ab", nodes, strict=True))
        where = {name: str(list(node.addresses)) for name, node in there.items()}
        daemons = daemons_of(folder, write_config(folder, {"main": where}), there)
        async with running(daemons):
            view = await until_view(daemons, "ab")
            for network in (0, 1):
                await talk(daemons, "a", "b")
                there["a"].plug(network, up=False)
                await talk(daemons, "a", "b")
                await talk(daemons, "b", "a")
                there["a"].plug(network, up=True)
                await talk(daemons, "b", "a")
            after = await until_view(daemons, "ab")
    assert after == view, f"view {view} has ended"
    return "two networks: each was down for a while, and the view stayed"


async def carry_segments(folder: Path) -> str:
    """Run three daemons of one site on a network of each MTU, and send large messages."""
    found = []
    for mtu in (1400, 1500, 9000):
        with open_nodes(3, mtu, ()) as nodes:
            there = dict(zip("abc", nodes, strict=True))
            where = {name: f'"{node.address}"' for name, node in there.items()}
            (inner := folder / str(mtu)).mkdir(mode=0o700)
            daemons = daemons_of(inner, write_config(inner, {"main": where}), there)
            async with running(daemons):
                await until_view(daemons, "abc")
                await talk(daemons, "a", "c", times=LARGE)
                async with connect(str(daemons["c"].unix)) as one:
                    status = await one.ask("status")
            segments = status["datagrams"]["segments"]
            assert segments["joined"] > 0, segments
            found.append(str(mtu))
    return f"packets in segments passed networks with MTU {', '.join(found)}"


def why_not() -> str:
    """Why this host cannot; empty if it can."""
    if os.geteuid():
        return "only root may make interfaces"
    try:
        with open_nodes(1, MTU, ()):
            return ""
    except (GroupCommError, OSError) as error:
        return str(error)


def main() -> int:
    """Run all, or report why that is impossible; an error shows the failure."""
    if reason := why_not():
        print(f"namespaces: not run here: {reason}")
        return 0
    for scenario in (part_and_merge, pull_cables, carry_segments):
        with TemporaryDirectory(prefix="groupcomm-") as folder:
            print(f"namespaces: {trio.run(scenario, Path(folder))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
