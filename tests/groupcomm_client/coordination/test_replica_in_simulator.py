"""Replicas of one state machine stay equal, and keep what was answered, whatever happens."""

import hashlib
from collections import Counter
from collections.abc import Iterator

import pytest

from groupcomm.clocks.stamp import Position
from groupcomm.events import Connected, Event, MemberId
from groupcomm.level import ServiceLevel
from groupcomm_client.coordination.replica import Done, Replica, Send, Status, Unknown
from tests.groupcomm_client.coordination.crowd import Crowd, Seat


class Log:
    """The simplest machine: it keeps all commands."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def apply(self, command: bytes, sender: MemberId) -> object:
        self.lines.append(command.decode())
        return len(self.lines)

    def members_changed(self, members: tuple[MemberId, ...]) -> None:
        self.lines.append("members " + " ".join(map(str, members)))

    def snapshot(self) -> bytes:
        return "\n".join(self.lines).encode()

    def restore(self, state: bytes) -> None:
        self.lines = state.decode().split("\n") if state else []

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.snapshot()).hexdigest()


class LogProgram:
    """A replica, its submitted commands, and its answers."""

    def __init__(self, check: "Checker", seat: Seat, me: MemberId) -> None:
        self.log = Log()
        self.me = me
        self.replica = Replica(me, "crowd", self.log, replicas=check.replicas)
        self.asked: dict[int, str] = {}
        self._check = check
        self._seat = seat

    def take(self, event: Event) -> None:
        assert not isinstance(event, Connected)
        for action in self.replica.handle(event):  # type: ignore[arg-type]
            match action:
                case Send(data):
                    self._seat.send(data)
                case Done(number, result):
                    self._check.answered(self.asked.pop(number), result)
                case Unknown(number):
                    self._check.unknown += 1
                    del self.asked[number]
        self._check.look(self)

    def submit(self) -> None:
        if self.replica.status is Status.CURRENT:
            text = f"{self.me} {next(self._check.numbers)}"
            number, data = self.replica.command(text.encode())
            self.asked[number] = text
            self._seat.send(data, ServiceLevel.SAFE)


def submit(seat: Seat) -> None:
    assert isinstance(seat.program, LogProgram)
    seat.program.submit()


class Checker:
    """Sees all states and all answers, and reports violations."""

    def __init__(self, seed: int, daemons: int, replicas: int | None, loss: float = 0.0) -> None:
        self.replicas = replicas
        self.numbers: Iterator[int] = iter(range(1_000_000))
        self.acknowledged: list[str] = []
        self.unknown = 0
        self.states: dict[Position, str] = {}
        self.compared = 0
        self._ignorant: set[int] = set()  # seats whose program has lost the state, or has none yet
        self.crowd = Crowd(seed, daemons, self.make, self.may_crash, loss)
        self.crowd.gone = self.gone
        self._spare = daemons - (daemons // 2 + 1)

    def make(self, seat: Seat, me: MemberId) -> LogProgram:
        return LogProgram(self, seat, me)

    def programs(self) -> list[LogProgram]:
        found = [seat.program for seat in self.crowd.seats]
        return [program for program in found if isinstance(program, LogProgram)]

    def gone(self, seat: Seat) -> None:
        self._ignorant.add(seat.daemon)

    def may_crash(self) -> bool:
        """More than a minority that loses its memory at a time may lose the state."""
        return len(self._ignorant) < self._spare

    def answered(self, text: str, result: object) -> None:
        self.acknowledged.append(text)
        assert isinstance(result, int)

    def look(self, program: LogProgram) -> None:
        """Whoever has a quorum behind it has the same state at the same place."""
        replica = program.replica
        if not replica.has_quorum:
            return
        self._ignorant.discard(program._seat.daemon)
        if self.replicas is not None and replica.as_of is not None:
            state = self.states.setdefault(replica.as_of, program.log.digest)
            assert state == program.log.digest, f"two states at {replica.as_of}"
            self.compared += 1

    def run(self, seconds: float, troubles_per_s: float = 2.0) -> None:
        self.crowd.until(self.all_equal)
        self.crowd.run(seconds, submit, troubles_per_s)
        self.crowd.until(self.all_equal)

    def all_equal(self) -> bool:
        programs = self.programs()
        return (
            len(programs) == len(self.crowd.seats)
            and all(len(p.replica.holders) == len(programs) for p in programs)
            and len({p.log.digest for p in programs}) == 1
            and all(p.replica.has_quorum and not p.asked for p in programs)
        )

    def check(self) -> None:
        """In the end: what was answered is there, and nothing is there twice."""
        count = Counter(self.programs()[0].log.lines)
        commands = {line: n for line, n in count.items() if not line.startswith("members")}
        assert set(commands.values()) <= {1}, "a command was applied twice"
        lost = [text for text in self.acknowledged if text not in commands]
        assert not lost, f"{len(lost)} answered commands are lost, such as {lost[:3]}"
        assert len(self.acknowledged) > 20


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))]
)
def test_what_was_answered_is_there_and_all_are_equal(seed: int) -> None:
    daemons = 3 + 2 * (seed % 2)
    check = Checker(seed, daemons, daemons, loss=0.02 * (seed % 3))
    check.run(6.0)
    check.check()
    assert check.compared > 100
