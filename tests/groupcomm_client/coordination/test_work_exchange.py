"""The exchange between states of a worker set sends names first, then only what others lack."""

from collections.abc import Sequence
from random import Random

import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_client.coordination import parts, work_exchange
from groupcomm_client.coordination.parts import UNDER_WAY, PartReceiver, PartSender
from groupcomm_client.coordination.replica import Replica, Send, Status, Step
from groupcomm_client.coordination.replica_messages import Part, Piece, Snapshot, decode_untrusted
from groupcomm_client.coordination.work_exchange import pack, unpack_untrusted
from groupcomm_client.coordination.work_queue import WorkQueue
from groupcomm_client.events import Received

A, B, C, OUTSIDE = (MemberId(f"#{name}#d", 1) for name in "abco")
FIRST, SECOND, THIRD, FOURTH = (ViewId(number, "alfa.example", 2**63) for number in (1, 2, 3, 4))
CONTROL = "jobs.set"


def job(at: Position, data: bytes) -> Step:
    message = Message(OUTSIDE, 1, ("jobs",), ServiceLevel.AGREED, 0, data, at)
    return Step(at, message, None, False, None)


def places(rng: Random, view: ViewId, count: int) -> list[Position]:
    """Positions of jobs: most of them several in a bundle."""
    found: list[Position] = []
    time = 10**15
    while len(found) < count:
        time += rng.randint(1, 50_000)
        several = rng.choice((1, 1, 12))
        found += [Position(view, time, rng.randrange(2), 0, each) for each in range(several)]
    return found[:count]


class Order:
    """Workers in one agreed order, which deliver to all what any of them says."""

    def __init__(self, members: Sequence[MemberId], origins: Sequence[Sequence[MemberId]]) -> None:
        self.members = list(members)
        self.origins = origins
        self.replicas = {me: Replica(me, CONTROL, WorkQueue(me)) for me in members}
        self.waiting: list[tuple[MemberId, bytes]] = []
        self.sent: list[int] = []
        self.most_under_way = 0
        self.time = 0

    def queue(self, me: MemberId) -> WorkQueue:
        machine = self.replicas[me]._machine
        assert isinstance(machine, WorkQueue)
        return machine

    def handle(self, me: MemberId, event: Received) -> None:
        for action in self.replicas[me].handle(event):
            assert isinstance(action, Send)
            self.waiting.append((me, action.data))
            self.sent.append(len(action.data))

    def view(self, view: ViewId, cause: Cause = Cause.NETWORK, time: int = 0) -> None:
        """A view, in which each of the origins comes from an earlier one of its own."""
        self.now, self.time = view, time
        if cause is Cause.NETWORK:
            self.waiting.clear()
        for origin in self.origins:
            for me in origin:
                if me in self.members:
                    self.handle(me, self._view(view, cause, origin))

    def _view(self, view: ViewId, cause: Cause, origin: Sequence[MemberId]) -> GroupView:
        return GroupView(
            group=CONTROL,
            id=Position(view, self.time, 0, 0, 0),
            members=tuple(self.members),
            cause=cause,
            changed=(),
            vs_set=tuple(origin),
            own=False,
        )

    def deliver(self, count: int = 1_000_000) -> None:
        """Deliver what was said, in its order."""
        while self.waiting and count:
            count -= 1
            self.most_under_way = max(self.most_under_way, len(self.waiting))
            self.time += 1
            sender, data = self.waiting.pop(0)
            at = Position(self.now, self.time, 0, 0, 0)
            if sender in self.members:
                for me in list(self.members):
                    message = Message(sender, 1, (CONTROL,), ServiceLevel.AGREED, 0, data, at)
                    self.handle(me, message)

    def leave(self, me: MemberId) -> None:
        self.members.remove(me)
        self.time += 1
        self.view(self.now, Cause.LEAVE, self.time)

    def are_equal(self) -> bool:
        assert all(self.replicas[me].status is Status.CURRENT for me in self.members)
        return len({self.queue(me).snapshot() for me in self.members}) == 1


def parted(counts: Sequence[int], both: int = 0, data: bytes = bytes(92)) -> Order:
    """Workers A and B, and perhaps C, in parts of their own, with this many jobs of their own, and
    some that they had heard of together."""
    members = (A, B, C)[: len(counts)]
    order = Order(members, [[me] for me in members])
    rng = Random(1)
    common = [job(at, data) for at in places(rng, FIRST, both)]
    for me, count, view in zip(members, counts, (SECOND, THIRD, FOURTH), strict=False):
        replica, queue = order.replicas[me], order.queue(me)
        replica.handle(order._view(FIRST, Cause.JOIN, [me]))
        replica.status, replica.as_of, replica._compared = Status.CURRENT, None, None
        replica.holders = frozenset([me])
        replica._sender.clear()
        replica._backlog.clear()
        for step in [*common, *(job(at, data) for at in places(rng, view, count))]:
            queue.step(step)
            replica.as_of = step.at
    return order


MERGED = ViewId(9, "alfa.example", 2**63)
AGAIN = ViewId(10, "alfa.example", 2**63)


