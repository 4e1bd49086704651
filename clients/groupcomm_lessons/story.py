"""A short run as a narrative: the sent, lost and delivered messages, and their order.

The network is simulated and loses datagrams; the daemons and sessions are the real ones.
"""

from collections.abc import Callable, Iterator

from groupcomm.events import Event, GroupView, Message, Ordered
from groupcomm.level import ServiceLevel
from groupcomm.security.layout import HEAD_BYTES
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import SECOND
from groupcomm.trace.events import Hold, TraceEvent
from groupcomm.wire.data import decode_data_untrusted
from groupcomm.wire.packet import PacketKind

USERS = ("anna", "ben", "carla", "dora", "emil")
GROUP = "kitchen"
LOSS = 0.1
CHECKSUM_BYTES = 4

_AGREED, _SAFE = ServiceLevel.AGREED, ServiceLevel.SAFE
_FIFO, _CAUSAL = ServiceLevel.FIFO, ServiceLevel.CAUSAL

Line = tuple[int, ServiceLevel, str]

# The acts of the story: a title, the seconds between two lines, and the lines of the participants.
SCENES: tuple[tuple[str, float, tuple[Line, ...]], ...] = (
    (
        "Five say something at the same moment. AGREED: nobody may see another order.",
        0.0,
        (
            (0, _AGREED, "the soup needs salt"),
            (1, _AGREED, "I salt the soup"),
            (2, _AGREED, "I salt the soup, too"),
            (3, _AGREED, "who has the salt?"),
            (4, _AGREED, "no more salt!"),
        ),
    ),
    (
        "SAFE: no member is told before every daemon has it, so none acts alone.",
        0.0,
        ((4, _SAFE, "fire in the oven"), (0, _SAFE, "I call the fire brigade")),
    ),
    (
        "FIFO and CAUSAL wait for less; UNRELIABLE waits for nothing and is never repaired.",
        0.01,
        (
            (1, _FIFO, "stirring, first round"),
            (1, _FIFO, "stirring, second round"),
            (2, _CAUSAL, "it smells burnt"),
            (3, ServiceLevel.RELIABLE, "the bread is done"),
            (3, ServiceLevel.UNRELIABLE, "oven: 181 degrees"),
            (3, ServiceLevel.UNRELIABLE, "oven: 182 degrees"),
            (3, ServiceLevel.UNRELIABLE, "oven: 183 degrees"),
        ),
    ),
)


