"""The facts about programs: the same as if each session were looked at, which none is."""

from collections import Counter
from random import Random

import pytest

from groupcomm.engine import ClientGone
from groupcomm.engine.backlog import Backlog
from groupcomm.engine.programs_status import ProgramsStatus
from groupcomm.level import ServiceLevel
from groupcomm.session.client_session import ClientSessionState
from groupcomm.session.daemon_session import DaemonSession, SessionLimits
from tests.groupcomm.engine.clients import PLENTY, Clients

LIMITS = SessionLimits(
    unreliable_drop_bytes=30_000, output_cap_bytes=30_000, block_bytes=8_000, block_s=2.0
)
LEAST = 500


def counted(clients: Clients) -> ProgramsStatus:
    """The same, from all sessions."""
    sessions = clients.core.sessions.by_connection.values()
    there = [session for session in sessions if session.has_client]
    return ProgramsStatus(
        programs=len(there),
        output_bytes=sum(session.output_bytes for session in there),
        backlog_bytes=sum(session.backlog_bytes for session in there),
        backlog_work=max((session.backlog_work for session in there), default=0),
        sessions=tuple(sorted(s.status() for s in there if s.output_bytes >= LEAST)),
    )


def act(clients: Clients, random: Random) -> None:
    """One of many things that programs do."""
    numbers = [n for n, each in clients.core.sessions.by_connection.items() if each.has_client]
    number = random.choice(numbers)
    session = clients.sessions[number]
    match random.choice(("open", "send", "send", "send", "read", "end", "time")):
        case "open":
            opened = clients.start(f"u{random.randrange(100)}")
            clients.step_once(clients.said(opened), now=clients.now)
        case "send" if session.state is ClientSessionState.OPEN:
            if random.random() < 0.3:
                session.join(f"g{session.last_number}")
            else:
                session.multicast(["g"], bytes(random.randrange(3000)), level=ServiceLevel.FIFO)
            clients.step_once(clients.said(number), now=clients.now)
        case "read":
            session.receive(b"".join(clients.core.pop_output(number, random.choice((9, PLENTY)))))
        case "end":
            clients.step_once(ClientGone(number), now=clients.now)
        case _:
            clients.now += 0.3
            clients.step()


@pytest.mark.parametrize("seed", range(10))
def test_it_is_what_all_sessions_have(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random, clients, seen = Random(seed), Clients(LIMITS), Counter[str]()
    wants = Backlog.wants
    for number in range(5):
        connection = clients.connect(f"u{number}")
        clients.sessions[connection].join("g")
        clients.talk(connection)
    for number in range(5, 200):
        clients.connect(f"v{number}")
        if random.random() < 0.5:  # the ring is full
            monkeypatch.setattr(Backlog, "wants", lambda self, far: False)
        act(clients, random)
        found, due = clients.core.programs_status(LEAST), counted(clients)
        assert tuple(sorted(found.sessions)) == due.sessions
        assert found.programs == due.programs
        assert found.output_bytes == due.output_bytes
        assert (found.backlog_bytes, found.backlog_work) == (due.backlog_bytes, due.backlog_work)
        monkeypatch.setattr(Backlog, "wants", wants)
        seen["slow"] += len(due.sessions) > 1
        seen["backlog"] += due.backlog_bytes > 0
        seen["gone"] += len(clients.core.sessions.busy.gone) > 0
    assert min(seen["slow"], seen["backlog"]) > 2


def test_a_status_looks_at_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log asks for it within a step that installs a view, and other parts each second."""
    clients = Clients()
    busy, _ = (clients.connect(user) for user in ("ann", "bob"))
    clients.sessions[busy].join("g")
    clients.step(clients.said(busy))
    looked = set[int]()

    def has_client(session: DaemonSession) -> bool:
        looked.add(session.connection)
        return True

    monkeypatch.setattr(DaemonSession, "has_client", property(has_client))
    clients.core.status(0.0)
    assert looked == set()
    assert clients.core.programs_status(1).sessions[0].user == "ann"
    assert looked == {busy}, "the other one has nothing"
