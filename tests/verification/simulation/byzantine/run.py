"""A run in which daemons of the cluster lie, and the requirements on the others.

1. The liars lie under load, with other faults. None of the other daemons may end.
2. The liars are dead, cut off, or started anew without lies. The others form one view again.
3. All programs leave. Then every daemon is alone for a moment, so that nothing is left of views
    with a liar; they form one view, new programs connect, and all properties are checked as usual.
"""

from collections.abc import Callable
from typing import Final

from groupcomm.sim.settings import reachable_core
from groupcomm.sim.virtual_time import SECOND, microseconds, random_for
from groupcomm.sim.workload import Storm, Workload
from groupcomm.trace.events import Heal
from tests.verification.simulation.byzantine.liar import Liar
from tests.verification.simulation.byzantine.survivors import Survivors
from tests.verification.simulation.cluster import VerificationCluster
from tests.verification.simulation.host import VerificationHost

SLICE_S: Final = 0.1

TOGETHER_LIMIT_S: Final = 90.0
"""The time in which survivors must form one view: longer than a daemon can be left out."""

GONE_LIMIT_S: Final = 10.0
"""The time after which programs that said goodbye are gone everywhere."""

ALONE_LIMIT_S: Final = 10.0
AFTER_S: Final = 2.0
SILENCE_S: Final = 0.4


class Byzantine:
    """The steps of one run with liars.

    Args:
        cluster: the cluster, not started yet.
        workload: its programs.
        check: the checks of the daemons that do not lie.
    """

    def __init__(self, cluster: VerificationCluster, workload: Workload, check: Survivors) -> None:
        self._cluster = cluster
        self._workload = workload
        self._check = check
        settings = cluster.settings
        self._rng = random_for(settings.seed, "byzantine")
        check.spare(cluster.daemons[index].name for index in settings.liars)
        self._liars = [self._make_liar(cluster.daemons[index]) for index in settings.liars]

    def _make_liar(self, host: VerificationHost) -> Liar:
        cluster = self._cluster
        others = [other for other in cluster.daemons if other is not host]
        liar = Liar(
            cluster.loop,
            random_for(cluster.settings.seed, f"liar {host.index}"),
            cluster.settings.lying,
            [other.name for other in others],
            [other.name for other in others if other.site == host.site],
        )
        host.corrupt = liar.corrupt
        return liar

    def play(self) -> None:
        """Run all steps, or up to the first finding."""
        steps = (self._lie, self._end_lies, self._empty, self._part, self._go_on)
        for step in steps:
            step()
            if self._check.violations:
                return

    # ---- the liars ----

    def _lie(self) -> None:
        cluster, settings = self._cluster, self._cluster.settings
        cluster.start(form=False)
        self._workload.start()
        storm: Storm | None = None
        if settings.faults.storm:
            storm = Storm(cluster.loop, random_for(settings.seed, "storm"), self._workload)
        end = cluster.loop.now + microseconds(settings.duration_s)
        while cluster.loop.now < end and not self._check.violations:
            cluster.run(min(SLICE_S, (end - cluster.loop.now) / SECOND))
        if storm is not None:
            storm.stop()
        self._workload.stop()

    def _end_lies(self) -> None:
        """End the lies: liars are gone for good, or started anew; the others form a view."""
        cluster, settings = self._cluster, self._cluster.settings
        core = list(settings.core)
        for liar, index in zip(self._liars, settings.liars, strict=True):
            liar.stop()
            if self._rng.random() < 0.4:
                host = cluster.daemons[index]
                host.kill()
                host.corrupt = None
                core.append(index)
        cluster.heal(reachable_core(tuple(core), settings.sites, settings.links))
        self._await(
            lambda: cluster.agree(cluster.core),
            TOGETHER_LIMIT_S,
            "B2",
            "the daemons that do not lie do not agree on a view within the limit",
        )

    def _await(
        self, there: Callable[[], bool], limit_s: float, property_id: str, text: str
    ) -> None:
        cluster = self._cluster
        until = cluster.loop.now + microseconds(limit_s)
        while not there():
            if cluster.loop.now >= until:
                self._check.find(property_id, f"{text} ({limit_s:.0f} s)")
                return
            cluster.run(SLICE_S)

    # ---- a new beginning ----

    @property
    def _core(self) -> list[VerificationHost]:
        return [self._cluster.daemons[index] for index in self._cluster.core]

    def _empty(self) -> None:
        """Have all programs leave until no daemon knows of any program."""
        for client in self._cluster.clients:
            if client.alive and client.connected:
                client.disconnect()
            elif client.alive:
                client.crash()
        self._await(
            self._are_empty,
            GONE_LIMIT_S,
            "B3",
            "programs that have left are still known to daemons",
        )

    def _are_empty(self) -> bool:
        cluster = self._cluster
        return cluster.agree(cluster.core) and all(_is_empty(host) for host in self._core)

    def _part(self) -> None:
        """Isolate every daemon for a moment; from then on all properties are checked."""
        cluster = self._cluster
        pairs = [(a, b) for a in cluster.core for b in cluster.core if a != b]
        processes = [host.process for host in self._core]
        self._check.begin_anew(
            (process.name, process.restarts) for process in processes if process is not None
        )
        cluster.network.cut(pairs)
        if not pairs:  # the daemon is alone already: only a new start resets it
            host = self._core[0]
            host.kill()
            host.boot()
        self._await(
            lambda: all(host.is_up and cluster.agree([host.index]) for host in self._core),
            ALONE_LIMIT_S,
            "B2",
            "a daemon that is cut off does not install a view of its own",
        )
        cluster.network.mend(pairs)
        names = [host.process.name for host in self._core if host.process is not None]
        cluster.record(Heal(cluster.loop.now, tuple(names)))

    def _go_on(self) -> None:
        """Connect new programs."""
        cluster, workload = self._cluster, self._workload
        workload.start()
        cluster.run(AFTER_S)
        workload.stop()
        cluster.run(SILENCE_S)
        workload.send_something()
        cluster.settle()


def _is_empty(host: VerificationHost) -> bool:
    operation = host.core.view_state
    return operation is not None and not operation.delivery.groups.table.sessions