class NarratedRun:
    """The narrated run: it plays the scenes and reports each event as it happens.

    Args:
        seed: the seed of the run; the same seed gives the same story.
        tell: accepts each line.
    """

    def __init__(self, seed: int, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._lost: dict[tuple[str, int], int] = {}  # (daemon, packet number): the time of its loss
        self._losses = 0
        self._repairs = 0
        settings = plain_settings(daemons=len(USERS), seed=seed, faults=Faults(loss=LOSS))
        self.cluster = Cluster(settings, self._record)
        self.cluster.network.observers.append(self._on_datagram)
        self._names = [daemon.name for daemon in self.cluster.view.daemons]
        self._clients: list[SimulatedClient] = []
        self._received: dict[str, list[Message]] = {user: [] for user in USERS}

    def play(self) -> bool:
        """Narrate the run; return whether all members saw one agreed order."""
        self._tell(
            f"Five daemons ({', '.join(self._names)}) on one network that loses"
            f" {LOSS:.0%} of all datagrams."
        )
        self._tell(f"At each of them a program connects and joins the group {GROUP!r}.\n")
        for daemon, user in enumerate(USERS):
            self._clients.append(self._enter(user, daemon))
        self.cluster.run(0.3)
        for client in self._clients:
            client.join(GROUP)
        self.cluster.run(0.5)
        for title, pause_s, lines in SCENES:
            self._tell(f"\n{title}\n")
            for speaker, level, text in lines:
                data = text.encode()
                self._clients[speaker].multicast([GROUP], data, level=level, ordered=level == _SAFE)
                self._line(f"{USERS[speaker]:6} says {text!r} [{level.name}]")
                self.cluster.run(pause_s)
            self.cluster.run(0.5)
        self.cluster.end_faults()
        self.cluster.settle()
        return self._close()

    # ---- events ----

    def _enter(self, user: str, daemon: int) -> SimulatedClient:
        client = self.cluster.connect(user, daemon)
        client.on_event = lambda event: self._on_event(user, event)
        return client

    def _on_event(self, user: str, event: Event) -> None:
        match event:
            case Message():
                self._received[user].append(event)
                self._line(f"  {user:6} <- {_user(event)}: {event.data.decode()!r}")
            case GroupView(own=True):
                members = ", ".join(member.name for member in event.members)
                self._line(f"{user:6} joins: {GROUP} = {members}")
            case Ordered():
                self._line(f"  {user:6} knows: nothing can come before message {event.number} now")
            case _:
                pass

    def _on_datagram(self, source: int, target: int, datagram: bytes, goes_on: bool) -> None:
        if goes_on:
            return
        self._losses += 1
        packet = datagram[HEAD_BYTES:-CHECKSUM_BYTES]
        what = PacketKind(packet[0]).name.lower()
        if packet[0] == PacketKind.DATA:
            number = decode_data_untrusted(packet).number
            what = f"packet {number}"
            self._lost.setdefault((self._names[target], number), self.cluster.loop.now)
        if packet[0] in (PacketKind.DATA, PacketKind.TOKEN, PacketKind.UNRELIABLE):
            self._line(f"    lost: {what} from {self._names[source]} to {self._names[target]}")

    def _record(self, event: TraceEvent) -> None:
        if isinstance(event, Hold):
            name = event.p.split("/")[0]
            lost_at = self._lost.pop((name, event.number), None)
            if lost_at is not None:
                self._repairs += 1
                late = (event.t - lost_at) / 1000
                self._line(f"    repaired: {name} has packet {event.number}, {late:.1f} ms later")

    # ---- the end ----

    def _close(self) -> bool:
        self._tell(f"\n{self._losses} datagrams were lost, {self._repairs} packets repaired.")
        self._tell(self._unreliable())
        self._tell("\nAGREED and SAFE messages by position, and as which each member got them:\n")
        for line in self._table():
            self._tell(line)
        orders = {tuple(map(_key, self._agreed(user))) for user in USERS}
        one = len(orders) == 1
        self._tell(
            f"\nAll {len(USERS)} members saw one agreed order."
            if one
            else "\nThe members saw DIFFERENT orders: this is a bug."
        )
        return one

    def _unreliable(self) -> str:
        got = {
            user: sum(message.level == ServiceLevel.UNRELIABLE for message in self._received[user])
            for user in USERS
        }
        counts = ", ".join(f"{user} {count}" for user, count in got.items())
        return f"Of the three UNRELIABLE messages got: {counts}."

    def _agreed(self, user: str) -> list[Message]:
        return [message for message in self._received[user] if message.level >= _AGREED]

    def _table(self) -> Iterator[str]:
        places = {
            user: {_key(message): place for place, message in enumerate(self._agreed(user), 1)}
            for user in USERS
        }
        everything = {_key(message): message for user in USERS for message in self._agreed(user)}
        ordered = sorted(everything.values(), key=lambda message: message.position or ())
        start = ordered[0].position.time if ordered and ordered[0].position else 0
        yield f"{'position':>12}  {'from':6} {'level':6} {'message':26}" + "".join(
            f"{user:>7}" for user in USERS
        )
        for message in ordered:
            assert message.position is not None
            columns = "".join(f"{places[user].get(_key(message), '-'):>7}" for user in USERS)
            yield (
                f"{message.position.time - start:>9} us  {_user(message):6} {message.level.name:6}"
                f" {message.data.decode():26}{columns}"
            )

    def _line(self, text: str) -> None:
        self._tell(f"{self.cluster.loop.now / SECOND:9.4f} s  {text}")


def _user(message: Message) -> str:
    return message.sender.user


def _key(message: Message) -> tuple[str, int]:
    return (message.sender.name, message.number)
