"""Daemons as processes on this host, in a folder that is removed afterwards."""

import errno
import json
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import trio

from groupcomm.errors import GroupCommError
from groupcomm.host.addresses import DEFAULT_HOST
from groupcomm.host.key_file import write_key_file
from groupcomm.host.private_files import write_new
from groupcomm_tools.warm_start import ForkedProcess, start_warm

START_S = 15.0
LEAVE_S = 10.0
"""Longer than leaving takes, unless a configuration says otherwise."""
_KEY = "cluster.key"
_PORTS = range(10_000, 30_000)
"""Below the ports that Linux gives to connections (ip(7): ip_local_port_range)."""


class ClusterError(GroupCommError):
    """A daemon does not start, or does not do its work; the text ends with the daemon's log."""


class LocalDaemon:
    """One daemon; it can be started again after its end.

    Attributes:
        name: name of the daemon.
        unix: path of the socket where its clients connect.
        log: path of its log, JSON lines.
        state: path of its state folder.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        config: Path,
        options: Sequence[str],
        *,
        prefix: Sequence[str] = (),
    ) -> None:
        """Prepare a daemon that does not run yet; `prefix` begins a command line that runs it
        elsewhere.
        """
        self.name = name
        self._options = options
        self._prefix = prefix
        self.unix = folder / f"{name}.sock"
        self.log = folder / f"{name}.log"
        self._ports = folder / f"{name}.ports"
        self.state = folder / f"{name}.state"
        self._config = config
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self._log_bytes = 0  # the bytes that earlier starts have logged

    def with_config(self, config: Path) -> "LocalDaemon":
        """Return the same daemon with another configuration, to be started in its place."""
        return LocalDaemon(self.unix.parent, self.name, config, self._options, prefix=self._prefix)

    async def start(self, within_s: float = START_S) -> None:
        """Start the daemon; return once it listens.

        Args:
            within_s: the time that this may take, in seconds.

        Raises:
            ClusterError: it ends, or does not listen in time.
        """
        self._ports.unlink(missing_ok=True)
        self._log_bytes = self.log.stat().st_size if self.log.exists() else 0
        arguments = [
            *("--name", self.name),  # first, so that ps shows it
            *("--config", str(self._config), "--unix", str(self.unix)),
            *("--state-dir", str(self.state), "--ports-file", str(self._ports), "--json-log"),
            *self._options,
        ]
        with self.log.open("ab") as log:
            if self._prefix:
                command = [*self._prefix, sys.executable, "-m", "groupcommd", *arguments]
                self._process = subprocess.Popen(command, stderr=log)
            else:
                self._process = start_warm("groupcommd.cli", arguments, stderr=log.fileno())
        with trio.move_on_after(within_s):
            while self._process.poll() is None:
                if self._ports.exists():
                    return
                await trio.sleep(0.005)
        raise ClusterError(f"daemon {self.name} does not start: {self.last_words}")

    @property
    def tcp(self) -> str:
        """Return the address at which it listens for programs on TCP, if it does: ``host:port``."""
        return str(json.loads(self._ports.read_text())["tcp"])

    @property
    def spread(self) -> Path:
        """Return the path of the unix socket for clients of Spread."""
        return Path(json.loads(self._ports.read_text())["spread_unix"])

    @property
    def spread_tcp(self) -> str:
        """Return the address for clients of Spread on TCP, if it listens there: ``host:port``."""
        return str(json.loads(self._ports.read_text())["spread_tcp"])

    @property
    def tls(self) -> str:
        """Return the address at which it listens for programs on TLS, if it does."""
        return str(json.loads(self._ports.read_text())["tls"])

    @property
    def http(self) -> str:
        """Return the address at which it answers HTTP, if it does: ``host:port`` or
        ``unix:PATH``."""
        return str(json.loads(self._ports.read_text())["http"])

    @property
    def pid(self) -> int:
        """Return the process number."""
        assert self._process is not None
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send its process a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once, as by ``kill -9``."""
        self.signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    async def leave(self) -> int:
        """Have it leave in order; return its exit status, -9 if it had to be killed."""
        self.signal(signal.SIGTERM)
        return await self.ended()

    async def ended(self) -> int:
        """Wait for its end; return its exit status, -9 if it does not end by itself."""
        assert self._process is not None
        with trio.move_on_after(LEAVE_S):
            while self.running:
                await trio.sleep(0.005)
        if self.running:
            self.kill()
        return self._process.wait()

    @property
    def running(self) -> bool:
        """Return whether its process is alive."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End the daemon if it runs."""
        if self.running:
            self.kill()

    @property
    def view(self) -> tuple[str, tuple[str, ...]]:
        """Id and sorted daemons of the last view that it has logged since its start."""
        for line in reversed(self._lines(self._log_bytes)):
            if "daemons" in line:
                return line["view"], tuple(line["daemons"])
        return "", ()

    def lines(self) -> list[dict[str, Any]]:
        """Return its log since its first start."""
        return self._lines(0)

    def _lines(self, begin: int) -> list[dict[str, Any]]:
        text = self.log.read_bytes()[begin:] if self.log.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]  # the last line may be incomplete
        return [json.loads(line) for line in whole.splitlines() if line.startswith(b"{")]

    @property
    def last_words(self) -> str:
        """Return the last line of its log."""
        text = self.log.read_text().strip() if self.log.exists() else ""
        return text.splitlines()[-1] if text else "its log is empty"


