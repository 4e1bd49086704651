"""Client sessions at a core that is alone in its view."""

from collections.abc import Sequence

from groupcomm.config.core import CoreConfig
from groupcomm.config.roster import Roster
from groupcomm.config.view import Incarnation, Start
from groupcomm.engine import (
    ClientBytes,
    ClientOpened,
    CoreOver,
    DaemonCore,
    Input,
    Output,
    ProgramSettings,
    Segmentation,
    Store,
    drive,
)
from groupcomm.events import Closed, Event
from groupcomm.membership.states import MembershipState
from groupcomm.session.client_session import ClientSession
from groupcomm.session.daemon_session import SessionLimits

PLENTY = 1 << 30


class Clients:
    """Some sessions; each by its connection number.

    Attributes:
        core: their daemon's.
        sessions: the clients' side of each.
        ended: connections that the core has ended.
        questions: the questions of connections about the daemon.
        now: the time of the next `step`.
        daemon_timeout_s: see `ClientSession`.
    """

    now = 0.0
    daemon_timeout_s: float | None = None

    def __init__(self, limits: SessionLimits | None = None) -> None:
        config = CoreConfig(suite=0, sites=(("a",),))
        start = Start(name="a", incarnation=Incarnation(1, 7), mark=10**6)
        settings = ProgramSettings(limits=limits or SessionLimits())
        self.core = DaemonCore(config, start, keys=None, now=0.0, wall=0.0, settings=settings)
        self.sessions: dict[int, ClientSession] = {}
        self.ended: list[int] = []
        self.questions: list[tuple[int, str]] = []
        self.step()
        assert self.core.state is MembershipState.OPERATIONAL

    def start(self, user: str, *, causes: bool = False, principal: str = "") -> int:
        """A client that has not yet said hello."""
        connection = self.core.next_connection()
        self.sessions[connection] = ClientSession(
            user, causes=causes, daemon_timeout_s=self.daemon_timeout_s
        )
        self.step(ClientOpened(connection, principal))
        return connection

    def connect(self, user: str, *, causes: bool = False, principal: str = "") -> int:
        """A client that is admitted."""
        connection = self.start(user, causes=causes, principal=principal)
        self.talk(connection)
        return connection

    def step(self, *inputs: Input) -> None:
        """Everything at once, then steps while the core asks for more at once."""
        drive(self.core, self, self.now, [], inputs)
        while self.core.deadline <= self.now:
            drive(self.core, self, self.now, [], [])

    def step_once(self, *inputs: Input, now: float = 0.0) -> None:
        """Everything at once, and nothing after it."""
        drive(self.core, self, now, [], inputs)

    def use_roster(self, roster: Roster) -> None:
        """Do nothing, as the roster never changes here."""

    def use_near(self, near: frozenset[str]) -> None:
        """Do nothing, as the roster never changes here."""

    def use_segmentation(self, segmentation: Segmentation) -> None:
        """Do nothing, as no datagram is cut."""

    def store(self, wanted: Sequence[Store]) -> None:
        """There is no disk."""

    def send(self, output: Output) -> bool:
        """It is alone: nobody is sent anything."""
        assert output.datagrams == []
        return True

    def serve(self, output: Output) -> None:
        """Keep the question."""
        self.ended += output.ended
        self.questions += output.questions

    def finish(self, over: CoreOver) -> None:
        """It is over."""

    def said(self, connection: int) -> ClientBytes:
        """Return the bytes that a client has to send."""
        return ClientBytes(connection, self.sessions[connection].pop_output(PLENTY))

    def heard(self, connection: int) -> list[Event]:
        """Process the bytes of the daemon."""
        output = b"".join(self.core.pop_output(connection, PLENTY))
        return self.sessions[connection].receive(output)

    def talk(self, connection: int) -> list[Event]:
        """Exchange what waits on both sides."""
        self.step(self.said(connection))
        return self.heard(connection)

    def end(self, connection: int) -> Closed:
        """Exchange what waits; it ends the session."""
        last = self.talk(connection)[-1]
        assert isinstance(last, Closed)
        return last
