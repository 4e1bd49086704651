"""A model of what daemons promise for FIFO and AGREED, with filters on top and without I/O.

Each member sees the agreed items (joins, leaves, views of the network, marks) in one order, and
of each sender everything in the order of its sending; nothing else is promised. Which of it comes
next, and where, is for the test to choose.
"""

from collections.abc import Mapping

import attrs

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_client.filters import Factory, Outgoing, Unfiltered
from groupcomm_client.filters.filtering import Filtering

GROUP = "g"


@attrs.define(eq=False)
class Item:
    """Something sent: a message, or (without data) a join, a leave, a view of the network."""

    sender: MemberId
    number: int
    what: str
    data: bytes = b""
    sides: tuple[frozenset[MemberId], ...] = ()
    place: int = -1  # its place in the agreed order; FIFO messages and unordered ones have none

    @property
    def agreed(self) -> bool:
        return self.what != "fifo"


class Member:
    """One member: its filters, its view of the world, and what its program got.

    Attributes:
        given: the program's messages in the order of their delivery, by sender and number.
        arrived: those that came while it was a member, in their order.
        known: the messages that its program has sent or got, and their causes as far as promised.
        checked: the members that have sent a mark since it was new.
    """

    def __init__(self, net: "Net", name: str, filters: list[Factory]) -> None:
        self.member = MemberId(f"#{name}#d", 1)
        self.net = net
        self.groups_seen: dict[str, GroupView] = {}
        self.is_open = True
        self.given: list[tuple[MemberId, int]] = []
        self.arrived: list[tuple[MemberId, int]] = []
        self.lost: set[tuple[MemberId, int]] = set()
        self.known: set[tuple[MemberId, int]] = set()
        self.checked: set[MemberId] = set()
        self.loose: set[tuple[MemberId, int]] = set()  # those before their sender's mark
        self.members: tuple[MemberId, ...] = ()
        self.at = 0  # the number of agreed items seen
        self.seen: dict[MemberId, int] = {}  # the number of each sender's items seen
        self.asked = False  # whether it has asked to be a member
        self.filtering = Filtering(self, filters, lambda: 0.0)
        self.filtering.start()

    # ---- the session of the filters ----

    @property
    def groups(self) -> Mapping[str, GroupView]:
        return self.groups_seen

    def send_below(self, message: Outgoing, data: bytes) -> int:
        what = "fifo" if message.level is ServiceLevel.FIFO else "mark"
        return self.net.put(self.member, what, data)

    def give(self, event: Message | Unfiltered) -> None:
        assert isinstance(event, Message), event
        key = (event.sender, event.number)
        self.given.append(key)
        if key not in self.loose:
            self.known |= self.net.causes[key]
        self.known.add(key)

    # ---- what comes ----

    def come(self, item: Item) -> None:
        self.seen[item.sender] = self.seen.get(item.sender, 0) + 1
        if item.agreed:
            self.at += 1
        if item.what in {"join", "leave", "network"}:
            self._view(item)
        elif self.member in self.members:
            if item.what == "mark":
                self.checked.add(item.sender)
            else:
                key = (item.sender, item.number)
                self.arrived.append(key)
                if item.sender not in self.checked and item.sender != self.member:
                    self.loose.add(key)
            level = ServiceLevel.FIFO if item.what == "fifo" else ServiceLevel.AGREED
            if not (item.what == "mark" and item.sender == self.member):
                self.filtering.receive(
                    Message(item.sender, item.number, (GROUP,), level, 0, item.data, None)
                )

    def _view(self, item: Item) -> None:
        old = self.members
        cause = {"join": Cause.JOIN, "leave": Cause.LEAVE, "network": Cause.NETWORK}[item.what]
        if item.what == "join":
            self.members = (*old, item.sender)
        elif item.what == "leave":
            self.members = tuple(one for one in old if one != item.sender)
        own = item.sender == self.member and item.what != "network"
        if self.member not in self.members and not own:
            return
        side = next((one for one in item.sides if self.member in one), frozenset(old))
        stay = {self.member} if own else side & set(old)
        view = GroupView(
            group=GROUP,
            id=Position(ViewId(1, "d", 1), self.at, 0, 0, 0),
            members=self.members,
            cause=cause,
            changed=(item.sender,),
            vs_set=tuple(one for one in self.members if one in stay),
            own=own,
        )
        if self.member in self.members:
            self.groups_seen[GROUP] = view
            self.checked &= stay
        else:
            self.groups_seen.pop(GROUP)
            self.checked.clear()
            self.lost |= set(self.arrived) - set(self.given)
        self.filtering.notified(view)


class Net:
    """All members, and the messages in flight."""

    def __init__(self, names: str, filters: list[Factory]) -> None:
        self.items: dict[MemberId, list[Item]] = {}
        self.order: list[Item] = []
        self.causes: dict[tuple[MemberId, int], frozenset[tuple[MemberId, int]]] = {}
        self.members = [Member(self, name, filters) for name in names]

    def put(self, sender: MemberId, what: str, data: bytes = b"") -> int:
        items = self.items.setdefault(sender, [])
        items.append(Item(sender, len(items) + 1, what, data))
        if what == "fifo":
            known = next(one.known for one in self.members if one.member == sender)
            self.causes[sender, len(items)] = frozenset(known)
            known.add((sender, len(items)))
        return len(items)

    # ---- what may happen ----

    def send(self, one: Member) -> None:
        one.filtering.send(Outgoing(groups=(GROUP,), data=b"x", level=ServiceLevel.FIFO))

    def ask(self, one: Member) -> None:
        """Join, or leave."""
        one.asked = not one.asked
        self.put(one.member, "join" if one.asked else "leave")

    def split(self, one: Member, other: Member) -> None:
        """A view of the network in which these two come from different sides.

        Daemons drop what was not delivered before it; here it comes all the same, in any order.
        """
        everyone = frozenset(each.member for each in self.members)
        sides = (everyone - {other.member}, frozenset((other.member,)))
        self.put(one.member, "network")
        self.items[one.member][-1].sides = sides

    def rank(self, sender: Member) -> bool:
        """Give a sender's next agreed item its place."""
        for item in self.items.get(sender.member, ()):
            if item.agreed and item.place < 0:
                item.place = len(self.order)
                self.order.append(item)
                return True
        return False

    def deliver(self, sender: Member, receiver: Member) -> bool:
        """Have a sender's next item come to a receiver, if it may."""
        items = self.items.get(sender.member, ())
        at = receiver.seen.get(sender.member, 0)
        if at >= len(items) or (items[at].agreed and items[at].place != receiver.at):
            return False
        receiver.come(items[at])
        return True

    def settle(self) -> None:
        """Let everything come."""
        moving = True
        while moving:
            moving = False
            for one in self.members:
                moving |= self.rank(one)
                for other in self.members:
                    while self.deliver(one, other):
                        moving = True