class LocalCluster:
    """Daemons that know each other; all end with the block.

    Attributes:
        daemons: daemons by name.
        folder: folder of all files that they write.
    """

    def __init__(
        self,
        names: Sequence[str],
        settings: str = "",
        *,
        clients: str = "",
        options: Sequence[str] = (),
        tcp: bool = False,
        sites: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Choose ports and write the configuration; nothing is started yet.

        Args:
            names: names of the daemons.
            settings: TOML for the head of their configuration; with neither a key file nor
                ``insecure`` they get a key of their own.
            clients: TOML for its table of this name.
            options: options for the command line of each.
            tcp: whether they listen for programs on TCP, too.
            sites: the same names by site; all in one if there is none. See topology.py.
        """
        self._temporary = tempfile.TemporaryDirectory(prefix="groupcomm-")
        self.folder = Path(self._temporary.name)
        # All of 127/8 is this host: with a random address a free port can be chosen safely.
        host = ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(3))])
        ports = dict(zip(names, free_ports(host, len(names)), strict=True))
        if not any(key in settings for key in ("key_file", "insecure")):
            write_key_file(self.folder / _KEY)
            settings = f'key_file = "{self.folder / _KEY}"\n{settings}'
        lines = []
        for site, members in (sites or {"main": names}).items():
            lines.append(f"[sites.{site}.daemons]")
            lines += [f'{name} = "{host}:{ports[name]}"' for name in members]
        self.config = self.folder / "cluster.toml"
        if "spread_unix" not in clients:
            clients = f'spread_unix = "{self.folder}"\n{clients}'
        if tcp:
            clients = f'tcp = "on"\n{clients}'
        write_new(self.config, "\n".join([settings, *lines, "[clients]", clients, ""]))
        self.daemons = {
            name: LocalDaemon(self.folder, name, self.config, options) for name in names
        }

    async def __aenter__(self) -> Self:
        try:
            async with trio.open_nursery() as nursery:
                for daemon in self.daemons.values():
                    nursery.start_soon(daemon.start)
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all daemons, and remove their files."""
        for daemon in self.daemons.values():
            daemon.stop()
        self._temporary.cleanup()

    def __getitem__(self, name: str) -> LocalDaemon:
        return self.daemons[name]

    async def settle(self, names: Sequence[str], within_s: float = START_S) -> None:
        """Wait until these daemons have logged one view of exactly them.

        Args:
            names: the daemons.
            within_s: the time that this may take, in seconds.

        Raises:
            ClusterError: a daemon has ended, or they do not find each other in time.
        """
        wanted, late = tuple(sorted(names)), ""
        with trio.move_on_after(within_s):
            while late := self._late(wanted):
                if not self[late].running:
                    raise ClusterError(f"daemon {late} has ended: {self[late].last_words}")
                await trio.sleep(0.01)
        if late:
            raise ClusterError(
                f"daemon {late} is not in one view with {', '.join(wanted)} after {within_s:g} s:"
                f" {self[late].last_words}"
            )

    def _late(self, wanted: tuple[str, ...]) -> str:
        """Return the first of these daemons that is not in one view with exactly the others; else
        "".
        """
        first = self[wanted[0]].view if wanted else ("", ())
        for name in wanted:
            view = self[name].view
            if view != first or view[1] != wanted:
                return name
        return ""


def free_ports(host: str, count: int) -> list[int]:
    """Return ports of an address of this host that nobody uses at this moment, for UDP and TCP.

    None of them is a port that the kernel gives to connections; otherwise a connection could have a
    port before the daemon listens there. TCP is also tested on 127.0.0.1, where a daemon whose
    configuration says ``tcp = "on"`` listens for programs.
    """
    found: list[int] = []
    while len(found) < count:
        port = _PORTS.start + secrets.randbelow(len(_PORTS))
        if port not in found and _is_free(host, port):
            found.append(port)
    return found


def _is_free(host: str, port: int) -> bool:
    udp, tcp = socket.SOCK_DGRAM, socket.SOCK_STREAM
    for address, kind in ((host, udp), (host, tcp), (DEFAULT_HOST, tcp)):
        with socket.socket(socket.AF_INET, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, kind == tcp)
            try:
                probe.bind((address, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                return False
    return True


async def lines_of(stream: trio.abc.ReceiveStream) -> AsyncIterator[bytes]:
    """Yield the lines of a stream without their ends; leave out an incomplete last line."""
    rest = b""
    async for chunk in stream:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