def test_names_of_jobs_are_packed_and_unpacked() -> None:
    rng = Random(2)
    for count in (0, 1, 2, 500):
        ids = places(rng, FIRST, count) + places(rng, SECOND, count)
        kept = [id for id in ids if rng.random() < 0.8]
        assert unpack_untrusted(pack(rng.sample(kept, len(kept)))) == sorted(kept)


def test_names_that_make_no_sense_are_left_out() -> None:
    packed = pack(places(Random(3), FIRST, 50))
    packed.counts = [2**62]
    assert unpack_untrusted(packed) == []
    packed.counts = [1, 2]
    assert len(unpack_untrusted(packed)) <= 3


def test_parts_that_have_the_same_jobs_exchange_their_names_only() -> None:
    order = parted((1, 1), both=5_000)
    state = len(order.queue(A).snapshot())
    order.view(MERGED)
    order.deliver()
    assert order.are_equal()
    assert len(order.queue(A).jobs) == 5_002
    assert state > 600_000
    assert sum(order.sent) < state / 10, "claims have data"
    assert max(order.sent) < parts.PART_BYTES + 100


def test_what_others_lack_is_sent_once_in_pieces_of_which_few_are_under_way() -> None:
    order = parted((6_000, 10), both=500)
    order.view(MERGED)
    order.deliver()
    assert order.are_equal()
    state = len(order.queue(A).snapshot())
    assert sum(order.sent) < 1.2 * state
    assert max(order.sent) < parts.PART_BYTES + 100
    assert order.most_under_way <= 2 * UNDER_WAY


def test_a_new_view_does_not_begin_the_exchange_anew() -> None:
    order = parted((6_000, 10))
    order.view(MERGED)
    order.deliver(10)
    before = sum(order.sent)
    assert order.replicas[A].status is Status.SETTLING
    order.sent.clear()
    order.view(AGAIN)
    order.deliver()
    assert order.are_equal()
    state = len(order.queue(A).snapshot())
    assert before > state / 4
    assert sum(order.sent) + before < 1.15 * state


def test_another_one_goes_on_for_a_worker_that_leaves() -> None:
    order = parted((3000, 10, 10), both=5)
    order.view(FOURTH)  # A and C become one first: C has all that A has
    order.origins = [[A, C], [B]]
    for me in (A, C):
        order.replicas[me].holders = frozenset((A, C))
        order.queue(me).restore(order.queue(A).snapshot())
        order.replicas[me].status = Status.CURRENT
        order.replicas[me]._sender.clear()
    order.view(MERGED)
    order.deliver(8)
    order.leave(A)
    order.deliver()
    assert order.are_equal()
    assert len(order.queue(B).jobs) == 3015


def test_jobs_of_a_part_that_leaves_in_the_middle_are_lost_for_all_alike() -> None:
    order = parted((3000, 10, 10), both=5)
    order.view(MERGED)
    order.deliver(9)
    order.leave(A)
    order.deliver()
    assert order.are_equal()
    assert 25 < len(order.queue(B).jobs) < 3025


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have even small states come in parts."""
    monkeypatch.setattr(parts, "PART_BYTES", 100)
    monkeypatch.setattr(work_exchange, "PIECE_BYTES", 100)


def test_a_newcomer_gets_the_state_in_parts(small: None) -> None:
    order = parted((300,))
    order.members.append(B)
    order.replicas[B] = Replica(B, CONTROL, WorkQueue(B))
    order.origins = [[A], [B]]
    order.view(FIRST, Cause.JOIN, 10**16)
    order.deliver()
    assert order.are_equal()
    assert len(order.sent) > 30
    assert order.most_under_way <= UNDER_WAY + 2  # and two claims


def test_a_snapshot_that_came_too_early_for_a_newcomer_makes_it_no_holder() -> None:
    """Seeds 27 and 114 of the workers under all faults: the set stood still for ever."""
    order = parted((3,))
    for me in (B, C):
        order.members.append(me)
        order.replicas[me] = Replica(me, CONTROL, WorkQueue(me))
        order.origins = [[me] for me in order.members]
        order.view(FIRST, Cause.JOIN, order.time + 10**15)
    early = next(item for item in order.waiting if isinstance(decode_untrusted(item[1]), Snapshot))
    order.waiting = [early]  # the later one is lost with the view
    order.deliver()
    assert B not in order.replicas[A].holders
    order.view(SECOND)
    order.deliver()
    assert order.are_equal()


def test_the_rest_of_a_message_that_ended_is_no_message(small: None) -> None:
    sender, receiver = PartSender(), PartReceiver()
    piece = Piece(Position(FIRST, 1, 0, 0, 0), bytes(500))
    found = []
    for message in (piece, piece):
        sender.post(message)
        while data := sender.pop():
            for each in data:
                sender.delivered()
                part = decode_untrusted(each)
                assert isinstance(part, Part)
                found.append(part)
    count = found[0].count
    assert [receiver.accept(A, part) for part in found[1:count]] == [None] * (count - 1)
    mixed = [found[0], *found[count + 1 :]]
    assert [receiver.accept(A, part) for part in mixed] == [None] * count
    whole = [receiver.accept(A, part) for part in found[count:]]
    assert whole == [*[None] * (count - 1), piece]
