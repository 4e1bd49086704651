"""The metrics of a daemon: one table with the name, type, labels, help and source of each.

Names and units follow the conventions of Prometheus: seconds, bytes, totals. Nothing is counted
here: values are read from a snapshot at a request. docs/metrics.md is made of this table. No label
has a value that programs choose freely, except for the few that are slow.
"""

import resource
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from typing import Any, Final, TypeAlias

import attrs

from groupcomm.durations import Durations
from groupcomm.engine.status import LinkStatus
from groupcomm.level import ServiceLevel
from groupcomm.membership.states import MembershipState
from groupcomm.wire.link import LINK_BYTES
from groupcommd.host.loop_watch import LONG_S
from groupcommd.host.process import resident_bytes
from groupcommd.http.snapshot import Snapshot
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
    slow = [each for each in s.status.sessions if each.output_bytes > SLOW_BYTES]
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
    names = [(each.user, each.principal) for each in s.status.sessions if each.blocks]
    return [(key, 1.0) for key in sorted(set(names))[:MAX_SLOW]]


def _links(read: Callable[[LinkStatus], float]) -> Callable[[Snapshot], Mapping[str, float]]:
    return lambda s: {link.to: read(link) for link in s.status.links}


def _keys(s: Snapshot) -> float | None:
    found = s.status.keys.description
    return None if found is None else len(found["keys"])


def _active_key(s: Snapshot) -> float | None:
    found = s.status.keys.description
    return None if found is None else float(found["active"])


def _datagrams(s: Snapshot) -> Mapping[str, float]:
    return {"sent": s.status.datagrams.sent, "received": s.status.datagrams.received}


def _ignored(s: Snapshot) -> Mapping[str, float]:
    found = s.status.datagrams
    return {"foreign": found.foreign, "stale": found.stale, "duplicate": found.duplicates}


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


def _groups(s: Snapshot) -> float:
    return len(s.parts.core.groups())


