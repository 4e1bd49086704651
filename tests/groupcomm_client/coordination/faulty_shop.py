"""Workers of one set under all faults: those of the simulator, and those of programs.

Daemons, datagrams, clocks and disks suffer as `groupcomm simulate` has them suffer
(docs/simulator.md). Besides, workers are killed, stand still, have wrong clocks and take long.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final
from unittest.mock import patch

from groupcomm.events import MemberId, Message
from groupcomm.sim.virtual_time import SECOND, Clock, microseconds, random_for
from groupcomm_client.coordination import parts, work_exchange, work_queue
from tests.groupcomm_client.all_faults import draw_kinds, settings_for
from tests.groupcomm_client.coordination.crowd import Seat
from tests.groupcomm_client.coordination.shop import Shop, Worker

PROGRAM_FAULTS: Final = (
    "kill",
    "pause",
    "slow",
    "clocks",
    "keys",
    "small store",
    "small parts",
    "operators",
    "small caps",
)

FEW_BYTES: Final = 20 * (work_queue.JOB_BYTES + 30)
"""The bytes of some 20 jobs: further ones are refused."""

REST_S: Final = 120.0


def key_of(message: Message) -> bytes | None:
    """Return the key of a job: half of them have one of four."""
    number = int(message.data)
    return b"%d" % (number % 8) if number % 8 < 4 else None


class FaultyWorker(Worker):
    """A worker with a clock of its own, that may stand still."""

    def __init__(self, shop: "FaultyShop", seat: Seat, me: MemberId) -> None:
        super().__init__(shop, seat, me)
        self.clock = Clock(shop.crowd.rng, 0.1 if "clocks" in shop.troubles else 0.0)
        self.paused_until: int | None = None

    def pause(self, until: int) -> None:
        client = self.seat.client
        if self.paused_until is None and client is not None and client.alive:
            self.paused_until = until
            client.set_reading(False)

    def go_on(self, now: int) -> None:
        """Go on, once the pause is over."""
        if self.paused_until is not None and now >= self.paused_until:
            self.paused_until = None
            client = self.seat.client
            if client is not None and client.alive:
                client.set_reading(True)


class FaultyShop(Shop):
    """A crowd of workers, with all faults."""

    def __init__(
        self,
        seed: int,
        faults: str = "all",
        duration_s: float = 6.0,
        program_faults: str = "all",
    ) -> None:
        self.troubles = draw_kinds(seed, PROGRAM_FAULTS, program_faults)
        self.duration_s = duration_s
        self.is_over = False
        super().__init__(
            seed,
            0,
            settings=settings_for(
                seed, faults, duration_s, small_caps="small caps" in self.troubles
            ),
            key=key_of if "keys" in self.troubles else None,
        )
        self.crowd.agree_s = REST_S
        self.crowd.trouble = self.trouble  # type: ignore[method-assign]
        self.troubles_per_s = random_for(seed, "troubles").uniform(0.5, 4.0)

    def make(self, seat: Seat, me: MemberId) -> Worker:
        self._known[seat.daemon] = worker = FaultyWorker(self, seat, me)
        return worker

    def trouble(self) -> None:
        """Something happens to a worker."""
        rng = self.crowd.rng
        kind = rng.choice(("kill", "pause"))
        if kind not in self.troubles or not self.workers:
            return
        worker = rng.choice(self.workers)
        assert isinstance(worker, FaultyWorker)
        if kind == "pause":
            lasts_s = rng.choice((0.1, 1.0, 5.0)) * rng.random()
            worker.pause(self.crowd.cluster.loop.now + microseconds(lasts_s))
        elif self.may_crash():
            self.crowd.crashed += 1
            worker.seat.crash()

    def act(self, seat: Seat) -> None:
        worker, rng = seat.program, self.crowd.rng
        assert isinstance(worker, FaultyWorker)
        now = self.crowd.cluster.loop.now
        worker.go_on(now)
        if worker.paused_until is not None:
            return
        what = rng.random()
        sharing = worker.sharing
        if what < 0.25:
            seat.send(b"%d" % self.sent, to="jobs")
            self.sent += 1
        elif what < 0.7:
            if "slow" not in self.troubles or rng.random() < 0.1:
                worker.finish(rng, failing=self.failing)
        elif what < 0.75 and worker.running:
            sharing.extend(rng.choice(sorted(worker.running)))
        elif what < 0.8 and "operators" in self.troubles and sharing.queue.aside:
            self._operate(worker)
        else:
            sharing.look(worker.clock.monotonic(now))
        worker.speak()

    def _operate(self, worker: Worker) -> None:
        """Put a job back that was set aside, or discard it."""
        aside = worker.sharing.queue.aside
        id = self.crowd.rng.choice(sorted(aside))
        if self.crowd.rng.random() < 0.5:
            worker.sharing.put_back((id,))
        else:
            self.discarded.add(aside[id].data)
            worker.sharing.discard((id,))

    def play(self) -> None:
        """Run load and faults, then mend everything and wait until all jobs are done."""
        with self._limits():
            self.crowd.run(self.duration_s, self.act, self.troubles_per_s)
            self.is_over = True
            for worker in self.workers:
                assert isinstance(worker, FaultyWorker)
                worker.go_on(worker.paused_until or 0)
            self.crowd.cluster.end_faults()
            self.crowd.until(self.all_done)

    @contextmanager
    def _limits(self) -> Iterator[None]:
        """Have states be large, compared with what is kept and with what is sent at once."""
        with ExitStack() as stack:
            if "small store" in self.troubles:
                stack.enter_context(patch.object(work_queue, "MOST_BYTES", FEW_BYTES))
            if "small parts" in self.troubles:
                stack.enter_context(patch.object(parts, "PART_BYTES", 300))
                stack.enter_context(patch.object(work_exchange, "PIECE_BYTES", 300))
            yield

    @property
    def simulated_s(self) -> float:
        return self.crowd.cluster.loop.now / SECOND

    def check(self) -> None:
        super().check()
        done_again = {data for data, count in self.done.items() if count > 1}
        assert self.refused == set() or "small store" in self.troubles
        assert done_again <= self.heard

    def summary(self) -> dict[str, int]:
        """Return how much has happened."""
        return {
            "jobs": self.sent,
            "done": len(self.done),
            "done_again": sum(count - 1 for count in self.done.values()),
            "aside": len(self.aside),
            "refused": len(self.refused),
            "lost": len(self.lost - self.done.keys()),
            "compared": self.compared,
        }


def play(
    seed: int, faults: str = "all", duration_s: float = 6.0, program_faults: str = "all"
) -> FaultyShop:
    """Run one seed, and check it."""
    shop = FaultyShop(seed, faults, duration_s, program_faults)
    shop.play()
    shop.check()
    return shop
