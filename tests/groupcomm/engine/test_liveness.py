"""Sessions whose clients are silent are ended; idle ones get heartbeats; others cost nothing."""

import attrs

from groupcomm.engine import ClientBytes, ClientGone, ClientOpened, Output, ProgramSettings
from groupcomm.engine.liveness import GRID_S, MOST_LOOKS
from groupcomm.engine.news import ProgramSilent
from groupcomm.errors import Code
from groupcomm.events import Closed
from groupcomm.session.client_session import ClientSession
from groupcomm.session.daemon_session import DaemonSession, DaemonSessionState, SessionLimits
from groupcomm.session.frames import FrameKind, encode_alive, encode_query
from tests.groupcomm.engine.clients import PLENTY, Clients

TIMEOUT_S = 4.0
LIMITS = SessionLimits(session_timeout_s=TIMEOUT_S)


class TimedClients(Clients):
    """Sessions at a core whose time the test sets.

    Attributes:
        news: what the core has reported.
    """

    daemon_timeout_s = 10.0

    def __init__(self, limits: SessionLimits = LIMITS) -> None:
        self.news: list[object] = []
        super().__init__(limits)

    def serve(self, output: Output) -> None:
        super().serve(output)
        self.news += output.news

    def pass_time(self, until: float) -> None:
        """Step at each deadline."""
        while self.core.deadline <= until:
            self.step_once(now=self.core.deadline)
        self.step_once(now=until)

    def session(self, connection: int) -> DaemonSession:
        return self.core.sessions.by_connection[connection]

    def says(self, connection: int, data: bytes, now: float) -> None:
        self.step_once(ClientBytes(connection, data), now=now)

    def output(self, connection: int) -> bytes:
        return b"".join(self.core.pop_output(connection, PLENTY))


def client_alive(wait_s: float) -> bytes:
    return encode_alive(FrameKind.CLIENT_ALIVE, wait_s)


def test_a_silent_session_ends_and_its_name_is_free() -> None:
    clients = TimedClients()
    one = clients.connect("ann")
    clients.pass_time(TIMEOUT_S - GRID_S)
    assert clients.session(one).state is DaemonSessionState.OPEN
    clients.pass_time(TIMEOUT_S + 2 * GRID_S)
    assert clients.ended == [one]
    assert clients.core.sessions.names.holder("ann") is None
    assert clients.core.sessions.watches.ended == 1
    last = clients.heard(one)[-1]
    assert isinstance(last, Closed)
    assert (last.code, "4 s" in last.reason) == (Code.CONNECTION_CLOSED, True)
    told = [news for news in clients.news if isinstance(news, ProgramSilent)]
    assert told == [ProgramSilent(user="ann", principal="", silent_s=TIMEOUT_S)]
    assert clients.core.status(clients.core.deadline).silent_programs == 1


def test_any_bytes_keep_a_session() -> None:
    clients = TimedClients()
    one = clients.connect("ann")
    for second in range(1, 20):
        clients.pass_time(second)
        clients.says(one, client_alive(0.0)[:3] if second % 2 else client_alive(0.0)[3:], second)
    assert clients.session(one).state is DaemonSessionState.OPEN


def test_a_client_that_sends_no_heartbeats_is_not_watched() -> None:
    clients = TimedClients()
    one = clients.core.next_connection()
    clients.sessions[one] = ClientSession("old", daemon_timeout_s=None)
    clients.step(ClientOpened(one))
    clients.talk(one)
    clients.pass_time(100.0)
    assert clients.session(one).state is DaemonSessionState.OPEN


def test_a_daemon_that_stood_still_reads_before_it_judges() -> None:
    clients = TimedClients()
    one = clients.connect("ann")
    clients.step_once(now=3 * TIMEOUT_S)  # its bytes are in the socket, and not read yet
    assert clients.session(one).state is DaemonSessionState.OPEN
    clients.pass_time(3.9 * TIMEOUT_S)
    assert clients.session(one).state is DaemonSessionState.OPEN
    clients.pass_time(4.2 * TIMEOUT_S)
    assert clients.ended == [one], "from then on its silence counts"


def test_a_client_that_the_daemon_does_not_read_is_not_silent() -> None:
    clients = TimedClients()
    one = clients.connect("ann")
    clients.says(one, encode_query("status") * 2, 0.0)  # the second one waits for an answer
    clients.pass_time(5 * TIMEOUT_S)
    assert clients.session(one).stalled
    assert clients.session(one).state is DaemonSessionState.OPEN


def test_without_a_timeout_nobody_is_silent() -> None:
    clients = TimedClients(SessionLimits(session_timeout_s=0.0))
    one = clients.connect("ann")
    clients.pass_time(1000.0)
    assert clients.session(one).state is DaemonSessionState.OPEN


