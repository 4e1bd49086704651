"""Daemons whose work takes time: one program's load makes others wait; all of it is counted.

Virtual time. A step of a daemon takes STEP_S, and UNIT_S for each unit of work that its programs
were charged; its output leaves when the step is over, and input waits meanwhile. Programs
send and read as through sockets: a daemon reads one while its session says so, CHUNK_BYTES at once.
"""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

from groupcomm.config.core import CoreConfig
from groupcomm.config.roster import Roster
from groupcomm.config.view import Incarnation, Start
from groupcomm.engine import (
    ClientBytes,
    ClientGone,
    ClientInput,
    ClientOpened,
    CoreOver,
    DaemonCore,
    Input,
    Output,
    Segmentation,
    Store,
    drive,
)
from groupcomm.events import Message
from groupcomm.membership.states import MembershipState
from groupcomm.session.client_session import ClientSession
from groupcomm.session.daemon_session import DaemonSessionState
from groupcomm.sim.cluster.disk import marks_stored_at_once
from groupcommd.operators.answers import QuestionQueue

STEP_S: Final = 100e-6
UNIT_S: Final = 6e-6
DELAY_S: Final = 100e-6
ANSWER_S: Final = 50e-6
"""To answer a question: nobody may ask it."""

CHUNK_BYTES: Final = 4 * 65_536
PLENTY: Final = 1 << 30
_SPEAKS: Final = (DaemonSessionState.NEW, DaemonSessionState.OPEN)


class Polite:
    """A program that sends one message now and then, and is a member of its group.

    Attributes:
        delays: seconds from the sending of its messages to their delivery here.
    """

    def __init__(self, core: DaemonCore, user: str) -> None:
        self.number = core.next_connection()
        self.session = ClientSession(user)
        self.delays: list[float] = []

    def read(self, data: bytes, now: float) -> None:
        """Receive an event."""
        for event in self.session.receive(data):
            if isinstance(event, Message):
                self.delays.append(now - float(event.data))


class Rude:
    """Connections that send whatever a test says, as fast as they are read.

    Args:
        principal: the principal of its programs.
        streams: the bytes of each program, without end; a program that ends is closed, and opened
            again.
    """

    def __init__(self, principal: str, streams: list[Iterator[bytes]]) -> None:
        self.principal = principal
        self.streams = streams
        self.numbers: dict[int, Iterator[bytes]] = {}

    def speak(self, daemon: "Loaded") -> list[ClientInput]:
        """Return its input until the next step."""
        sessions, inputs = daemon.core.sessions.by_connection, list[ClientInput]()
        if self.streams:  # one program is accepted in each round
            number = daemon.core.next_connection()
            self.numbers[number] = self.streams.pop()
            inputs.append(ClientOpened(number, self.principal))
        for number, stream in list(self.numbers.items()):
            session = sessions.get(number)
            if session is not None and session.closed:
                inputs.append(ClientGone(number))
                del self.numbers[number]
                self.streams.append(stream)
            elif session is None or (session.reading and session.state in _SPEAKS):
                inputs.append(ClientBytes(number, next(stream)))
        return inputs


