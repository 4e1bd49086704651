"""The metrics of a daemon: one table with the name, type, labels, help and source of each.

Rows are made of the fields of statuses that say what they tell (groupcomm/metrics.py); those that
need more than one attribute stand here. Names and units follow the conventions of Prometheus:
seconds, bytes, totals. Nothing is counted here: values are read from a snapshot at a request.
docs/metrics.md is made of this table. No label has a value that programs choose freely, except for
the few that are slow.
"""

import resource
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from typing import Any, Final, TypeAlias

import attrs

from groupcomm.durations import Durations
from groupcomm.engine import Status
from groupcomm.engine.status import (
    AccessStatus,
    ClockStatus,
    DatagramStatus,
    DiskStatus,
    LinkStatus,
    ProgramsStatus,
    RingStatus,
)
from groupcomm.level import ServiceLevel
from groupcomm.membership.states import MembershipState
from groupcomm.metrics import metrics_of
from groupcomm.ring.counts import RingCounts
from groupcomm.wire.link import LINK_BYTES
from groupcommd.host.loop_watch import LONG_S
from groupcommd.host.process import resident_bytes
from groupcommd.http.snapshot import HttpCounts, Snapshot
from groupcommd.operators.figures import kind_of, unit_of
from groupcommd.operators.logs import dropped_lines
from groupcommd.programs.half_messages import HalfMessages
from groupcommd.programs.spread_socket import SpreadSocket

Sample: TypeAlias = tuple[tuple[str, ...], float | tuple[int, float] | Durations]
"""Values of the labels, and a number; for a summary the count and the sum, for a histogram all."""

MAX_SLOW: Final = 16
"""The most slow programs that are named: the slowest."""

SLOW_BYTES: Final = 1024 * 1024
"""A program with more bytes of waiting output is slow."""


@attrs.frozen(kw_only=True)
class Metric:
    """One metric.

    Attributes:
        name: its name in queries.
        kind: counter, gauge, summary, histogram or info.
        help: its meaning.
        labels: the names of its labels.
        read: returns its samples at one time.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    read: Callable[[Snapshot], Iterable[Sample]]

    @property
    def unit(self) -> str:
        """Return the unit at the end of the name: seconds, bytes or none."""
        return unit_of(self.name)


Value: TypeAlias = float | Mapping[str, float] | None
"""A number, numbers by the value of a label, or None for no sample."""


def _metric(name: str, help_: str, read: Callable[[Snapshot], Value], label: str = "") -> Metric:
    labels = (label,) if label else ()
    return Metric(
        name=name, kind=kind_of(name), help=help_, labels=labels, read=lambda s: _all(read(s))
    )


def _all(value: Value) -> list[Sample]:
    if isinstance(value, Mapping):
        return [((name,), each) for name, each in sorted(value.items())]
    return [] if value is None else [((), value)]


def _of_fields(status: type, read: Callable[[Snapshot], object]) -> Iterator[Metric]:
    """Yield the metrics that the fields of a class tell of.

    Args:
        status: the class.
        read: returns an object of it, or several by the value of their label.
    """
    for family, fields in metrics_of(status).items():
        yield _metric(family.name, family.help, partial(_values, read, fields), family.label)


def _values(read: Callable[[Snapshot], object], fields: Mapping[str, str], s: Snapshot) -> Any:
    found = read(s)
    owners = found if isinstance(found, Mapping) else {"": found}
    values = {
        of or value: getattr(owner, name)
        for of, owner in owners.items()
        for value, name in fields.items()
    }
    return values.get("", values)


# ---- values that take more than an attribute ----


def _version() -> str:
    try:
        return version("groupcomm")
    except PackageNotFoundError:
        return "unknown"


_VERSION: Final = _version()


def _info(s: Snapshot) -> list[Sample]:
    return [((s.status.daemon.name, s.parts.config.core.cluster, _VERSION), 1.0)]


def _start_time(s: Snapshot) -> float:
    return time.time() - (time.monotonic() - s.parts.started)


def _cpu_s(s: Snapshot) -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


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
    slow = [each for each in s.programs.sessions if each.output_bytes > SLOW_BYTES]
    slow.sort(key=lambda each: each.output_bytes, reverse=True)
    found: dict[tuple[str, ...], float] = {}
    for each in slow[:MAX_SLOW]:
        key = each.user, each.principal
        found[key] = max(found.get(key, 0.0), float(each.output_bytes))
    return list(found.items())


LEVELS: Final = tuple(level.name.lower() for level in ServiceLevel)


def _by_level(sent: Sequence[int], delivered: Sequence[int]) -> list[Sample]:
    return [
        ((direction, level), count)
        for direction, counts in (("sent", sent), ("delivered", delivered))
        for level, count in zip(LEVELS, counts, strict=True)
    ]


def _messages(s: Snapshot) -> list[Sample]:
    return _by_level(s.status.traffic.taken_by_level, s.status.traffic.delivered_by_level)


def _message_bytes(s: Snapshot) -> list[Sample]:
    traffic = s.status.traffic
    return _by_level(traffic.taken_bytes_by_level, traffic.delivered_bytes_by_level)


def _delays(s: Snapshot) -> list[Sample]:
    """Return the delays of each level except UNRELIABLE, whose messages never wait."""
    pairs = zip(LEVELS, s.parts.delays, strict=False)
    return [((level,), delays) for level, delays in pairs if level != "unreliable"]


def _blocking(s: Snapshot) -> list[Sample]:
    names = [(each.user, each.principal) for each in s.programs.sessions if each.blocks]
    return [(key, 1.0) for key in sorted(set(names))[:MAX_SLOW]]


def _links(s: Snapshot) -> Mapping[str, LinkStatus]:
    return {link.to: link for link in s.status.links}


def _keys(s: Snapshot) -> float | None:
    found = s.status.keys.description
    return None if found is None else len(found["keys"])


def _active_key(s: Snapshot) -> float | None:
    found = s.status.keys.description
    return None if found is None else float(found["active"])


def _unstable(s: Snapshot) -> float | None:
    """Return the number of this ring's packets that are held here, but perhaps not by all."""
    ring, view = s.status.ring, s.status.view
    if ring is None or view is None:
        return None
    names = [daemon.name for daemon in view.daemons]
    own = view.ring_of[names.index(s.status.daemon.name)]
    return max(0, ring.held[own] - ring.held_by_all)


