"""What programs are told of the keys of a group; they are received like messages and views."""

import msgspec

from groupcomm.clocks.stamp import Position
from groupcomm.events import MemberId, Message


class KeyChanged(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """From here on this program reads, and writes, with a key that those members share.

    Attributes:
        group: the group's name.
        view: the id of the group view that the key is for.
        giver: who has drawn it.
        readers: who has it, in the order of the view; the program itself is one of them.
        others: members of the view who have not got it, as they have not shown yet that they may.
    """

    group: str
    view: Position
    giver: MemberId
    readers: tuple[MemberId, ...]
    others: tuple[MemberId, ...]


class Untrusted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The view names a member that has not shown that it belongs to those who share the secret.

    It reads nothing that is sent with the keys of the group. It may be a program that has joined
    without the secret, one with another secret, or an invention of a daemon.
    """

    group: str
    member: MemberId
    why: str


class Unreadable(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message to a group with a secret that this program cannot read, or must not believe.

    Attributes:
        message: as it came; nothing of it is lost.
        why: a sentence that says what to do.
    """

    message: Message
    why: str
