"""Daemons of ours on nodes of their own, with the settings that a configuration has by default."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from groupcomm.host.key_file import write_key_file
from groupcomm_tools.local_cluster import START_S, LocalDaemon
from tests.verification.campaigns.peers.nodes import Node

_CLIENTS: Final = ("[clients]", 'tcp = "off"', 'spread_unix = "off"')


def prepare_daemons(
    folder: Path, nodes: Sequence[Node], clients: Sequence[str] = ()
) -> dict[str, LocalDaemon]:
    """Write their key and configuration; return the daemons, c1 at the first node, by name.

    Args:
        folder: the folder of all their files.
        nodes: where they run, one at each.
        clients: further lines of the table `[clients]`.
    """
    write_key_file(folder / "key")
    lines = ['key_file = "key"', *_CLIENTS, *clients, "[sites.main.daemons]"]
    lines += [f'c{at} = "{node.address}"' for at, node in enumerate(nodes, 1)]
    config = folder / "cluster.toml"
    config.write_text("\n".join(lines))
    return {
        f"c{at}": LocalDaemon(folder, f"c{at}", config, (), prefix=node.prefix)
        for at, node in enumerate(nodes, 1)
    }


@asynccontextmanager
async def running(daemons: Mapping[str, LocalDaemon]) -> AsyncIterator[None]:
    """Run daemons; the block begins once all are in one view, and they end with it.

    Raises:
        trio.TooSlowError: they do not find each other.
    """
    try:
        async with trio.open_nursery() as nursery:
            for daemon in daemons.values():
                nursery.start_soon(daemon.start)
        with trio.fail_after(START_S):
            while {tuple(sorted(d.view[1])) for d in daemons.values()} != {tuple(sorted(daemons))}:
                await trio.sleep(0.05)
        yield
    finally:
        for daemon in daemons.values():
            daemon.stop()
