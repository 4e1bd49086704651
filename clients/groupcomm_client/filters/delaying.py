"""The delay filter: holds messages for a time, to show the effects of late ones.

It is for teaching and tests, as it breaks guarantees of the daemons: views do not wait for the held
messages, and messages overtake each other unless the filter is set to keep their order.
"""

import enum
import heapq
from collections.abc import Callable
from itertools import count
from typing import TypeAlias

import attrs

from groupcomm.errors import LocalProtocolError
from groupcomm.events import MemberId, Message
from groupcomm_client.filters.roles import (
    Filter,
    FilterMessage,
    FilterOutgoing,
    Manager,
    Outgoing,
    Path,
    ReceiveFilter,
    SendFilter,
)

Chosen: TypeAlias = Callable[[Message | Outgoing], bool]


class Way(enum.Enum):
    """The direction of the held messages: outgoing or incoming."""

    OUT = enum.auto()
    IN = enum.auto()


@attrs.define
class _Sender:
    """The state of one sender: the time at which its last held message leaves, and the limit for
    later messages."""

    last: float = 0.0
    floor: float = 0.0


class _Delays(Manager):
    """The held messages, in the order in which they leave."""

    def __init__(self, seconds: float, chosen: Chosen, keep_order: bool) -> None:
        self._seconds = seconds
        self._chosen = chosen
        self._keep_order = keep_order
        self._senders: dict[str, _Sender] = {}
        self._waiting: list[tuple[float, int, Message | Outgoing, Path]] = []
        self._numbers = count()

    def accept(self, message: Message | Outgoing, path: Path) -> None:
        """Hold a message, or pass it on."""
        name = str(message.sender) if isinstance(message, Message) else ""
        sender = self._senders.setdefault(name, _Sender())
        own = isinstance(message, FilterMessage | FilterOutgoing)
        due = path.now + (self._seconds if not own and self._chosen(message) else 0.0)
        # A filter's message keeps its place among those of its sender: filters depend on that.
        due = max(due, sender.last if own or self._keep_order else sender.floor)
        if own:
            sender.floor = due
        sender.last = max(sender.last, due)
        if due <= path.now:
            _pass_on(message, path)
            return
        if isinstance(message, Message):
            path.steps.buffered((name, message.number))
        heapq.heappush(self._waiting, (due, next(self._numbers), message, path))
        self.deadline = self._waiting[0][0]

    def wake(self, path: Path) -> None:
        """See `Manager`."""
        self._release(path.now)

    def finish(self, path: Path) -> None:
        """See `Manager`."""
        self._release(float("inf"))

    def _release(self, until: float) -> None:
        while self._waiting and self._waiting[0][0] <= until:
            _, _, message, path = heapq.heappop(self._waiting)
            self.deadline = self._waiting[0][0] if self._waiting else None
            if isinstance(message, Message):
                path.steps.took((str(message.sender), message.number))
            _pass_on(message, path)


def _pass_on(message: Message | Outgoing, path: Path) -> None:
    if isinstance(message, Message):
        path.receive_on(message)
    else:
        path.send_on(message)


class _Send(SendFilter):
    def __init__(self, delays: _Delays) -> None:
        self._delays = delays

    def process(self, message: Outgoing, path: Path) -> None:
        self._delays.accept(message, path)

    def process_system(self, message: FilterOutgoing, path: Path) -> None:
        self._delays.accept(message, path)


class _Receive(ReceiveFilter):
    def __init__(self, delays: _Delays) -> None:
        self._delays = delays

    def process(self, message: Message, path: Path) -> None:
        self._delays.accept(message, path)

    def process_system(self, message: FilterMessage, path: Path) -> None:
        self._delays.accept(message, path)


def delay(
    seconds: float,
    *,
    way: Way = Way.IN,
    group: str | None = None,
    sender: str | MemberId | None = None,
    type: int | None = None,
    keep_order: bool = False,
) -> Callable[[], Filter]:
    """Return a factory of filters that hold the messages which match all conditions.

    Args:
        seconds: the time for which they are held.
        way: incoming messages, or outgoing ones.
        group: messages to this group only.
        sender: messages of this member, or of this private name, only; for incoming ones.
        type: messages with this tag only.
        keep_order: whether no message of a sender overtakes an earlier one.

    Raises:
        LocalProtocolError: the time is negative, or a sender is given for outgoing messages.
    """
    if not 0 <= seconds < float("inf"):
        raise LocalProtocolError(
            f"a delay of {seconds} seconds is impossible: it must be 0 or more, and finite"
        )
    if sender is not None and way is Way.OUT:
        raise LocalProtocolError(
            "outgoing messages have one sender only, this program: leave sender out"
        )

    name = sender.name if isinstance(sender, MemberId) else sender

    def chosen(message: Message | Outgoing) -> bool:
        return (
            (group is None or group in message.groups)
            and (type is None or type == message.type)
            and (name is None or (isinstance(message, Message) and message.sender.name == name))
        )

    def make() -> Filter:
        delays = _Delays(seconds, chosen, keep_order)
        if way is Way.OUT:
            return Filter("delay", send=_Send(delays), manager=delays)
        return Filter("delay", receive=_Receive(delays), manager=delays)

    return make
