"""One seed, one run: draw the settings, simulate load and faults, heal, and check.

A recorder keeps the last events, hashes the trace's JSON lines and feeds the checkers.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import attrs
import msgspec

from groupcomm.sim.checkers import Checkers
from groupcomm.sim.checkers.report import Violation
from groupcomm.sim.cluster.cluster import Act, Cluster, NoAgreement, sites_by_host
from groupcomm.sim.cluster.process import CoreFailure
from groupcomm.sim.settings import Options, Settings, draw_settings
from groupcomm.sim.vanishing import DAEMON_TIMEOUT_S, Vanishing
from groupcomm.sim.virtual_time import SECOND, microseconds, random_for
from groupcomm.sim.workload import (
    GROUPS,
    MOST_SENDS,
    SEND_INTERVAL_US,
    Connect,
    Halls,
    Storm,
    Workload,
)
from groupcomm.trace.events import Conf, Count, Deliver, Horizon, TraceEvent

BATCH = 512
_encode_lines = msgspec.json.Encoder().encode_lines
LAST_EVENTS = 30
REMEMBERED = 4096
"""The latest events that are kept; most events of an idle cluster are horizons."""


@attrs.define(eq=False, repr=False)
class Recorder:
    """A recorder of the events of one run in their order.

    Args:
        check: called with each event as it happens.
        write: called with the trace as JSON lines, some at a time; None to keep no trace.

    Attributes:
        events: the number of recorded events.
        deliveries: the number of deliveries to clients among them.
        views: the ids of all installed regular views.
    """

    _check: Callable[[TraceEvent], None]
    _write: Callable[[bytes], object] | None = None
    events: int = 0
    deliveries: int = 0
    views: set[str] = attrs.field(factory=set)
    _last: deque[TraceEvent] = attrs.field(factory=lambda: deque(maxlen=REMEMBERED))
    _batch: list[TraceEvent] = attrs.field(factory=list)
    _hash: hashlib.blake2b = attrs.field(factory=lambda: hashlib.blake2b(digest_size=16))

    def record(self, event: TraceEvent) -> None:
        """Record one event."""
        batch = self._batch
        batch.append(event)
        if len(batch) >= BATCH:
            self._flush()
        self._check(event)

    def last_events(self) -> Sequence[TraceEvent]:
        """Return the most recent events except horizons, oldest first."""
        events = [*self._last, *self._batch]
        return [event for event in events if not isinstance(event, Horizon | Count)][-LAST_EVENTS:]

    def trace_hash(self) -> str:
        """Return a BLAKE2b digest over all lines so far, in hexadecimal."""
        self._flush()
        return self._hash.hexdigest()

    def _flush(self) -> None:
        batch, self._batch = self._batch, []
        lines = _encode_lines(batch)
        self.events += len(batch)
        for event in batch:
            if type(event) is Deliver:
                self.deliveries += 1
            elif type(event) is Conf and event.kind == "R":
                self.views.add(event.view)
        self._last.extend(batch)
        self._hash.update(lines)
        if self._write is not None:
            self._write(lines)


SLICE_S = 0.1
"""The simulated time between two checks for findings, at which a run stops."""

SILENCE_S = 1.0
"""The time for which in some runs faults last after the load while nothing is sent: a packet that
is lost last, with no packet after it to show that it is missing, is the hardest to repair. In the
other runs the faults end under load."""

LAST_WORD_S = 0.2
"""The time after one last message after silence, within which the token must be fetched."""

AFTER_S = 1.5
"""The time for which load continues after faults that end under load: views merge under it."""

SICK_SHARE = 0.5
"""The share of the disks that are unwell when the faults end and stay unwell: their daemons stand
aside, and the others must have their view all the same."""

AFTER_SILENCE_S = 0.4
"""The time of silence after that, before one last message again."""


@attrs.frozen(kw_only=True)
class Finding:
    """A property that does not hold in a run.

    Attributes:
        property: the property's id; ``assert`` if a core broke an invariant of its own.
        text: the violation, with the identities involved.
        evidence: the events that prove it.
    """

    property: str
    text: str
    evidence: tuple[TraceEvent, ...] = ()


@attrs.frozen(kw_only=True)
class RunResult:
    """The result of one run; the same seed and options always give an equal one.

    Attributes:
        settings: the drawn settings.
        events: the number of trace events.
        sent: the number of messages that clients sent.
        deliveries: the number of messages that clients received.
        views: the number of installed regular views, each counted once.
        simulated_s: the simulated time, in seconds.
        trace_hash: the BLAKE2b digest of the trace as JSON lines, in hexadecimal.
        findings: the properties that do not hold; empty if all hold.
        last_events: the end of the trace, if there are findings.
    """

    settings: Settings
    events: int
    sent: int
    deliveries: int
    views: int
    simulated_s: float
    trace_hash: str
    findings: tuple[Finding, ...]
    last_events: tuple[TraceEvent, ...]


def run_seed(
    seed: int, options: Options, write: Callable[[bytes], object] | None = None
) -> RunResult:
    """Run one seed.

    Args:
        seed: the seed of all random choices.
        options: the settings that are fixed, not drawn.
        write: accepts the trace as JSON lines, some at a time.
    """
    assert type(options) is Options, f"{type(options).__name__} has what this run would ignore"
    return run(draw_settings(seed, options), write)


class Checks(Protocol):
    """The checks of one trace, such as `Checkers`."""

    def feed(self, event: TraceEvent) -> None:
        """Check the next event."""

    def finish(self) -> None:
        """Check the end of the trace."""

    @property
    def violations(self) -> Sequence[Violation]:
        """Return the violations so far."""


def run(
    settings: Settings,
    write: Callable[[bytes], object] | None = None,
    *,
    make_cluster: Callable[..., Cluster] = Cluster,
    make_checks: Callable[[], Checks] = Checkers,
    play: Callable[[Cluster, Workload, Checks], None] | None = None,
) -> RunResult:
    """Run with these settings: load and faults, then quiet until nothing changes, then the checks.

    A run stops early when a checker finds something, or a core or a session breaks one of its
    invariants.

    Args:
        settings: the settings.
        write: accepts the trace as JSON lines, some at a time.
        make_cluster: makes the cluster, with the arguments of `Cluster`.
        make_checks: makes the checks of the trace.
        play: runs all that happens; None for the usual course.
    """
    checkers = make_checks()
    recorder = Recorder(checkers.feed, write)
    findings: list[Finding] = []
    cluster = make_cluster(settings, recorder.record, start=False)
    workload = make_workload(cluster)
    try:
        (play or _play)(cluster, workload, checkers)
    except CoreFailure as failure:
        findings.append(Finding(property="assert", text=str(failure)))
    except NoAgreement as found:
        findings.append(Finding(property=found.property, text=str(found)))
    except AssertionError as error:  # raised by a client's session
        findings.append(Finding(property="assert", text=str(CoreFailure("client", error))))
    else:
        checkers.finish()
    findings += [
        Finding(property=each.property, text=each.text, evidence=each.events)
        for each in (*cluster.violations(), *checkers.violations)
    ]
    trace_hash = recorder.trace_hash()
    return RunResult(
        settings=settings,
        events=recorder.events,
        sent=workload.sent,
        deliveries=recorder.deliveries,
        views=len(recorder.views),
        simulated_s=cluster.loop.now / SECOND,
        trace_hash=trace_hash,
        findings=tuple(findings),
        last_events=tuple(recorder.last_events()) if findings else (),
    )


def make_workload(cluster: Cluster) -> Workload:
    """Return the programs of a run."""
    settings = cluster.settings
    interval_us = max(SEND_INTERVAL_US, microseconds(settings.duration_s) // MOST_SENDS)
    connect: Connect = cluster.connect
    if settings.faults.vanish_s:
        connect = partial(cluster.connect, daemon_timeout_s=DAEMON_TIMEOUT_S)
    return Workload(
        cluster.loop,
        random_for(settings.seed, "workload"),
        connect,
        cluster.up,
        [host.name for host in cluster.daemons],
        settings.clients,
        settings.bundle_bytes,
        2 * interval_us if settings.faults.storm else interval_us,  # the storm doubles the load
        fresh_names=settings.faults.vanish_s > 0.0,
        readers=settings.readers,
        halls=_draw_halls(settings),
        minority=settings.minority,
    )


def _draw_halls(settings: Settings) -> Halls | None:
    """Draw which groups each site has for itself: none, all but one, or all."""
    if len(settings.sites) == 1:
        return None
    rng = random_for(settings.seed, "halls")
    own = rng.choice((GROUPS[:0], GROUPS[1:], GROUPS[1:], GROUPS))
    return Halls(rng, sites_by_host(settings), frozenset(own)) if own else None


def _play(cluster: Cluster, workload: Workload, checkers: Checks) -> None:
    """Run faults and load, healing, load, and the last word; stop at the first finding."""
    settings = cluster.settings
    cluster.start(form=not settings.faults.cold_s)
    workload.start()
    acts = _rough_acts(cluster, workload)
    if not _run(cluster, settings.duration_s, checkers):
        return
    for each in acts:
        each.stop()
    if settings.silence:
        workload.stop()
        cluster.run(SILENCE_S)
        workload.send_something()
        cluster.run(LAST_WORD_S)
    cluster.heal(settings.core or range(settings.daemons), sick_share=SICK_SHARE)
    if settings.silence:
        cluster.settle()
        return
    if not _run(cluster, AFTER_S, checkers):
        return
    workload.stop()
    cluster.run(AFTER_SILENCE_S)
    workload.send_something()
    cluster.settle()


def _rough_acts(cluster: Cluster, workload: Workload) -> list[Act]:
    """Begin what the settings have programs suffer and do besides their load."""
    settings, acts = cluster.settings, list[Act]()
    if settings.faults.storm:
        acts.append(Storm(cluster.loop, random_for(settings.seed, "storm"), workload))
    acts += cluster.further_acts()
    if longest_s := settings.faults.vanish_s:
        rng = random_for(settings.seed, "vanishing")
        acts.append(Vanishing(cluster.loop, rng, workload, longest_s))
    return acts


def _run(cluster: Cluster, seconds: float, checkers: Checks) -> bool:
    """Let time pass until a checker finds something; return whether none did."""
    end = cluster.loop.now + microseconds(seconds)
    while cluster.loop.now < end and not checkers.violations:
        cluster.run(min(SLICE_S, (end - cluster.loop.now) / SECOND))
    return not checkers.violations
