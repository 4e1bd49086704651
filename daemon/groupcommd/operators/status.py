"""The status of a daemon: answers to questions of programs, as JSON.

An answer is made in pieces (answers.py); a long one has rows of the times at which its pieces were
made.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from math import isfinite
from typing import Any, Final

import attrs
import trio

from groupcomm.clocks.stamp import Position, format_position
from groupcomm.durations import Durations
from groupcomm.engine import DaemonCore, Status
from groupcomm.engine.status import (
    DatagramStatus,
    PeerStatus,
    SessionStatus,
    TrafficStatus,
)
from groupcomm.groups.table import Member
from groupcomm.host.tls import PeerCertificate
from groupcomm.level import ServiceLevel
from groupcomm.security.access import Access, Verb
from groupcomm.wire.link import LINK_BYTES
from groupcommd.config.daemon_config import DaemonConfig, describe
from groupcommd.files.disk import DiskWatch
from groupcommd.files.key_service import KeyService, may_change_keys
from groupcommd.host.loop_watch import LoopWatch
from groupcommd.joining.roster_service import RosterService
from groupcommd.network.networks import Networks
from groupcommd.network.udp import UdpSocket
from groupcommd.operators.answers import Table, encode, encode_in_pieces, in_pieces
from groupcommd.operators.cluster import ClusterReports
from groupcommd.operators.copies import Copies
from groupcommd.operators.drain_service import DrainService, described
from groupcommd.operators.figures import figures
from groupcommd.operators.logs import dropped_lines
from groupcommd.operators.mismatches import ConfigDifferences, RejectedSenders
from groupcommd.operators.versions import protocol_table
from groupcommd.programs.connections import Connections
from groupcommd.programs.half_messages import HalfMessages
from groupcommd.programs.local_users import owners

LAST_YEAR_US: Final = 253_402_300_800_000_000

MOST_PAUSED: Final = 100
"""The most groups that pause, and sessions of each that need a quorum, which are named."""


@attrs.frozen
class DaemonParts:
    """The parts of a daemon that its status describes."""

    config: DaemonConfig
    core: DaemonCore
    connections: Connections
    udp: UdpSocket | Networks
    keys: KeyService
    differences: ConfigDifferences
    rejected_senders: RejectedSenders
    copies: Copies
    disk: DiskWatch
    cluster: ClusterReports
    drain: DrainService
    loop: LoopWatch
    started: float  # the start, by time.monotonic
    roster: RosterService
    reloads: int = 0
    delays: Sequence[Durations] = ()  # from arrival to delivery, by level; () if not measured


def answer(parts: DaemonParts, question: str, principal: str) -> Iterator[bytes]:
    """Yield the pieces of the answer to a principal's question, as JSON.

    An unknown or forbidden question gets an error.
    """
    word, _, rest = question.partition(" ")
    access = parts.config.access
    if word in ("name", "read-history"):  # for whoever is admitted
        name = {"cluster": parts.config.core.cluster, "daemon": parts.config.name}
        found: dict[str, Any] = name if word == "name" else _readers(access, rest, principal)
        yield encode(found)
        return
    verb = Verb.SEE_MEMBERS if word == "members" else Verb.ADMIN
    asks = verb is Verb.ADMIN or access.restricts
    if asks and not (access.may(principal, verb, rest) or may_admin(access, principal)):
        why = "a rule denies it" if access.takes_away(principal, verb) else "no rule allows it"
        found = {
            "error": f"{principal} may not ask for {question[:80]!r}: {why} {verb.word}; ask the "
            "daemon's operator for another rule ([[access]] in its configuration)",
            "refused": {"verb": verb.word, "group": rest, "principal": principal},
        }
    elif word == "status" and not rest:
        yield from status(parts)
        return
    elif word == "groups" and not rest:
        yield from encode_in_pieces({}, {"groups": _groups(parts.core)})
        return
    elif word in _SHORT and not rest:
        found = _SHORT[word](parts, trio.current_time())
    elif word == "members" and rest:
        members = tuple(parts.core.groups().get(rest, ()))
        short = {"group": rest, "paused_for": _paused_for(parts.core.pausing().get(rest, ()))}
        yield from encode_in_pieces(short, _members(rest, members))
        return
    elif word in ("keys", "daemons"):
        service = parts.keys if word == "keys" else parts.roster
        yield service.answer(question, allowed=may_change_keys(principal))
        return
    elif word == "drain":
        yield parts.drain.answer(rest, allowed=principal in owners())
        return
    else:
        questions = (
            "name, status, metrics, cluster, groups, members GROUP, configuration, keys, daemons or"
            " drain"
        )
        found = {"error": f"unknown question {question[:80]!r}: ask for {questions}"}
    yield encode(found)


_SHORT: Final[dict[str, Callable[[DaemonParts, float], dict[str, Any]]]] = {
    "cluster": lambda parts, now: parts.cluster.ask(now),
    "configuration": lambda parts, _: describe(parts.config),
    "metrics": lambda parts, now: {"metrics": figures(parts.core.status(now))},
}
"""The answers of one piece, by question."""


def _groups(core: DaemonCore) -> Table:
    """Return the number of members of each group that still has some when its piece is made."""

    def rows() -> Iterator[dict[str, int]]:
        for names in in_pieces(list(core.groups())):
            groups = core.groups()
            yield {name: len(groups[name]) for name in names if name in groups}

    return "{}", rows()


def _members(group: str, known: Sequence[Member]) -> dict[str, Table]:
    """Return the members of a group, their principals, and since when they are there."""
    return {
        "members": ("[]", ([m.id.name for m in some] for some in in_pieces(known))),
        "principals": ("{}", ({m.id.name: m.principal for m in some} for some in in_pieces(known))),
        "since": (
            "{}",
            (
                {m.id.name: since(m.groups[group]) for m in some if group in m.groups}
                for some in in_pieces(known)
            ),
        ),
    }


def _paused_for(members: Iterable[Member]) -> list[str]:
    """Return some of the sessions that need a quorum in a group which pauses."""
    return [member.id.name for member in islice(members, MOST_PAUSED)]


def _readers(access: Access, rest: str, principal: str) -> dict[str, Any]:
    """Answer an archive which of some principals may read the history of some groups.

    Args:
        access: the rules.
        rest: pairs of principal and group, as a list of JSON.
        principal: the owner of the archive. Who may not read a group itself is told nothing of it.
    """
    try:
        pairs = [(str(who), str(group)) for who, group in json.loads(rest)]
    except (ValueError, TypeError, RecursionError):
        return {"error": 'write read-history [["PRINCIPAL", "GROUP"]]'}
    for _, group in pairs:
        if not access.may_read_history(principal, group):
            return {
                "error": f"an archive of {principal} may not give the history of {group!r}: no rule"
                f" allows it {access.needed_for_history.word}; ask the daemon's operator for one"
                " ([[access]] in its configuration)",
                "refused": {"verb": "read-history", "group": group, "principal": principal},
            }
    return {"allowed": [access.may_read_history(who, group) for who, group in pairs]}


def since(joined: Position) -> dict[str, str | None]:
    """Return since when a member is in its group.

    Args:
        joined: the position of its join, or the beginning of the view in which the daemon first met
            it; time 0 then.
    """
    return {
        "view": str(joined.view),
        "position": format_position(joined) if joined.time else None,
        "time": as_utc(joined.time),
    }


def as_utc(time_us: int) -> str | None:
    """Return the time of a stamp as text; None without one, or beyond the year 9999."""
    if not 0 < time_us < LAST_YEAR_US:
        return None
    return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat(timespec="milliseconds")


def may_admin(access: Access, principal: str) -> bool:
    """Return whether a principal may see others' sessions.

    The daemon's own user and root may, unless a rule takes that away: otherwise the first rule,
    which is about programs, would lock out the user who runs the daemon.
    """
    if principal in owners() and not access.takes_away(principal, Verb.ADMIN):
        return True
    return access.may(principal, Verb.ADMIN)


def status(parts: DaemonParts) -> Iterator[bytes]:
    """Yield view, ring, counters and sessions as JSON in pieces; the sessions come last."""
    connections = parts.connections
    shown = connections.certificate_of
    rows = (_sessions(parts.core.programs(some), shown) for some in in_pieces(connections.numbers))
    short = describe_status(parts, parts.core.status(trio.current_time()))
    return encode_in_pieces(short, {"sessions": ("[]", rows)})


def describe_status(parts: DaemonParts, found: Status) -> dict[str, Any]:
    """Return view, ring and counters of a core's status."""
    view = found.view
    return {
        "daemon": found.daemon.name,
        "pid": os.getpid(),
        "listens": str(parts.udp.address),
        "restarts": found.daemon.incarnation.restarts,
        "reloads": parts.reloads,
        "uptime_s": round(time.monotonic() - parts.started, 1),
        "state": found.state.name.lower(),
        "view": str(view.id) if view is not None else None,
        "daemons": [daemon.name for daemon in view.daemons] if view is not None else [],
        "rings": [[view.daemons[at].name for at in ring] for ring in view.rings] if view else [],
        "links": [[view.daemons[at].name for at in link] for link in view.links] if view else [],
        "ways": ways(found),
        "majority": found.majority,
        "groups_paused": found.groups_paused,
        "paused": {
            group: _paused_for(members)
            for group, members in islice(parts.core.pausing().items(), MOST_PAUSED)
        },
        "messages_left_lost": found.messages_left_lost,
        "drain": described(found.drain),
        "gathered_for": {reason.name.lower(): n for reason, n in found.reasons.items()},
        "no_room": list(found.no_room),
        "configured": list(found.configured),
        "roster": dict(found.roster),
        "protocol": protocol_table(found),
        "peers": _peers(found),
        "files": parts.differences.report(found),
        "broken": broken(found),
        "rejected_senders": parts.rejected_senders.report(found.at),
        "copies": parts.copies.report(found.at),
        "clock": {
            "wall_ahead_s": round(time.time() - found.clock.reading / 1e6, 3),
            "jumps": found.clock.jumps,
        },
        "disk": parts.disk.report(found),
        "ring": None if found.ring is None else attrs.asdict(found.ring),
        "token": attrs.asdict(found.token),
        "log": {"dropped_lines": dropped_lines()},
        "loop": parts.loop.report(),
        "access": attrs.asdict(found.access)
        | {"bounds": {**found.access.bounds, "half_messages": HalfMessages.ended}},
        "connections": len(parts.connections),
        "connections_most": parts.connections.quotas.most,
        "connections_refused": parts.connections.refusals.counts.total(),
        "refused": dict(parts.connections.refusals.counts),
        "silent_programs": found.silent_programs + parts.connections.vanished,
        "principals": parts.connections.quotas.connections(),
        "messages": _messages(found.traffic),
        "datagrams": _datagrams(found.datagrams, parts.udp, parts.roster.joining.host.describe()),
    }


