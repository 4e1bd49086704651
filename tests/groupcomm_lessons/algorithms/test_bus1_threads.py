"""bus1 with real threads and one lock a queue: order and causality, by whatever means."""

import threading
from collections.abc import Iterator

import pytest

from groupcomm_lessons.algorithms.bus1.locked import LockedQueue
from groupcomm_lessons.algorithms.bus1.multicast import Multicast
from groupcomm_lessons.algorithms.bus1.queue import Queue
from tests.groupcomm_lessons.algorithms.bus_threads import Recorded, Sent, Stress, switching


@pytest.fixture(autouse=True)
def _often() -> Iterator[None]:
    """Threads change within most multicasts."""
    with switching(1e-6):
        yield


class OneLockAtATime:
    """A lock that refuses to be taken under another one of its kind."""

    held = threading.local()

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        assert not getattr(self.held, "one", False), "a lock is taken under another"
        self._lock.acquire()
        self.held.one = True

    def __exit__(self, *_: object) -> None:
        self.held.one = False
        self._lock.release()


@pytest.mark.parametrize("seed", range(2))
def test_order_and_side_channel_causality_hold_with_many_producers(seed: int) -> None:
    run = Stress(8, 4, 150, seed=seed).play()
    assert run.faults() == []
    assert sum(map(len, run.received)) > 8 * 150


def test_no_lock_is_taken_under_another() -> None:
    assert Stress(4, 3, 40, make_lock=OneLockAtATime).play().faults() == []


def test_messages_that_are_given_up_block_nobody() -> None:
    run = Stress(6, 3, 60, given_up=0.3).play()
    assert run.faults() == []
    assert any(not sent.to for sent in run.sent.values())


class UnsafeMulticast(Multicast[int]):
    """No blocks at all: queues each message when it has its stamp."""

    def _tick(self) -> None:
        super()._tick()
        for queue, block in self._blocks.items():
            queue.lift(block)
        self._blocks.clear()


def test_the_history_finds_what_threads_do_without_blocks() -> None:
    runs = (Stress(8, 4, 40, seed=seed, way=UnsafeMulticast).play() for seed in range(500))
    assert any("in two orders" in fault for run in runs for fault in run.faults())


def test_the_history_finds_an_effect_before_its_cause_a_loss_and_a_double() -> None:
    run = Recorded(
        sent={
            1: Sent(to=frozenset({0, 1}), knew=0, began_s=0),
            2: Sent(to=frozenset({0, 1}), knew=1, began_s=0),
        },
        public=[1, 2, 1, 1, 2],
        received=[[2, 1], [1, 1]],
    )
    assert run.faults() == [
        "receiver 1 got 2 messages, 1 different, of 2",
        "receivers 0 and 1 got messages in two orders",
        "receiver 0 got message 2 before one that was public at its start",
    ]


def test_a_locked_queue_is_a_queue() -> None:
    queue: Queue[str] = LockedQueue(1, threading.Lock(), clock=3)
    block = queue.block()
    assert queue.synchronise(5) == 5
    assert queue.tick() == 6
    assert queue.pop() is None
    queue.lift(block)
    assert len(queue) == 1
    assert queue.pop() is None
    assert len(queue) == 0
