"""Workers that share jobs, in an agreed order with crashes, partitions and merges.

At each place of the order all workers that have the state have the same one, so a job has one
worker; and no job is lost as long as a worker that knows it lives.
"""

import hashlib
from collections import Counter
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from groupcomm.events import Cause, MemberId, Message
from groupcomm_client.coordination.replica import Send
from groupcomm_client.coordination.sharing import Sharing, Withdraw
from groupcomm_client.coordination.work_messages import Settings
from groupcomm_client.coordination.work_queue import WasRefused, WasSetAside
from groupcomm_client.events import Received
from tests.examples import examples
from tests.groupcomm_client.coordination.agreed_order import Network, Part

JOBS, CONTROL = "jobs", "jobs.printers"
SEATS = 5
AT_ONCE = 3
OUTSIDE = MemberId("#sender#d", 1)


def key_of(message: Message) -> bytes | None:
    """The key of a job that has one: its first letter."""
    return message.data[:1] if message.data[:1] in (b"x", b"y") else None


class Worker:
    """A worker, the jobs it runs, and what is true of them at each event."""

    def __init__(self, run: "Run", me: MemberId) -> None:
        self.me = me
        self.sharing = Sharing(
            me,
            JOBS,
            CONTROL,
            settings=Settings(3, 8000, True),
            at_once=AT_ONCE,
            key=key_of,
        )
        self.running: dict[object, bytes] = {}
        self.cut_off: dict[object, bytes] = {}  # withdrawn, and the program has not noticed
        self._run = run

    def take(self, event: Received, stage: tuple[int, int]) -> None:
        for action in self.sharing.handle(event):
            match action:
                case Send(data):
                    self._run.network.send(self.me, CONTROL, data)
                case Withdraw(id):
                    self.cut_off[id] = self.running.pop(id)
                case WasSetAside(entry):
                    self._run.set_aside.add(entry.data)
                case WasRefused():
                    pass
        self.speak()
        self.check(stage)

    def speak(self) -> None:
        data = self.sharing.pop_command()
        if data is not None:
            self._run.network.send(self.me, CONTROL, data)
        while (entry := self.sharing.next_job()) is not None:
            self.running[entry.id] = entry.data
            self._run.started[entry.data] += 1

    def knows(self) -> set[bytes]:
        """The jobs in its state, or on the way to it."""
        queue, replica = self.sharing.queue, self.sharing.replica
        known = {entry.data for entry in (*queue.jobs.values(), *queue.aside.values())}
        known |= {each.what.data for each in replica._backlog if isinstance(each.what, Message)}
        inbox = [event for event, _ in self._run.network.inboxes[self.me]]
        return known | {e.data for e in inbox if isinstance(e, Message) and e.groups == (JOBS,)}

    def check(self, stage: tuple[int, int]) -> None:
        queue, replica = self.sharing.queue, self.sharing.replica
        if not self.sharing.is_current:
            return
        state = hashlib.sha256(queue.snapshot()).hexdigest()
        assert self._run.states.setdefault(stage, state) == state, f"two states at {stage}"
        mine = queue.jobs_of(self.me)
        assert set(self.running) <= set(mine)
        assert len(self.running) + len(self.cut_off) <= AT_ONCE
        keys = Counter(entry.key for entry in queue.in_flight() if entry.key is not None)
        assert set(keys.values()) <= {1}, "two jobs of one key at a time"
        if replica._majority is False and not replica._place.is_transitional:
            assert not list(queue.in_flight()), "jobs are given where no majority is"

    def finish(self, rng: Random) -> None:
        """The program lets go of a job."""
        for held in (self.cut_off, self.running):
            if held:
                id = rng.choice(sorted(held))  # type: ignore[type-var]
                data = held.pop(id)
                if rng.random() < self._run.failing and not data.startswith(b"!"):
                    if rng.random() < 0.7:
                        self.sharing.fail(id, "bad luck")  # type: ignore[arg-type]
                    else:
                        self.sharing.give_back(id)  # type: ignore[arg-type]
                else:
                    self.sharing.done(id)  # type: ignore[arg-type]
                    self._run.done[data] += 1
                    self._run.sequence.append(data)
                break
        self.speak()


