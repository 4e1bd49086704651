"""Steps of an ordering algorithm or a filter, as trace events.

One vocabulary for the library of algorithms, for peers without a daemon and for filters on a
connection, so that one tool can draw them all. A process (`p`) is any name: a member's, a
client's. A message is named by its sender (`s`) and its number there (`m`), as in the other events
of a client. docs/trace.md lists the equivalent events of a daemon.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeAlias, get_args

import msgspec

MessageId: TypeAlias = tuple[str, int]
"""Sender and number."""


class _Step(msgspec.Struct, frozen=True, tag_field="e", omit_defaults=True, gc=False):
    t: int
    p: str


class _OfMessage(_Step, frozen=True, gc=False):
    s: str
    m: int


class _Stamped(_OfMessage, frozen=True, gc=False):
    stamp: str = ""
    bytes: int = 0


class VectorCreated(_Step, frozen=True, tag="vector", gc=False):
    """It has a vector clock, with these counts."""

    clock: dict[str, int]


class MemberAdded(_Step, frozen=True, tag="member", gc=False):
    """It counts the messages of `name` from now on, from `count` on."""

    name: str
    count: int


class MemberDropped(_Step, frozen=True, tag="dropped", gc=False):
    """It counts the messages of `name` no more."""

    name: str


class Counted(_Step, frozen=True, tag="tick", gc=False):
    """It has incremented its own count, to `count`."""

    count: int


class StampedSent(_OfMessage, frozen=True, tag="out", gc=False):
    """It sent a message to `to` with a stamp, which has this text and this size on a wire."""

    to: tuple[str, ...]
    stamp: str
    bytes: int


class StampedReceived(_OfMessage, frozen=True, tag="in", gc=False):
    """It received a message from `source`, with a stamp of this text and size."""

    source: str
    stamp: str = ""
    bytes: int = 0


class Concurrent(_Stamped, frozen=True, tag="concurrent", gc=False):
    """It found a message to be concurrent with others that it has."""


class Buffered(_OfMessage, frozen=True, tag="buffer", gc=False):
    """It put a message into its buffer; `waits` are the messages known to be waited for."""

    waits: tuple[MessageId, ...]
    stamp: str = ""
    bytes: int = 0


class SuccessorFound(_Stamped, frozen=True, tag="next", gc=False):
    """The process found that a buffered message is a successor of its deliveries."""


class Taken(_Stamped, frozen=True, tag="take", gc=False):
    """It took a message out of its buffer."""


class Given(_Stamped, frozen=True, tag="give", gc=False):
    """It delivered a message to its user."""


class PathCopied(_OfMessage, frozen=True, tag="path", gc=False):
    """It copied clock and buffer for a new path, which a message opens; `paths` it has now."""

    paths: int


class PassedThrough(_Step, frozen=True, tag="pass", gc=False):
    """The process passed on, unchanged, a message that is no user's; `what` is its name."""

    what: str


AlgorithmStep: TypeAlias = (
    VectorCreated
    | MemberAdded
    | MemberDropped
    | Counted
    | StampedSent
    | StampedReceived
    | Concurrent
    | Buffered
    | SuccessorFound
    | Taken
    | Given
    | PathCopied
    | PassedThrough
)


OfReceived: TypeAlias = StampedReceived | Concurrent | Buffered | SuccessorFound | Taken | Given
"""Steps about a message that has come; each can name its stamp again."""

STEPS: Final[tuple[type[AlgorithmStep], ...]] = get_args(AlgorithmStep)
"""All kinds of steps."""


class TraceClock(Protocol):
    """The source of the times in a trace."""

    @property
    def now(self) -> int:
        """Return microseconds of one clock for the whole trace, never falling."""


class StepTrace:
    """Records the steps of one process.

    Args:
        clock: gives them their times.
        record: accepts the steps.
        process: the process whose steps these are.
    """

    __slots__ = ("_clock", "_process", "_record")

    def __init__(
        self, clock: TraceClock, record: Callable[[AlgorithmStep], object], process: str
    ) -> None:
        self._clock = clock
        self._record = record
        self._process = process

    def created(self, counts: Mapping[str, int]) -> None:
        """See VectorCreated."""
        self._record(VectorCreated(self._clock.now, self._process, dict(counts)))

    def added(self, name: str, count: int = 0) -> None:
        """See MemberAdded."""
        self._record(MemberAdded(self._clock.now, self._process, name, count))

    def dropped(self, name: str) -> None:
        """See MemberDropped."""
        self._record(MemberDropped(self._clock.now, self._process, name))

    def counted(self, count: int) -> None:
        """See Counted."""
        self._record(Counted(self._clock.now, self._process, count))

    def sent(self, message: MessageId, to: Iterable[str], stamp: str = "", size: int = 0) -> None:
        """See StampedSent."""
        self._record(StampedSent(self._clock.now, self._process, *message, tuple(to), stamp, size))

    def received(self, message: MessageId, source: str) -> None:
        """See StampedReceived."""
        self._record(StampedReceived(self._clock.now, self._process, *message, source))

    def concurrent(self, message: MessageId) -> None:
        """See Concurrent."""
        self._record(Concurrent(self._clock.now, self._process, *message))

    def buffered(self, message: MessageId, waits: Iterable[MessageId] = ()) -> None:
        """See Buffered."""
        self._record(Buffered(self._clock.now, self._process, *message, tuple(waits)))

    def took(self, message: MessageId) -> None:
        """Record that a successor was found in the buffer, and taken out."""
        self._record(SuccessorFound(self._clock.now, self._process, *message))
        self._record(Taken(self._clock.now, self._process, *message))

    def delivered(self, message: MessageId) -> None:
        """See Given."""
        self._record(Given(self._clock.now, self._process, *message))

    def copied(self, message: MessageId, paths: int) -> None:
        """See PathCopied."""
        self._record(PathCopied(self._clock.now, self._process, *message, paths))

    def passed(self, what: str) -> None:
        """See PassedThrough."""
        self._record(PassedThrough(self._clock.now, self._process, what))


class _NoClock:
    now = 0


SILENT: Final = StepTrace(_NoClock(), lambda _: None, "")
"""Records nothing."""
