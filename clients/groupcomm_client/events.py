"""The events of this library, which programs receive besides those of `groupcomm.events`."""

from typing import Final, TypeAlias

import attrs
import msgspec

from groupcomm.clocks.stamp import Position
from groupcomm.events import MemberId, Message, Shown


@attrs.frozen(kw_only=True)
class Reconnected:
    """The session has ended, and there is a new one; views of its groups follow.

    Attributes:
        member: the identity of the new session; to the other members it is a different one.
        why: the reason why the session ended.
        last: the highest position that was received before; messages ordered after it, and before
            the views that follow, may have been missed. None if nothing was received.
        in_doubt: the most messages, of those sent last, that the daemon has not acknowledged: they
            may have been delivered, or not.
        moved: whether the program has left a daemon that was about to stop, in order, and before it
            stopped; then no message is in doubt.
    """

    member: MemberId
    why: str
    last: Position | None
    in_doubt: int
    moved: bool = False

    def __str__(self) -> str:
        if self.moved:
            return f"moved, and is {self.member} now: {self.why}"
        return f"reconnected as {self.member}, {self.in_doubt} messages in doubt: {self.why}"


class Unfiltered(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message that the filters of this connection cannot undo.

    Attributes:
        message: the message as far as it was undone; nothing of it is lost.
        why: a sentence that names the remedy.
        missing: the filters that this connection lacks, if that is the reason.
    """

    message: Message
    why: str
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"unfiltered: {self.message}: {self.why}"


class KeyChanged(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The change to a key with which this program and the other readers continue.

    Attributes:
        group: the group's name.
        view: the id of the group view that the key is for.
        giver: the member that has drawn the key.
        readers: the members that have the key, in the order of the view; the program itself is one.
        others: the members of the view that do not have it, as they have not shown yet that they
            may.
    """

    group: str
    view: Position
    giver: MemberId
    readers: tuple[MemberId, ...]
    others: tuple[MemberId, ...]

    def __str__(self) -> str:
        return f"key of {self.group}: read by {', '.join(map(str, self.readers))}"


class Untrusted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The view names a member that has not shown that it has the secret of the group.

    It cannot read messages sealed with the keys of the group. It may be a program that has joined
    without the secret or with another one, or an invention of a daemon.
    """

    group: str
    member: MemberId
    why: str

    def __str__(self) -> str:
        return f"untrusted in {self.group}: {self.member}: {self.why}"


class Unreadable(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message to a group with a secret that this program cannot read, or must not believe.

    Attributes:
        message: the message as it arrived; nothing of it is lost.
        why: a sentence that names the remedy.
    """

    message: Message
    why: str

    def __str__(self) -> str:
        return f"unreadable: {self.message}: {self.why}"


NO_SECRET: Final = (
    "it is sealed for the members of a group with a secret: leave the group, and join it again"
    " with secret=..., as docs/end-to-end.md says"
)
"""Why a message is unreadable for a session without the secret of its group."""

Received: TypeAlias = Shown | Reconnected | Unfiltered | KeyChanged | Untrusted | Unreadable
"""An event that programs receive.

`Reconnected` comes only with ``reconnect=True``, `Unfiltered` only with filters, the last three
only with groups that have secrets.
"""
