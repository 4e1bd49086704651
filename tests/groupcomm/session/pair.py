"""Both ends of one session, and a daemon that delivers its messages to the same client."""

from groupcomm.clocks.stamp import ViewId
from groupcomm.events import DaemonView, Event
from groupcomm.level import ServiceLevel
from groupcomm.session.client_session import ClientSession
from groupcomm.session.daemon_frames import Parts, encode_delivery
from groupcomm.session.daemon_session import DaemonSession, SessionLimits
from groupcomm.session.requests import Submit
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.packet import Raw

VIEW = ViewId(3, "d1", 0xABC)
DAEMONS = DaemonView(id=VIEW, daemons=("d1", "d2"), majority=True)
PLENTY = 1 << 30


def whole_delivery(sender: str, connection: int, position: Parts | None, body: Raw) -> bytes:
    """A DELIVER frame in one part."""
    return b"".join(encode_delivery(sender, connection, position, body))


class Pair:
    """An open session of user ann at daemon d1."""

    def __init__(
        self,
        *,
        bundle_limit: int = 1200,
        start_message: int = 0,
        connection: int = 1,
        limits: SessionLimits | None = None,
    ) -> None:
        self.client = ClientSession("ann", start_message=start_message)
        self.daemon = DaemonSession(connection, limits=limits or SessionLimits())
        self.time = 0
        self.daemon.receive(self.client.pop_output(PLENTY))
        self.daemon.connect("#ann#d1")
        self.daemon.welcome(bundle_limit, DAEMONS)
        self.opening = self.events()

    def submits(self) -> list[Submit]:
        """Return the daemon's bundles from the client's output."""
        requests = self.daemon.receive(self.client.pop_output(PLENTY))
        assert all(isinstance(request, Submit) for request in requests)
        return [request for request in requests if isinstance(request, Submit)]

    def bundles(self) -> list[Bundle]:
        return [submit.bundle for submit in self.submits()]

    def delivery(self, bundle: Bundle) -> bytes:
        """The bundle at the next position."""
        self.time += 1
        unreliable = bundle.level == ServiceLevel.UNRELIABLE
        return whole_delivery(
            "#ann#d1",
            self.daemon.connection,
            None if unreliable else (self.time, 2, 5),
            bundle.body,
        )

    def events(self) -> list[Event]:
        """Return the client's events from the daemon's output."""
        return self.client.receive(self.output())

    def output(self) -> bytes:
        """All that the daemon has for the client."""
        return b"".join(self.daemon.pop_output(PLENTY))

    def echo(self) -> list[Event]:
        """Send all, deliver all."""
        for bundle in self.bundles():
            self.daemon.push(self.delivery(bundle))
        return self.events()
