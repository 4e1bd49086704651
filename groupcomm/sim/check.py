"""Judge recorded traces: JSON lines in, what does not hold out.

The oracles take it for granted that a trace makes sense: daemons of one view, names of the right
form. A trace from a file may not, so each line is checked before it is judged.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs
import msgspec

from groupcomm.errors import GroupCommError
from groupcomm.sim.oracles import Oracles, Violation
from groupcomm.sim.readable import readable
from groupcomm.sim.trace import (
    Accept,
    Ask,
    Bounce,
    Conf,
    Count,
    Deliver,
    Hold,
    Horizon,
    Member,
    Order,
    Quiet,
    Rejects,
    Release,
    Send,
    Stamped,
    Table,
    TraceEvent,
    decode_event_untrusted,
)

MAX_BUNDLE: Final = 65_536
"""More messages than any bundle holds; an event that names more is refused."""

_REQUESTS: Final = frozenset(("connect", "join", "leave", "disconnect", "crash"))


class TraceError(GroupCommError):
    """A line is no event, or no event of this trace; the text names file, line and reason."""


@attrs.frozen(kw_only=True)
class CheckResult:
    """What came out of one trace.

    Attributes:
        name: of the trace, as given.
        events: how many there were.
        complete: it ends with Quiet, so that what is missing was judged, too.
        violations: properties that do not hold, the first ones in the order of the trace.
    """

    name: str
    events: int
    complete: bool
    violations: tuple[Violation, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        return not self.violations


def check_trace(name: str, lines: Iterable[bytes]) -> CheckResult:
    """Judge one trace.

    Args:
        name: what errors call it, as a rule the file's name.
        lines: one event a line, as bytes; an open binary file is one.

    Raises:
        TraceError: a line is broken, cut off, or makes no sense where it stands.
    """
    oracles, sense = Oracles(), _Sense()
    number, event = 0, None
    for number, line in enumerate(lines, 1):
        try:
            event = decode_event_untrusted(line)
            sense.check(event)
        except (msgspec.MsgspecError, ValueError) as error:
            raise TraceError(f"{name}:{number}: {_what_is_wrong(line, error)}") from None
        oracles.feed(event)
    oracles.finish()
    return CheckResult(
        name=name,
        events=number,
        complete=isinstance(event, Quiet),
        violations=tuple(oracles.violations),
    )


def describe(event: TraceEvent) -> str:
    """One event as one line for people: seconds, who, what."""
    return readable(event)


def _what_is_wrong(line: bytes, error: Exception) -> str:
    if not line.strip():
        return "an empty line; a trace has one event on each"
    if not line.endswith(b"\n") and not line.endswith(b"}"):
        return "the line is cut off; the trace is good up to the line before"
    return f"not an event of this trace: {error}"


class _Sense:
    """Finds events that do not fit those before; the oracles would stumble over them.

    Each method raises ValueError that says what is wrong.
    """

    def __init__(self) -> None:
        self._rings: tuple[tuple[str, ...], ...] = ()
        self._view = ""
        self._daemons: set[str] = set()
        self._checks: dict[type[TraceEvent], Callable[[Any], None]] = {
            Conf: self._conf,
            Accept: self._accept,
            Release: self._release,
            Send: self._send,
            Deliver: self._deliver,
            Ask: self._ask,
            Member: self._member,
            Table: self._daemon,
            Rejects: self._daemon,
            **dict.fromkeys((Stamped, Hold, Horizon, Count), self._ring),
            **dict.fromkeys((Order, Bounce), self._of_client),
        }

    def check(self, event: TraceEvent) -> None:
        """Raise ValueError if this event does not fit."""
        check = self._checks.get(type(event))
        if check is not None:
            check(event)

    def _conf(self, event: Conf) -> None:
        if not self._view:
            self._view, self._rings = event.view, event.rings
        if (event.kind, event.view, event.rings) != ("R", self._view, self._rings):
            raise ValueError("another view than before; traces with several are not judged yet")
        if not any(event.p in ring for ring in event.rings):
            raise ValueError(f"{event.p} is not in the view that it installs")
        if event.p in self._daemons:
            raise ValueError(f"{event.p} installs the view twice")
        self._daemons.add(event.p)

    def _daemon(self, event: Any) -> None:
        if event.p not in self._daemons:
            raise ValueError(f"{event.p} has not installed a view")

    def _ring(self, event: Stamped | Hold | Horizon | Count | Release) -> None:
        self._daemon(event)
        if not 0 <= event.ring < len(self._rings):
            raise ValueError(f"ring {event.ring} of {len(self._rings)}")

    def _accept(self, event: Accept) -> None:
        self._daemon(event)
        self._bundle(event)

    def _release(self, event: Release) -> None:
        self._ring(event)
        self._bundle(event)
        self._level(event)
        if not 0 <= event.kind <= 5 or not 0 <= event.index < event.count:
            raise ValueError(f"kind {event.kind}, part {event.index} of {event.count}")

    def _bundle(self, event: Accept | Release) -> None:
        _identity(event.c)
        if not 0 <= event.last - event.first < MAX_BUNDLE:
            raise ValueError(f"a bundle of messages {event.first} to {event.last}")

    def _of_client(self, event: Any) -> None:
        _identity(event.c)

    def _ask(self, event: Ask) -> None:
        _identity(event.c)
        if event.what not in _REQUESTS:
            raise ValueError(f"a client asks for {event.what!r}")

    def _send(self, event: Send) -> None:
        _identity(event.c)
        self._level(event)

    def _deliver(self, event: Deliver) -> None:
        _identity(event.c)
        _identity(event.s)
        self._level(event)

    def _level(self, event: Any) -> None:
        if not 0 <= event.level <= 5:
            raise ValueError(f"level {event.level} is none of 0 to 5")
        if not isinstance(event, Release) and not all(event.to or [""]):
            raise ValueError("a message without a destination")

    def _member(self, event: Member) -> None:
        for identity in (event.c, *event.changed):
            _identity(identity)


def _identity(text: str) -> None:
    """A client's identity is ``#user#daemon/connection``."""
    name, slash, connection = text.rpartition("/")
    if name.count("#") != 2 or name[0] != "#" or not slash or not connection.isdecimal():
        raise ValueError(f"{text!r} is not of the form #user#daemon/connection")
