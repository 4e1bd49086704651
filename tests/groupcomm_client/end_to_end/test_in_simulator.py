"""A group with a secret on simulated daemons: loss, partitions, merges, crashes of both kinds."""

from collections import Counter
from random import Random

import pytest

from groupcomm.events import Event, GroupView, MemberId, Message
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.security.layout import SUITE_NONE
from groupcomm.sim.virtual_time import microseconds
from groupcomm_client.end_to_end import SharedSecret, Unreadable
from groupcomm_client.end_to_end.sealing import Sealing
from groupcomm_client.events import Received
from groupcomm_client.filters.roles import Outgoing
from tests.groupcomm_client.coordination.crowd import GROUP, Crowd, Seat

MARKER = b"in the clear"
SECRET = SharedSecret(b"s" * 32)


class SecretProgram:
    """A program that sends at all levels, and notes its deliveries."""

    def __init__(self, check: "Checker", seat: Seat, me: MemberId) -> None:
        self.member = me
        self.given: list[Received] = []
        self._check = check
        self._seat = seat
        self._loop = check.crowd.cluster.loop
        self.sealing = Sealing(self, self._now, {}, check.random.randbytes)
        self.sealing.join(GROUP, SECRET)

    def _now(self) -> float:
        return self._loop.now / microseconds(1.0)

    # ---- what sealing asks for ----

    @property
    def is_open(self) -> bool:
        return self._seat.client is not None and self._seat.client.connected

    def send_out(self, message: Outgoing, data: bytes) -> int:
        client = self._seat.client
        assert client is not None
        return client.multicast(message.groups, data, level=message.level)

    def pass_on(self, message: Message) -> None:
        self.given.append(message)
        sender, views = self._check.sent[message.data]
        assert sender == message.sender
        assert self.member in views, f"{self.member} reads what was sent without it"
        self._check.read[message.level] += 1

    def give(self, event: Received) -> None:
        self.given.append(event)
        if isinstance(event, Unreadable):
            self._check.unreadable(self, event)

    # ---- acts ----

    def take(self, event: Event) -> None:
        if isinstance(event, Message):
            self.sealing.receive(event)
        elif isinstance(event, GroupView):
            self.view = event
            self.sealing.change_view(event)
            self.sealing.follow()

    def go_on(self) -> None:
        self.sealing.wake()
        if self.is_ready:
            level = self._check.random.choice(LEVELS)
            data = b"%b %d" % (MARKER, len(self._check.sent))
            self._check.sent[data] = self.member, frozenset(self.view.members)
            self.sealing.send(Outgoing(groups=(GROUP,), data=data, level=level), data)

    @property
    def is_ready(self) -> bool:
        return self.is_open and self.sealing.may_send([GROUP], [GROUP])


class Checker:
    """Knows the messages sent in each view, and reports violations."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.sent: dict[bytes, tuple[MemberId, frozenset[MemberId]]] = {}
        self.read: Counter[ServiceLevel] = Counter()
        self.unread: Counter[str] = Counter()
        self.crowd = Crowd(seed, 4, lambda seat, me: SecretProgram(self, seat, me), loss=0.02)
        self.datagrams = 0
        self.crowd.cluster.network.observers.append(self._overhear)

    def _overhear(self, source: int, target: int, datagram: bytes, goes_on: bool) -> None:
        """Notes the datagrams between daemons; they have no keys, so only this would hide the
        text."""
        self.datagrams += datagram[1] == SUITE_NONE
        assert MARKER not in datagram

    def unreadable(self, program: SecretProgram, event: Unreadable) -> None:
        self.unread[event.why] += 1
        assert "as its sender has sealed it" not in event.why, (
            "a genuine message is taken for a forged one"
        )
        assert "repetition" not in event.why

    def programs(self) -> list[SecretProgram]:
        found = [seat.program for seat in self.crowd.seats]
        return [one for one in found if isinstance(one, SecretProgram)]

    def all_ready(self) -> bool:
        for program in self.programs():
            program.sealing.wake()
        programs = self.programs()
        return len(programs) == 4 and all(
            one.is_ready and len(one.view.members) == 4 for one in programs
        )


def act(seat: Seat) -> None:
    assert isinstance(seat.program, SecretProgram)
    seat.program.go_on()


@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=[pytest.mark.long] * (s > 0)) for s in range(4)]
)
def test_members_read_each_other_and_nobody_reads_what_was_sent_without_it(seed: int) -> None:
    check = Checker(seed)
    check.crowd.until(check.all_ready)
    check.crowd.run(4.0, act, troubles_per_s=5.0)
    check.crowd.until(check.all_ready)
    assert check.crowd.parted + check.crowd.crashed > 1
    assert check.datagrams > 1000
    assert min(check.read[level] for level in LEVELS) > 10
    before = {one.member: len(one.given) for one in check.programs()}
    for program in check.programs():
        program.go_on()
    check.crowd.cluster.run(1.0)
    assert all(len(one.given) >= before[one.member] + 4 for one in check.programs())
