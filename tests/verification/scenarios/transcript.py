"""The transcript of a scenario: lines for people by daemon and program, equal ones once.

It has no times and no numbers of views or packets, which change with every change of the protocol
that keeps its promises.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from groupcomm.events import (
    Answer,
    Closed,
    Connected,
    DaemonStopping,
    DaemonView,
    Event,
    GroupView,
    LineGranted,
    MemberId,
    Message,
    Ordered,
    Refused,
    Transition,
    Undeliverable,
)
from groupcomm.trace.events import Boot, Conf, Fail, Left, TraceEvent

LOAD: Final = "load "
"""The start of the text of load messages, which are shown as a sum."""

PADDING: Final = "\0"
QUIET_PADDING: Final = "\1"
"""The padding of texts; after the first one the size is shown."""

_NUMBERED: Final = re.compile(r"(.*) (\d+)((?: \([\d,]+ bytes\))?)")
_MAJORITY: Final = {True: "majority", False: "no majority", None: "majority unknown"}


class Transcript:
    """A collector of events, until they are shown.

    Args:
        program: gives the name of a program by its identity.
    """

    def __init__(self, program: Callable[[str], str]) -> None:
        self._program = program
        self._lines: dict[str, list[str]] = {}
        self._daemons: set[str] = set()
        self._programs: list[str] = []
        self._loads: dict[tuple[str, str], int] = {}
        self.texts: dict[tuple[str, int], str] = {}

    def enter(self, program: str) -> None:
        """Let this program appear from now on, after daemons and earlier programs."""
        self._programs.append(program)

    def _add(self, name: str, line: str) -> None:
        self._lines.setdefault(name, []).append(line)

    # ---- daemons ----

    def record(self, event: TraceEvent) -> None:
        """Accept a trace event; events inside daemons are not shown."""
        if not isinstance(event, Boot | Conf | Fail | Left):
            return
        name, line = daemon_name(event.p), ""
        self._daemons.add(name)
        if isinstance(event, Boot):
            line = "starts"
        elif isinstance(event, Fail):
            line = "is killed"
        elif isinstance(event, Left):
            line = "has left"
        else:
            rings = " | ".join(" ".join(map(daemon_name, ring)) for ring in event.rings)
            line = f"view {rings}" if event.kind == "R" else f"leaves its view with {rings}"
        self._add(name, line)

    # ---- programs ----

    def add_event(self, name: str, event: Event) -> None:
        """Accept an event of a program."""
        match event:
            case Message():
                self._add(name, self._message(name, event))
            case GroupView():
                self._add(name, self._group_view(event))
            case DaemonView(daemons=daemons, majority=majority):
                letters = " ".join(daemon[0] for daemon in daemons)
                self._add(name, f"daemons {letters}, {_MAJORITY[majority]}")
            case Transition():
                self._add(name, "transition")
            case Ordered(number=number, transitional=transitional):
                behind = ", but transitional" if transitional else ""
                self._add(name, f"knows the place of {self.texts[name, number]!r}{behind}")
            case Undeliverable(number=number, target=target):
                text = self.texts[name, number]
                self._add(name, f"undeliverable to #{target.split('#')[1]}: {text}")
            case Connected():
                self._add(name, "connected")
            case Closed(reason=reason):
                self._add(name, f"closed: {reason}")
            case Refused() | DaemonStopping() | Answer() | LineGranted():
                pass

    def _message(self, name: str, message: Message) -> str:
        sender = self._program(str(message.sender))
        text = message.data.decode().rstrip(PADDING + QUIET_PADDING)
        if text.startswith(LOAD):
            return self._load(name, sender, int(text.removeprefix(LOAD)))
        size = f" ({len(message.data):,} bytes)" if message.data.endswith(b"\0") else ""
        return f"{sender} {message.level.name.lower()}: {text}{size}"

    def _load(self, name: str, sender: str, number: int) -> str:
        last = self._loads.get((name, sender), number - 1)
        self._loads[name, sender] = number
        if number <= last:
            return f"load of {sender} OUT OF ORDER"
        return f"load of {sender}" + (" after a gap" if number > last + 1 else "")

    def _group_view(self, view: GroupView) -> str:
        members = self._members(view.members) or "nobody"
        if view.changed:
            why = f"{view.cause.name.lower()} of {self._members(view.changed)}"
        else:
            why = f"{view.cause.name.lower()}; together: {self._members(view.vs_set)}"
        return f"{view.group} = {members} ({why})"

    def _members(self, members: Iterable[MemberId]) -> str:
        return " ".join(self._program(str(member)) for member in members)

    # ---- output ----

    def pop_lines(self) -> list[str]:
        """Return the lines since the last call."""
        alike: dict[tuple[str, ...], list[str]] = {}
        for name in (*sorted(self._daemons), *self._programs):
            if name in self._lines:
                alike.setdefault(tuple(shorten(self._lines[name])), []).append(name)
        self._lines.clear()
        lines: list[str] = []
        for what, names in alike.items():
            lines += together(names, what)
        return lines


def together(names: Iterable[str], what: Iterable[str]) -> list[str]:
    """Return the lines of several participants together: one line if equal, else below their
    names."""
    first, *more = what
    who = " ".join(names)
    return [f"{who}:", *(f"  {line}" for line in (first, *more))] if more else [f"{who}: {first}"]


def daemon_name(identity: str) -> str:
    """Return the letter of a daemon, with the number of its start if that is not the first."""
    name, _, start = identity.partition("/")
    return name[0] if start == "1" else f"{name[0]}/{start}"


def shorten(lines: Iterable[str]) -> list[str]:
    """Merge numbered messages that follow each other, and load."""
    short: list[str] = []
    first = last = 0
    for line in lines:
        match = _NUMBERED.fullmatch(line)
        if line.startswith("load of ") and short and short[-1].startswith("load of "):
            short[-1] = _more_load(short[-1], line)
        elif match and first and int(match[2]) == last + 1 and _is_run(short[-1], match):
            last += 1
            short[-1] = f"{match[1]} {first} .. {last}{match[3]}"
        else:
            first = last = int(match[2]) if match else 0
            short.append(line)
    return short


def _is_run(line: str, match: re.Match[str]) -> bool:
    """Return whether a line is about messages like this one, except for their numbers."""
    before, after = re.escape(match[1]), re.escape(match[3])
    return re.fullmatch(rf"{before} \d+(?: \.\. \d+)?{after}", line) is not None


def _more_load(line: str, other: str) -> str:
    """Return one line for load that follows other load: all senders, and any faults."""
    if "OUT OF ORDER" in line or "OUT OF ORDER" in other:
        return line if "OUT OF ORDER" in line else other
    gap = " after a gap" if line.endswith(" after a gap") or other.endswith(" after a gap") else ""
    texts = (text.removeprefix("load of ").removesuffix(" after a gap") for text in (line, other))
    senders = sorted({name for text in texts for name in text.split()})
    return f"load of {' '.join(senders)}{gap}"
