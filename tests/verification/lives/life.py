"""One life: episodes of faults and load, a rest after each with all checks, and quiet in between.

The checkers and the specification see every event of the whole life. At each rest all daemons run
and hear each other, so that nothing may be missing then; and the tables of the daemons are
measured, as none may have grown.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

import attrs

from groupcomm.sim.checkers import Checkers
from groupcomm.sim.cluster.cluster import NoAgreement
from groupcomm.sim.cluster.disk import Damage
from groupcomm.sim.cluster.host import SimulatedHost
from groupcomm.sim.cluster.process import CoreFailure
from groupcomm.sim.faults.faults import names_of
from groupcomm.sim.faults.partitions import draw_partition
from groupcomm.sim.network.network import Pair
from groupcomm.sim.run import Finding, Recorder, make_workload
from groupcomm.sim.virtual_time import SECOND, microseconds, random_for
from groupcomm.sim.workload import SEND_INTERVAL_US, Storm
from groupcomm.trace.events import Quiet, TraceEvent
from tests.verification.lives.draws import (
    ABSENT_SHARE,
    APART_SHARE,
    HOUR_S,
    MOST_WORDS,
    Episode,
    LifeOptions,
    draw_episode,
    draw_life,
    draw_quiet_s,
)
from tests.verification.lives.sizes import growing, sizes_of
from tests.verification.simulation.cluster import VerificationCluster
from tests.verification.simulation.rough_programs import RoughPrograms
from tests.verification.simulation.settings import VerificationSettings
from tests.verification.specification.refinement import Refinement

ELDER: Final = 0
"""The host whose daemon is never killed by a fault: it lives as long as the cluster."""

MOST_EPISODES: Final = 10**9

SLICE_S: Final = 1.0
"""The simulated time between two looks for findings."""

WARM_UP_S: Final = 2.0
AFTER_S: Final = 1.5
SILENCE_S: Final = 1.0
"""The times of load before and after the faults, and of silence under faults, at pace 1."""

AGREEMENT_S: Final = 3.0
"""The time after all faults in which the daemons have to agree on a view (L1), at pace 1."""

UPGRADE_S: Final = 2.0
"""The time between two restarts while a daemon is away, at pace 1: a view forms in between."""

SETTLE_LIMIT_S: Final = 60.0
"""The time after which a cluster that does not come to rest is checked all the same, at pace 1."""


@attrs.define(kw_only=True)
class LifeResult:
    """What happened in one life.

    Attributes:
        settings: the drawn settings.
        findings: the properties that do not hold, as in `RunResult`; ``growth`` for a table of a
            daemon that grows.
        last_events: the end of the trace, if there are findings.
        trace_hash: the digest of the trace as JSON lines, in hexadecimal.
        simulated_s: the simulated time; quiet_s: the part of it without load and faults, except
            absent daemons and partitions.
        events, sent, deliveries, views, actions: as in `RunResult`.
        starts: the number of starts of daemons.
        episodes: the number of episodes; rests: that of moments at which nothing may be missing.
        last_episode: the number of the last episode.
        faults: the number of faults by name. Faults of single datagrams, slow steps and storms
            count once for each episode.
        sizes: the entries of all tables of the elder at its rests.
    """

    settings: VerificationSettings
    findings: tuple[Finding, ...] = ()
    last_events: tuple[TraceEvent, ...] = ()
    trace_hash: str = ""
    simulated_s: float = 0.0
    quiet_s: float = 0.0
    events: int = 0
    sent: int = 0
    deliveries: int = 0
    views: int = 0
    actions: int = 0
    starts: int = 0
    episodes: int = 0
    rests: int = 0
    last_episode: int = 0
    faults: Counter[str] = attrs.field(factory=Counter)
    sizes: list[int] = attrs.field(factory=list)


class _Over(Exception):
    """Raised to end a life at its first finding."""


class Life:
    """One life; see `live`."""

    def __init__(
        self,
        seed: int,
        options: LifeOptions,
        write: Callable[[bytes], object] | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        settings = draw_life(seed, options)
        self._options = options
        self._is_over = is_over
        self._pace = options.pace
        self._checkers = Checkers()
        self._refinement = Refinement()
        self._recorder = Recorder(self._check, write)
        self._result = LifeResult(settings=settings, last_episode=options.first)
        self._findings: list[Finding] = []
        self._cluster = VerificationCluster(
            settings, self._recorder.record, start=False, observer=self._refinement
        )
        self._workload = make_workload(self._cluster)
        self._workload.interval_us = round(SEND_INTERVAL_US * self._pace)
        self._until = microseconds(options.hours * HOUR_S)
        self._tables: dict[str, list[Counter[str]]] = {}  # by daemon, at its rests

    def _check(self, event: object) -> None:
        self._checkers.feed(event)  # type: ignore[arg-type]
        self._refinement.feed(event)  # type: ignore[arg-type]

    # ---- the course of a life ----

    def run(self) -> LifeResult:
        """Live, and return what happened; stop at the first finding."""
        cluster, number = self._cluster, self._options.first
        last = number + MOST_EPISODES if self._options.last is None else self._options.last
        try:
            cluster.start(faults=False)
            self._workload.start()
            self._run(WARM_UP_S)
            self._workload.stop()
            while cluster.loop.now < self._until and number <= last and not self._is_over():
                self._result.last_episode = number
                self._play(draw_episode(cluster.settings, number), number)
                self._be_quiet(number)
                number += 1
            self._rest(loaded=False)
            cluster.record(Quiet(cluster.loop.now))
            self._checkers.finish()
        except _Over:
            pass
        except CoreFailure as failure:
            self._find("assert", str(failure))
        except NoAgreement as found:
            self._find(found.property, str(found))
        except AssertionError as error:  # raised by a client's session
            self._find("assert", str(CoreFailure("client", error)))
        return self._finish()

    def _play(self, episode: Episode, number: int) -> None:
        """Have load and faults, then a rest."""
        cluster, workload, part = self._cluster, self._workload, f" {number}"
        settings = episode.settings
        if episode.load:
            workload.interval_us = round(
                SEND_INTERVAL_US * self._pace * (2 if settings.faults.storm else 1)
            )
            workload.start()
            self._run(WARM_UP_S * self._pace)
        counts = cluster.begin_faults(settings, part, spared=(ELDER,))
        storm = rough = None
        seed = settings.seed
        if settings.faults.storm and episode.load:
            storm = Storm(cluster.loop, random_for(seed, f"storm{part}"), workload)
        if settings.targets:
            rng = random_for(seed, f"rough programs{part}")
            rough = RoughPrograms(cluster.loop, rng, cluster.connect, cluster.up)
        try:
            self._run(episode.lasts_s)
        finally:
            self._count(settings, counts, loaded=episode.load)
        for each in (storm, rough):
            if each is not None:
                each.stop()
        if episode.silence:
            workload.stop()
            self._run(SILENCE_S * self._pace)
            workload.send_something()
        self._rest(loaded=episode.load and not episode.silence)

    def _rest(self, *, loaded: bool) -> None:
        """End all faults and all load, and check that the daemons agree and nothing is missing."""
        cluster, workload, pace = self._cluster, self._workload, self._pace
        cluster.rest()
        agrees_by = cluster.loop.now + microseconds(AGREEMENT_S * pace)
        while not cluster.agree(cluster.core):
            if cluster.loop.now >= agrees_by:
                self._find("L1", "the daemons do not agree on a view after all faults")
                raise _Over
            self._run(0.1)
        if loaded:
            self._run(AFTER_S * pace)
            workload.stop()
        workload.send_something()
        if not cluster.come_to_rest(SETTLE_LIMIT_S * pace):
            self._find("L1", "the cluster does not come to rest after all faults")
            raise _Over
        self._result.rests += 1
        self._checkers.rest(cluster.end_of_events())
        self._stop_if_found()
        self._measure()
        cluster.clients[:] = [client for client in cluster.clients if client.alive]

    def _be_quiet(self, number: int) -> None:
        """Let hours pass; a daemon may be down, sites may not hear each other, little is said."""
        cluster, now = self._cluster, self._cluster.loop.now
        rng = random_for(cluster.settings.seed, f"quiet {number}")
        lasts_s = min(draw_quiet_s(rng), max(0.0, (self._until - now) / SECOND))
        others = [host for host in cluster.daemons if host.index != ELDER and host.is_up]
        away = rng.choice(others) if others and rng.random() < ABSENT_SHARE else None
        if away is not None:
            self._result.faults["absence"] += 1
            if rng.random() < 0.5 and away.process is not None:
                away.process.leave()
            else:
                away.kill()
            self._upgrade_others(away, rng)
        sites = [host.site for host in cluster.daemons]
        parted: tuple[Pair, ...] = ()
        if len(sites) > 1 and rng.random() < APART_SHARE:
            self._result.faults["long partition"] += 1
            parted = draw_partition(rng, sites)
            cluster.network.cut(parted)
        moments = sorted(rng.random() * lasts_s for _ in range(rng.randint(0, MOST_WORDS)))
        for begin, end in zip((0.0, *moments), (*moments, lasts_s), strict=True):
            self._run(end - begin)
            self._workload.send_something()
        self._result.quiet_s += lasts_s
        cluster.network.mend(parted)
        for host in cluster.daemons:
            host.boot()

    def _upgrade_others(self, away: SimulatedHost, rng: Random) -> None:
        """Restart some of the others, one by one, while a daemon is away; its disk may be lost or
        old when it comes back."""
        cluster, faults = self._cluster, self._cluster.settings.faults
        self._run(UPGRADE_S * self._pace)
        others = [host for host in cluster.daemons if host not in (away, cluster.daemons[ELDER])]
        for host in rng.sample(others, rng.randint(0, len(others))):
            if host.is_up:
                host.kill()
                host.boot()
                self._run(UPGRADE_S * self._pace)
        # Where a clock may be behind, no clock shows that a disk has lost something.
        if not (faults.clock_rate or faults.frozen_s) and away.is_idle and rng.random() < 0.5:
            self._result.faults["disk of an absent daemon"] += 1
            away.damage_disk(rng.choice(tuple(Damage)))

    def _run(self, seconds: float) -> None:
        cluster, end = self._cluster, self._cluster.loop.now + microseconds(seconds)
        while cluster.loop.now < end:
            cluster.run(min(SLICE_S * self._pace, (end - cluster.loop.now) / SECOND))
            self._stop_if_found()

    # ---- what is found ----

    def _stop_if_found(self) -> None:
        watched = (
            self._checkers,
            self._refinement,
            self._cluster.roster_checker,
            self._cluster.version_checker,
        )
        if any(each.violations for each in watched):
            raise _Over

    def _find(self, name: str, text: str) -> None:
        self._findings.append(Finding(property=name, text=text))

    def _count(self, settings: VerificationSettings, counts: Counter[str], *, loaded: bool) -> None:
        result = self._result
        result.episodes += 1
        result.faults += counts
        lasting = set(names_of(settings.faults)) & LASTING
        result.faults.update(lasting if loaded else lasting - {"storm"})

    def _measure(self) -> None:
        """Measure the tables of all daemons; of a daemon that has restarted, anew."""
        for host in self._cluster.daemons:
            process = host.process
            if process is None:
                continue
            samples = self._tables.setdefault(process.name, [])
            samples.append(sizes_of(process.core))
            if host.index == ELDER:
                self._result.sizes.append(sum(samples[-1].values()))
        running = {host.process.name for host in self._cluster.daemons if host.process is not None}
        for gone in self._tables.keys() - running:
            self._find_growth(gone, self._tables.pop(gone))

    def _find_growth(self, daemon: str, samples: list[Counter[str]]) -> None:
        for table, (early, late) in growing(samples).items():
            text = f"{daemon}: {table} has {late} entries at rest, and had {early} earlier"
            self._find("growth", f"{text} in its life, over {len(samples)} rests")

    def _finish(self) -> LifeResult:
        cluster, result, checkers = self._cluster, self._result, self._checkers
        for daemon, samples in self._tables.items():
            self._find_growth(daemon, samples)
        if cluster.settings.rosters:
            hosts = [cluster.daemons[index] for index in cluster.core]
            cluster.roster_checker.finish(
                [(host.name, host.core.config.roster) for host in hosts if host.process is not None]
                if not self._findings
                else (),
            )
        found = [*cluster.roster_checker.violations]
        if cluster.settings.versions:
            found += cluster.version_checker.violations
        found += [*checkers.violations, *self._refinement.violations]
        self._findings += [
            Finding(property=each.property, text=each.text, evidence=each.events) for each in found
        ]
        result.findings = tuple(self._findings)
        recorder = self._recorder
        result.trace_hash = recorder.trace_hash()
        result.events, result.deliveries = recorder.events, recorder.deliveries
        result.views, result.sent = len(recorder.views), self._workload.sent
        result.actions = self._refinement.actions
        result.simulated_s = cluster.loop.now / SECOND
        result.starts = sum(host.starts for host in cluster.daemons)
        if result.findings:
            result.last_events = tuple(recorder.last_events())
        return result


LASTING: Final = frozenset(
    {
        "loss",
        "burst",
        "duplication",
        "reorder",
        "corruption",
        "capacity",
        "slow",
        "delay",
        "counters",
        "storm",
        "attacker",
        "link-loss",
        "link-jitter",
        "bandwidth",
    }
)
"""The faults that last for an episode, or for a whole life."""


def live(
    seed: int,
    options: LifeOptions,
    write: Callable[[bytes], object] | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> LifeResult:
    """Live the life of one seed; the same seed and options always give an equal result.

    Args:
        seed: the seed of all random choices.
        options: the settings that are fixed, not drawn.
        write: accepts the trace as JSON lines, some at a time.
        is_over: asked after each quiet time; True ends the life there, with all checks.
    """
    return Life(seed, options, write, is_over).run()
