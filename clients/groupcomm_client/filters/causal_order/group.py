"""The causal filter's state of one group: its members, their counts, and the awaited members.

Source: K. Birman, A. Schiper, P. Stephenson, "Lightweight Causal and Atomic Group Multicast", ACM
TOCS 9(3), 1991, section 5. There all members learn of a join at one place among the messages. FIFO
messages have no place among views, so here each member announces its count:

- On a view with a new member (one that is not in this member's `vs_set`), a member sends a *mark*
  before any other message to the group: its count, and a table of the members whose counts its
  stamps have from then on.
- A new member is counted from its mark on, or from the first of its messages that comes. Until then
  it is *awaited*: a message whose stamp counts it waits, too. A member that sends no mark, such as
  a program without this filter, is awaited for a bounded time only.
- A message that comes from a member before the mark with its table is delivered at once, as its
  stamp cannot be read. So it may come before its causes, but its effects do not come before it.
- A member that has gone is dropped once all messages from it are delivered. Nobody waits for more
  of them: members that continue together have received the same messages. But its count stays in
  stamps until the next mark, as other members may learn of its end later, and still receive some of
  its messages.
"""

from typing import Final

from groupcomm.clocks.vector import VectorClock
from groupcomm.events import GroupView, MemberId
from groupcomm_client.filters.causal_order.stamps import Mark, Stamp
from groupcomm_client.filters.roles import CannotUndo

TABLES: Final = 8
"""The tables that are kept of one member: a filter below may reorder its messages."""


class CausalGroup:
    """The counts of one group, from the view of one member.

    Args:
        me: this member.
        own: the number of messages that it sent to the group when it was a member before: counts
            never fall.

    Attributes:
        me: this member.
        clock: its vector; its own count is the number of messages that it has sent.
        awaited: the members whose counts are not known yet, each with the end of the wait.
    """

    def __init__(self, me: MemberId, own: int = 0) -> None:
        self.me = me
        self.clock: VectorClock[MemberId] = VectorClock()
        self.clock.add(me, own)
        self.awaited: dict[MemberId, float] = {}
        self._members: frozenset[MemberId] = frozenset((me,))
        self._leaving: set[MemberId] = set()
        self._dropped: dict[MemberId, int] = {}  # messages dropped since the last mark
        self._table: tuple[MemberId, ...] = ()
        self._epoch = 0
        self._tables: dict[MemberId, dict[int, tuple[MemberId, ...]]] = {}

    # ---- views and marks ----

    def change(self, view: GroupView, until: float) -> tuple[set[MemberId], set[MemberId]]:
        """Accept a view; new members' counts are awaited until a time.

        Returns:
            The new members, and those that have gone. A member that comes from elsewhere under a
            known name is both.
        """
        members = frozenset(view.members)
        stayed = self._members & frozenset(view.vs_set) | {self.me}
        gone, new = self._members - stayed, members - stayed
        self._members = members
        self._leaving |= gone
        for member in gone:
            self.awaited.pop(member, None)
        for member in new:
            self.awaited[member] = until
        return set(new), set(gone)

    def drop(self, member: MemberId) -> None:
        """Drop a member that has gone, now that all its messages are delivered."""
        self._leaving.discard(member)
        if member in self.clock:
            self._dropped[member] = self.clock[member]
            self.clock.drop(member)
        self._tables.pop(member, None)

    def leaving(self) -> list[MemberId]:
        """Return the members that have gone and are not dropped yet."""
        return list(self._leaving)

    def knows(self, member: MemberId) -> bool:
        """Return whether the messages of a member are counted."""
        return member in self.clock

    def mark(self) -> Mark:
        """Begin a new table; return the mark to send."""
        self._epoch += 1
        self._table = tuple(sorted(self._members - {self.me}))
        self._dropped = {one: self._dropped[one] for one in self._table if one in self._dropped}
        return Mark(self._epoch, self.clock[self.me], self._table)

    def received(self, sender: MemberId, mark: Mark) -> None:
        """Accept the mark of another member."""
        if sender not in self._members:
            return  # the member has left meanwhile
        tables = self._tables.setdefault(sender, {})
        tables[mark.epoch] = mark.members
        if len(tables) > TABLES:
            del tables[min(tables)]
        self._begin(sender, mark.count)

    def _begin(self, sender: MemberId, count: int) -> None:
        self.awaited.pop(sender, None)
        if sender not in self.clock:
            self.clock.add(sender, count)

    # ---- messages ----

    def next_stamp(self) -> Stamp:
        """Return the stamp of the next own message, which counts once it is `counted`."""
        counts = ((self.clock if one in self.clock else self._dropped, one) for one in self._table)
        slots = tuple(known[one] + 1 if one in known else 0 for known, one in counts)
        return Stamp(self.clock[self.me] + 1, self._epoch, slots)

    def counts_of(self, sender: MemberId, stamp: Stamp) -> VectorClock[MemberId] | None:
        """Return the counts of a stamp by member; None if it came before its sender's mark.

        Raises:
            CannotUndo: it has more slots than its sender's table.
        """
        table = self._tables.get(sender, {}).get(stamp.epoch)
        if table is None or sender not in self.clock:
            return None
        if len(stamp.slots) > len(table):
            raise CannotUndo(f"its stamp has {len(stamp.slots)} slots for {len(table)} members")
        counts: VectorClock[MemberId] = VectorClock()
        counts.add(sender, stamp.own)
        for member, slot in zip(table, stamp.slots, strict=False):
            if slot and member != sender and member not in counts:
                counts.add(member, slot - 1)
        return counts

    def text_of(self, sender: MemberId, stamp: Stamp) -> str:
        """Return a stamp for readers: counts by member, or its slots if its table is not known."""
        tables = {self._epoch: self._table} if sender == self.me else self._tables.get(sender, {})
        table = tables.get(stamp.epoch)
        if table is None:
            return f"{sender} {stamp.own}, epoch {stamp.epoch}, slots {list(stamp.slots)}"
        known = zip(table, stamp.slots, strict=False)
        counts = [f"{member} {slot - 1}" for member, slot in known if slot and member != sender]
        return ", ".join([f"{sender} {stamp.own}", *counts])

    def is_next(self, sender: MemberId, counts: VectorClock[MemberId]) -> bool:
        """Return whether a message may be delivered: the sender's next, with all causes here."""
        counted = sender in counts
        if counted and (sender not in self.clock or counts[sender] <= self.clock[sender]):
            return True  # its sender begins anew, or a filter below was late
        if self.awaited and any(member in counts for member in self.awaited):
            return False
        if counted:
            return self.clock.deliverable(counts, sender)
        return all(counts[member] <= count for member, count in self.clock.items())

    def is_concurrent(self, sender: MemberId, counts: VectorClock[MemberId]) -> bool:
        """Return whether a message may be concurrent with one that was delivered here."""
        others = ((one, count) for one, count in self.clock.items() if one not in {sender, self.me})
        return any(counts[member] < count for member, count in others)

    def delivered(self, sender: MemberId, count: int) -> None:
        """Count the delivery of a member's message; the first one begins the member's count."""
        if sender not in self._members and sender not in self.clock:
            return
        if sender in self.clock:
            if count > self.clock[sender] + 1:  # messages before its mark, and a filter below
                self.clock.drop(sender)
            elif count == self.clock[sender] + 1:
                self.clock.tick(sender)
        self._begin(sender, count)

    def sent(self) -> int:
        """Count a message of this member that was passed on; return its count."""
        return self.clock.tick(self.me)
