"""Real daemons for tests: processes on loopback, in a folder of their own."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from groupcomm_client.local_cluster import free_ports

PATIENCE_S = 20.0
"""For what takes some tens of milliseconds on a machine that has nothing else to do."""


class DaemonProcess:
    """One daemon of a cluster; it can be started again after its end.

    Attributes:
        name: of the daemon.
        unix: where its clients connect.
        process: of its last start.
    """

    def __init__(self, folder: Path, name: str, config: Path) -> None:
        self.name = name
        self.unix = folder / f"{name}.sock"
        self.log = folder / f"{name}.log"
        self.ports_file = folder / f"{name}.ports"
        self._folder = folder
        self._config = config
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        """Start it; returns once it listens."""
        self.ports_file.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "groupcommd", "--config", str(self._config)),
                    *("--name", self.name, "--unix", str(self.unix), "--json-log", *more),
                    *("--state-dir", str(self._folder / f"{self.name}.state")),
                    *("--ports-file", str(self.ports_file)),
                ],
                stderr=log,
            )
        wait_for(self.ports_file.exists, f"{self.name} listens", self)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it at once."""
        self.signal(signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """Wait for its end; its exit status."""
        assert self.process is not None
        return self.process.wait(PATIENCE_S)

    def lines(self) -> list[dict[str, Any]]:
        """What it has logged so far."""
        text = self.log.read_text() if self.log.exists() else ""
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def wait_for_view(self, names: str) -> None:
        """Wait until it has logged a view of these daemons."""
        wait_for(lambda: self.members == sorted(names), f"{names} in one view", self)

    @property
    def members(self) -> list[str]:
        """The daemons of the last view that it has logged."""
        views = [line["daemons"] for line in self.lines() if "daemons" in line]
        return views[-1] if views else []


class Daemons:
    """A cluster of daemons, one for each letter of `names`; all end with the block."""

    def __init__(self, folder: Path, names: str, clients: str = "") -> None:
        """Write their configuration; `clients` is TOML for its table of that name."""
        ports = free_ports(len(names))
        lines = ["[sites.main.daemons]"]
        lines += [f'{name} = "127.0.0.1:{port}"' for name, port in zip(names, ports, strict=True)]
        lines += ["[clients]", 'tcp = "off"', clients]
        config = folder / "cluster.toml"
        config.write_text("\n".join(lines) + "\n")
        self.config = config
        self.all = {name: DaemonProcess(folder, name, config) for name in names}

    def __getitem__(self, name: str) -> DaemonProcess:
        return self.all[name]

    def __enter__(self) -> Self:
        for daemon in self.all.values():
            daemon.start()
        self.settle("".join(self.all))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for daemon in self.all.values():
            if daemon.process is not None and daemon.process.poll() is None:
                daemon.process.kill()
                daemon.process.wait()

    def settle(self, names: str) -> None:
        """Wait until these daemons are in one view."""
        for daemon in map(self.all.__getitem__, names):
            daemon.wait_for_view(names)


def wait_for(what: Any, text: str, daemon: DaemonProcess) -> None:
    """Wait until something is so; fails with the daemon's log if it does not come."""
    end = time.monotonic() + PATIENCE_S
    while not what():
        log = daemon.log.read_text()[-4000:] if daemon.log.exists() else ""
        assert daemon.process is None or daemon.process.poll() is None, f"it has ended:\n{log}"
        assert time.monotonic() < end, f"not {text} after {PATIENCE_S:g} s:\n{log}"
        time.sleep(0.01)
