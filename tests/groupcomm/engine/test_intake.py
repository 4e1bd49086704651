"""Requests of programs have turns; a program in debt, or one that does not read, has none."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import pytest

from groupcomm.engine import (
    ClientBytes,
    ClientCharged,
    ClientDismissed,
    ClientGone,
    ProgramSettings,
    intake,
)
from groupcomm.engine.intake import SESSION_WORK, STALL_S, STEP_WORK, VOID_A_S, Intake
from groupcomm.errors import Code, SessionError
from groupcomm.events import Cause, GroupView
from groupcomm.level import ServiceLevel
from groupcomm.security.quotas import BURST_S, Quotas
from groupcomm.session.daemon_frames import encode_answer
from groupcomm.session.daemon_session import (
    MOST_BACKLOG_WORK,
    DaemonSession,
    DaemonSessionState,
    SessionLimits,
)
from groupcomm.session.frames import FrameKind, encode_bye, encode_hello, encode_query
from groupcomm.session.outbox import MOST_REPLIES
from groupcomm.session.requests import (
    BUNDLE_PRICES,
    FRAME_PRICES,
    MEMBERS_A_UNIT,
    RECEIVERS_A_UNIT,
    Price,
    Query,
    Request,
)
from groupcomm.wire.bundle import BundleKind
from tests.groupcomm.engine.clients import Clients
from tests.groupcomm.session.pair import DAEMONS

AGREED = ServiceLevel.AGREED
QUERY_WORK = FRAME_PRICES[FrameKind.QUERY].work
A_STEP = STEP_WORK // QUERY_WORK
"""Questions of as many principals."""


class Room:
    """An intake whose sessions ask.

    Args:
        quotas: the quotas of each principal.
        answers: whether they are answered at once, and read that; else when the test says so.

    Attributes:
        done: the sessions whose frames were carried out, in order.
        ended: sessions that had to go, with the codes.
    """

    def __init__(self, quotas: Quotas | None = None, *, answers: bool = True) -> None:
        self._answers = answers
        self.done: list[int] = []
        self.ended: list[tuple[int, int]] = []
        self.departed: list[int] = []
        self.intake = Intake(self._carry_out, self._end, self._depart)
        if quotas is not None:
            self.intake.set_quotas(quotas)
        self.sessions: dict[int, DaemonSession] = {}

    def _carry_out(self, session: DaemonSession, request: Request) -> None:
        if isinstance(request, Query) and request.text == "wrong":
            raise SessionError(Code.ILLEGAL_MESSAGE, "it is wrong")
        self.done.append(session.connection)
        if self._answers:
            self.answer(session.connection)

    def _end(self, session: DaemonSession, code: int, _reason: str) -> None:
        self.ended.append((session.connection, code))
        session.close(code, "")

    def _depart(self, session: DaemonSession) -> None:
        self.departed.append(session.connection)

    def admit(self, number: int, principal: str) -> DaemonSession:
        """A session that is open."""
        session = DaemonSession(number, limits=SessionLimits(), principal=principal)
        self.sessions[number] = session
        session.receive(encode_hello(f"u{number}"))
        session.connect(f"#u{number}#a")
        session.welcome(1000, DAEMONS)
        session.pop_output(1 << 20)
        return session

    def say(self, number: int, *texts: str) -> None:
        """A session sends queries, all at once."""
        self.sessions[number].buffer(b"".join(map(encode_query, texts)))
        self.intake.add(self.sessions[number])

    def answer(self, number: int, *, read: bool = True) -> None:
        """Its question is answered, and perhaps the answer read."""
        session = self.sessions[number]
        session.push(encode_answer(b"{}"))
        session.note_reply(answer=True)
        if read:
            session.pop_output(1 << 20)


def admitted(room: Room, principals: Iterable[str]) -> None:
    for number, principal in enumerate(principals):
        room.admit(number, principal)


def test_senders_of_nothing_wait_while_all_of_them_have_taken_too_much() -> None:
    room = Room()
    admitted(room, ["void/0", "void/1", "other"])
    now, wasted, each = 0.0, 0, 20

    def send_nothing(number: int) -> None:
        room.sessions[number].owe(Price(each, messages=1, wasted=each))
        room.intake.add(room.sessions[number])

    for _ in range(2000):
        owing = [session for session in room.sessions.values() if session.has_input]
        for number in (0, 1):
            if room.sessions[number] not in owing:
                send_nothing(number)
        room.say(2, "status")
        room.intake.serve(now)
        assert room.done[-1] == 2, "whoever asks for something has its turn"
        wasted += each * sum(not room.sessions[number].has_input for number in (0, 1))
        room.done.clear()
        now += 0.001
    assert VOID_A_S * 2 < wasted <= VOID_A_S * (2 + BURST_S) + 2 * each
    send_nothing(0)
    room.intake.serve(now)
    assert now < room.intake.due < now + 1.0, "it comes back by itself"
    room.intake.serve(room.intake.due + 1.0)
    assert not any(room.sessions[number].has_input for number in (0, 1))


@pytest.mark.parametrize(("members", "paced"), [(60, True), (1, False)])
def test_who_joins_a_large_group_again_and_again_waits_for_what_that_is_worth(
    members: int, paced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "JOINS_A_S", 200)
    clients, until_s, asked = Clients(), 2.0, 100
    programs = [clients.connect(f"u{number}") for number in range(members)]
    churner, *_ = programs
    for program in programs:
        clients.sessions[program].join("g")
        clients.talk(program)
    for _ in range(asked):
        clients.sessions[churner].leave("g")
        clients.sessions[churner].join("g")
    clients.step(clients.said(churner))
    while clients.core.deadline < until_s:
        clients.now = max(clients.now, clients.core.deadline)
        clients.step()
    views = [event for event in clients.heard(churner) if isinstance(event, GroupView)]
    joins = sum(view.own and view.cause is Cause.JOIN for view in views)
    least = until_s * 200 * MEMBERS_A_UNIT / members
    assert joins == asked if not paced else least <= joins <= 1.3 * least


def test_a_step_does_so_much_and_leaves_the_rest_for_the_next() -> None:
    room = Room()
    admitted(room, [f"p{number}" for number in range(20)])
    for number in range(20):
        room.say(number, "status")
    assert room.intake.serve(0.0)
    assert room.done == [*range(A_STEP)]
    assert STEP_WORK <= room.intake.work_done < STEP_WORK + QUERY_WORK
    assert room.intake.due == 0.0, "there is more, so at once"
    while room.intake.due == 0.0:
        assert room.intake.serve(0.0)
    assert room.done == [*range(20)]
    assert not room.intake.serve(0.0)
    assert room.intake.due == float("inf")


def test_of_what_comes_to_nothing_a_principal_has_less_done() -> None:
    room = Room()
    admitted(room, [*["p"] * 5, "q"])
    for number in range(6):
        room.say(number, "status")
    room.intake.serve(0.0)
    assert room.done == [0, 5]
    room.intake.serve(0.0)
    assert room.done == [0, 5, 1]


def test_principals_have_turns_however_many_sessions_one_has() -> None:
    room = Room()
    admitted(room, [*["rude"] * 100, "polite"])
    for number in range(101):
        room.say(number, "status")
    room.intake.serve(0.0)
    assert 100 in room.done, "in the first step, though a hundred came before it"


def test_a_session_has_its_turn_and_then_waits_for_the_others_of_its_principal() -> None:
    clients = Clients()
    busy, other = clients.connect("busy"), clients.connect("other")
    for number, count in ((busy, 10 * SESSION_WORK), (other, 1)):
        for _ in range(count):
            clients.sessions[number].multicast(["g"], b"", level=AGREED, ordered=True)
    core = clients.core
    core.sessions.accept(clients.said(busy))
    core.sessions.accept(clients.said(other))
    core.sessions.intake.serve(0.0)
    accepted = [bundle.session for bundle in core.sessions.backlog]
    first = SESSION_WORK - 1  # looking costs work, too
    assert accepted[:first] == [busy] * first
    assert accepted[first] == other
    assert STEP_WORK - 10 < len(accepted) < STEP_WORK


def test_one_question_at_a_time_and_the_next_once_its_answer_was_read() -> None:
    room = Room(answers=False)
    room.admit(1, "p")
    room.say(1, *["status"] * 20_000)
    for _ in range(5):
        room.intake.serve(0.0)
    assert room.done == [1]
    room.answer(1, read=False)
    room.intake.serve(STALL_S)
    assert room.done == [1], "the answer was not read"
    room.sessions[1].pop_output(1 << 20)
    room.intake.serve(2 * STALL_S)
    assert room.done == [1, 1]
    assert room.sessions[1].output_bytes == 0
    assert not room.sessions[1].reading, "its socket is full, not the memory of the daemon"


def test_who_does_not_read_what_is_refused_is_not_listened_to() -> None:
    session = Room().admit(1, "p")
    for number in range(MOST_REPLIES):
        assert not session.stalled, number
        session.push(b"refused")
        session.note_reply()
    assert session.stalled
    session.pop_output(7)
    assert not session.stalled
    session.push(b"x")
    session.note_reply()
    assert session.stalled
    session.lose_client()
    assert not session.stalled, "nobody reads it any more"


def test_who_is_in_debt_waits_and_others_do_not() -> None:
    room = Room(Quotas(messages_per_s=10))
    admitted(room, [*["rude"] * 30, "polite"])
    for number in range(30):
        room.say(number, "status")
    while room.intake.due == 0.0 or not room.done:
        room.intake.serve(0.0)
    assert len(room.done) == 11, "the burst of a second, and the one that made it a debt"
    assert room.intake.due == pytest.approx(0.1)
    room.say(30, "status")
    room.intake.serve(0.0)
    assert room.done[-1] == 30
    while room.intake.due == 0.0:
        room.intake.serve(0.0)
    now = room.intake.due
    while now < 1.05:
        room.intake.serve(now)
        now = room.intake.due
    assert len(room.done) == 12 + 10, "ten more in a second"
    assert room.intake.quota_waits > 10


def test_other_quotas_forget_debts() -> None:
    room = Room(Quotas(messages_per_s=1))
    admitted(room, ["p"] * 5)
    for number in range(5):
        room.say(number, "status")
    for _ in range(5):
        room.intake.serve(0.0)
    assert len(room.done) == 2
    room.intake.set_quotas(Quotas())
    for _ in range(5):
        room.intake.serve(0.0)
    assert len(room.done) == 5


def test_work_that_the_shell_has_done_is_charged_before_anything_more_is_read() -> None:
    clients = Clients()
    sessions, rude = clients.core.sessions, clients.connect("rude", principal="p")
    work = Price(2 * STEP_WORK, messages=5, wasted=2 * STEP_WORK)
    sessions.accept(ClientCharged(rude, work))
    assert not sessions.by_connection[rude].reading, "its turn has to come first"
    sessions.intake.serve(0.0)
    assert sessions.intake.work_done >= 2 * STEP_WORK
    assert sessions.by_connection[rude].reading
    clients.step(ProgramSettings(quotas=Quotas(messages_per_s=1)))
    clients.step_once(ClientCharged(rude, work))
    clients.step_once(ClientCharged(rude, work))
    assert not sessions.by_connection[rude].reading, "its principal is in debt"
    assert sessions.intake.due == pytest.approx(4.0)


def member_of(clients: Clients, user: str, *groups: str) -> int:
    number = clients.connect(user, principal=user)
    for group in groups:
        clients.sessions[number].join(group)
    clients.talk(number)
    return number


def test_a_message_is_charged_for_its_receivers_and_a_join_for_the_members() -> None:
    clients = Clients()
    for number in range(40):
        member_of(clients, f"u{number}", "large")
    sessions, sender = clients.core.sessions, clients.connect("sender")
    waits = [0]
    for groups in (["nobody"], ["large"], ["large", "nobody"], []):
        if groups:
            clients.sessions[sender].multicast(groups, b"x", level=AGREED)
        else:
            clients.sessions[sender].join("large")
        sessions.accept(clients.said(sender))
        sessions.intake.serve(0.0)
        waits.append(sessions.by_connection[sender].backlog_work)
    more = 40 // RECEIVERS_A_UNIT
    prices = [after - before for before, after in pairwise(waits)]
    join = BUNDLE_PRICES[BundleKind.JOIN].work + 40 // MEMBERS_A_UNIT
    assert prices == [1, 1 + more, 1 + more, join]
    clients.core.submitter.wake()
    clients.step()
    assert sessions.by_connection[sender].backlog_work == 0


def test_a_session_with_costly_requests_leaves_turns_to_others() -> None:
    """It gets as much work as each other session, not as many requests."""
    clients = Clients()
    for number in range(80):
        member_of(clients, f"u{number}", "large")
    costly, cheap = (clients.connect(user, principal=user) for user in ("costly", "cheap"))
    for number, group, count in ((costly, "large", 20), (cheap, "small", 400)):
        for _ in range(count):
            clients.sessions[number].multicast([group], b"", level=AGREED, ordered=True)
        clients.core.sessions.accept(clients.said(number))
    for _ in range(8):
        clients.core.sessions.intake.serve(0.0)
    accepted = Counter(bundle.session for bundle in clients.core.sessions.backlog)
    work = 1 + 80 // RECEIVERS_A_UNIT
    assert accepted[costly] >= 2
    assert abs(accepted[costly] * work - accepted[cheap]) <= 2 * work


def test_the_requests_of_a_session_that_are_under_way_cause_so_much_work_and_no_more() -> None:
    clients = Clients()
    for number in range(2 * RECEIVERS_A_UNIT * 10):
        member_of(clients, f"u{number}", "large")
    sender, sessions = clients.connect("sender"), clients.core.sessions
    for _ in range(MOST_BACKLOG_WORK):
        clients.sessions[sender].multicast(["large"], b"", level=AGREED, ordered=True)
    sessions.accept(clients.said(sender))
    for _ in range(MOST_BACKLOG_WORK):
        sessions.intake.serve(0.0)
    session = sessions.by_connection[sender]
    assert MOST_BACKLOG_WORK <= session.backlog_work < MOST_BACKLOG_WORK + 21
    assert len(sessions.backlog) == -(-MOST_BACKLOG_WORK // 21)
    assert session.stalled
    clients.core.submitter.wake()
    for step in range(1, MOST_BACKLOG_WORK):
        clients.step_once(now=step * STALL_S)
    assert session.backlog_work == 0
    assert sum(sessions.traffic.taken) == MOST_BACKLOG_WORK


def test_frames_that_are_wrong_cost_too_and_end_one_session() -> None:
    room = Room(Quotas(messages_per_s=2))
    admitted(room, ["p"] * 5)
    for number in range(4):
        room.say(number, "wrong")
    room.sessions[4].buffer(b"\xff\xff\xff\xff")
    room.intake.add(room.sessions[4])
    for _ in range(6):
        room.intake.serve(0.0)
    assert room.ended == [(number, Code.ILLEGAL_MESSAGE) for number in range(3)], "debt, then"
    for _ in range(3):
        room.intake.serve(5.0)
    assert room.ended[3:] == [(3, Code.ILLEGAL_MESSAGE), (4, Code.NET_ERROR)]


def test_what_came_before_the_end_of_a_stream_still_counts() -> None:
    clients = Clients()
    sender = clients.connect("sender")
    for _ in range(3 * STEP_WORK):
        clients.sessions[sender].multicast(["g"], b"", level=AGREED, ordered=True)
    clients.core.sessions.accept(clients.said(sender))
    clients.core.sessions.accept(ClientGone(sender))
    assert clients.core.sessions.by_connection[sender].state is DaemonSessionState.DRAINING
    taken = clients.core.sessions.traffic
    clients.step()
    assert sum(taken.taken) == 3 * STEP_WORK
    assert not clients.core.sessions.unfinished


def test_who_must_go_while_it_waits_for_its_turn_is_gone() -> None:
    clients = Clients()
    sessions = clients.core.sessions
    waiting = clients.start("waiting")
    sessions.accept(ClientBytes(waiting, encode_hello("waiting") + encode_bye()))
    sessions.accept(ClientDismissed(waiting, Code.REJECT_AUTH, "it may not stay"))
    sessions.accept(ClientGone(waiting))
    clients.step()
    assert not sessions.unfinished


def test_a_question_that_nobody_will_read_the_answer_of_is_not_asked() -> None:
    clients = Clients()
    sessions = clients.core.sessions
    asker = clients.connect("asker")
    sessions.accept(ClientBytes(asker, encode_query("status") * 3))
    sessions.intake.serve(0.0)
    sessions.accept(ClientGone(asker))
    clients.step()
    assert len(clients.questions) == 1
    assert not sessions.unfinished


def test_bytes_that_are_no_frame_yet_are_not_waited_for() -> None:
    clients = Clients()
    number = clients.start("slow")
    clients.step(ClientBytes(number, encode_hello("slow")[:5]))
    session = clients.core.sessions.by_connection[number]
    assert session.reading
    assert not session.has_input
    clients.step(ClientBytes(number, encode_hello("slow")[5:]))
    assert session_users(clients) == ["slow"]


def session_users(clients: Clients) -> list[str]:
    return [session.user for session in clients.core.sessions.by_connection.values()]
