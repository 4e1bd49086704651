"""bus1 under real threads: producers and receivers, what they did, and a checker of it.

The checker knows no stamps. It has what each receiver got, in its order, and when each message
became public: somebody had received it, or its sender had finished and told everybody by a side
channel.
"""

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations

import attrs

from groupcomm_lessons.algorithms.bus1.locked import Lock, LockedQueue
from groupcomm_lessons.algorithms.bus1.multicast import Blocking, Multicast
from groupcomm_lessons.algorithms.bus1.queue import Queue

Way = Callable[[Queue[int], Sequence[Queue[int]], int, Blocking], Multicast[int]]


@attrs.define(kw_only=True)
class Sent:
    """A message.

    Attributes:
        to: receivers, by their place; empty if it was given up.
        knew: the number of public messages when it was begun: all of them may have caused it.
        began_s, ended_s: the times at which its sender began and ended.
    """

    to: frozenset[int]
    knew: int
    began_s: float
    ended_s: float = 0.0


@attrs.define(kw_only=True)
class Recorded:
    """A run.

    Attributes:
        sent: messages, by number.
        public: numbers in the order in which they became public, some more than once.
        received: for each receiver, numbers in the order of their receipt.
        received_s: the times of these receipts.
    """

    sent: dict[int, Sent] = attrs.field(factory=dict)
    public: list[int] = attrs.field(factory=list)
    received: list[list[int]] = attrs.field(factory=list)
    received_s: list[list[float]] = attrs.field(factory=list)

    def faults(self) -> list[str]:
        """Everything that a bus must not do, in words; none if all is well."""
        return [*self._lost(), *self._two_orders(), *self._effects_first()]

    def _lost(self) -> Iterator[str]:
        for at, got in enumerate(self.received):
            owed = {number for number, sent in self.sent.items() if at in sent.to}
            if len(got) != len(set(got)) or set(got) != owed:
                which = f"{len(set(got))} different, of {len(owed)}"
                yield f"receiver {at} got {len(got)} messages, {which}"

    def _two_orders(self) -> Iterator[str]:
        for (one, first), (other, second) in combinations(enumerate(self.received), 2):
            common = set(first) & set(second)
            if [n for n in first if n in common] != [n for n in second if n in common]:
                yield f"receivers {one} and {other} got messages in two orders"

    def _effects_first(self) -> Iterator[str]:
        published: dict[int, int] = {}
        for at, number in enumerate(self.public):
            published.setdefault(number, at)
        for at, got in enumerate(self.received):
            earliest = len(self.public)
            for number in reversed(got):
                if earliest < self.sent[number].knew:
                    what = f"receiver {at} got message {number}"
                    yield f"{what} before one that was public at its start"
                earliest = min(earliest, published[number])

    def delays_s(self) -> list[float]:
        """Return the times from the end of each sending to each receipt; 0 if that was first."""
        return [
            max(0.0, when - self.sent[number].ended_s)
            for got, times in zip(self.received, self.received_s, strict=True)
            for number, when in zip(got, times, strict=True)
        ]

    def durations_s(self) -> list[float]:
        """Return the time of each sending that was not given up."""
        return [sent.ended_s - sent.began_s for sent in self.sent.values() if sent.to]


class Stress:
    """Producers that send as fast as they can to some of the receivers, each a thread.

    Args:
        producers, receivers: the number of threads of each.
        messages: the messages that each producer sends.
        seed: the seed of senders and destinations.
        way: the way in which a multicast is done.
        make_lock: makes the lock of each queue.
        given_up: the part of the messages that their senders begin, and then give up.
        pause_s: between two messages of a producer, on average.
    """

    def __init__(
        self,
        producers: int,
        receivers: int,
        messages: int,
        *,
        seed: int = 0,
        way: Way = Multicast,
        make_lock: Callable[[], Lock] = threading.Lock,
        given_up: float = 0.0,
        pause_s: float = 0.0,
    ) -> None:
        self.run = Recorded(
            received=[[] for _ in range(receivers)], received_s=[[] for _ in range(receivers)]
        )
        self._senders = [LockedQueue[int](at, make_lock()) for at in range(producers)]
        self._queues = [LockedQueue[int](producers + at, make_lock()) for at in range(receivers)]
        self._messages = messages
        self._seed = seed
        self._way = way
        self._given_up = given_up
        self._pause_s = pause_s
        self._all_sent = threading.Event()

    def play(self) -> Recorded:
        """Run it to its end."""
        producing = [self._thread(self._produce, at) for at in range(len(self._senders))]
        receiving = [self._thread(self._receive, at) for at in range(len(self._queues))]
        for thread in producing:
            thread.join()
        self._all_sent.set()
        for thread in receiving:
            thread.join()
        return self.run

    def _thread(self, target: Callable[[int], None], at: int) -> threading.Thread:
        thread = threading.Thread(target=target, args=(at,), daemon=True)
        thread.start()
        return thread

    def _produce(self, at: int) -> None:
        rng = random.Random(self._seed * 1000 + at)
        for number in range(at * self._messages, (at + 1) * self._messages):
            if self._pause_s:
                time.sleep(rng.expovariate(1 / self._pause_s))
            to = rng.sample(range(len(self._queues)), rng.randint(1, len(self._queues)))
            blocking = Blocking.AT_ESTIMATE if rng.random() < 0.5 else Blocking.AT_CLOCK
            self._send(at, number, to, Blocking.NONE if len(to) == 1 else blocking, rng)

    def _send(
        self, at: int, number: int, to: list[int], blocking: Blocking, rng: random.Random
    ) -> None:
        abandoned = rng.random() < self._given_up
        self.run.sent[number] = sent = Sent(
            to=frozenset() if abandoned else frozenset(to),
            knew=len(self.run.public),
            began_s=time.perf_counter(),
        )
        queues = [self._queues[each] for each in to]
        with self._way(self._senders[at], queues, number, blocking) as multicast:
            if abandoned:
                for _ in range(rng.randint(0, len(to) + 1)):
                    multicast.do(multicast.ready[0])
                return
            multicast.finish()
        sent.ended_s = time.perf_counter()
        self.run.public.append(number)

    def _receive(self, at: int) -> None:
        queue, got, times = self._queues[at], self.run.received[at], self.run.received_s[at]
        while True:
            last_look = self._all_sent.is_set()
            while (taken := queue.pop()) is not None:
                times.append(time.perf_counter())
                got.append(taken[1])
                self.run.public.append(taken[1])
            if last_look:
                return
            time.sleep(0)


@contextmanager
def switching(interval_s: float) -> Iterator[None]:
    """Have the interpreter switch between threads as often as this, if it has one lock for all."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(interval_s)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
