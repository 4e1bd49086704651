"""The flush layer of one mailbox: a message is delivered in the view in which it was sent.

Before a new view of a group each member is asked to flush (FLUSH_REQ_MESS): it sends its last
messages in the old view, calls `FL_flush`, and sends nothing to the group until the new view has
come. All members of the coming view announce that with an AGREED message; once each of them has,
all messages of the old view are delivered, and the new view begins at all members with the same
messages.

After the flush layer of Spread (flush_or, Johns Hopkins University), on the rules of virtual
synchrony by Birman and Joseph, "Exploiting Virtual Synchrony in Distributed Systems", SOSP 1987.
"""

import hashlib
import struct
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

import attrs

from groupcomm.errors import LocalProtocolError
from groupcomm.names import check_group
from groupcomm_client.spread_api.constants import (
    AGREED_MESS,
    CAUSED_BY_NETWORK,
    FIFO_MESS,
    ILLEGAL_GROUP,
    ILLEGAL_MESSAGE,
    RELIABLE_MESS,
    TRANSITION_MESS,
    UNRELIABLE_MESS,
    Is_caused_network_mess,
    Is_membership_mess,
    Is_reg_memb_mess,
    Is_self_leave,
)
from groupcomm_client.spread_api.functions import (
    SP_leave,
    SP_multigroup_multicast,
    SP_poll,
    SP_receive,
    SpreadError,
    keep_back,
)
from groupcomm_client.spread_api.mailbox import Received_message, membership_info

DONT_BLOCK: Final = 0x10000000
FLUSH_REQ_MESS: Final = 0x20000000
SUBGROUP_CAST: Final = 0x40000000

ILLEGAL_PARAM: Final = -24
WOULD_BLOCK: Final = -25
ILLEGAL_MESSAGE_TYPE: Final = -26
ILLEGAL_STATE: Final = -27
ILLEGAL_RECEIVERS: Final = -28

FL_MIN_LEGAL_MESS_TYPE: Final = -32765
"""The lowest type of a program's messages; Spread's layer has the three below for itself."""

_HEAD: Final = struct.Struct("!B8sB")
_DATA, _FLUSHED, _SUBGROUP = 0, 1, 2
_KEY_BYTES: Final = 8


def _key(info: membership_info) -> bytes:
    """Return the key that names a view in messages."""
    text = repr(info.gid.position).encode()
    return hashlib.blake2b(text, digest_size=_KEY_BYTES).digest()


class FlushMessage(NamedTuple):
    """A message of the flush layer.

    Attributes:
        kind: the kind of the message.
        key: the key of the view in which it was sent.
        group: its group, if it was sent to some of the members only; else empty.
        data: the data of the program.
    """

    kind: int
    key: bytes
    group: str
    data: bytes


def decode_flush_message_untrusted(message: bytes) -> FlushMessage | None:
    """Return the message of a member; None if it was sent without this layer."""
    if len(message) < _HEAD.size:
        return None
    kind, key, length = _HEAD.unpack_from(message)
    start = _HEAD.size + length
    try:
        return FlushMessage(kind, key, message[_HEAD.size : start].decode(), message[start:])
    except UnicodeDecodeError:
        return None


@attrs.define
class _Group:
    """The state of one group at a member.

    Attributes:
        name: the name of the group.
        view: the key of the view in which messages are sent; empty before the first.
        members: the members of that view.
        together: the members among them that have come along with this member ever since.
        coming: the view that follows; None while no change is in progress.
        changes: the number of changes that it unites.
        flushed: whether this member has announced that it sends nothing more in the old view.
        said: the members that have announced it, by the key of the coming view.
        early: messages of views that have not begun here.
        leaving: whether this member has asked to leave.
    """

    name: str
    view: bytes = b""
    members: frozenset[str] = frozenset()
    together: frozenset[str] = frozenset()
    coming: Received_message | None = None
    changes: int = 0
    flushed: bool = False
    said: dict[bytes, set[str]] = attrs.field(factory=dict)
    early: dict[bytes, list[Received_message]] = attrs.field(factory=dict)
    leaving: bool = False


def _check_name(group: str) -> None:
    try:
        check_group(group)
    except LocalProtocolError as error:
        raise SpreadError(ILLEGAL_GROUP, str(error)) from None


