"""What a daemon tells about itself to programs that ask."""

import json
import time
from typing import Any

import attrs

from groupcomm.core import DaemonCore
from groupcommd.clients import Clients
from groupcommd.udp import UdpSocket


@attrs.frozen
class Parts:
    """What there is to tell about."""

    core: DaemonCore
    clients: Clients
    udp: UdpSocket
    started: float  # by time.monotonic


def answer(parts: Parts, question: str) -> bytes:
    """Answer ``status``, ``groups`` or ``members GROUP`` as JSON; anything else with an error."""
    word, _, rest = question.partition(" ")
    if word == "status" and not rest:
        found: dict[str, Any] = status(parts)
    elif word == "groups" and not rest:
        found = {"groups": groups(parts.core)}
    elif word == "members" and rest:
        found = {"group": rest, "members": members(parts.core, rest)}
    else:
        found = {"error": f"{question[:80]!r}: ask for status, groups or members GROUP"}
    return json.dumps(found, ensure_ascii=False).encode()


def groups(core: DaemonCore) -> dict[str, int]:
    """How many members each group has, as far as this daemon has delivered."""
    if core.operation is None or not core.operation.delivery.complete:
        return {}
    table = core.operation.delivery.groups.table
    return {name: len(table.groups[name]) for name in sorted(table.groups)}


def members(core: DaemonCore, group: str) -> list[str]:
    """The members of a group, in the order in which they joined; empty if there is none."""
    if core.operation is None or not core.operation.delivery.complete:
        return []
    return [member.name for member in core.operation.delivery.groups.table.member_ids(group)]


def status(parts: Parts) -> dict[str, Any]:
    """View, ring, sessions and counters."""
    core, view = parts.core, parts.core.view
    counters = core.counters
    return {
        "daemon": core.start.name,
        "restarts": core.start.incarnation.restarts,
        "uptime_s": round(time.monotonic() - parts.started, 1),
        "state": core.state.name.lower(),
        "view": str(view.id) if view is not None else None,
        "daemons": [daemon.name for daemon in view.daemons] if view is not None else [],
        "rings": [[view.daemons[at].name for at in ring] for ring in view.rings] if view else [],
        "majority": core.config.has_majority(len(view.daemons)) if view is not None else None,
        "gathered_for": {reason.name.lower(): n for reason, n in core.membership.reasons.items()},
        "ring": _ring(core),
        "sessions": _sessions(core),
        "connections": len(parts.clients),
        "connections_refused": parts.clients.refused,
        "datagrams": {
            "sent": counters.sent,
            "not_sent": parts.udp.lost,
            "received": counters.received,
            "rejected": dict(counters.rejected),
            "foreign": counters.foreign,
            "stale": counters.stale,
            "duplicates": counters.duplicates,
            "violations": counters.violations,
            "gso": parts.udp.gso,
            "gro": parts.udp.gro,
            "buffer_bytes": parts.udp.buffer_bytes,
        },
    }


def _ring(core: DaemonCore) -> dict[str, Any] | None:
    operation = core.operation
    if operation is None:
        return None
    ring = operation.ring
    return {
        "token": ring.state.name.lower(),
        "hop": ring.away.hop,
        "held_by_all": ring.everywhere,
        "held": [stream.held for stream in operation.streams],
        "frontiers_least": operation.delivery.order.frontiers.least,
        "token_losses": ring.away.token_losses,
        "token_retransmissions": ring.away.token_retransmissions,
        "waiting_bundles": len(core.desk.waiting),
    }


def _sessions(core: DaemonCore) -> list[dict[str, Any]]:
    return [
        {
            "user": session.user,
            "connection": number,
            "output_bytes": session.output_bytes,
            "backlog_bytes": session.backlog_bytes,
            "dropped": session.dropped,
        }
        for number, session in core.desk.sessions.items()
    ]
