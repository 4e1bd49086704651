"""Client sessions at a core that is alone in its view."""

from groupcomm.config.core import CoreConfig
from groupcomm.config.start import Start
from groupcomm.config.view import Incarnation
from groupcomm.core import ClientBytes, ClientInput, ClientOpened, DaemonCore
from groupcomm.events import Closed, Event
from groupcomm.membership.states import State
from groupcomm.session.client import ClientSession
from groupcomm.session.daemon import SessionLimits

PLENTY = 1 << 30


class Clients:
    """Some sessions; each by its connection number.

    Attributes:
        core: their daemon's.
        sessions: the clients' side of each.
    """

    def __init__(self, limits: SessionLimits | None = None) -> None:
        config = CoreConfig(suite=0, sites=(("a",),))
        start = Start(name="a", incarnation=Incarnation(1, 7), mark=10**6)
        self.core = DaemonCore(config, start, keys=None, now=0.0, wall=0.0, limits=limits)
        self.sessions: dict[int, ClientSession] = {}
        self.step()
        assert self.core.state is State.OPERATIONAL

    def start(self, user: str, *, causes: bool = False, principal: str = "") -> int:
        """A client that has not yet said hello."""
        connection = self.core.desk.open()
        self.sessions[connection] = ClientSession(user, causes=causes)
        self.step(ClientOpened(connection, principal))
        return connection

    def connect(self, user: str, *, causes: bool = False, principal: str = "") -> int:
        """A client that is admitted."""
        connection = self.start(user, causes=causes, principal=principal)
        self.talk(connection)
        return connection

    def step(self, *inputs: ClientInput) -> None:
        """Everything at once, then steps while the core asks for more at once."""
        assert self.core.handle(0.0, [], list(inputs)) == []
        self.core.deliver()
        while self.core.deadline <= 0.0:
            assert self.core.handle(0.0, [], []) == []
            self.core.deliver()

    def said(self, connection: int) -> ClientBytes:
        """What a client has to say."""
        return ClientBytes(connection, self.sessions[connection].take(PLENTY))

    def heard(self, connection: int) -> list[Event]:
        """What a client is told."""
        output = b"".join(self.core.desk.sessions[connection].take(PLENTY))
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
