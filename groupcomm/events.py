"""Events: the notices that a client receives of messages, group views, and its own requests.

All are frozen and compare by value. They are msgspec structs, because a client makes one for
every message that it receives, and these are made in a tenth of the time of other classes.
"""

import enum
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from groupcomm.clocks.stamp import Position, Stamp, ViewId
from groupcomm.level import ServiceLevel
from groupcomm.member_lists import ListVersion

SHOWN_BYTES: Final = 40
"""The number of bytes of a message that stand in its text."""


class Cause(enum.Enum):
    """Why a group view differs from the one before."""

    JOIN = 0
    LEAVE = 1
    DISCONNECT = 2
    NETWORK = 3  # the view of daemons changed


class MemberId(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """The identity of one session, never used again.

    Attributes:
        name: its private name, ``#user#daemon``; free for others after it has disconnected. Names
            of users and daemons contain no ``#``.
        connection: its number at its daemon.
    """

    name: str
    connection: int

    @property
    def user(self) -> str:
        """Return the name of the session, which its program has chosen; unique at its daemon."""
        return self.name.rpartition("#")[0][1:]

    @property
    def daemon(self) -> str:
        """Return the name of its daemon."""
        return self.name.rpartition("#")[2]

    def __str__(self) -> str:
        return f"{self.name}/{self.connection}"


class Connected(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The daemon has admitted this session, and every daemon knows of it."""

    member: MemberId
    bundle_limit: int  # bytes of the largest encoded bundle body that the daemon accepts
    readers: bool = True  # whether the daemon knows joins without views
    lines: bool = True  # whether the daemon knows lines
    pauses: bool = True  # whether all daemons of its view know joins that need a quorum


class LineGranted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The session goes on with its line, and no earlier session of it does any more.

    Attributes:
        last: the number of the last message of the line that was delivered; 0 if it is unknown.
        table: which table of lines this is, 16 bytes; another one knows nothing of this one's.
        forgotten: the number of lines that this table has forgotten.
    """

    last: int
    table: bytes
    forgotten: int


class CausalContext(msgspec.Struct, frozen=True, gc=False):
    """The causes of a message, as its sender's daemon knew them when it numbered its packet.

    After the message a receiver gets none of these in the same view: RELIABLE, FIFO and
    CAUSAL messages of ring r whose packet is at or below ``heard[r]``, and AGREED and SAFE
    messages whose (time, ring) is at or below `agreed`.

    Attributes:
        packet: number of its packet in the stream of its ring in its view, from 1. A packet may
            hold several messages.
        agreed: stamp of the last agreed packet (AGREED, SAFE, joins, leaves and the like) that the
            daemon had delivered; its time, in microseconds, is 0 if none. None below CAUSAL.
        heard: per ring of the view the highest number of a packet of which the daemon had
            delivered anything; 0 if none. Empty below CAUSAL.
    """

    packet: int
    agreed: Stamp | None
    heard: tuple[int, ...]


class Message(msgspec.Struct, frozen=True, gc=False):
    """One delivered message.

    Attributes:
        sender: the session that sent it.
        number: its place in its sender's count; with `sender` it names the message.
        groups: all destinations, as the sender gave them.
        type: the sender's 16-bit tag.
        bundle: the key of its bundle's first message in the agreed order; None for UNRELIABLE.
        index: its place in the bundle, from 0.
        causes: its causes, if the session has asked for them; None for UNRELIABLE.
        principal: the owner of the sender's session, as the sender's daemon says, if this session
            has asked for it; "" if the owner is unknown.
    """

    sender: MemberId
    number: int
    groups: tuple[str, ...]
    level: ServiceLevel
    type: int
    data: bytes
    bundle: Position | None
    index: int = 0
    causes: CausalContext | None = None
    principal: str | None = None

    @property
    def position(self) -> Position | None:
        """Return its key in the agreed order; None for UNRELIABLE.

        The key is made here, as most programs never ask for it, and it costs more than a message.
        """
        return self.bundle and self.bundle._replace(message=self.index)

    def __str__(self) -> str:
        level, to, shown = self.level.name, ", ".join(self.groups), self.data[:SHOWN_BYTES]
        more = f" and {len(self.data) - SHOWN_BYTES} bytes more" * (len(self.data) > SHOWN_BYTES)
        return f"{level} from {self.sender} to {to}: {shown!r}{more}"


class GroupView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The members of one group from this position of the agreed order on.

    A session's views of a group share their lists: `members` and `vs_set` are computed when they
    are read, so a view that nobody looks into costs the same however many members there are.

    Attributes:
        group: the group's name.
        id: the position of the change; the same at every member.
        members: the members in the order in which they joined.
        cause: the reason for the change.
        changed: the members that joined, left or disconnected; empty for NETWORK.
        vs_set: the members that come from the same earlier view of the group as this one does.
        own: whether the receiver itself has joined or left.
        unchanged: with NETWORK, whether all members of the view before came along, and nobody else
            has come: all got the same messages, and who asks only for members may ignore the view.
            False where that is not known, as in history.
        others: with NETWORK, the names of the daemons that came from other views than the
            receiver's, by that view; empty where that is not known.
        paused: whether the receiver has joined with ``minority="pause"`` or ``"leave"``, and there
            is no quorum: no AGREED or SAFE message to the group is ordered here.
    """

    group: str
    id: Position
    members: tuple[MemberId, ...]
    cause: Cause
    changed: tuple[MemberId, ...]
    vs_set: tuple[MemberId, ...]
    own: bool
    unchanged: bool = False
    others: tuple[tuple[str, ...], ...] = ()
    paused: bool = False

    @property
    def vs_sets(self) -> tuple[tuple[MemberId, ...], ...]:
        """Return all members by the view from which they come, those of `vs_set` first.

        Who is not known to have come with others is a set of its own.
        """
        origin = {name: n for n, names in enumerate(self.others) for name in names}
        own, found = frozenset(self.vs_set), dict[object, list[MemberId]]()
        for member in self.members:
            if member not in own:
                found.setdefault(origin.get(member.daemon, member), []).append(member)
        return self.vs_set, *map(tuple, found.values())

    def includes(self, member: MemberId) -> bool:
        """Return whether a session is a member; cheaper than to look for it in `members`."""
        return member in _MEMBERS(self)

    def __str__(self) -> str:
        why = " ".join((self.cause.name, *map(str, self.changed)))
        return f"view of {self.group} after {why}: {', '.join(map(str, self.members)) or 'nobody'}"


def _compute_on_demand(name: str) -> Callable[[GroupView], Any]:
    """Have an attribute of views compute its tuple; return what reads the attribute as it is.

    The struct holds a tuple or a ListVersion, which are equal where their members are.
    """
    held = GroupView.__dict__[name].__get__

    def read(view: GroupView) -> tuple[MemberId, ...]:
        members = held(view)
        return members.whole() if type(members) is ListVersion else members

    setattr(GroupView, name, property(read))
    return held  # type: ignore[no-any-return]  # the getter of a slot


_MEMBERS: Final = _compute_on_demand("members")
_compute_on_demand("vs_set")


class Ordered(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The place of a message in the order: nothing lower can still come anywhere it matters.

    Attributes:
        transitional: whether the view ended first. Then only members that came along from it have
            the message at this position; others may lack it, or have lower messages that are
            missing here.
    """

    number: int
    position: Position
    transitional: bool = False

    def __str__(self) -> str:
        return f"message {self.number} has its place" + ", transitional" * self.transitional


class Undeliverable(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A private message was ordered after its receiver had gone, or no such name existed."""

    number: int
    target: str
    position: Position

    def __str__(self) -> str:
        return f"message {self.number} is undeliverable: {self.target} has gone"


_REACHED: Final = {
    "groups": "its principal is in as many groups as it may be; leave another one first",
    "session_groups": "this session is in as many groups as it may be; leave another one first",
    "cluster_groups": "the cluster has as many groups as it may have; use one that there is",
    "view_bytes": "the group has as many members as its views may tell; use several groups",
}
"""What a bound means to a program that has reached it, and its remedy."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The rules of the daemon, or a quota, do not allow a request; the session continues.

    Attributes:
        number: the number of the refused join, or of the first refused message; no other session
            gets it. 0: the session may not be in the group any more, and leaves it.
        count: the number of refused messages.
        verb: the refused request: ``join``, ``send`` or ``unicast``; ``read-history``, of which an
            archive says so, to a connection that resumes.
        group: the group or private name of the request.
        principal: the session's principal, as the daemon knows it.
        level: the level of the messages.
        bound: the key in ``clients.quotas`` of the limit that refuses a join: ``groups``,
            ``session_groups``, ``cluster_groups`` or ``view_bytes``; "" if a rule refuses. A daemon
            of an older release says ``groups``. With ``quorum`` the session leaves the group, as
            its daemon's view has no quorum, and it has joined with ``minority="leave"``.
    """

    number: int
    count: int
    verb: str
    group: str
    principal: str
    level: ServiceLevel = ServiceLevel.AGREED
    bound: str = ""

    def __str__(self) -> str:
        if self.bound == "quorum":
            return (
                f"this session leaves {self.group!r}: its daemon's view has no quorum; join again"
                " once there is one (DaemonView.majority)"
            )
        if self.bound:
            return (
                f"{self.principal} may not {self.verb} {self.group!r}: {_REACHED[self.bound]}, or"
                f" ask the operator of the daemon for more (clients.quotas.{self.bound})"
            )
        return (
            f"{self.principal} may not {self.verb} {self.group!r}: no rule of the daemon allows it;"
            " ask its operator for one ([[access]] in its configuration)"
        )


class Transition(msgspec.Struct, frozen=True, gc=False):
    """The regular part of a view is over; until the next DaemonView all is transitional.

    From here on messages are delivered only to members that come along to the next view, and the
    last messages of others may be missing.

    Attributes:
        view: the view that ends.
        together: the names of the daemons that go on together, that of the receiver among them;
            None if the daemon does not say: it is of an older release. They may part again before
            the next view: see `DaemonView.together`.
    """

    view: ViewId
    together: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return f"transition from view {self.view}: others may lack the messages that follow"


class DaemonView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A view of daemons begins; the views of the session's groups follow.

    Attributes:
        id: its identity; the positions that follow are of this view.
        daemons: the names of its daemons, sorted.
        majority: whether these may act for all: they are more than half of all daemons, or what
            the cluster's votes and policy say; None if that is unknown.
        together: the names of those that have come from the receiver's last view straight to this
            one, its own among them; None if that is not known.
        by_votes: whether the majority is one of votes that differ, or follows from a policy: the
            daemons that are missing may be fewer and have a majority next.
        unbroken: whether those that have come together were, and are, a majority by themselves: no
            other view with a majority can be between the receiver's last view and this one.
    """

    id: ViewId
    daemons: tuple[str, ...]
    majority: bool | None
    together: tuple[str, ...] | None = None
    by_votes: bool = False
    unbroken: bool = False

    def __str__(self) -> str:
        known = {True: ", a majority", False: ", no majority", None: ""}[self.majority]
        return f"view {self.id} of daemons {', '.join(self.daemons)}{known}"


class DaemonStopping(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The daemon is about to stop: the session continues for a while, and then ends.

    Attributes:
        within_s: the seconds, from the time at which this was sent, after which the daemon ends all
            sessions. It may end them earlier, once no other program is left.
        addresses: addresses of other daemons that admit programs of other hosts, as far as this
            daemon knows them: ``tls://host:port``.
    """

    within_s: float
    addresses: tuple[str, ...]

    def __str__(self) -> str:
        others = f"; others: {', '.join(self.addresses)}" * bool(self.addresses)
        return f"the daemon is about to stop, within {self.within_s:.3g} s{others}"


class Answer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The daemon's answer to a question about itself."""

    data: bytes


class Closed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The session has ended; nothing follows.

    Attributes:
        code: 0 after an orderly end, else the error's number.
        reason: a sentence for the user.
    """

    code: int
    reason: str


Shown: TypeAlias = (
    Message | GroupView | Undeliverable | Refused | Transition | DaemonView | DaemonStopping
)
"""An event of a session that its program receives."""

Event: TypeAlias = Connected | LineGranted | Ordered | Answer | Closed | Shown
"""An event of a session, as its protocol gives it."""

__all__ = [
    "Answer",
    "CausalContext",
    "Cause",
    "Closed",
    "Connected",
    "DaemonStopping",
    "DaemonView",
    "Event",
    "GroupView",
    "LineGranted",
    "MemberId",
    "Message",
    "Ordered",
    "Position",
    "Refused",
    "Stamp",
    "Transition",
    "Undeliverable",
    "ViewId",
]
