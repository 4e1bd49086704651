"""The small parts of the simulator: the loop, clocks, pipes."""

from random import Random

import pytest

from groupcomm.sim.cluster.connections import CAPACITY_BYTES, Pipe
from groupcomm.sim.virtual_time import EPOCH_S, SECOND, Clock, Loop, random_for


def test_calls_run_in_the_order_of_their_times_then_of_their_asking() -> None:
    loop, ran = Loop(), []
    for time, name in ((5, "b"), (3, "a"), (5, "c"), (9, "d")):
        loop.at(time, lambda name: ran.append((loop.now, name)), name)
    loop.run(8)
    assert ran == [(3, "a"), (5, "b"), (5, "c")]
    assert loop.now == 8
    loop.run(20)
    assert ran[-1] == (9, "d")


def test_nothing_can_be_asked_for_in_the_past() -> None:
    loop = Loop()
    loop.run(10)
    with pytest.raises(AssertionError, match="a call at 9 us was requested at 10 us"):
        loop.at(9, print)


def test_purposes_have_random_sources_of_their_own() -> None:
    draws = {random_for(seed, what).random() for seed in (1, 2) for what in ("loss", "delay")}
    assert len(draws) == 4
    assert random_for(1, "loss").random() in draws


@pytest.mark.parametrize("seed", range(20))
def test_a_deadline_is_reached_at_the_first_microsecond_that_shows_it(seed: int) -> None:
    rng = Random(f"{seed}")
    clock = Clock(rng, 0.1)
    for _ in range(50):
        now = rng.randrange(10**9)
        deadline = clock.monotonic(now) + rng.uniform(0.0, 2.0)
        when = clock.when(deadline, now)
        assert clock.monotonic(when) >= deadline
        assert when == now or clock.monotonic(when - 1) < deadline


def test_a_deadline_that_has_passed_is_reached_now() -> None:
    clock = Clock(Random("1"), 0.0)
    assert clock.when(clock.monotonic(500), 1000) == 1000


def test_rates_and_jumps_stay_in_their_bounds() -> None:
    for seed in range(50):
        clock = Clock(Random(f"{seed}"), 0.1)
        assert 0.9 <= clock.monotonic(SECOND) - clock.monotonic(0) <= 1.1
        before = clock.wall(0)
        assert abs(before - EPOCH_S) <= 2.0
        clock.jump()
        assert abs(clock.wall(0) - before) <= 86_400.0


class Ends:
    """A pipe with both ends: the read bytes, the number of drains, and whether it ended."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.read = b""
        self.drained = 0
        self.ended = False
        self.pipe = Pipe(self.loop, self.on_read, self.on_drained, self.on_end)

    def on_read(self, data: bytes) -> None:
        self.read += data

    def on_drained(self) -> None:
        self.drained += 1

    def on_end(self) -> None:
        self.ended = True


def test_a_pipe_carries_bytes_in_order_and_then_the_end() -> None:
    ends = Ends()
    ends.pipe.write(b"one ")
    ends.pipe.write(b"two")
    ends.pipe.close()
    ends.loop.run(SECOND)
    assert ends.read == b"one two"
    assert ends.ended


def test_a_full_pipe_tells_when_there_is_room_again() -> None:
    ends = Ends()
    ends.pipe.set_reading(False)
    ends.pipe.write(bytes(CAPACITY_BYTES))
    assert ends.pipe.room() == 0
    ends.loop.run(SECOND)
    assert ends.read == b""
    assert ends.drained == 0
    ends.pipe.set_reading(True)
    assert len(ends.read) == CAPACITY_BYTES
    assert ends.drained == 1
    assert ends.pipe.room() == CAPACITY_BYTES


def test_a_reader_that_is_gone_reads_nothing_and_nobody_is_notified() -> None:
    ends = Ends()
    ends.pipe.write(b"lost")
    ends.pipe.break_off()
    ends.pipe.write(b"lost, too")
    ends.loop.run(SECOND)
    assert ends.read == b""
    assert ends.pipe.room() == 0
    assert not ends.ended
