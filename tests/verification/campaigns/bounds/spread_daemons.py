"""Three of Spread's own daemons on this host, for what the same load costs them.

Each is a segment of its own: on one host a segment has one port, and so has a daemon's socket.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import attrs

from groupcomm_tools.bench.runs import cpu_s
from groupcomm_tools.local_cluster import free_ports
from tests.verification.campaigns.peers import spread
from tests.verification.campaigns.peers.launching import open_server
from tests.verification.campaigns.programs import until

COUNT: Final = 3


@attrs.frozen
class SpreadDaemons:
    """Running daemons.

    Attributes:
        addresses: their unix sockets.
        pids: their processes.
    """

    addresses: list[str]
    pids: list[int]

    def cpu_s(self) -> float:
        """Return the seconds of processor time that they have used."""
        return sum(map(cpu_s, self.pids))


@asynccontextmanager
async def open_spread() -> AsyncIterator[SpreadDaemons]:
    """Run the daemons for the length of a block; `spread.daemon()` is their program.

    Raises:
        GroupCommError: they do not start, or do not find each other.
    """
    ports = free_ports("127.0.0.1", COUNT)
    places = [(f"n{at}", f"127.0.0.{at}", port) for at, port in enumerate(ports, 1)]
    with TemporaryDirectory(prefix="groupcomm-") as name:
        folder = Path(name)
        file = folder / "spread.conf"
        segments = [f"Spread_Segment {ip}:{port} {{\n  {n} {ip}\n}}\n" for n, ip, port in places]
        file.write_text("".join(segments) + spread.SETTINGS.format(folder=folder))
        logs = [folder / f"{n}.log" for n, _, _ in places]
        async with AsyncExitStack() as stack:
            found = SpreadDaemons([f"/tmp/{port}" for _, _, port in places], [])
            for (n, _, port), log in zip(places, logs, strict=True):
                command = ("stdbuf", "--output=L", spread.daemon(), "-n", n, "-c", str(file))
                stack.callback(Path(f"/tmp/{port}").unlink, missing_ok=True)
                found.pids.append(
                    await stack.enter_async_context(open_server(command, log, log.exists))
                )
            await until(
                "Spread's daemons find each other",
                lambda: all(spread.members(log) == COUNT for log in logs),
            )
            yield found