def _messages(traffic: TrafficStatus) -> dict[str, Any]:
    """Return the counts, and those of each level."""
    names = ("taken", "taken_bytes", "delivered", "delivered_bytes")
    levels = {
        level.name.lower(): {name: getattr(traffic, f"{name}_by_level")[level] for name in names}
        for level in ServiceLevel
    }
    return {**{name: getattr(traffic, name) for name in names}, "levels": levels}


def ways(found: Status) -> list[dict[str, Any]]:
    """Return of each link of this daemon the size of packets that pass, and its counters."""
    return [
        {
            "to": link.to,
            "packet_bytes": link.carries_bytes - LINK_BYTES,
            "of_bytes": link.most_bytes - LINK_BYTES,
            "narrow": link.narrow,
            "round_trip_ms": round(1000 * link.round_trip_s, 3),
            "bytes_per_s": round(link.rate),
            "sent": link.sent,
            "lost": link.lost,
            "in_flight_bytes": link.in_flight_bytes,
            "waiting_bytes": link.waiting_bytes,
            "dropped": link.dropped,
        }
        for link in found.links
    ]


def _datagrams(
    counts: DatagramStatus, udp: UdpSocket | Networks, joining: dict[str, int]
) -> dict[str, Any]:
    return {
        **attrs.asdict(counts),
        "not_sent": udp.lost,
        "gso": udp.gso,
        "gro": udp.gro,
        "buffer_bytes": udp.buffer_bytes,
        "dropped": udp.dropped,
        "filtered": udp.filtered,
        "segments": udp.segments,
        "joining": joining,
    }


