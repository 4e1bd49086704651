"""A frame as one line, for files and pipes."""

from groupcomm_tools.top.frame import Frame


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
