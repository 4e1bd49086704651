"""The causal filter: FIFO messages to a group come after those that may have caused them.

It works on FIFO messages to exactly one group of which the sender is a member, if both sides use
it. All other messages pass unchanged; docs/filters.md describes the consequences. Its manager
handles both directions, as they share the vectors.
"""

from typing import Final

import msgspec

from groupcomm.errors import LocalProtocolError
from groupcomm.events import GroupView, Message
from groupcomm.level import ServiceLevel
from groupcomm.trace.steps import SILENT, MessageId
from groupcomm_client.filters.causal_order.group import CausalGroup
from groupcomm_client.filters.causal_order.held import Buffer, Held
from groupcomm_client.filters.causal_order.stamps import (
    decode_mark_untrusted,
    decode_stamp_untrusted,
    encode_mark,
    encode_stamp,
)
from groupcomm_client.filters.chain import with_data
from groupcomm_client.filters.roles import (
    CannotUndo,
    Filter,
    FilterMessage,
    Manager,
    Outgoing,
    Path,
    ReceiveFilter,
    SendFilter,
    Stamped,
    SystemEvent,
)

MARK_TIMEOUT_S: Final = 2.0
"""The time for which the mark of a member is awaited: much longer than a program's pauses."""

HELD: Final = 65_536
"""The most messages that are held back."""

_PLAIN: Final = b"\x00"  # before a FIFO message without a stamp
_STAMPED: Final = b"\x01"