def broken(status: Status) -> list[dict[str, Any]]:
    """Return the daemons that have broken the protocol, with the time for which each is left
    out."""
    found = []
    for other in status.broken:
        name, left_out_s = other.name, max(0.0, other.until - status.at)
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(other.counts.items()))
        count = sum(other.counts.values())
        text = f"{name} has sent {count} packets that break the protocol ({kinds})"
        if left_out_s:
            text += f", and is left out for {left_out_s:.0f} s more"
        found.append(
            {
                "name": name,
                "counts": dict(other.counts),
                "left_out_s": round(left_out_s, 1),
                "text": text,
                "remedy": f"restart {name} with the release that all others have; if this "
                "continues, its host is broken, or somebody else has its key: replace "
                "both",
            }
        )
    return sorted(found, key=lambda each: str(each["name"]))


def _peers(status: Status) -> list[dict[str, Any]]:
    """Return all other daemons that are configured or were heard, by name."""
    known = {peer.name for peer in status.peers}
    silent = set(status.configured) - {status.daemon.name} - known
    found = [_peer(peer, status) for peer in status.peers if peer.name is not None]
    found += [{"name": n, "heard_s": None, "left": False, "clock_ahead_s": None} for n in silent]
    return sorted(found, key=lambda each: str(each["name"]))


def _peer(peer: PeerStatus, status: Status) -> dict[str, Any]:
    """Return one daemon; `clock_ahead_s` is of its last attempt at a view, good to a second."""
    ahead_s = None
    if peer.reading is not None:
        then_s = status.clock.reading / 1e6 - (status.at - peer.joined_at)
        ahead_s = round(peer.reading / 1e6 - then_s, 3)
    return {
        "name": peer.name,
        "heard_s": round(status.at - peer.heard_at, 3) if isfinite(peer.heard_at) else None,
        "left": peer.left,
        "clock_ahead_s": ahead_s,
    }


def _sessions(
    found: Sequence[SessionStatus], shown: Callable[[int], PeerCertificate | None]
) -> list[dict[str, Any]]:
    return [
        {
            "user": session.user,
            "principal": session.principal,
            "connection": session.connection,
            "certificate": _certificate(shown(session.connection)),
            "output_bytes": session.output_bytes,
            "backlog_bytes": session.backlog_bytes,
            "backlog_work": session.backlog_work,
            "dropped": session.dropped,
        }
        for session in found
    ]


def _certificate(shown: PeerCertificate | None) -> dict[str, str] | None:
    return (
        None if shown is None else {"serial": f"{shown.serial:x}", "ends": shown.ends.isoformat()}
    )