def test_an_idle_client_gets_a_heartbeat_three_times_in_its_patience() -> None:
    clients = TimedClients(SessionLimits(session_timeout_s=0.0))
    one = clients.connect("ann")
    clients.says(one, client_alive(3.0), 0.0)
    clients.output(one)
    got = 0
    for tenth in range(1, 301):
        clients.pass_time(tenth / 10)
        data = clients.output(one)
        assert data in (b"", encode_alive(FrameKind.DAEMON_ALIVE, 0.0))
        got += bool(data)
    assert 26 <= got <= 30


def test_a_client_that_reads_nothing_gets_one_heartbeat() -> None:
    clients = TimedClients(SessionLimits(session_timeout_s=0.0))
    one = clients.connect("ann")
    clients.says(one, client_alive(3.0), 0.0)
    clients.output(one)
    clients.pass_time(30.0)
    assert clients.output(one) == encode_alive(FrameKind.DAEMON_ALIVE, 0.0)


def test_a_client_with_traffic_gets_no_heartbeat() -> None:
    clients = TimedClients(SessionLimits(session_timeout_s=0.0))
    one = clients.connect("ann")
    clients.says(one, client_alive(3.0), 0.0)
    for tenth in range(1, 101):
        clients.pass_time(tenth / 10)
        clients.session(one).push(b"\0\0\0\1\x18")
        assert clients.output(one) == b"\0\0\0\1\x18"


def test_looks_are_few_however_many_messages_there_are() -> None:
    clients = TimedClients()
    one = clients.connect("ann")
    steps = 0
    for hundredth in range(1, 2000):
        now = hundredth / 100
        if clients.core.sessions.watches.due <= now:
            steps += 1
        clients.says(one, client_alive(0.0), now)
    assert steps <= 2 + 20 / (TIMEOUT_S - 2 * GRID_S)
    assert len(clients.core.sessions.watches._looks) == 1


def test_a_step_looks_at_a_bounded_number_of_sessions() -> None:
    clients = TimedClients(SessionLimits(session_timeout_s=1.0))
    count = 2 * MOST_LOOKS + 3
    for number in range(count):
        clients.connect(f"u{number}")
    clients.pass_time(0.9)
    now = 1.0
    clients.step_once(now=now)
    ended = [clients.core.sessions.watches.ended]
    while clients.core.deadline <= now:
        clients.step_once(now=now)
        ended.append(clients.core.sessions.watches.ended)
    assert ended[-1] == count
    assert max(b - a for a, b in zip([0, *ended], ended, strict=False)) <= MOST_LOOKS


def test_another_timeout_counts_at_once_and_is_told() -> None:
    clients = TimedClients()
    one = clients.connect("ann")
    clients.pass_time(1.0)
    clients.output(one)
    longer = attrs.evolve(LIMITS, session_timeout_s=20.0)
    clients.step_once(ProgramSettings(limits=longer), now=1.0)
    assert clients.output(one) == encode_alive(FrameKind.DAEMON_ALIVE, 20.0)
    clients.pass_time(20.5)
    assert clients.session(one).state is DaemonSessionState.OPEN
    clients.pass_time(21.5)
    assert clients.ended == [one]


def test_a_heartbeat_like_the_last_one_needs_no_step() -> None:
    clients = TimedClients()
    one = clients.connect("ann")
    assert not clients.core.note_heartbeat(one, client_alive(3.0), 0.5), "the first one"
    clients.says(one, client_alive(3.0), 0.5)
    assert clients.core.note_heartbeat(one, client_alive(3.0), 2.0)
    session = clients.session(one)
    assert session.watch is not None
    assert session.watch.heard_at == 2.0
    assert not clients.core.note_heartbeat(one, client_alive(2.0), 2.0), "it says something new"
    assert not clients.core.note_heartbeat(one, client_alive(3.0)[1:], 2.0)
    clients.says(one, client_alive(3.0)[:4], 2.0)
    assert not clients.core.note_heartbeat(one, client_alive(3.0), 2.0), "amid a frame"


def test_a_client_that_says_late_how_long_it_waits_is_heeded() -> None:
    clients = TimedClients()
    one = clients.connect("ann")
    clients.pass_time(2.0)
    clients.output(one)
    clients.says(one, client_alive(1.0), 2.0)
    clients.pass_time(2.0 + 1.0 / 3 + GRID_S)
    assert clients.output(one) == encode_alive(FrameKind.DAEMON_ALIVE, TIMEOUT_S)


def test_nothing_is_kept_of_sessions_that_have_ended() -> None:
    clients = TimedClients()
    for number in range(10):
        one = clients.connect(f"u{number}")
        clients.step_once(ClientGone(one), now=0.0)
    clients.pass_time(TIMEOUT_S + GRID_S)
    assert clients.core.sessions.watches._planned == {}
    assert clients.core.sessions.watches._looks == []