def _disk_wait(s: Snapshot) -> float:
    asked_at = s.status.disk.asked_at
    return 0.0 if asked_at is None else max(0.0, s.status.at - asked_at)


def read_all(snapshot: Snapshot) -> list[list[Any]]:
    """Return all metrics of a snapshot as plain values for JSON, as `exposition` takes them."""
    return [
        [
            *(metric.name, metric.kind, metric.help, metric.unit, metric.labels),
            [[labels, _plain(value)] for labels, value in metric.read(snapshot)],
        ]
        for metric in METRICS
    ]


def _plain(value: float | tuple[int, float] | Durations) -> object:
    return [value.counts, value.total_s] if isinstance(value, Durations) else value


METRICS: Final[tuple[Metric, ...]] = (
    Metric(
        name="groupcomm_info",
        kind="info",
        help="Always 1; the labels name the daemon, its cluster and its release.",
        labels=("daemon", "cluster", "version"),
        read=_info,
    ),
    _metric("process_start_time_seconds", "Time of the daemon's start, since 1970.", _start_time),
    _metric(
        "process_cpu_seconds_total",
        "Processor time that the daemon has used, without that of HTTP.",
        _cpu_s,
    ),
    _metric(
        "process_resident_memory_bytes",
        "Memory that the daemon uses, without that of HTTP.",
        lambda _: resident_bytes(),
    ),
    _metric(
        "groupcomm_starts_total",
        "Starts of the daemon, as its disk has counted them.",
        lambda s: s.status.daemon.incarnation.restarts,
    ),
    # views
    _metric(
        "groupcomm_operational",
        "1 while the daemon is in a view, 0 while it looks for one.",
        lambda s: float(s.status.state is MembershipState.OPERATIONAL),
    ),
    _metric(
        "groupcomm_no_room",
        "Daemons that are heard and left out, as a view has no more rings.",
        lambda s: len(s.status.no_room),
    ),
    _metric(
        "groupcomm_majority",
        "1 if the view has more than half of the expected daemons.",
        lambda s: float(bool(s.status.majority)),
    ),
    _metric(
        "groupcomm_draining",
        "1 if the daemon is about to stop: it admits no new session, and its programs move.",
        lambda s: float(s.status.drain is not None),
    ),
    _metric(
        "groupcomm_roster_number",
        "Changes of the roster since the configuration files.",
        lambda s: s.status.roster["number"],
    ),
    _metric(
        "groupcomm_roster_daemons",
        "Daemons in the roster, which may be members of views.",
        lambda s: len(s.status.configured),
    ),
    _metric(
        "groupcomm_protocol_version",
        "Version of the protocol that the view uses; 0 before the first view.",
        lambda s: 0 if s.status.protocol.view is None else s.status.protocol.view.highest,
    ),
    _metric(
        "groupcomm_protocol_version_highest",
        "Highest version of the protocol that the daemon speaks.",
        lambda s: s.status.protocol.own.highest,
    ),
    _metric(
        "groupcomm_daemons_apart",
        "Daemons that are heard and share no version of the protocol with the view.",
        lambda s: len(s.status.protocol.apart),
    ),
    _metric(
        "groupcomm_view_daemons",
        "Daemons in the view.",
        lambda s: 0 if s.status.view is None else len(s.status.view.daemons),
    ),
    _metric(
        "groupcomm_view_rings",
        "Rings in the view: one for each site while all its daemons hear each other.",
        lambda s: 0 if s.status.view is None else len(s.status.view.rings),
    ),
    _metric(
        "groupcomm_daemon_in_view",
        "1 if a configured daemon is in the view.",
        _in_view,
        "peer",
    ),
    _metric(
        "groupcomm_daemon_silence_seconds",
        "Time since another daemon was last heard; only for daemons that are heard directly.",
        _silence,
        "peer",
    ),
    _metric(
        "groupcomm_gathers_total",
        "Number of times that the daemon has looked for a view, by cause.",
        lambda s: {reason.name.lower(): n for reason, n in s.status.reasons.items()},
        "reason",
    ),
    _metric(
        "groupcomm_differing_configurations",
        "Configurations of other daemons that differ from this one's.",
        lambda s: len(s.status.differing),
    ),
    Metric(
        name="groupcomm_view_change_seconds",
        kind="histogram",
        help="Durations of view changes, from the end of the previous view or from the start.",
        read=lambda s: [((), s.history.changes)],
    ),
    # ring
    *_of_fields(RingCounts, lambda s: s.status.token),
    Metric(
        name="groupcomm_token_rotation_seconds",
        kind="summary",
        help="Durations of rotations of the token in which it rested nowhere.",
        read=lambda s: [((), (s.status.token.rotations, s.status.token.rotations_s))],
    ),
    *_of_fields(RingStatus, lambda s: s.status.ring or {}),
    _metric(
        "groupcomm_unstable_packets",
        "Packets of the ring that are held here, and not yet known to be held by all its daemons.",
        _unstable,
    ),
    # links that end here
    *_of_fields(LinkStatus, _links),
    _metric(
        "groupcomm_link_packet_bytes",
        "Size of the largest packets that pass over a link.",
        lambda s: {to: link.carries_bytes - LINK_BYTES for to, link in _links(s).items()},
        "peer",
    ),
    # messages and datagrams
    Metric(
        name="groupcomm_messages_total",
        kind="counter",
        help="Messages sent by this daemon's programs, and delivered to them, once to each.",
        labels=("direction", "level"),
        read=_messages,
    ),
    Metric(
        name="groupcomm_message_bytes_total",
        kind="counter",
        help="Bytes of the bodies of these messages.",
        labels=("direction", "level"),
        read=_message_bytes,
    ),
    Metric(
        name="groupcomm_delivery_delay_seconds",
        kind="histogram",
        help="Time of bundles of messages between the arrival of their packet here, or its"
        " numbering, and their delivery. Not measured with --trace.",
        labels=("level",),
        read=_delays,
    ),
    *_of_fields(DatagramStatus, lambda s: s.status.datagrams),
    _metric(
        "groupcomm_datagram_bytes_total",
        "Bytes of datagrams; one to several daemons counts for each that gets its own copy.",
        lambda s: {"sent": s.parts.udp.sent_bytes, "received": s.parts.udp.received_bytes},
        "direction",
    ),
    _metric(
        "groupcomm_datagrams_not_sent_total",
        "Datagrams that the system did not accept.",
        lambda s: s.parts.udp.lost,
    ),
    _metric(
        "groupcomm_datagrams_dropped_total",
        "Datagrams that the system had no room for, or has filtered in a flood.",
        lambda s: s.parts.udp.dropped,
    ),
    _metric(
        "groupcomm_segmented_datagrams_total",
        "Datagrams in segments: joined, given up as segments lacked, or junk (single segments).",
        lambda s: {name: n for name, n in s.parts.udp.segments.items() if name != "kept_bytes"},
        "outcome",
    ),
    _metric(
        "groupcomm_segments_kept_bytes",
        "Memory of segments whose datagrams are incomplete.",
        lambda s: s.parts.udp.segments["kept_bytes"],
    ),
    _metric(
        "groupcomm_spread_messages_skipped_total",
        "Messages that were too large for clients of Spread here; each counts for each of them.",
        lambda _: SpreadSocket.skipped,
    ),
    _metric(
        "groupcomm_log_lines_dropped_total",
        "Lines of the log that could not be written, as nobody read them or there was no room.",
        lambda _: dropped_lines(),
    ),
    _metric(
        "groupcomm_loop_longest_seconds",
        "Longest step of the event loop in the last one or two minutes: nobody is served in it.",
        lambda s: s.parts.loop.longest.took_s,
    ),
    Metric(
        name="groupcomm_loop_step_seconds",
        kind="histogram",
        help="Durations of the steps of the event loop; its p99.9 is how long others may wait.",
        read=lambda s: [((), s.parts.loop.steps)],
    ),
    _metric(
        "groupcomm_loop_long_steps_total",
        f"Steps longer than {1000 * LONG_S:g} ms, by what took most of one: the loop was busy or"
        " waited, or the host ran others.",
        lambda s: s.parts.loop.long,
        "cause",
    ),
    # programs
    *_of_fields(Status, lambda s: s.status),
    *_of_fields(ProgramsStatus, lambda s: s.programs),
    _metric(
        "groupcomm_connections", "Connections of programs.", lambda s: len(s.parts.connections)
    ),
    _metric(
        "groupcomm_connections_limit",
        "Connections of programs that there may be.",
        lambda s: s.parts.connections.quotas.most,
    ),
    _metric(
        "groupcomm_connections_refused_total",
        "Programs that were not let in, by reason (docs/operating.md).",
        lambda s: s.parts.connections.refusals.counts,
        "reason",
    ),
    _metric(
        "groupcomm_silent_sessions_total",
        "Sessions that were ended as nothing has come from their programs (docs/session.md).",
        lambda s: s.status.silent_programs + s.parts.connections.vanished,
    ),
    *_of_fields(AccessStatus, lambda s: s.status.access),
    _metric(
        "groupcomm_bounds_reached_total",
        "What was refused at a bound: joins, by its key in clients.quotas; and half_messages, the"
        " clients of Spread that had to go for theirs (docs/security.md).",
        lambda s: {**s.status.access.bounds, "half_messages": HalfMessages.ended},
        "bound",
    ),
    Metric(
        name="groupcomm_slow_session_output_bytes",
        kind="gauge",
        help=f"Output that waits for a program that is slow: more than {SLOW_BYTES >> 20} MiB, of"
        f" the {MAX_SLOW} slowest.",
        labels=("user", "principal"),
        read=_slow,
    ),
    Metric(
        name="groupcomm_blocking_session",
        kind="gauge",
        help="1 for a program for which all senders wait, of the first 16.",
        labels=("user", "principal"),
        read=_blocking,
    ),
    # disk and clock
    *_of_fields(DiskStatus, lambda s: s.status.disk),
    _metric(
        "groupcomm_disk_wait_seconds",
        "Time for which the present write has waited for the disk.",
        _disk_wait,
    ),
    _metric(
        "groupcomm_disk_failed",
        "1 if the last write to the state folder failed.",
        lambda s: float(s.status.disk.error is not None),
    ),
    *_of_fields(ClockStatus, lambda s: s.status.clock),
    _metric(
        "groupcomm_clock_offset_seconds",
        "Lead of the wall clock over the time of the cluster.",
        lambda s: time.time() - s.status.clock.reading / 1e6,
    ),
    # keys and certificates
    _metric(
        "groupcomm_key_file_timestamp_seconds",
        "Time of the key file's last change, since 1970: its newest key is at least that old.",
        lambda s: s.files.key_changed,
    ),
    _metric("groupcomm_keys", "Keys in the key file.", _keys),
    _metric("groupcomm_active_key", "The id of the key that seals.", _active_key),
    _metric(
        "groupcomm_certificate_end_timestamp_seconds",
        "Time at which a certificate of this daemon expires, since 1970.",
        lambda s: s.files.certificates_end,
        "listener",
    ),
    *_of_fields(HttpCounts, lambda s: s.http),
)
"""All metrics, in the order in which they are shown."""