class Flush:
    """The flush layer of one mailbox."""

    def __init__(self, mbox: int) -> None:
        self.mbox = mbox
        self._groups: dict[str, _Group] = {}
        self._ready: deque[Received_message] = deque()
        self._keeps_back = False

    # ---- calls of programs ----

    @property
    def ready(self) -> int:
        """Return the number of messages that wait for the program here."""
        return len(self._ready)

    def poll(self) -> int:
        """Return the bytes that wait, an empty message counted as 1: here, and of the next one."""
        return sum(max(1, len(found.message)) for found in self._ready) + SP_poll(self.mbox)

    def leave(self, name: str) -> None:
        """Ask to leave the group; nothing more is sent to it."""
        _check_name(name)
        if name in self._groups:  # after the leave, others could not know the view of the message
            self._groups[name].leaving = True
        SP_leave(self.mbox, name)

    def receive(self, time_out: float | None) -> Received_message | None:
        """Return the next message for the program; None if none arrives in time."""
        while not self._ready:
            found = SP_receive(self.mbox, time_out)
            if found is None:
                return None
            self._accept(found)
        found = self._ready.popleft()
        if self._keeps_back != bool(self._ready):
            self._keeps_back = bool(self._ready)
            keep_back(self.mbox, self._keeps_back)
        return found

    def flush(self, name: str) -> None:
        """Flush: this member sends nothing more in the old view.

        Raises:
            SpreadError: no flush is pending.
        """
        _check_name(name)
        group = self._groups.get(name)
        if group is None or group.coming is None or group.flushed:
            raise SpreadError(
                ILLEGAL_STATE,
                f"no flush of {name!r} is pending: call FL_flush after a FLUSH_REQ_MESS only",
            )
        group.flushed = True
        self._say_flushed(group)

    def send(
        self, service_type: int, name: str, mess_type: int, mess: bytes, to: Sequence[str] = ()
    ) -> int:
        """Send a message to a group, or to some of its members.

        Raises:
            SpreadError: the group has no view yet, is flushed or is being left, one receiver is no
                member, or an argument is of a wrong type.
        """
        _check_name(name)
        if not isinstance(mess, bytes | bytearray | memoryview):
            raise SpreadError(ILLEGAL_MESSAGE, f"a message is of type {type(mess).__name__}")
        if isinstance(mess_type, int) and -0x8000 <= mess_type < FL_MIN_LEGAL_MESS_TYPE:
            raise SpreadError(ILLEGAL_MESSAGE_TYPE, f"{mess_type} < {FL_MIN_LEGAL_MESS_TYPE}")
        group = self._groups.get(name)
        if group is None or not group.view:
            raise SpreadError(
                ILLEGAL_STATE, f"{name!r} has no view here yet: wait for the first one"
            )
        if group.flushed:
            raise SpreadError(ILLEGAL_STATE, f"{name!r} is flushed: wait for its next view")
        if group.leaving:
            raise SpreadError(ILLEGAL_STATE, f"{name!r} is being left: join it again")
        if not group.members.issuperset(to):
            raise SpreadError(ILLEGAL_RECEIVERS, f"not all are members of {name!r}")
        if (
            isinstance(service_type, int) and service_type & RELIABLE_MESS
        ):  # it must come before its sender's flush, as with FIFO
            service_type ^= RELIABLE_MESS | FIFO_MESS
        text = name.encode() if to else b""
        kind = _SUBGROUP if to else _DATA
        head = _HEAD.pack(kind, group.view, len(text)) + text
        SP_multigroup_multicast(self.mbox, service_type, to or (name,), mess_type, head + mess)
        return len(mess)

    # ---- input ----

    def _accept(self, found: Received_message) -> None:
        if not Is_membership_mess(found.service_type):
            self._message(found)
        elif Is_self_leave(found.service_type):
            self._groups.pop(found.sender, None)
            self._ready.append(found)
        elif Is_reg_memb_mess(found.service_type):
            self._change(found)
        elif found.service_type == TRANSITION_MESS and found.sender in self._groups:
            self._ready.append(found)

    def _change(self, found: Received_message) -> None:
        """Begin a change of the group's members: a new view is to come."""
        assert found.info is not None
        group = self._groups.setdefault(found.sender, _Group(found.sender))
        first = group.coming is None
        group.coming = found
        group.changes += 1
        stayed = frozenset(found.groups) - {found.info.changed_member}
        if Is_caused_network_mess(found.service_type):
            stayed = frozenset(found.info.vs_sets[found.info.my_vs_set_index])
        group.together &= stayed
        if group.flushed or not group.view:  # no announcement for an older view is due here
            group.flushed = True
            self._say_flushed(group)
        elif first:
            self._ready.append(Received_message(FLUSH_REQ_MESS, group.name, (), 0, False, b""))

    def _say_flushed(self, group: _Group) -> None:
        assert group.coming is not None
        assert group.coming.info is not None
        head = _HEAD.pack(_FLUSHED, _key(group.coming.info), 0)
        SP_multigroup_multicast(self.mbox, AGREED_MESS, (group.name,), 0, head)

    def _message(self, found: Received_message) -> None:
        decoded = decode_flush_message_untrusted(found.message)
        if decoded is None:
            return  # from a program without this layer
        kind, key, named, data = decoded
        name = named or found.groups[0]
        group = self._groups.get(name)
        if group is None:
            return
        if kind == _FLUSHED:
            group.said.setdefault(key, set()).add(found.sender)
            self._begin_if_all_have_flushed(group)
            return
        flag = SUBGROUP_CAST if kind == _SUBGROUP else 0
        plain = attrs.evolve(
            found,
            service_type=found.service_type | flag,
            groups=(name,),
            message=data,
        )
        if key == group.view:
            self._ready.append(plain)
        elif not found.service_type & UNRELIABLE_MESS:
            group.early.setdefault(key, []).append(plain)

    def _begin_if_all_have_flushed(self, group: _Group) -> None:
        coming = group.coming
        if coming is None or coming.info is None:
            return
        key = _key(coming.info)
        if not group.said.get(key, set()).issuperset(coming.groups):
            return
        me = coming.groups[coming.mess_type]
        together = (group.together | {me}) if group.view else frozenset((me,))
        ordered = tuple(name for name in coming.groups if name in together)
        sets = (ordered, *((name,) for name in coming.groups if name not in together))
        service = coming.service_type
        if group.changes > 1:
            service = service & ~0xF00 | CAUSED_BY_NETWORK
        self._ready.append(
            attrs.evolve(coming, service_type=service, info=attrs.evolve(coming.info, vs_sets=sets))
        )
        self._ready.extend(group.early.get(key, ()))
        self._groups[group.name] = _Group(
            group.name,
            view=key,
            members=frozenset(coming.groups),
            together=frozenset(coming.groups),
            leaving=group.leaving,
        )
