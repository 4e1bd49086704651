"""The start of a peer's parts: its servers, and command lines of its programs."""

import importlib.util
import json
import secrets
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import cattrs
import trio

from groupcomm.errors import GroupCommError
from groupcomm_tools.bench.plan import Plan
from groupcomm_tools.bench.runs import Command
from tests.verification.campaigns.peers.program import COUNTER_BYTES

START_S: Final = 15.0


@attrs.frozen
class Programs:
    """Makes command lines of the programs of a peer.

    Attributes:
        module: the module that has the peer's client as `CLIENT`.
        addresses: the addresses of servers; receivers are spread over them in turn, the sender is
            at the first.
        folder: the folder of files that the programs share.
        prefixes: the prefixes of command lines, one a server, for programs that run in a place of
            their own.
    """

    module: str
    addresses: Sequence[str]
    folder: Path
    prefixes: Sequence[Command] = ()

    def __call__(self, plan: Plan) -> tuple[list[Command], list[Command]]:
        """Return the command lines of the receivers, and of the sender."""
        counters = self.folder / f"counters-{secrets.token_hex(4)}"
        counters.write_bytes(bytes(COUNTER_BYTES * plan.receivers))
        receivers = [
            self._command("receiver", index, counters, plan) for index in range(plan.receivers)
        ]
        return receivers, [self._command("sender", 0, counters, plan)]

    def _command(self, role: str, index: int, counters: Path, plan: Plan) -> Command:
        at = index % len(self.addresses)
        prefix = self.prefixes[at] if self.prefixes else ()
        return [*prefix, *self.words(role, self.addresses[at], index, counters, plan)]

    def words(self, role: str, address: str, index: int, counters: Path, plan: Plan) -> Command:
        """Return the command line of one program, without its prefix."""
        return [
            *(sys.executable, "-m", "tests.verification.campaigns.peers.program"),
            *(role, self.module, address, str(index)),
            *(str(counters), json.dumps(cattrs.unstructure(plan))),
        ]


@asynccontextmanager
async def open_server(
    command: Command, log: Path, listens: Callable[[], bool]
) -> AsyncIterator[int]:
    """Yield a server, killed at the end of the block.

    Args:
        command: the command that starts it.
        log: the file to which its output is appended.
        listens: returns whether it is ready.

    Raises:
        GroupCommError: it ends instead, or takes too long.
    """
    with log.open("ab") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        with trio.move_on_after(START_S) as patience:
            while not listens() and process.poll() is None:
                await trio.sleep(0.01)
        if patience.cancelled_caught or process.poll() is not None:
            raise GroupCommError(f"{' '.join(command)} does not start: {last_words(log)}")
        yield process.pid
    finally:
        process.kill()
        process.wait()


def last_words(log: Path) -> str:
    """Return the last line of a log."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it says nothing"


def not_installed(packages: Sequence[str], modules: Sequence[str] = ()) -> str:
    """Return the remedy for missing parts, empty if there are none.

    Args:
        packages: the missing packages of Debian.
        modules: the missing modules of Python, by the names in imports.
    """
    advice = []
    if packages:
        advice.append(f"apt-get install {' '.join(packages)} (as root)")
    if any(importlib.util.find_spec(module) is None for module in modules):
        advice.append("pip install --editable '.[peers]'")
    return f"not installed; {', '.join(advice)}" if advice else ""


def packages_of(**commands: str) -> list[str]:
    """Return the packages of missing commands; commands by their packages, - written as _."""
    return [
        package.replace("_", "-")
        for package, command in commands.items()
        if shutil.which(command) is None
    ]
