"""One look at a daemon: what it tells, and rates from the differences to the look before."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

RATES: Final = {
    "taken": ("messages", "taken"),
    "taken_bytes": ("messages", "taken_bytes"),
    "delivered": ("messages", "delivered"),
    "delivered_bytes": ("messages", "delivered_bytes"),
    "sent": ("datagrams", "sent"),
    "received": ("datagrams", "received"),
}
"""What is told of each second, and which counters of the status rise with it."""


@attrs.frozen(kw_only=True)
class Peer:
    """Another daemon.

    Attributes:
        name: of it.
        in_view: whether it is in the view.
        heard_s: seconds since something of it came; None if nothing ever did.
    """

    name: str
    in_view: bool
    heard_s: float | None


@attrs.frozen(kw_only=True)
class Session:
    """One program of the daemon.

    Attributes:
        user: its name.
        output_bytes: wait for it to be read.
        backlog_bytes: it has sent, and have no number yet.
        dropped: UNRELIABLE bundles that it was too slow for.
        dropped_now: of these, since the look before.
    """

    user: str
    output_bytes: int
    backlog_bytes: int
    dropped: int
    dropped_now: int


@attrs.frozen(kw_only=True)
class Frame:
    """What is shown at once.

    Attributes:
        daemon: its name.
        state: how far it is on the way from view to view.
        view: the id of its view; None before the first.
        daemons: of the view.
        majority: whether these are one; None if that is unknown.
        uptime_s: of its process.
        peers: the other daemons, those that are missing first.
        groups: their names with the numbers of their members, the largest first.
        sessions: of its programs, the slowest receivers first.
        interval_s: what the rates are of.
        rates: per second, by the names of RATES.
        rejected: datagrams, since the look before.
    """

    daemon: str
    state: str
    view: str | None
    daemons: Sequence[str]
    majority: bool | None
    uptime_s: float
    peers: Sequence[Peer]
    groups: Mapping[str, int]
    sessions: Sequence[Session]
    interval_s: float
    rates: Mapping[str, float]
    rejected: int


def make_frame(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    groups: Mapping[str, int],
    interval_s: float,
) -> Frame:
    """Put together what two statuses of one daemon say.

    Args:
        before: the status of the last look.
        after: the status of this one.
        groups: names and numbers of members.
        interval_s: seconds between the two, above 0.
    """
    return Frame(
        daemon=after["daemon"],
        state=after["state"],
        view=after["view"],
        daemons=after["daemons"],
        majority=after["majority"],
        uptime_s=after["uptime_s"],
        peers=_peers(after),
        groups=dict(sorted(groups.items(), key=lambda each: (-each[1], each[0]))),
        sessions=_sessions(before, after),
        interval_s=round(interval_s, 3),
        rates={
            name: round((after[part][key] - before[part][key]) / interval_s, 1)
            for name, (part, key) in RATES.items()
        },
        rejected=_rejected(after) - _rejected(before),
    )


def _rejected(status: Mapping[str, Any]) -> int:
    return sum(status["datagrams"]["rejected"].values())


def _peers(status: Mapping[str, Any]) -> list[Peer]:
    found = [
        Peer(name=p["name"], in_view=p["name"] in status["daemons"], heard_s=p["heard_s"])
        for p in status["peers"]
    ]
    return sorted(found, key=lambda peer: (peer.in_view, peer.name))


def _sessions(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Session]:
    dropped = {each["connection"]: each["dropped"] for each in before["sessions"]}
    found = [
        Session(
            user=each["user"],
            output_bytes=each["output_bytes"],
            backlog_bytes=each["backlog_bytes"],
            dropped=each["dropped"],
            dropped_now=each["dropped"] - dropped.get(each["connection"], 0),
        )
        for each in after["sessions"]
    ]
    return sorted(found, key=lambda s: (-s.output_bytes, -s.dropped, -s.backlog_bytes, s.user))


def in_a_line(frame: Frame) -> str:
    """The figures that fit a line, with their names; always in this order."""
    missing = [peer.name for peer in frame.peers if not peer.in_view]
    slowest = frame.sessions[0] if frame.sessions else None
    rates = frame.rates
    parts = [
        f"{frame.daemon} {frame.state}",
        f"daemons {','.join(frame.daemons)}",
        f"missing {','.join(missing) or 'none'}",
        f"taken {amount(rates['taken'])}/s {size(rates['taken_bytes'])}/s",
        f"delivered {amount(rates['delivered'])}/s {size(rates['delivered_bytes'])}/s",
        f"datagrams {amount(rates['sent'])}/s out {amount(rates['received'])}/s in",
        f"rejected {frame.rejected}",
        f"groups {len(frame.groups)}",
        f"sessions {len(frame.sessions)}",
    ]
    if slowest is not None:
        parts.append(f"slowest {slowest.user} {size(slowest.output_bytes)}")
    return "; ".join(parts)


def amount(number: float) -> str:
    """A rate, with a digit behind the point where it is small."""
    return f"{number:.1f}" if 0 < number < 10 else f"{number:,.0f}"


def size(count: float) -> str:
    """Bytes, in the unit that suits."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{amount(count)} {unit}"
        count /= 1000
    return f"{amount(count)} GB"