class Run:
    """A network of workers, and its accounts."""

    def __init__(self, seed: int, *, known: bool = True, failing: float = 0.8) -> None:
        self.rng = Random(seed)
        self.failing = failing
        self.network: Network[Worker] = Network(self.rng, CONTROL, JOBS, SEATS, known=known)
        self.states: dict[tuple[int, int], str] = {}
        self.started: Counter[bytes] = Counter()
        self.done: Counter[bytes] = Counter()
        self.sequence: list[bytes] = []
        self.set_aside: set[bytes] = set()
        self.sent: list[bytes] = []
        self.lost: set[bytes] = set()  # nobody who knew them lives
        self.made = 0
        self.clock = 0.0

    def workers(self) -> list[Worker]:
        return [each for part in self.network.parts for each in part.members]

    def join(self, part: Part[Worker]) -> Worker:
        self.made += 1
        worker = Worker(self, MemberId(f"#w{self.made}#d", self.made))
        self.network.join(part, worker)
        return worker

    def send(self, part: Part[Worker], kind: bytes = b"") -> None:
        data = kind + b"%d" % len(self.sent)
        self.sent.append(data)
        self.network.send(OUTSIDE, JOBS, data, part)

    def crash(self, worker: Worker, cause: Cause = Cause.DISCONNECT) -> None:
        known = worker.knows()
        others = [each.knows() for each in self.workers() if each is not worker]
        self.network.crash(worker, cause)
        self.lost |= {data for data in known if not any(data in each for each in others)}

    def act(self, troubles: float) -> None:
        """Something happens."""
        rng, network = self.rng, self.network
        part = rng.choice(network.parts)
        what = rng.random()
        if what < 0.15 and part.members:
            self.send(part, rng.choice((b"", b"", b"x", b"y")))
        elif what < 0.45:
            network.order(part, rng.randint(1, 4))
        elif what < 0.6 and part.members:
            rng.choice(part.members).finish(rng)
        elif what < 0.6 + 0.1 * troubles:
            self.trouble(part)
        elif self.workers():
            worker = rng.choice(self.workers())
            while network.read(worker) and rng.random() < 0.7:
                continue

    def trouble(self, part: Part[Worker]) -> None:
        rng, network = self.rng, self.network
        what = rng.random()
        if what < 0.25 and len(self.workers()) < SEATS:
            self.join(part)
        elif what < 0.4 and part.members:
            cause = rng.choice((Cause.DISCONNECT, Cause.LEAVE))
            others = sum(each.sharing.is_current for each in part.members) - 1
            if others > 0 or rng.random() < 0.02:
                self.crash(rng.choice(part.members), cause)
        elif what < 0.6 and len(part.members) > 1 and len(network.parts) < 3:
            network.split(part, rng.sample(part.members, rng.randint(1, len(part.members) - 1)))
        elif what < 0.85 and len(network.parts) > 1:
            network.meet(*rng.sample(network.parts, 2))
        elif self.workers():
            self.clock += 5.0
            worker = rng.choice(self.workers())
            worker.sharing.look(self.clock)
            worker.speak()

    def settle(self) -> None:
        """Mend everything, and let all workers do what there is."""
        network = self.network
        while len(network.parts) > 1:
            network.meet(network.parts[0], network.parts[1])
        (part,) = network.parts
        while len(part.members) < SEATS:
            self.join(part)
        self.failing = 0.0
        for _ in range(2000):
            busy = bool(part.waiting)
            network.order(part, 100)
            for worker in part.members:
                while network.read(worker):
                    busy = True
                while worker.running or worker.cut_off:
                    busy = True
                    worker.finish(self.rng)
            if not busy:
                return
        raise AssertionError("the workers do not come to rest")

    def check(self) -> None:
        workers = self.workers()
        assert all(worker.sharing.is_current for worker in workers)
        assert len({worker.sharing.queue.snapshot() for worker in workers}) == 1
        queue = workers[0].sharing.queue
        assert not queue.jobs, "jobs wait though workers are idle"
        aside = {entry.data for entry in queue.aside.values()}
        missing = [
            data
            for data in self.sent
            if data in self.network.heard
            and not (data in self.done or data in aside or data in self.lost)
        ]
        assert not missing, f"{len(missing)} jobs are lost, such as {missing[:3]}"
        assert aside <= self.set_aside


def run(seed: int, *, known: bool, steps: int = 400, troubles: float = 1.0) -> Run:
    found = Run(seed, known=known)
    for _ in range(3):
        found.join(found.network.parts[0])
    for _ in range(steps):
        found.act(troubles)
    found.settle()
    found.check()
    return found


@examples(25)
@given(seed=st.integers(0, 2**32), troubles=st.sampled_from((0.3, 1.0)))
def test_no_job_is_lost_and_each_has_one_worker_with_a_majority(seed: int, troubles: float) -> None:
    run(seed, known=True, troubles=troubles)


@examples(25)
@given(seed=st.integers(0, 2**32), troubles=st.sampled_from((0.3, 1.0)))
def test_no_job_is_lost_when_each_part_works_by_itself(seed: int, troubles: float) -> None:
    run(seed, known=False, troubles=troubles)


@examples(10)
@given(seed=st.integers(0, 2**32))
def test_without_troubles_each_job_is_done_once_and_in_order_of_its_key(seed: int) -> None:
    found = Run(seed, failing=0.0)
    for _ in range(3):
        found.join(found.network.parts[0])
    for _ in range(400):
        found.act(0.0)
    found.settle()
    found.check()
    assert set(found.started.values()) <= {1}
    for key in (b"x", b"y"):
        numbers = [int(data[1:]) for data in found.sequence if data.startswith(key)]
        assert all(one < next for one, next in pairwise(numbers))


def test_most_jobs_of_such_runs_have_no_excuse() -> None:
    runs = [run(seed, known=True, troubles=0.3) for seed in range(20)]
    sent = sum(len(found.sent) for found in runs)
    lost = sum(len(found.lost - found.done.keys()) for found in runs)
    assert sent > 200
    assert lost < sent / 10
    assert sum(count > 1 for found in runs for count in found.started.values()) > 10
    assert sum(len(found.set_aside) for found in runs) > 5
