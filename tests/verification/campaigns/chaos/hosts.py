"""Hosts of the campaign: each has a clock and a disk that can be made wrong while processes run.

The clock is that of Debian's faketime, and only the wall clock: monotonic clocks do not jump, and
the traces of all processes share theirs. The disk is that of tests/groupcommd/sick_disk.
"""

import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from groupcomm_tools.local_cluster import LocalCluster, LocalDaemon

INSTALL: Final = "apt-get install faketime"
PAGE_BYTES: Final = resource.getpagesize()
SHARED: Final = Path("/dev/shm")
SICK_DISK: Final = Path(__file__).parents[3] / "groupcommd" / "sick_disk"
RIGHT: Final = "+0"


def find_faketime() -> Path | None:
    """Return the library that fakes clocks; None if it is not installed."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    return found[0] if found else None


class Host:
    """The files that make the clock and the disk of one host wrong."""

    def __init__(self, folder: Path, name: str, faketime: Path | None) -> None:
        self._clock = folder / f"{name}.clock"
        self._disk = folder / f"{name}.disk"
        self._faketime = faketime
        self.set_clock(RIGHT)

    @property
    def clock(self) -> tuple[str, ...]:
        """The beginning of the command line of each process, so that it reads the clock."""
        if self._faketime is None:
            return ("env",)
        return (
            "env",
            f"LD_PRELOAD={self._faketime}",
            f"FAKETIME_TIMESTAMP_FILE={self._clock}",
            "FAKETIME_CACHE_DURATION=1",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
            "DONT_FAKE_MONOTONIC=1",
        )

    @property
    def prefix(self) -> tuple[str, ...]:
        """The same for its daemon, which has the disk as well."""
        return (*self.clock, f"PYTHONPATH={SICK_DISK}", f"SICK_DISK={self._disk}")

    def set_clock(self, how: str) -> None:
        """Set the wall clock a time ahead or back (``+3d``, ``-60``), or have it stand still at one
        (``2020-01-01 00:00:00``); processes see that within a second."""
        new = self._clock.with_suffix(".new")
        new.write_text(how + "\n")
        new.rename(self._clock)

    def set_disk(self, how: str) -> None:
        """Have writes take seconds (``0.5``), hang (``hangs``) or fail (``full``); "": well."""
        self._disk.write_text(how)


def make_hosts(cluster: LocalCluster, options: Sequence[str]) -> dict[str, Host]:
    """Give each daemon of a cluster that does not run yet a host of its own."""
    faketime = find_faketime()
    hosts = {name: Host(cluster.folder, name, faketime) for name in cluster.daemons}
    for name, host in hosts.items():
        cluster.daemons[name] = LocalDaemon(
            cluster.folder, name, cluster.config, options, prefix=host.prefix
        )
    return hosts


def forget_clocks(pids: Sequence[int]) -> None:
    """Remove what killed processes with a false clock have left in memory."""
    for pid in pids:
        for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
            (SHARED / name).unlink(missing_ok=True)


# ---- limits of a process ----


def limit_descriptors(pid: int, more: int) -> tuple[int, int]:
    """Let a process open that many descriptors more; return the limit before."""
    numbers = [int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()]
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    return resource.prlimit(pid, resource.RLIMIT_NOFILE, (max(numbers) + 1 + more, hard))


def limit_memory(pid: int, spare: int) -> tuple[int, int]:
    """Let a process have that many bytes more; return the limit before."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
    return resource.prlimit(pid, resource.RLIMIT_AS, (pages * PAGE_BYTES + spare, hard))
