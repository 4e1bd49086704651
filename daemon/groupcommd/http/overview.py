"""The overview: the page's data about the cluster, as plain values for JSON.

Views, members of groups, and heard daemons come from the agreed order or from this daemon's
observations. Rates, delays and sessions are of this daemon alone.
"""

import json
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import islice
from typing import Any, Final

from groupcomm.durations import BOUNDS_S
from groupcommd.config.daemon_config import describe
from groupcommd.http.history import PastView
from groupcommd.http.metrics import SLOW_BYTES
from groupcommd.http.snapshot import Snapshot
from groupcommd.operators.answers import in_pieces
from groupcommd.operators.assessment import BETWEEN_S, Answer, DaemonAnswers, assess
from groupcommd.operators.status import describe_status

MAX_VIEWS: Final = 12
GROUPS_A_PIECE: Final = 1000
"""The groups of which a piece looks for the largest ones: some 0.3 ms."""

MAX_GROUPS: Final = 40
"""The most groups that are shown, the largest ones; all are counted."""

MAX_MEMBERS: Final = 8
MAX_SESSIONS: Final = 12
"""The most sessions that are shown: those with the most waiting output."""


class Overview:
    """A maker of overviews, which remembers the status that the doctor compares with."""

    def __init__(self) -> None:
        self._earlier: deque[tuple[float, Answer]] = deque()

    def make(self, snapshot: Snapshot) -> Iterator[bytes]:
        """Yield the overview of a snapshot as JSON in one line, behind one empty piece for each
        GROUPS_A_PIECE groups."""
        largest: list[str] = []
        for some in in_pieces(list(snapshot.parts.core.groups()), GROUPS_A_PIECE):
            largest = [name for _, name in _largest(snapshot, (*largest, *some))]
            yield b""
        found = describe_status(snapshot.parts, snapshot.status)
        answers = DaemonAnswers(
            self._before(snapshot.status.at, found), found, describe(snapshot.parts.config)
        )
        told = {
            "at": time.time(),
            "daemon": found["daemon"],
            "cluster": snapshot.parts.config.core.cluster,
            "uptime_s": found["uptime_s"],
            "state": found["state"],
            "view": found["view"],
            "majority": found["majority"],
            "rings": found["rings"],
            "sites": _sites(snapshot, found),
            "links": _links(snapshot, found),
            "views": [_view(each) for each in list(snapshot.history.views)[:MAX_VIEWS]],
            **_groups(snapshot, largest),
            **_sessions(snapshot),
            "rates": _rates(snapshot),
            "findings": [
                {"check": f.check, "grade": f.grade.value, "text": f.text, "remedy": f.remedy}
                for f in assess(answers)
            ],
        }
        yield json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()

    def _before(self, at: float, found: Answer) -> Answer:
        """Return the status of a moment ago, which the doctor compares with."""
        earlier = self._earlier
        earlier.append((at, found))
        while len(earlier) > 1 and earlier[1][0] <= at - BETWEEN_S:
            earlier.popleft()
        return earlier[0][1]


def _sites(snapshot: Snapshot, found: Answer) -> list[dict[str, Any]]:
    """Return the configured daemons by site, and the known facts about each."""
    cluster = snapshot.parts.config.core
    peers = {peer["name"]: peer for peer in found["peers"]}
    there = set(found["daemons"])
    rows = {
        name: {
            "name": name,
            "here": name == found["daemon"],
            "in_view": name in there,
            "heard_s": peers[name]["heard_s"] if name in peers else None,
            "left": name in peers and peers[name]["left"],
        }
        for name in {*cluster.daemons, *there}
    }
    sites = cluster.sites or ((found["daemon"],),)
    names = cluster.site_names or tuple(f"site {number}" for number in range(1, len(sites) + 1))
    return [
        {"name": name, "daemons": [rows[each] for each in site]}
        for name, site in zip(names, sites, strict=True)
    ]


def _links(snapshot: Snapshot, found: Answer) -> list[dict[str, Any]]:
    """Return the links of the view; those that end here with figures."""
    own = {link.to: link for link in snapshot.status.links}
    rows = []
    for ends in found["links"]:
        row: dict[str, Any] = {"ends": ends}
        other = next((name for name in ends if name != found["daemon"]), None)
        if found["daemon"] in ends and other in own:
            link = own[other]
            row |= {
                "round_trip_s": link.round_trip_s,
                "rate": link.rate,
                "sent": link.sent,
                "lost": link.lost,
                "waiting_bytes": link.waiting_bytes,
                "narrow": link.narrow,
            }
        rows.append(row)
    return rows


def _view(past: PastView) -> dict[str, Any]:
    news = past.news
    return {
        "at": past.at,
        "id": str(news.view.id),
        "daemons": [daemon.name for daemon in news.view.daemons],
        "came": list(news.came),
        "left": list(news.left),
        "causes": [cause.name.lower() for cause in news.causes],
        "took_s": news.took_s,
    }


def _largest(snapshot: Snapshot, names: Iterable[str]) -> list[tuple[int, str]]:
    """Return the largest of some groups, each with the number of its members, if it has any now."""
    groups = snapshot.parts.core.groups()
    return nlargest(MAX_GROUPS, ((len(groups[name]), name) for name in names if name in groups))


def _groups(snapshot: Snapshot, largest: Iterable[str]) -> dict[str, Any]:
    groups = snapshot.parts.core.groups()
    return {
        "group_count": len(groups),
        "groups": [
            {
                "name": name,
                "count": count,
                "members": [member.id.name for member in islice(groups[name], MAX_MEMBERS)],
            }
            for count, name in _largest(snapshot, largest)
        ],
    }


def _sessions(snapshot: Snapshot) -> dict[str, Any]:
    """Return the sessions for which most output waits, and some others if few wait for any."""
    found, parts = snapshot.programs, snapshot.parts
    some = parts.core.programs(parts.connections.numbers[:MAX_SESSIONS])
    shown = {each.connection: each for each in (*some, *found.sessions)}
    largest = nlargest(MAX_SESSIONS, shown.values(), key=lambda each: each.output_bytes)
    return {
        "session_count": found.programs,
        "sessions": [
            {
                "user": each.user,
                "output_bytes": each.output_bytes,
                "backlog_bytes": each.backlog_bytes,
                "dropped": each.dropped,
                "blocks": each.blocks,
                "slow": each.output_bytes > SLOW_BYTES,
            }
            for each in largest
        ],
    }


def _rates(snapshot: Snapshot) -> dict[str, Any]:
    """Return counters, of which the page shows the differences."""
    found, parts = snapshot.status, snapshot.parts
    delays = [delay.counts for delay in parts.delays]
    return {
        "sent": found.traffic.taken,
        "delivered": found.traffic.delivered,
        "received_bytes": parts.udp.received_bytes,
        "sent_bytes": parts.udp.sent_bytes,
        "repeated": found.token.repeated_packets,
        "rotations": found.token.rotations,
        "rotations_s": found.token.rotations_s,
        "waiting": found.ring.waiting_bundles if found.ring is not None else 0,
        "delays": _sums(delays),
        "bounds_s": BOUNDS_S,
    }


def _sums(rows: Sequence[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]
