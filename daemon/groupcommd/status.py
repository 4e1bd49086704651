"""What a daemon tells about itself to programs that ask."""

import json
import os
import time
from math import isfinite
from typing import Any

import attrs
import trio

from groupcomm.core import DaemonCore
from groupcomm.groups.table import Member
from groupcomm.membership.peers import Peer
from groupcomm.security.access import Access, Verb
from groupcomm.wire.link import LINK_BYTES
from groupcommd.clients import Clients
from groupcommd.config_file import DaemonConfig
from groupcommd.description import describe
from groupcommd.disk_watch import DiskWatch
from groupcommd.doors import owners
from groupcommd.files import Files
from groupcommd.key_service import KeyService, may_change_keys
from groupcommd.networks import Networks
from groupcommd.shown_certificate import ShownCertificate
from groupcommd.strangers import Strangers
from groupcommd.udp import UdpSocket


@attrs.frozen
class Parts:
    """What there is to tell about."""

    config: DaemonConfig
    core: DaemonCore
    clients: Clients
    udp: UdpSocket | Networks
    keys: KeyService
    files: Files
    strangers: Strangers
    disk: DiskWatch
    started: float  # by time.monotonic
    reloads: int = 0


def answer(parts: Parts, question: str, principal: str) -> bytes:
    """Answer a principal's question as JSON; one that is none, or not allowed, with an error."""
    word, _, rest = question.partition(" ")
    access = parts.core.desk.guard.access
    verb = Verb.SEE_MEMBERS if word == "members" else Verb.ADMIN
    asks = verb is Verb.ADMIN or access.restricts
    if asks and not (access.may(principal, verb, rest) or may_admin(access, principal)):
        why = "a rule takes from it" if access.takes_away(principal, verb) else "no rule allows it"
        found: dict[str, Any] = {
            "error": f"{principal} may not ask for {question[:80]!r}: {why} {verb.word}; ask the"
            " daemon's operator for another one ([[access]] in its configuration)",
            "refused": {"verb": verb.word, "group": rest, "principal": principal},
        }
    elif word == "status" and not rest:
        found = status(parts)
    elif word == "groups" and not rest:
        found = {"groups": groups(parts.core)}
    elif word == "configuration" and not rest:
        found = describe(parts.config)
    elif word == "members" and rest:
        known = members(parts.core, rest)
        names, principals = [m.id.name for m in known], {m.id.name: m.principal for m in known}
        found = {"group": rest, "members": names, "principals": principals}
    elif word == "keys":
        return parts.keys.answer(question, allowed=may_change_keys(principal))
    else:
        questions = "status, groups, members GROUP, configuration or keys"
        found = {"error": f"{question[:80]!r}: ask for {questions}"}
    return json.dumps(found, ensure_ascii=False).encode()


def may_admin(access: Access, principal: str) -> bool:
    """Return whether a principal may be told of others' sessions.

    The daemon's own user and root may, unless a rule takes that away: else the first rule, which
    is about programs, would lock out who runs the daemon.
    """
    if principal in owners() and not access.takes_away(principal, Verb.ADMIN):
        return True
    return access.may(principal, Verb.ADMIN)


def groups(core: DaemonCore) -> dict[str, int]:
    """How many members each group has, as far as this daemon has delivered."""
    if core.operation is None or not core.operation.delivery.complete:
        return {}
    table = core.operation.delivery.groups.table
    return {name: len(table.groups[name]) for name in sorted(table.groups)}


def members(core: DaemonCore, group: str) -> list[Member]:
    """The members of a group, in the order in which they joined; empty if there is none."""
    if core.operation is None or not core.operation.delivery.complete:
        return []
    return list(core.operation.delivery.groups.table.groups.get(group, ()))


def status(parts: Parts) -> dict[str, Any]:
    """View, ring, sessions and counters."""
    core, view, now = parts.core, parts.core.view, trio.current_time()
    return {
        "daemon": core.start.name,
        "pid": os.getpid(),
        "listens": str(parts.udp.address),
        "restarts": core.start.incarnation.restarts,
        "reloads": parts.reloads,
        "uptime_s": round(time.monotonic() - parts.started, 1),
        "state": core.state.name.lower(),
        "view": str(view.id) if view is not None else None,
        "daemons": [daemon.name for daemon in view.daemons] if view is not None else [],
        "rings": [[view.daemons[at].name for at in ring] for ring in view.rings] if view else [],
        "links": [[view.daemons[at].name for at in link] for link in view.links] if view else [],
        "ways": ways(core),
        "majority": core.config.has_majority(len(view.daemons)) if view is not None else None,
        "gathered_for": {reason.name.lower(): n for reason, n in core.membership.reasons.items()},
        "configured": list(core.config.daemons),
        "peers": _peers(core, now),
        "files": parts.files.told(now),
        "broken": broken(core, now),
        "strangers": parts.strangers.told(now),
        "clock": {
            "wall_ahead_s": round(time.time() - core.physical.read(now) / 1e6, 3),
            "jumps": core.physical.jumps,
        },
        "disk": parts.disk.status(now),
        "ring": _ring(core),
        "sessions": _sessions(core, parts.clients),
        "access": {
            "rules": len(core.desk.guard.access.rules),
            "refused": dict(core.desk.guard.refused),
            "foreign": core.desk.guard.foreign,
        },
        "connections": len(parts.clients),
        "connections_most": parts.clients.allowances.most,
        "connections_refused": parts.clients.refusals.counts.total(),
        "refused": dict(parts.clients.refusals.counts),
        "principals": parts.clients.allowances.connections(),
        "messages": {
            "taken": core.desk.traffic.taken,
            "taken_bytes": core.desk.traffic.taken_bytes,
            "delivered": core.desk.traffic.delivered,
            "delivered_bytes": core.desk.traffic.delivered_bytes,
        },
        "datagrams": _datagrams(core, parts.udp),
    }


