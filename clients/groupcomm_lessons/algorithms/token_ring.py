"""Ring with a token: the holder of the token numbers its messages; all deliver by number.

Source: Y. Amir, L. E. Moser, P. M. Melliar-Smith, D. A. Agarwal, P. Ciarfella, "The Totem
Single-Ring Ordering and Membership Protocol", ACM TOCS 13(4), 1995. This is a teaching form of the
ring of the daemon (groupcomm/ring): nothing is lost here, so there are no retransmissions,
no window and no flow control, and a view never changes.

Rule: the token goes from member to member in the order of names, from the last to the first. It
carries the number given last, and for each member how many of its messages have a number. Its
holder gives its waiting messages the next numbers, in the order of their sending, and multicasts
them. A member that has messages and not the token sends a wish to all others: how many of its
messages it wants to have numbered. The holder of the token keeps it unless it knows of such a wish,
so the token always comes to rest. A wish that is overtaken by the token wakes it where it rests.

It keeps all three orders over any channels: a delivered message has a number, and the token that
numbers later messages has passed that number.
"""

from collections.abc import Iterable

from groupcomm_lessons.algorithms.numbered import Numbered
from groupcomm_lessons.algorithms.process import Message, Name, Order, Packet, Process, Step

Token = tuple[int, tuple[int, ...]]
"""The last number, and the count of numbered messages of each member, in members' order."""


class TokenRing(Process):
    """A member of the ring: messages have integer stamps, a wish an integer, the token a pair.

    All members get every message, as all daemons of a site do.
    """

    claims = frozenset(Order)

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._place = self.members.index(me)
        self._numbered = Numbered(me)
        self._unsent: list[Message] = []
        self._wanted = [0] * len(self.members)  # messages that each member wants numbered
        # The token rests with the first member until a member has a message.
        self._token: Token | None = (0, tuple(self._wanted)) if self._place == 0 else None

    @property
    def holds_token(self) -> bool:
        """Return whether the token rests here."""
        return self._token is not None

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """Send a message, which waits for the token if it is elsewhere; see `Process.send`."""
        message = self._message(data, destinations)
        self._unsent.append(message)
        self._wanted[self._place] = message.number
        if self._token is None:
            return Step(self._fan_out(None, message.number, self.members))
        return self._use(self._token)

    def receive(self, packet: Packet) -> Step:
        """Process a message, a wish or the token."""
        if packet.message is not None:
            return Step(deliveries=self._numbered.add(packet.stamp, packet.message))
        if isinstance(packet.stamp, tuple):
            return self._use(packet.stamp)
        source = self.members.index(packet.source)
        self._wanted[source] = max(self._wanted[source], packet.stamp)
        return Step() if self._token is None else self._use(self._token)

    def _use(self, token: Token) -> Step:
        """Number the messages that wait here, then pass the token on, or keep it."""
        last, counts = token
        packets: list[Packet] = []
        deliveries: list[Message] = []
        for message in self._unsent:
            last += 1
            packets += self._fan_out(message, last, self.members)
            deliveries += self._numbered.add(last, message)
        own = counts[self._place] + len(self._unsent)
        self._unsent = []
        counts = (*counts[: self._place], own, *counts[self._place + 1 :])
        self._token = last, counts
        if any(wanted > count for wanted, count in zip(self._wanted, counts, strict=True)):
            following = self.members[(self._place + 1) % len(self.members)]
            packets.append(Packet(self.me, following, None, self._token))
            self._token = None
        return Step(tuple(packets), tuple(deliveries))

    @property
    def waiting(self) -> tuple[Message, ...]:
        """Return the messages that wait, those for the token last; see `Process.waiting`."""
        return self._numbered.waiting + tuple(self._unsent)
