"""A daemon under much junk: the times at which it reads, and the connections that it cuts off."""

import socket
from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from groupcommd.network.junk import CALM_S, INTERVAL_S, MANY_PER_S, PAUSE_S, Flood
from groupcommd.network.udp import MAX_READS
from groupcommd.programs.connection import Connection
from groupcommd.programs.listeners import GRACE_S, Listener
from tests.groupcommd.virtual import virtual_clock


class Junk:
    """The datagrams that a daemon gets, and the part that watches them.

    Attributes:
        now: seconds.
        flood: watches.
    """

    def __init__(self) -> None:
        self.flood = Flood(MAX_READS)
        self.now = 0.0

    def turn(self, junk: int, useful: int = 0) -> float:
        """Return the pause in reading after a turn that has brought this many."""
        self.flood.note(junk + useful, junk)
        return self.flood.pause_s(self.now)

    def last(self, per_s: float) -> None:
        """Turns of a tenth of a second, ten in an interval."""
        for _ in range(100):
            self.now += INTERVAL_S / 10
            self.turn(int(per_s * INTERVAL_S / 10))


def test_who_gets_much_junk_waits_for_more_of_it() -> None:
    junk = Junk()
    junk.last(2 * MANY_PER_S)
    assert junk.turn(1) == PAUSE_S
    assert junk.turn(8, useful=1) == 0.0
    assert junk.turn(1) == PAUSE_S
    assert junk.turn(0) == 0.0
    assert junk.turn(MAX_READS) == 0.0, "there may be more"


def test_who_gets_little_junk_reads_at_once() -> None:
    junk = Junk()
    junk.last(MANY_PER_S / 2)
    assert junk.turn(1) == 0.0


def test_it_is_over_when_no_more_comes() -> None:
    junk = Junk()
    junk.last(2 * MANY_PER_S)
    assert junk.flood.over_at == pytest.approx(junk.now + CALM_S, abs=2 * INTERVAL_S)
    junk.now += 1.0
    assert junk.turn(1) == 0.0
    junk.flood.go_on(junk.now)
    assert junk.flood.over_at == junk.now + CALM_S


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


def connection(number: int) -> Connection:
    with socket.socket() as closed:
        return Connection(number, trio.CancelScope(), closed)


@pytest.fixture
async def listener(autojump_clock: trio.testing.MockClock) -> AsyncIterator[Listener]:
    """It has room for two, and they are there."""
    with socket.socket() as listening:
        made = Listener(listening, 2)
        for number in (1, 2):
            assert not made.add(connection(number))
        yield made


async def test_nobody_is_cut_off_before_its_time(
    autojump_clock: trio.testing.MockClock, listener: Listener
) -> None:
    began, oldest = trio.current_time(), listener.half_open[1]
    await listener.wait_for_room()
    assert GRACE_S <= trio.current_time() - began < GRACE_S + 0.1
    assert listener.add(connection(3))
    assert oldest.scope.cancel_called
    assert list(listener.half_open) == [2, 3]
    began = trio.current_time()
    await listener.wait_for_room()
    assert trio.current_time() - began >= GRACE_S / 2, (
        "one by one, though the next has had its time"
    )


async def test_whoever_says_hello_makes_room_at_once(
    autojump_clock: trio.testing.MockClock, listener: Listener
) -> None:
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.wait_for_room)
        await trio.sleep(GRACE_S / 5)
        listener.remove(listener.half_open[2])
    assert trio.current_time() - began < GRACE_S / 2
    assert not listener.add(connection(3))
