"""The roles of a filter: the interfaces of programs' own filters and of the ready ones.

A filter stands between a program and its session. Its *send filter* processes each message that the
program sends, its *receive filter* each one that comes; both pass it on along the `Path` that they
are given, unchanged, changed, later, in another order, or not at all. Other events (views,
transitions, undeliverable messages) reach the program untouched; the *manager*, which keeps the
state that the two share, is notified of them. Filters are pure: time is ``path.now``, and a manager
that waits for a time sets its deadline.
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
"""An event, other than a message, that a program receives."""


class Outgoing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message on its way out.

    Attributes:
        groups, data, level, type, self_discard, ordered: the arguments of the program's call.
        ticket: the ticket of a message whose place a caller waits for; otherwise 0.
        secret: whether its group had a secret when the program sent it: then it is sent sealed, or
            not at all.
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
        text: the stamp in readable form.
        bytes: its length on the wire.
    """

    text: str
    bytes: int


class Newcomer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The announcement of a member that has come to a group.

    A session is a group. An application is named by the part of a program's name before a dash:
    ``chat-ann`` is Ann, who uses the application ``chat``; see `newcomers.application_of`.

    Attributes:
        group: the group.
        member: the member that has come; the receiver itself, when it has joined.
        new_session: whether the group was empty before.
        new_application: whether no member of the group had the newcomer's application before.
        users: all members of the group, with the newcomer, in the order of their joins.
    """

    group: str
    member: MemberId
    new_session: bool
    new_application: bool
    users: tuple[MemberId, ...]


class CannotUndo(RemoteProtocolError):
    """Raised by a receive filter for a message that the send filter cannot have made."""


class Path(Protocol):
    """The calls that a filter may make; one object for each filter of a connection."""

    @property
    def now(self) -> float:
        """Return the seconds of a clock that never falls."""

    @property
    def member(self) -> MemberId:
        """Return the session's identity."""

    @property
    def groups(self) -> Mapping[str, GroupView]:
        """Return the latest view of each group that the session is a member of, by name."""

    @property
    def steps(self) -> "StepTrace":
        """Return the recorder of the filter's steps; `SILENT` if nobody wants them."""

    def record_to(self, steps: "StepTrace") -> None:
        """Have all filters of the connection record their steps there."""

    def stamp_of(self, message: Message | Outgoing) -> Stamped | None:
        """Return the stamp that the filter next above has put on a message on the wire."""

    def send_on(self, message: Outgoing) -> None:
        """Pass a message on, towards the daemon."""

    def receive_on(self, message: Message) -> None:
        """Pass a message on, towards the program."""

    def multicast(self, group: str, data: bytes, level: ServiceLevel) -> None:
        """Send a message of this filter's own to the managers of the same filter.

        It passes the filters below; the sender itself does not get it. No message is sent after
        other filters have replaced these.
        """

    def give_up(self, message: Message, why: str) -> None:
        """Pass an `Unfiltered` to the program in place of a message."""


class SendFilter:
    """A filter of outgoing messages; by default it passes them on."""

    def process(self, message: Outgoing, path: Path) -> None:
        """Process a program's message."""
        path.send_on(message)

    def process_system(self, message: FilterOutgoing, path: Path) -> None:
        """Pass on a message of a filter above, unchanged and in its place."""
        path.send_on(message)


class ReceiveFilter:
    """A filter of incoming messages; by default it passes them on."""

    def process(self, message: Message, path: Path) -> None:
        """Process a program's message.

        Raises:
            CannotUndo: the program gets the message unchanged, with the reason.
        """
        path.receive_on(message)

    def process_system(self, message: FilterMessage, path: Path) -> None:
        """Pass on a message of a filter above, unchanged and in its place."""
        path.receive_on(message)


class Manager:
    """The state that the two filters share; by default there is none.

    Attributes:
        deadline: the time of ``path.now`` at which `wake` is to be called; None for never.
    """

    deadline: float | None = None

    def start(self, path: Path) -> None:
        """Begin: messages pass this filter from now on."""

    def notified(self, event: SystemEvent, path: Path) -> None:
        """Note an event that the program receives now; messages passed on next come after it."""

    def joined(self, newcomer: Newcomer, path: Path) -> None:
        """Note a newcomer to a group of this session; called after `notified` of its view."""

    def stamp_of(self, message: Message | Outgoing, path: Path) -> Stamped | None:
        """Return this filter's stamp of a message on the wire; None if it has none."""
        return None

    def received(self, message: FilterMessage, path: Path) -> None:
        """Accept a message of the manager of another member.

        Raises:
            CannotUndo: the message does not decode.
        """

    def sent(self, message: Outgoing, number: int, path: Path) -> None:
        """Note the number in the session of a message of the program or of a filter.

        The number is 0 if the message waits there for the key of a group with a secret.
        """

    def delivered(self, message: Message, path: Path) -> None:
        """Note a message that the program gets now."""

    def wake(self, path: Path) -> None:
        """Do the work that is due."""

    def finish(self, path: Path) -> None:
        """Pass on messages that wait only for a time: the session ends, or other filters follow."""

    def end(self) -> None:
        """End: the connection is over, and no call follows."""


@attrs.frozen
class Filter:
    """One filter of one connection, or of several that share it.

    Attributes:
        name: 1 to 64 letters, digits and dashes.
        send, receive, manager: its parts.
        on_wire: whether its messages must be undone by a filter of the same name; only such a
            filter may send messages of its own.
    """

    name: str
    send: SendFilter = attrs.field(factory=SendFilter)
    receive: ReceiveFilter = attrs.field(factory=ReceiveFilter)
    manager: Manager = attrs.field(factory=Manager)
    on_wire: bool = attrs.field(default=False, kw_only=True)
