"""A frame: the status of a daemon, and rates since the status before."""

from collections.abc import Iterator, Mapping, Sequence
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
"""The rates of a frame, and the counters of the status from which they come."""


@attrs.frozen(kw_only=True)
class OtherDaemon:
    """Another daemon.

    Attributes:
        name: name of the daemon.
        in_view: whether it is in the view.
        heard_s: seconds since its last datagram; None if there was none.
    """

    name: str
    in_view: bool
    heard_s: float | None


@attrs.frozen(kw_only=True)
class SessionFigures:
    """One session of the daemon.

    Attributes:
        user: name of its user.
        output_bytes: bytes that wait for the program to read them.
        backlog_bytes: bytes that the program has sent, and that have no number yet.
        dropped: UNRELIABLE bundles dropped because the program was too slow.
        dropped_now: the same, since the frame before.
    """

    user: str
    output_bytes: int
    backlog_bytes: int
    dropped: int
    dropped_now: int


@attrs.frozen(kw_only=True)
class Figure:
    """A metric of the daemon that is not 0, as the daemon describes it.

    Attributes:
        name: its name, without ``groupcomm_``, and the value of its label behind it.
        value: the value; of a counter its rate a second.
        unit: its unit: seconds, bytes or "".
        help: its meaning.
        is_rate: whether it is a counter.
    """

    name: str
    value: float
    unit: str
    help: str
    is_rate: bool


@attrs.frozen(kw_only=True)
class Frame:
    """Everything that is shown at once.

    Attributes:
        daemon: name of the daemon.
        state: state of its membership.
        view: id of its view; None before the first one.
        daemons: daemons of the view.
        majority: whether the view is a majority; None if that is unknown.
        stops_in_s: seconds after which it stops at the latest; None if it is not about to.
        uptime_s: age of its process.
        peers: the other daemons, missing ones first.
        groups: number of members by group, largest first.
        sessions: its sessions, slowest receivers first.
        interval_s: interval of the rates.
        rates: figures a second, by the names of RATES.
        rejected: rejected datagrams, since the frame before.
        figures: metrics that are not 0, in the order of the daemon.
    """

    daemon: str
    state: str
    view: str | None
    daemons: Sequence[str]
    majority: bool | None
    stops_in_s: float | None
    uptime_s: float
    peers: Sequence[OtherDaemon]
    groups: Mapping[str, int]
    sessions: Sequence[SessionFigures]
    interval_s: float
    rates: Mapping[str, float]
    rejected: int
    figures: Sequence[Figure]


def make_frame(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    groups: Mapping[str, int],
    interval_s: float,
) -> Frame:
    """Return the frame that follows from two statuses of one daemon.

    Args:
        before: the earlier status, and the answer to `metrics`, if the daemon knows it.
        after: the later ones.
        groups: number of members, by name.
        interval_s: seconds between the statuses, above 0.
    """
    return Frame(
        daemon=after["daemon"],
        state=after["state"],
        view=after["view"],
        daemons=after["daemons"],
        majority=after["majority"],
        stops_in_s=_stops_in_s(after),
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
        figures=list(figures_of(before, after, interval_s)),
    )


def _stops_in_s(status: Mapping[str, Any]) -> float | None:
    drain = status.get("drain")  # an older daemon has none
    return None if drain is None else float(drain["left_s"])


def _rejected(status: Mapping[str, Any]) -> int:
    return sum(status["datagrams"]["rejected"].values())


def figures_of(
    before: Mapping[str, Any], after: Mapping[str, Any], interval_s: float
) -> Iterator[Figure]:
    """Yield the metrics that are not 0; of counters those that have grown.

    Args:
        before: the earlier answer to `metrics`; its names and values are of that daemon.
        after: the later one.
        interval_s: seconds between them, above 0.
    """
    earlier = before.get("metrics", {})
    for name, row in after.get("metrics", {}).items():
        is_rate = row["kind"] == "counter"
        base = earlier.get(name, {"values": {}})["values"] if is_rate else {}
        for of, value in sorted(row["values"].items()):
            now = value - base.get(of, 0)
            if now:
                yield Figure(
                    name=" ".join((name.removeprefix("groupcomm_"), of)).strip(),
                    value=now / interval_s if is_rate else now,
                    unit=row["unit"],
                    help=row["help"],
                    is_rate=is_rate,
                )


def _peers(status: Mapping[str, Any]) -> list[OtherDaemon]:
    found = [
        OtherDaemon(name=p["name"], in_view=p["name"] in status["daemons"], heard_s=p["heard_s"])
        for p in status["peers"]
    ]
    return sorted(found, key=lambda peer: (peer.in_view, peer.name))


def _sessions(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[SessionFigures]:
    dropped = {each["connection"]: each["dropped"] for each in before["sessions"]}
    found = [
        SessionFigures(
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
    """Return the figures that fit one line, with their names; always in this order."""
    missing = [peer.name for peer in frame.peers if not peer.in_view]
    slowest = frame.sessions[0] if frame.sessions else None
    rates = frame.rates
    stops = "" if frame.stops_in_s is None else f", stops within {frame.stops_in_s:.0f} s"
    parts = [
        f"{frame.daemon} {frame.state}{stops}",
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


def shown(figure: Figure) -> str:
    """Return the value of a figure as text, with its unit."""
    if figure.unit == "bytes":
        value = size(figure.value)
    else:
        value = f"{figure.value:.3g}" if figure.unit else amount(figure.value)
        value += " s" if figure.unit == "seconds" else ""
    return f"{value}/s" if figure.is_rate else value


def amount(number: float) -> str:
    """Return a rate as text, with a decimal if it is small."""
    return f"{number:.1f}" if 0 < number < 10 else f"{number:,.0f}"


def size(count: float) -> str:
    """Return a number of bytes as text, in a suitable unit."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{amount(count)} {unit}"
        count /= 1000
    return f"{amount(count)} GB"
