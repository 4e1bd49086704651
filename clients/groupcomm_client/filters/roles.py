"""The roles of a filter: what programs and the ready filters build on.

A filter stands between a program and its session. Of each message that the program sends its
*send filter* is asked, of each one that comes its *receive filter*; both pass it on along the
`Path` that they are given, as it is, changed, later, in another order, or not at all. What is no
user's message (views, transitions, undeliverable messages) reaches the program untouched; the
*manager*, which keeps what the two share, is told of it. All of it is pure: time is ``path.now``,
and a manager that waits for a time says so by its deadline.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import attrs
import msgspec

from groupcomm.errors import RemoteProtocolError
from groupcomm.events import (
    DaemonView,
    GroupView,
    MemberId,
    Message,
    Refused,
    Transition,
    Undeliverable,
)
from groupcomm.level import ServiceLevel

if TYPE_CHECKING:
    from groupcomm.trace.steps import StepTrace

SystemEvent: TypeAlias = GroupView | DaemonView | Transition | Undeliverable | Refused
"""What a program receives that is no message."""


class Outgoing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message on its way out.

    Attributes:
        groups, data, level, type, self_discard, ordered: as the program has sent it.
        ticket: of a message whose place somebody waits for; 0 of any other.
        secret: its group had one when the program sent it: it goes out sealed, or not at all.
    """

    groups: tuple[str, ...]
    data: bytes
    level: ServiceLevel
    type: int = 0
    self_discard: bool = False
    ordered: bool = False
    ticket: int = 0
    secret: bool = False


class FilterOutgoing(Outgoing, frozen=True, kw_only=True, gc=False):
    """A filter's own message on its way out; `origin` is the filter's place on the wire."""

    origin: int


class FilterMessage(Message, frozen=True, kw_only=True, gc=False):
    """A filter's own message that has come; `origin` is the filter's place on the wire."""

    origin: int


class Stamped(NamedTuple):
    """The stamp that a filter has put on a message, for traces.

    Attributes:
        text: as a reader is to see it.
        bytes: its length on the wire.
    """

    text: str
    bytes: int


class Newcomer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The announcement of a member who has come to a group.

    A session is a group. An application is named by the part of a program's name before a dash:
    ``chat-ann`` is Ann, who uses the application ``chat``; see `newcomers.application_of`.

    Attributes:
        group: the group.
        member: who has come; the receiver itself, when it has joined.
        new_session: nobody was in the group before.
        new_application: nobody was in the group before with the newcomer's application.
        users: all members of the group, the newcomer among them, in the order of their joins.
    """

    group: str
    member: MemberId
    new_session: bool
    new_application: bool
    users: tuple[MemberId, ...]


class CannotUndo(RemoteProtocolError):
    """Raised by a receive filter: the message is not what the send filter makes."""


class Path(Protocol):
    """What a filter may do; one for each filter of a connection."""

    @property
    def now(self) -> float:
        """Seconds, of a clock that never falls."""

    @property
    def member(self) -> MemberId:
        """The session's identity."""

    @property
    def groups(self) -> Mapping[str, GroupView]:
        """The latest views of the groups that the session is a member of."""

    @property
    def steps(self) -> "StepTrace":
        """Takes the steps of the filter; `SILENT` if nobody wants them."""

    def record_to(self, steps: "StepTrace") -> None:
        """Have all filters of the connection record their steps there."""

    def stamp_of(self, message: Message | Outgoing) -> Stamped | None:
        """Return the stamp that the filter next above has put on a message as it is on the wire."""

    def send_on(self, message: Outgoing) -> None:
        """Pass a message on, towards the daemon."""

    def receive_on(self, message: Message) -> None:
        """Pass a message on, towards the program."""

    def multicast(self, group: str, data: bytes, level: ServiceLevel) -> None:
        """Send a message of this filter's own to the managers of the same filter.

        It goes through the filters below; the sender itself does not get it. Nothing is sent
        while other filters have taken the place of these.
        """

    def give_up(self, message: Message, why: str) -> None:
        """Give the program an `Unfiltered` in place of a message."""


class SendFilter:
    """Asked of every message that goes out; by default it passes on."""

    def process(self, message: Outgoing, path: Path) -> None:
        """Process a program's message."""
        path.send_on(message)

    def process_system(self, message: FilterOutgoing, path: Path) -> None:
        """Pass on a message of a filter above, which must arrive unchanged and in its place."""
        path.send_on(message)


class ReceiveFilter:
    """Asked of every message that comes; by default it passes on."""

    def process(self, message: Message, path: Path) -> None:
        """Process a program's message.

        Raises:
            CannotUndo: the program is to get it as it is, and to be told why.
        """
        path.receive_on(message)

    def process_system(self, message: FilterMessage, path: Path) -> None:
        """Pass on a message of a filter above, which must arrive unchanged and in its place."""
        path.receive_on(message)


class Manager:
    """What the two filters share; by default it keeps nothing.

    Attributes:
        deadline: when `wake` is to be called, in ``path.now``'s seconds; None: not at all.
    """

    deadline: float | None = None

    def start(self, path: Path) -> None:
        """Begin: messages go through this filter from now on."""

    def notified(self, event: SystemEvent, path: Path) -> None:
        """Note what the program receives now; what is passed on next comes behind it."""

    def joined(self, newcomer: Newcomer, path: Path) -> None:
        """Note a newcomer to a group of this session; called after `notified` of its view."""

    def stamp_of(self, message: Message | Outgoing, path: Path) -> Stamped | None:
        """Return this filter's stamp of a message as it is on the wire; None if it has none."""
        return None

    def received(self, message: FilterMessage, path: Path) -> None:
        """Accept what the manager of another member has sent.

        Raises:
            CannotUndo: it does not decode.
        """

    def sent(self, message: Outgoing, number: int, path: Path) -> None:
        """Note the number in the session of a message of the program or of a filter.

        It is 0 if it waits there for the key of a group with a secret.
        """

    def delivered(self, message: Message, path: Path) -> None:
        """Note a message that the program gets now."""

    def wake(self, path: Path) -> None:
        """Do what the deadline was for."""

    def finish(self, path: Path) -> None:
        """Pass on what waits for nothing but a time: the session ends, or other filters follow."""

    def end(self) -> None:
        """End: the connection is over, and nothing follows."""


@attrs.frozen
class Filter:
    """One filter of one connection, or of several that share it.

    Attributes:
        name: 1 to 64 letters, digits and dashes.
        send, receive, manager: its parts.
        on_wire: whether what it sends must be undone by a filter of the same name; only such a
            filter may send messages of its own.
    """

    name: str
    send: SendFilter = attrs.field(factory=SendFilter)
    receive: ReceiveFilter = attrs.field(factory=ReceiveFilter)
    manager: Manager = attrs.field(factory=Manager)
    on_wire: bool = attrs.field(default=False, kw_only=True)
