"""The metrics of a daemon: one table with the name, type, labels, help and source of each.

Names and units follow the conventions of Prometheus: seconds, bytes, totals. Nothing is counted
here: values are read from a snapshot when they are asked for. docs/metrics.md is made of this
table. No label has a value that programs choose freely, but for the few that are slow.
"""

import os
import resource
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from typing import Final, TypeAlias

import attrs

from groupcomm.membership.states import MembershipState
from groupcommd.http.snapshot import Snapshot

Sample: TypeAlias = tuple[tuple[str, ...], float]
"""Values of the labels, and a number."""

MAX_SLOW: Final = 16
"""Programs that are named because they are slow: the slowest."""

SLOW_BYTES: Final = 1024 * 1024
"""A program for which more waits is slow."""


@attrs.frozen(kw_only=True)
class Metric:
    """One metric.

    Attributes:
        name: as queries name it.
        kind: counter, gauge or info.
        help: what it tells.
        labels: names of its labels.
        read: returns its samples at one time.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    read: Callable[[Snapshot], Iterable[Sample]]

    @property
    def unit(self) -> str:
        """The unit at the end of the name: seconds, bytes or none."""
        last = self.name.removesuffix("_total").rpartition("_")[2]
        return last if last in ("seconds", "bytes") else ""


def _one(value: float | None) -> list[Sample]:
    return [] if value is None else [((), value)]


def _each(counts: Mapping[str, float]) -> list[Sample]:
    return [((name,), value) for name, value in sorted(counts.items())]


def _gauge(name: str, help_: str, read: Callable[[Snapshot], float | None]) -> Metric:
    return Metric(name=name, kind="gauge", help=help_, read=lambda s: _one(read(s)))


def _counter(name: str, help_: str, read: Callable[[Snapshot], float | None]) -> Metric:
    return Metric(name=name, kind="counter", help=help_, read=lambda s: _one(read(s)))


def _counters(
    name: str, label: str, help_: str, read: Callable[[Snapshot], Mapping[str, float]]
) -> Metric:
    return Metric(
        name=name, kind="counter", help=help_, labels=(label,), read=lambda s: _each(read(s))
    )


def _gauges(
    name: str, label: str, help_: str, read: Callable[[Snapshot], Mapping[str, float]]
) -> Metric:
    return Metric(
        name=name, kind="gauge", help=help_, labels=(label,), read=lambda s: _each(read(s))
    )


# ---- where values come from, if that takes more than an attribute ----


def _version() -> str:
    try:
        return version("groupcomm")
    except PackageNotFoundError:
        return "unknown"


_VERSION: Final = _version()
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def _info(s: Snapshot) -> list[Sample]:
    return [((s.status.daemon.name, s.parts.config.core.cluster, _VERSION), 1.0)]


def _start_time(s: Snapshot) -> float:
    return time.time() - (time.monotonic() - s.parts.started)


def _cpu_s(s: Snapshot) -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _resident_bytes(s: Snapshot) -> float:
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - of the kernel, no disk
        return int(file.read().split()[1]) * _PAGE_BYTES


def _in_view(s: Snapshot) -> Mapping[str, float]:
    view = s.status.view
    there = set() if view is None else {daemon.name for daemon in view.daemons}
    if s.status.state is not MembershipState.OPERATIONAL:
        there = {s.status.daemon.name}
    return {name: float(name in there) for name in {*s.status.configured, *there}}


def _silence(s: Snapshot) -> Mapping[str, float]:
    return {
        peer.name: s.status.at - peer.heard_at
        for peer in s.status.peers
        if peer.name is not None and isfinite(peer.heard_at)
    }


def _slow(s: Snapshot) -> list[Sample]:
    slow = [each for each in s.status.sessions if each.output_bytes > SLOW_BYTES]
    slow.sort(key=lambda each: each.output_bytes, reverse=True)
    found: dict[tuple[str, ...], float] = {}
    for each in slow[:MAX_SLOW]:
        key = each.user, each.principal
        found[key] = max(found.get(key, 0.0), float(each.output_bytes))
    return list(found.items())


def _messages(s: Snapshot) -> Mapping[str, float]:
    return {"sent": s.status.traffic.taken, "delivered": s.status.traffic.delivered}


def _message_bytes(s: Snapshot) -> Mapping[str, float]:
    return {"sent": s.status.traffic.taken_bytes, "delivered": s.status.traffic.delivered_bytes}


def _datagrams(s: Snapshot) -> Mapping[str, float]:
    return {"sent": s.status.datagrams.sent, "received": s.status.datagrams.received}


def _ignored(s: Snapshot) -> Mapping[str, float]:
    found = s.status.datagrams
    return {"foreign": found.foreign, "stale": found.stale, "duplicate": found.duplicates}


def _unstable(s: Snapshot) -> float | None:
    """Return how many packets of the own ring are held here and not yet known to be held by all."""
    ring, view = s.status.ring, s.status.view
    if ring is None or view is None:
        return None
    names = [daemon.name for daemon in view.daemons]
    own = view.ring_of[names.index(s.status.daemon.name)]
    return max(0, ring.held[own] - ring.held_by_all)


def _disk_wait(s: Snapshot) -> float:
    asked_at = s.status.disk.asked_at
    return 0.0 if asked_at is None else max(0.0, s.status.at - asked_at)


def _groups(s: Snapshot) -> float:
    return len(s.parts.core.groups())


def _members(s: Snapshot) -> float:
    return sum(s.parts.core.groups().values())


METRICS: Final[tuple[Metric, ...]] = (
    Metric(
        name="groupcomm_info",
        kind="info",
        help="Always 1; the labels tell which daemon this is, of which cluster and release.",
        labels=("daemon", "cluster", "version"),
        read=_info,
    ),
    _gauge("process_start_time_seconds", "When the daemon started, since 1970.", _start_time),
    _counter("process_cpu_seconds_total", "Processor time that the daemon has used.", _cpu_s),
    _gauge("process_resident_memory_bytes", "Memory that the daemon uses.", _resident_bytes),
    _counter(
        "groupcomm_starts_total",
        "Starts of the daemon, as its disk has counted them.",
        lambda s: s.status.daemon.incarnation.restarts,
    ),
    # views
    _gauge(
        "groupcomm_operational",
        "1 while the daemon is in a view, 0 while it looks for one.",
        lambda s: float(s.status.state is MembershipState.OPERATIONAL),
    ),
    _gauge(
        "groupcomm_majority",
        "1 if the view has more than half of the expected daemons.",
        lambda s: float(bool(s.status.majority)),
    ),
    _gauge(
        "groupcomm_view_daemons",
        "Daemons in the view.",
        lambda s: 0 if s.status.view is None else len(s.status.view.daemons),
    ),
    _gauge(
        "groupcomm_view_rings",
        "Rings in the view: one for each site while all its daemons hear each other.",
        lambda s: 0 if s.status.view is None else len(s.status.view.rings),
    ),
    _gauges(
        "groupcomm_daemon_in_view",
        "peer",
        "1 if a configured daemon is in the view.",
        _in_view,
    ),
    _gauges(
        "groupcomm_daemon_silence_seconds",
        "peer",
        "How long ago another daemon was heard; only of those that are heard directly.",
        _silence,
    ),
    _counters(
        "groupcomm_gathers_total",
        "reason",
        "How often the daemon has looked for a view, by cause.",
        lambda s: {reason.name.lower(): n for reason, n in s.status.reasons.items()},
    ),
    _gauge(
        "groupcomm_differing_configurations",
        "Configurations of other daemons that differ from this one's.",
        lambda s: len(s.status.differing),
    ),
    # ring
    _gauge(
        "groupcomm_queue_bundles",
        "Bundles of this daemon's programs that wait for a number of the ring.",
        lambda s: None if s.status.ring is None else s.status.ring.waiting_bundles,
    ),
    _gauge(
        "groupcomm_unstable_packets",
        "Packets of the ring that are here, and not yet known to be at all its daemons.",
        _unstable,
    ),
    # messages and datagrams
    _counters(
        "groupcomm_messages_total",
        "direction",
        "Messages sent by this daemon's programs, and delivered to them, once to each.",
        _messages,
    ),
    _counters(
        "groupcomm_message_bytes_total",
        "direction",
        "Bytes of the bodies of these messages.",
        _message_bytes,
    ),
    _counters(
        "groupcomm_datagrams_total",
        "direction",
        "Datagrams of daemons; a multicast counts once.",
        _datagrams,
    ),
    _counters(
        "groupcomm_datagrams_rejected_total",
        "reason",
        "Datagrams that were dropped unread, by reason (docs/operating.md).",
        lambda s: s.status.datagrams.rejected,
    ),
    _counters(
        "groupcomm_datagrams_ignored_total",
        "reason",
        "Valid datagrams of no use: of other views, too old, or a second time.",
        _ignored,
    ),
    _counters(
        "groupcomm_protocol_violations_total",
        "kind",
        "Valid datagrams whose contents break the protocol.",
        lambda s: s.status.datagrams.violations,
    ),
    _counter(
        "groupcomm_datagrams_not_sent_total",
        "Datagrams that the system did not accept.",
        lambda s: s.parts.udp.lost,
    ),
    _counter(
        "groupcomm_datagrams_dropped_total",
        "Datagrams that the system had no room for, or has filtered in a flood.",
        lambda s: s.parts.udp.dropped,
    ),
    # programs
    _gauge("groupcomm_sessions", "Sessions of programs.", lambda s: len(s.status.sessions)),
    _gauge("groupcomm_connections", "Connections of programs.", lambda s: len(s.parts.connections)),
    _gauge(
        "groupcomm_connections_limit",
        "Connections of programs that there may be.",
        lambda s: s.parts.connections.quotas.most,
    ),
    _counters(
        "groupcomm_connections_refused_total",
        "reason",
        "Programs that were not let in, by reason (docs/operating.md).",
        lambda s: s.parts.connections.refusals.counts,
    ),
    _counters(
        "groupcomm_requests_refused_total",
        "verb",
        "Requests of programs that rules have refused.",
        lambda s: s.status.access.refused,
    ),
    _gauge(
        "groupcomm_session_output_bytes",
        "Output that waits to be read by all programs together.",
        lambda s: sum(each.output_bytes for each in s.status.sessions),
    ),
    Metric(
        name="groupcomm_slow_session_output_bytes",
        kind="gauge",
        help=f"Output that waits for a program that is slow: more than {SLOW_BYTES >> 20} MiB, of"
        f" the {MAX_SLOW} slowest.",
        labels=("user", "principal"),
        read=_slow,
    ),
    _gauge(
        "groupcomm_session_backlog_bytes",
        "Messages of all programs together that wait for a number.",
        lambda s: sum(each.backlog_bytes for each in s.status.sessions),
    ),
    _gauge("groupcomm_groups", "Groups that have members.", _groups),
    _gauge("groupcomm_group_members", "Members of all groups together.", _members),
    # disk and clock
    _gauge(
        "groupcomm_disk_write_seconds",
        "How long writes to the state folder take, the longest of late.",
        lambda s: s.status.disk.write_s,
    ),
    _gauge(
        "groupcomm_disk_wait_seconds",
        "For how long the present write has waited for the disk.",
        _disk_wait,
    ),
    _gauge(
        "groupcomm_disk_failed",
        "1 if the last write to the state folder failed.",
        lambda s: float(s.status.disk.error is not None),
    ),
    _gauge(
        "groupcomm_disk_aside",
        "1 while the daemon stands aside from a view until its disk has answered.",
        lambda s: float(s.status.disk.aside),
    ),
    _gauge(
        "groupcomm_clock_offset_seconds",
        "How far the wall clock is ahead of the time of the cluster.",
        lambda s: time.time() - s.status.clock.reading / 1e6,
    ),
    _counter(
        "groupcomm_clock_jumps_total",
        "How often the wall clock was set.",
        lambda s: s.status.clock.jumps,
    ),
    # HTTP itself
    _counters(
        "groupcomm_http_answers_total",
        "code",
        "Answers of HTTP, by status.",
        lambda s: {str(code): n for code, n in s.http.answered.items()},
    ),
    _counters(
        "groupcomm_http_refused_total",
        "reason",
        "Requests and connections of HTTP that were refused.",
        lambda s: s.http.refused,
    ),
    _gauge("groupcomm_http_connections", "Connections of HTTP.", lambda s: s.http.connections),
    _gauge("groupcomm_http_streams", "Open streams of events.", lambda s: s.http.streams),
    _counter(
        "groupcomm_http_work_seconds_total",
        "Time that HTTP has taken of the daemon's.",
        lambda s: s.http.work_s,
    ),
)
"""All metrics, in the order in which they are told."""
