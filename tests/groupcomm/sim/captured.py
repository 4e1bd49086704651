"""All datagrams of a simulated cluster, to be sent once more; and the changes that this causes."""

from collections.abc import Iterable
from typing import Any, Final

import attrs

from groupcomm.config.core import Rekeying
from groupcomm.engine.protection import STALE
from groupcomm.security.layout import SUITE_AES_GCM
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.cluster.host import SimulatedHost
from groupcomm.sim.cluster.process import SimulatedProcess
from groupcomm.sim.settings import Settings

UNDER_WAY_US: Final = 200_000
"""After this time a datagram has arrived, on every path of these tests."""

_SKIPPED: Final = frozenset(
    {
        "_protection",
        "protection",
        "counters",
        "_counters",
        "datagrams",
        "_output",
        "probe",
        "_probe",
        "__weakref__",
    }
)
"""Parts of a core that may change: protection notes its challenges, drops are counted, and the
sender makes datagrams."""


def sealed_cluster(
    settings: Settings,
    rekeying: Rekeying | None = None,
    *,
    suite: int = SUITE_AES_GCM,
    start: bool = True,
) -> Cluster:
    """Return a cluster with keys that has formed, or is to be started."""
    cluster = Cluster(attrs.evolve(settings, suite=suite), start=False)
    if rekeying is not None:
        cluster.config = attrs.evolve(cluster.config, rekeying=rekeying)
    if start:
        cluster.start()
    return cluster


class Captured:
    """Hears everything on the network of a cluster.

    Attributes:
        sent: (time, source, target, datagram), in order.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.sent: list[tuple[int, int, int, bytes]] = []
        cluster.network.observers.append(self._observe)

    def _observe(self, source: int, target: int, datagram: bytes, goes_on: bool) -> None:
        if goes_on:
            self.sent.append((self._cluster.loop.now, source, target, datagram))

    def arrived(self, target: int, source: int | None = None) -> list[bytes]:
        """Return the datagrams that have surely come to a host so far, or those of one other
        host."""
        before = self._cluster.loop.now - UNDER_WAY_US
        return [
            datagram
            for at, who, whom, datagram in self.sent
            if at <= before and whom == target and source in (None, who)
        ]


def running(host: SimulatedHost) -> SimulatedProcess:
    """Return the daemon of a host."""
    assert host.process is not None
    return host.process


@attrs.frozen
class Effect:
    """The effects of datagrams that were given to a daemon at one moment.

    Attributes:
        rejected: the number of dropped datagrams, by reason.
        changed: the names of the changed parts of the core.
        said: the datagrams that it sent.
    """

    rejected: dict[str, int]
    changed: list[str]
    said: list[bytes]

    @property
    def stale(self) -> int:
        """Datagrams that were dropped although a daemon of the cluster has sealed them."""
        return sum(self.rejected.get(reason, 0) for reason in STALE)


def give(
    cluster: Cluster, captured: Captured, host: SimulatedHost, datagrams: Iterable[bytes]
) -> Effect:
    """Give datagrams to a daemon, in a step that has nothing else to do."""
    process = running(host)
    for _ in range(3):  # first, everything is done that is due
        process._handle([], [])
    before, rejected = _parts(process), process.core.counters.rejected.copy()
    said = len(captured.sent)
    process._handle(list(datagrams), [])
    after = _parts(process)
    return Effect(
        dict(process.core.counters.rejected - rejected),
        [name for name in before if before[name] != after[name]],
        [datagram for _, source, _, datagram in captured.sent[said:] if source == host.index],
    )


def _parts(process: SimulatedProcess) -> dict[str, Any]:
    core = process.core
    return {
        "membership": picture(core.membership),
        "view": picture(core.view_state),
        "sessions": picture(core.sessions),
        "clock": picture(core.physical),
    }


def picture(value: Any, seen: set[int] | None = None) -> Any:
    """Return everything that an object refers to, directly or not, as plain values that can be
    compared."""
    seen = set() if seen is None else seen
    if isinstance(value, int | float | str | bytes | None):
        return value
    if callable(value) or id(value) in seen:
        return type(value).__name__
    seen.add(id(value))
    if isinstance(value, dict):
        return [(picture(key, seen), picture(each, seen)) for key, each in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(repr(each) for each in value)
    if isinstance(value, memoryview):
        return bytes(value)
    if hasattr(value, "__iter__") and hasattr(value, "__len__"):
        return [picture(each, seen) for each in value]
    names = [*getattr(value, "__dict__", ())]
    for kind in type(value).__mro__:
        names += getattr(kind, "__slots__", ())
    return [(n, picture(getattr(value, n, None), seen)) for n in names if n not in _SKIPPED]
