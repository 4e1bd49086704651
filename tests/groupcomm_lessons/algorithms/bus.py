"""A bus1 run: multicasts under way, their steps in any order, and side channels to everybody."""

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from groupcomm_lessons.algorithms.bus1.multicast import Blocking, Multicast, Step
from groupcomm_lessons.algorithms.bus1.queue import Queue, Stamp
from groupcomm_lessons.algorithms.history import History
from groupcomm_lessons.algorithms.process import Message

PEERS = ("a", "b", "c")

Bus = Queue[Message]
Way = Callable[[Bus, Sequence[Bus], Message, Blocking], Multicast[Message]]


class Run:
    """Peers, and what they send and take.

    A multicast knows of all that had been taken by anybody, or sent to its end, when it started:
    side channels are faster than the bus. So each has a sender of its own in the history, and what
    it may know is told.
    """

    def __init__(
        self,
        peers: Sequence[str] = PEERS,
        way: Way = Multicast,
        queue: type[Bus] = Queue,
        clocks: Sequence[int] = (),
    ) -> None:
        self.way = way
        starts = [*clocks, *[0] * len(peers)]
        self.queues = {name: queue(at, starts[at]) for at, name in enumerate(peers)}
        self.history = History()
        self.under_way: dict[Message, Multicast[Message]] = {}
        self.public: set[Message] = set()
        self.aborted: set[Message] = set()
        self.stamps: dict[str, list[Stamp]] = {name: [] for name in peers}

    def start(
        self, sender: str, to: Sequence[str], blocking: Blocking = Blocking.AT_CLOCK
    ) -> Message:
        message = Message(f"{sender}:{len(self.history.sent)}", 1, tuple(to), b"")
        self.history.send(message, self.public)
        queues = [self.queues[name] for name in to]
        self.under_way[message] = self.way(self.queues[sender], queues, message, blocking)
        return message

    def do(self, message: Message, *steps: Step[Message]) -> None:
        """Do these steps of a multicast."""
        multicast = self.under_way[message]
        for step in steps:
            multicast.do(step)
        if multicast.finished:
            del self.under_way[message]
            self.public.add(message)

    def step(self, message: Message, which: int = 0) -> Step[Message]:
        """Do one of the steps that are ready; which it was."""
        ready = self.under_way[message].ready
        step = ready[which % len(ready)]
        self.do(message, step)
        return step

    def abort(self, message: Message) -> None:
        """Give a multicast up that nobody can have received."""
        self.under_way.pop(message).abort()
        self.aborted.add(message)

    def finish(self, message: Message) -> None:
        while message in self.under_way:
            self.step(message)

    def send(
        self, sender: str, to: Sequence[str], blocking: Blocking = Blocking.AT_CLOCK
    ) -> Message:
        """Start a multicast and let nobody between its steps."""
        message = self.start(sender, to, blocking)
        self.finish(message)
        return message

    def take(self, peer: str) -> Message | None:
        taken = self.queues[peer].pop()
        if taken is None:
            return None
        stamp, message = taken
        self.stamps[peer].append(stamp)
        self.history.deliver(peer, message)
        self.public.add(message)
        return message

    def take_all(self) -> None:
        for peer in self.queues:
            while self.take(peer) is not None:
                pass

    def end(self) -> None:
        """Finish all that is under way, and take everything out."""
        for message in list(self.under_way):
            self.finish(message)
        self.take_all()

    def one_order(self) -> list[Message]:
        """An order of all messages that every peer's order is a part of.

        Raises:
            ValueError: there is none.
        """
        left = {name: list(messages) for name, messages in self.history.delivered.items()}
        found = []
        while any(left.values()):
            first = {messages[0] for messages in left.values() if messages}
            later = {message for messages in left.values() for message in messages[1:]}
            if not first - later:
                raise ValueError(f"a circle of {len(first)} messages")
            found.append(next(message for message in sorted(first) if message not in later))
            for messages in left.values():
                if messages and messages[0] == found[-1]:
                    del messages[0]
        return found


schedules = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 30), st.integers(1, 7)), max_size=25
)
"""Events: 0 starts a multicast of some peer to some, 1 starts and ends one, 2 takes, all else does
some steps of a multicast."""


def play(
    events: Sequence[tuple[int, int, int]],
    *,
    blocking: Blocking = Blocking.AT_CLOCK,
    way: Way = Multicast,
    queue: type[Bus] = Queue,
) -> Run:
    """Play a schedule to its end; messages to one peer are sent as unicasts."""
    run = Run(way=way, queue=queue, clocks=(0, 5, 2))
    for what, which, to in events:
        if what < 2:
            chosen = [name for at, name in enumerate(PEERS) if to >> at & 1]
            how = Blocking.NONE if len(chosen) == 1 else blocking
            message = run.start(PEERS[which % 3], chosen, how)
            if what:
                run.finish(message)
        elif what == 2:
            run.take(PEERS[which % 3])
        elif run.under_way:
            under_way = list(run.under_way)
            message = under_way[which % len(under_way)]
            for _ in range(to):
                if message in run.under_way:
                    run.step(message, which)
    run.end()
    return run