def _members(s: Snapshot) -> float:
    return sum(map(len, s.parts.core.groups().values()))


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
    _gauge("process_start_time_seconds", "Time of the daemon's start, since 1970.", _start_time),
    _counter(
        "process_cpu_seconds_total",
        "Processor time that the daemon has used, without that of HTTP.",
        _cpu_s,
    ),
    _gauge(
        "process_resident_memory_bytes",
        "Memory that the daemon uses, without that of HTTP.",
        lambda _: resident_bytes(),
    ),
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
        "groupcomm_no_room",
        "Daemons that are heard and left out, as a view has no more rings.",
        lambda s: len(s.status.no_room),
    ),
    _gauge(
        "groupcomm_majority",
        "1 if the view has more than half of the expected daemons.",
        lambda s: float(bool(s.status.majority)),
    ),
    _gauge(
        "groupcomm_draining",
        "1 if the daemon is about to stop: it admits no new session, and its programs move.",
        lambda s: float(s.status.drain is not None),
    ),
    _gauge(
        "groupcomm_roster_number",
        "Changes of the roster since the configuration files.",
        lambda s: s.status.roster["number"],
    ),
    _gauge(
        "groupcomm_roster_daemons",
        "Daemons in the roster, which may be members of views.",
        lambda s: len(s.status.configured),
    ),
    _gauge(
        "groupcomm_protocol_version",
        "Version of the protocol that the view uses; 0 before the first view.",
        lambda s: 0 if s.status.protocol.view is None else s.status.protocol.view.highest,
    ),
    _gauge(
        "groupcomm_protocol_version_highest",
        "Highest version of the protocol that the daemon speaks.",
        lambda s: s.status.protocol.own.highest,
    ),
    _gauge(
        "groupcomm_daemons_apart",
        "Daemons that are heard and share no version of the protocol with the view.",
        lambda s: len(s.status.protocol.apart),
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
        "Time since another daemon was last heard; only for daemons that are heard directly.",
        _silence,
    ),
    _counters(
        "groupcomm_gathers_total",
        "reason",
        "Number of times that the daemon has looked for a view, by cause.",
        lambda s: {reason.name.lower(): n for reason, n in s.status.reasons.items()},
    ),
    _gauge(
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
    _counter(
        "groupcomm_token_visits_total",
        "Number of times that the token has come to this daemon.",
        lambda s: s.status.token.visits,
    ),
    Metric(
        name="groupcomm_token_rotation_seconds",
        kind="summary",
        help="Durations of rotations of the token in which it rested nowhere.",
        read=lambda s: [((), (s.status.token.rotations, s.status.token.rotations_s))],
    ),
    _counter(
        "groupcomm_tokens_repeated_total",
        "Copies sent of tokens that nothing showed to have arrived.",
        lambda s: s.status.token.repeated_tokens,
    ),
    _counter(
        "groupcomm_packets_repeated_total",
        "Packets that this daemon sent again to its ring, as another daemon lacked them.",
        lambda s: s.status.token.repeated_packets,
    ),
    _counter(
        "groupcomm_packet_repeated_bytes_total",
        "Bytes of these packets.",
        lambda s: s.status.token.repeated_bytes,
    ),
    _gauge(
        "groupcomm_queue_bundles",
        "Bundles of this daemon's programs that wait for a number of the ring.",
        lambda s: None if s.status.ring is None else s.status.ring.waiting_bundles,
    ),
    _gauge(
        "groupcomm_unstable_packets",
        "Packets of the ring that are held here, and not yet known to be held by all its daemons.",
        _unstable,
    ),
    # links that end here
    _gauges(
        "groupcomm_link_round_trip_seconds",
        "peer",
        "Smoothed round trip of a link that ends at this daemon.",
        _links(lambda link: link.round_trip_s),
    ),
    _gauges(
        "groupcomm_link_rate_bytes",
        "peer",
        "Best recent rate of a link, in bytes a second.",
        _links(lambda link: link.rate),
    ),
    _counters(
        "groupcomm_link_packets_total",
        "peer",
        "Packets sent over a link in this view; each attempt counts.",
        _links(lambda link: link.sent),
    ),
    _counters(
        "groupcomm_link_packets_lost_total",
        "peer",
        "Packets among them that were lost; both counts start again with each view.",
        _links(lambda link: link.lost),
    ),
    _counters(
        "groupcomm_link_packets_dropped_total",
        "peer",
        "UNRELIABLE packets that found no room in a link's queue.",
        _links(lambda link: link.dropped),
    ),
    _gauges(
        "groupcomm_link_queue_bytes",
        "peer",
        "Bytes that wait to be sent over a link.",
        _links(lambda link: link.waiting_bytes),
    ),
    _gauges(
        "groupcomm_link_in_flight_bytes",
        "peer",
        "Bytes that were sent over a link and are not acknowledged yet.",
        _links(lambda link: link.in_flight_bytes),
    ),
    _gauges(
        "groupcomm_link_packet_bytes",
        "peer",
        "Size of the largest packets that pass over a link.",
        _links(lambda link: link.carries_bytes - LINK_BYTES),
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
    _counters(
        "groupcomm_datagrams_total",
        "direction",
        "Datagrams of daemons; a multicast counts once.",
        _datagrams,
    ),
    _counters(
        "groupcomm_datagram_bytes_total",
        "direction",
        "Bytes of datagrams; one to several daemons counts for each that gets its own copy.",
        lambda s: {"sent": s.parts.udp.sent_bytes, "received": s.parts.udp.received_bytes},
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
    _counters(
        "groupcomm_segmented_datagrams_total",
        "outcome",
        "Datagrams in segments: joined, given up as segments lacked, or junk (single segments).",
        lambda s: {name: n for name, n in s.parts.udp.segments.items() if name != "kept_bytes"},
    ),
    _gauge(
        "groupcomm_segments_kept_bytes",
        "Memory of segments whose datagrams are incomplete.",
        lambda s: s.parts.udp.segments["kept_bytes"],
    ),
    _counter(
        "groupcomm_spread_messages_skipped_total",
        "Messages that were too large for clients of Spread here; each counts for each of them.",
        lambda _: SpreadSocket.skipped,
    ),
    _counter(
        "groupcomm_log_lines_dropped_total",
        "Lines of the log that could not be written, as nobody read them or there was no room.",
        lambda _: dropped_lines(),
    ),
    _gauge(
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
    _counters(
        "groupcomm_loop_long_steps_total",
        "cause",
        f"Steps longer than {1000 * LONG_S:g} ms, by what took most of one: the loop was busy or"
        " waited, or the host ran others.",
        lambda s: s.parts.loop.long,
    ),
    # programs
    _gauge("groupcomm_sessions", "Sessions of programs.", lambda s: s.status.programs),
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
    _counter(
        "groupcomm_silent_sessions_total",
        "Sessions that were ended as nothing has come from their programs (docs/session.md).",
        lambda s: s.status.silent_programs + s.parts.connections.vanished,
    ),
    _counters(
        "groupcomm_requests_refused_total",
        "verb",
        "Requests of programs that rules have refused.",
        lambda s: s.status.access.refused,
    ),
    _counters(
        "groupcomm_bounds_reached_total",
        "bound",
        "What was refused at a bound: joins, by its key in clients.quotas; and half_messages, the"
        " clients of Spread that had to go for theirs (docs/security.md).",
        lambda s: {**s.status.access.bounds, "half_messages": HalfMessages.ended},
    ),
    _gauge(
        "groupcomm_session_output_bytes",
        "Output that waits to be read by all programs together.",
        lambda s: s.status.output_bytes,
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
    _gauge(
        "groupcomm_session_backlog_bytes",
        "Messages of all programs together that wait for a number.",
        lambda s: s.status.backlog_bytes,
    ),
    _gauge(
        "groupcomm_session_backlog_work",
        "Units of work that these messages are about to cause (docs/security.md): the most of any"
        " program; a session's next requests wait at 1,024.",
        lambda s: s.status.backlog_work,
    ),
    _gauge("groupcomm_groups", "Groups that have members.", _groups),
    _gauge("groupcomm_group_members", "Members of all groups together.", _members),
    # disk and clock
    _gauge(
        "groupcomm_disk_write_seconds",
        "Longest time of recent writes to the state folder.",
        lambda s: s.status.disk.write_s,
    ),
    _gauge(
        "groupcomm_disk_wait_seconds",
        "Time for which the present write has waited for the disk.",
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
        "groupcomm_disk_spare_marks",
        "View counters that the disk holds for this daemon and that are not used.",
        lambda s: s.status.disk.spare,
    ),
    _gauge(
        "groupcomm_clock_offset_seconds",
        "Lead of the wall clock over the time of the cluster.",
        lambda s: time.time() - s.status.clock.reading / 1e6,
    ),
    _counter(
        "groupcomm_clock_jumps_total",
        "Number of times that the wall clock was set.",
        lambda s: s.status.clock.jumps,
    ),
    # keys and certificates
    _gauge(
        "groupcomm_key_file_timestamp_seconds",
        "Time of the key file's last change, since 1970: its newest key is at least that old.",
        lambda s: s.files.key_changed,
    ),
    _gauge("groupcomm_keys", "Keys in the key file.", _keys),
    _gauge("groupcomm_active_key", "The id of the key that seals.", _active_key),
    _gauges(
        "groupcomm_certificate_end_timestamp_seconds",
        "listener",
        "Time at which a certificate of this daemon expires, since 1970.",
        lambda s: s.files.certificates_end,
    ),
    # HTTP itself
    _counter(
        "groupcomm_http_starts_total",
        "Starts of the process that answers HTTP: 1, unless it was lost.",
        lambda s: s.http.starts,
    ),
    _counter(
        "groupcomm_http_cpu_seconds_total",
        "Processor time of the process that answers HTTP.",
        lambda s: s.http.cpu_s,
    ),
    _gauge(
        "groupcomm_http_resident_memory_bytes",
        "Memory of the process that answers HTTP.",
        lambda s: s.http.resident_bytes,
    ),
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
        "Time that HTTP has taken of the daemon's own process.",
        lambda s: s.http.work_s,
    ),
)
"""All metrics, in the order in which they are shown."""