class Loaded:
    """One daemon, its programs, and its processor."""

    def __init__(self, plant: "Plant", name: str) -> None:
        start = Start(name=name, incarnation=Incarnation(1, ord(name)))
        self.name = name
        self.core = DaemonCore(plant.config, start, keys=None, now=0.0, wall=1000.0)
        self.inbox: list[tuple[float, bytes]] = []
        self.busy_until = 0.0
        self.polite: list[Polite] = []
        self.rude: Rude | None = None
        self.answers = QuestionQueue(self._answer, self._principal_of, lambda: self._spent)
        self._spent = 0.0  # the time spent on answers
        self._plant = plant
        self._opened: set[int] = set()
        self._answered: list[Input] = []  # answers of disk and questions, for the next step
        self._now = self._done = 0.0

    def due(self) -> float:
        """Return the time of its next step."""
        if (
            self._answered
            or self.rude is not None
            or any(p.session.pending_bytes for p in self.polite)
        ):
            return self.busy_until
        arrivals = min((at for at, _ in self.inbox), default=inf)
        return max(self.busy_until, min(arrivals, self.core.deadline, self.answers.due))

    def step(self, now: float) -> None:
        """Process the waiting input; the output leaves when that is done."""
        taken = [datagram for at, datagram in self.inbox if at <= now]
        self.inbox = [each for each in self.inbox if each[0] > now]
        spent, self._now = self._spent, now
        drive(self.core, self, now, taken, self._inputs())
        self.busy_until = self._done + self._spent - spent

    def use_roster(self, roster: Roster) -> None:
        """Do nothing, as the roster never changes here."""

    def use_near(self, near: frozenset[str]) -> None:
        """Do nothing, as the roster never changes here."""

    def use_segmentation(self, segmentation: Segmentation) -> None:
        """Do nothing, as no datagram is cut."""

    def store(self, wanted: Sequence[Store]) -> None:
        """Its disk takes no time."""
        self._answered += marks_stored_at_once(wanted)

    def send(self, output: Output) -> bool:
        """Wait for the time of the step's work, then send the datagrams."""
        self._done = self._now + STEP_S + UNIT_S * self.core.sessions.intake.work_done
        for target, datagram in output.datagrams:
            self._plant.send(self.name, target, datagram, self._done)
        return True

    def serve(self, output: Output) -> None:
        """Programs read, and questions are answered."""
        if output.questions:
            self.answers.ask(output.questions, self._now)
        if self.answers.due <= self._now:
            self._answered += self.answers.answer(self._now)
        for program in self.polite:
            while parts := self.core.pop_output(program.number, PLENTY):
                program.read(b"".join(parts), self._done)
        for number in self.rude.numbers if self.rude is not None else ():
            self.core.pop_output(number, PLENTY)

    def finish(self, over: CoreOver) -> None:
        """It is never over."""

    def _principal_of(self, number: int) -> str | None:
        session = self.core.sessions.by_connection.get(number)
        return session.principal if session is not None else None

    def _inputs(self) -> list[Input]:
        inputs, self._answered = self._answered, []
        for program in self.polite:
            if program.number not in self._opened:
                self._opened.add(program.number)
                inputs.append(ClientOpened(program.number, "unix:polite"))
            if data := program.session.pop_output(PLENTY):
                inputs.append(ClientBytes(program.number, data))
        if self.rude is not None:
            inputs += self.rude.speak(self)
        return inputs

    def _answer(self, _question: str, _principal: str) -> Iterator[bytes]:
        self._spent += ANSWER_S
        yield b"{}"


class Plant:
    """Daemons of one site.

    Attributes:
        now: the time in seconds.
        daemons: the daemons by name.
    """

    def __init__(self, names: str) -> None:
        self.config = CoreConfig(suite=0, sites=(tuple(names),))
        self.now = 0.0
        self.daemons = {name: Loaded(self, name) for name in names}
        while not self._is_formed():
            self.run(0.1)

    def _is_formed(self) -> bool:
        return all(
            each.core.state is MembershipState.OPERATIONAL
            and each.core.view is not None
            and len(each.core.view.daemons) == len(self.daemons)
            for each in self.daemons.values()
        )

    def connect(self, name: str, user: str) -> Polite:
        """Return a program that is a member of group g."""
        daemon = self.daemons[name]
        program = Polite(daemon.core, user)
        daemon.polite.append(program)
        self.run(0.05)
        program.session.join("g")
        self.run(0.05)
        return program

    def send(self, source: str, target: str | None, datagram: bytes, at: float) -> None:
        """A datagram leaves a daemon."""
        for name, daemon in self.daemons.items():
            if name != source and target in (None, name):
                daemon.inbox.append((at + DELAY_S, datagram))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while True:
            daemon = min(self.daemons.values(), key=Loaded.due)
            at = max(self.now, daemon.due())
            if at > end:
                self.now = end
                return
            self.now = at
            daemon.step(at)