class CausalOrder(Manager):
    """The vectors of one connection, and the messages that wait for them.

    Args:
        mark_timeout_s: the time for which a member that sends no mark is awaited; may be infinity.
    """

    def __init__(self, mark_timeout_s: float) -> None:
        self._mark_timeout_s = mark_timeout_s
        self._groups: dict[str, CausalGroup] = {}
        self._own_counts: dict[str, int] = {}  # the counts of groups that it has left
        self._buffer = Buffer()

    # ---- views ----

    def start(self, path: Path) -> None:
        """See `Manager`."""
        for view in path.groups.values():
            if view.group in self._groups:
                self._send_mark(view.group, path)
            else:
                self._change(view, path)

    def notified(self, event: SystemEvent, path: Path) -> None:
        """See `Manager`."""
        if isinstance(event, GroupView):
            self._change(event, path)
            self._go_on(path)

    def _change(self, view: GroupView, path: Path) -> None:
        if path.member not in view.members:
            left = self._groups.pop(view.group, None)
            if left is not None:
                self._buffer.forget(left)
                self._own_counts[view.group] = left.clock[path.member]
            return
        group = self._groups.get(view.group)
        if group is None:
            group = self._groups[view.group] = CausalGroup(
                path.member, self._own_counts.get(view.group, 0)
            )
            path.steps.created({str(path.member): group.clock[path.member]})
        new, gone = group.change(view, path.now + self._mark_timeout_s)
        for member in gone:
            if not self._buffer.has(member, group):
                group.drop(member)
                path.steps.dropped(str(member))
        for member in new & gone | {one for one in new if group.knows(one)}:
            self._buffer.let_go(member, group)
            group.drop(member)
        if new:
            self._send_mark(view.group, path)
        self._set_deadline()

    def _send_mark(self, name: str, path: Path) -> None:
        mark = self._groups[name].mark()
        path.multicast(name, encode_mark(mark), ServiceLevel.AGREED)

    def received(self, message: FilterMessage, path: Path) -> None:
        """See `Manager`."""
        group = self._groups.get(message.groups[0])
        if group is None or message.sender == path.member:
            return
        mark = decode_mark_untrusted(message.data)
        if not group.knows(message.sender):
            path.steps.added(str(message.sender), mark.count)
        group.received(message.sender, mark)
        self._set_deadline()
        self._go_on(path)

    # ---- out ----

    def send(self, message: Outgoing, path: Path) -> None:
        """Put a stamp before a message, if this filter works on it."""
        if message.level != ServiceLevel.FIFO:
            path.send_on(message)
            return
        group = self._groups.get(message.groups[0]) if len(message.groups) == 1 else None
        if group is None:
            data = _PLAIN + message.data
            path.send_on(msgspec.structs.replace(message, data=data))
            return
        stamp = group.next_stamp()
        data = _STAMPED + encode_stamp(stamp) + message.data
        path.steps.counted(stamp.own)
        path.send_on(msgspec.structs.replace(message, data=data))
        group.sent()  # not before: receivers do not wait for messages that were not sent

    def stamp_of(self, message: Message | Outgoing, path: Path) -> Stamped | None:
        """See `Manager`."""
        group = self._groups.get(message.groups[0])
        if message.level is not ServiceLevel.FIFO or group is None or message.data[:1] != _STAMPED:
            return None
        stamp, end = decode_stamp_untrusted(message.data, 1)
        sender = message.sender if isinstance(message, Message) else path.member
        return Stamped(group.text_of(sender, stamp), end)

    # ---- in ----

    def receive(self, message: Message, path: Path) -> None:
        """Pass a message on if all its possible causes are here; else hold it."""
        if message.level is not ServiceLevel.FIFO:
            path.receive_on(message)
            return
        held = self._read(message)
        if message.sender == path.member:
            path.receive_on(held.message)
            return
        if held.is_next and not self._buffer.has(message.sender):
            self._deliver(held, path)
            if self._buffer.size:
                self._go_on(path)
            return
        if self._buffer.size >= HELD:
            self._give_up(path)
        path.steps.buffered(_name(message))  # its stamp has counts in the group, not numbers
        self._buffer.add(held)
        self._go_on(path)

    def _read(self, message: Message) -> Held:
        data = message.data
        if data[:1] == _PLAIN:
            return Held(with_data(message, data[1:]))
        if data[:1] != _STAMPED:
            raise CannotUndo(
                "it has no stamp: its sender uses another version of this filter; use one "
                "version everywhere"
            )
        stamp, at = decode_stamp_untrusted(data, 1)
        plain = with_data(message, data[at:])
        group = self._groups.get(message.groups[0])
        if group is None:
            return Held(plain)
        return Held(plain, stamp.own, group, group.counts_of(message.sender, stamp))

    def _deliver(self, held: Held, path: Path) -> None:
        if path.steps is not SILENT and held.is_concurrent:
            path.steps.concurrent(_name(held.message))
        held.deliver()
        path.receive_on(held.message)

    def _go_on(self, path: Path) -> None:
        """Pass on the messages that are next now, and drop members that have gone completely."""
        for held in self._buffer.pop_next():
            path.steps.took(_name(held.message))
            path.receive_on(held.message)
        for group in self._groups.values():
            for member in group.leaving():
                if not self._buffer.has(member, group):
                    group.drop(member)
                    path.steps.dropped(str(member))

    def _give_up(self, path: Path) -> None:
        """Pass all held messages to the program without order, as there are too many."""
        for held in self._buffer.pop_all():
            path.give_up(
                held.message,
                f"more than {HELD} messages wait for their causes; this one may be early",
            )

    # ---- time ----

    def _set_deadline(self) -> None:
        times = (time for group in self._groups.values() for time in group.awaited.values())
        self.deadline = min(times, default=None)

    def wake(self, path: Path) -> None:
        """Stop waiting for members that have sent no mark in time; see `Manager`."""
        for group in self._groups.values():
            for member, until in list(group.awaited.items()):
                if until <= path.now:
                    del group.awaited[member]
        self._set_deadline()
        self._go_on(path)


class _Send(SendFilter):
    def __init__(self, order: CausalOrder) -> None:
        self._order = order

    def process(self, message: Outgoing, path: Path) -> None:
        self._order.send(message, path)


class _Receive(ReceiveFilter):
    def __init__(self, order: CausalOrder) -> None:
        self._order = order

    def process(self, message: Message, path: Path) -> None:
        self._order.receive(message, path)


def causal(mark_timeout_s: float = MARK_TIMEOUT_S) -> Filter:
    """Return a causal filter; the function itself is a factory of them.

    Args:
        mark_timeout_s: seconds, perhaps infinity, to wait for a member that sends no mark: it has
            no such filter, or does not receive.

    Raises:
        LocalProtocolError: `mark_timeout_s` is below 0.
    """
    if mark_timeout_s < 0:
        raise LocalProtocolError(f"mark_timeout_s is {mark_timeout_s}; it must be 0 or more")
    order = CausalOrder(mark_timeout_s)
    return Filter("causal", _Send(order), _Receive(order), order, on_wire=True)


def _name(message: Message) -> MessageId:
    return str(message.sender), message.number