def ways(core: DaemonCore) -> list[dict[str, Any]]:
    """Over each link that ends here: how large packets pass, and how large there are."""
    operation = core.operation
    if operation is None:
        return []
    return [
        {
            "to": operation.view.daemons[at].name,
            "packet_bytes": link.path.carries - LINK_BYTES,
            "of_bytes": link.path.most - LINK_BYTES,
            "narrow": link.path.is_narrow,
        }
        for at, link in operation.links.items()
    ]


def _datagrams(core: DaemonCore, udp: UdpSocket | Networks) -> dict[str, Any]:
    counters = core.counters
    return {
        "sent": counters.sent,
        "not_sent": udp.lost,
        "received": counters.received,
        "rejected": dict(counters.rejected),
        "foreign": counters.foreign,
        "stale": counters.stale,
        "duplicates": counters.duplicates,
        "violations": dict(counters.violations),
        "gso": udp.gso,
        "gro": udp.gro,
        "buffer_bytes": udp.buffer_bytes,
        "dropped": udp.dropped,
        "filtered": udp.filtered,
    }


def broken(core: DaemonCore, now: float) -> list[dict[str, Any]]:
    """Return the daemons that have sent what no daemon in order sends, and what is done of it."""
    known, found = core.membership.peers, []
    for number, fellow in core.membership.trust.fellows.items():
        peer = known.get(number)
        name = (peer.name if peer is not None else None) or f"daemon {number:x}"
        left_out_s = max(0.0, fellow.until - now)
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(fellow.counts.items()))
        text = f"{name} has sent {fellow.counts.total()} packets that break the protocol ({kinds})"
        if left_out_s:
            text += f", and is left out for {left_out_s:.0f} s more"
        found.append(
            {
                "name": name,
                "counts": dict(fellow.counts),
                "left_out_s": round(left_out_s, 1),
                "text": text,
                "remedy": f"restart {name} with the release that all others have; if it goes on,"
                " its host is broken, or somebody else has its key: replace both",
            }
        )
    return sorted(found, key=lambda each: str(each["name"]))


def _peers(core: DaemonCore, now: float) -> list[dict[str, Any]]:
    """All other daemons that are configured, and those that were heard of, by name."""
    known = core.membership.peers
    silent = set(core.config.daemons) - {core.start.name} - {p.name for p in known.values()}
    found = [_peer(core, peer, now) for peer in known.values() if peer.name is not None]
    found += [{"name": n, "heard_s": None, "left": False, "clock_ahead_s": None} for n in silent]
    return sorted(found, key=lambda each: str(each["name"]))


def _peer(core: DaemonCore, peer: Peer, now: float) -> dict[str, Any]:
    """`clock_ahead_s` compares clocks when it last looked for a view; good to a second or so."""
    ahead_s = None
    if peer.join is not None:
        then_s = core.physical.read(now) / 1e6 - (now - peer.join_at)
        ahead_s = round(peer.join.reading / 1e6 - then_s, 3)
    return {
        "name": peer.name,
        "heard_s": round(now - peer.heard_at, 3) if isfinite(peer.heard_at) else None,
        "left": peer.left,
        "clock_ahead_s": ahead_s,
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
        "waiting_bundles": len(core.desk.backlog) + core.desk.subscriptions.holds,
    }


def _sessions(core: DaemonCore, clients: Clients) -> list[dict[str, Any]]:
    shown = clients.certificates()
    return [
        {
            "user": session.user,
            "principal": core.desk.principal_of(number),
            "connection": number,
            "certificate": _certificate(shown[number]) if number in shown else None,
            "output_bytes": session.output_bytes,
            "backlog_bytes": session.backlog_bytes,
            "dropped": session.dropped,
        }
        for number, session in core.desk.sessions.items()
    ]


def _certificate(shown: ShownCertificate) -> dict[str, str]:
    return {"serial": f"{shown.serial:x}", "ends": shown.ends.isoformat()}
