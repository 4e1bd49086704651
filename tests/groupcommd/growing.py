"""Daemons of this host whose files list only some of the others, and the commands that add more."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from groupcomm_tools.local_cluster import LocalCluster, LocalDaemon
from tests.groupcommd.hosts import run

TIMING = "[timing]\ntoken_timeout_s = 2.0\n"
"""A busy machine changes no view."""


class GrowingCluster(LocalCluster):
    """Daemons that do not run yet, each with a file of its own.

    Args:
        lists: the names of the daemons in the file of each daemon, by its name.
        settings: TOML for the head of the files.

    Attributes:
        at: the address of each daemon.
    """

    def __init__(self, lists: Mapping[str, Sequence[str]], settings: str = "") -> None:
        super().__init__(list(lists), settings)
        table = tomllib.loads(self.config.read_text())
        self.at: dict[str, str] = table["sites"]["main"]["daemons"]
        text = self.config.read_text().replace("[clients]", f"{TIMING}\n[clients]")
        for name, listed in lists.items():
            path = self.folder / f"{name}.toml"
            rows = [
                line
                for line in text.splitlines()
                if line.partition(" = ")[0] not in self.at or line.partition(" = ")[0] in listed
            ]
            path.write_text("\n".join(rows))
            self[name]._config = path

    async def ask(self, *arguments: object, through: str) -> tuple[int, str, str]:
        """Run `groupcomm daemons`; return the exit status, the output and the messages."""
        return await run("daemons", *arguments, "--through", self[through].unix)

    async def status(self, name: str) -> dict[str, Any]:
        """Return the status of a daemon."""
        status, output, told = await run("status", "--json", "--address", self[name].unix)
        assert status == 0, told
        found: dict[str, Any] = json.loads(output)
        return found

    async def roster(self, through: str) -> dict[str, Any]:
        """Return the roster that a daemon uses."""
        status, output, _ = await self.ask("list", "--json", through=through)
        assert status == 0
        found: dict[str, Any] = json.loads(output)
        return found


def log_of(daemon: LocalDaemon, part: str) -> list[str]:
    """Return the lines of a daemon's log with this part."""
    return [line["text"] for line in daemon.lines() if part in line["text"]]
