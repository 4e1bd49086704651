"""Sessions of a daemon that go on with lines: when they are told so, and when they are ended."""

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.roster import Roster, RosterEntry
from groupcomm.config.versions import SPOKEN
from groupcomm.config.view import DaemonId, Incarnation, View
from groupcomm.engine.lines import LocalLines
from groupcomm.events import MemberId
from groupcomm.groups.lines import LineRules
from groupcomm.groups.table import GroupTable
from groupcomm.session.daemon_session import DaemonSession, SessionLimits
from groupcomm.wire.bundle import Bundle, BundleKind, body_payload

L = b"l" * 16


class Told:
    """The lines of a daemon's sessions, with what these are told, and how they end."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self.ended: list[str] = []
        self.first: list[tuple[BundleKind, bytes]] = []
        self.lines = LocalLines(
            self.tell,
            lambda _connection, _code, reason: self.ended.append(reason),
        )
        self.table = GroupTable(0)
        self.counter = 0

    def tell(self, connection: int, _frame: bytes, first: Bundle | None) -> None:
        """Note what a session is told, and what is ordered before its messages."""
        self.told.append(connection)
        if first is not None:
            self.first.append((BundleKind(first.kind), bytes(body_payload(first.body))))

    def begin(self, majority: bool) -> set[int]:
        """Begin a view of the one daemon, with all sessions that there were."""
        self.counter += 1
        start = DaemonId("a", Incarnation(1, 1))
        view = View(
            id=ViewId(self.counter, "a", 1), daemons=(start,), rings=((0,),), versions=SPOKEN
        )
        roster = Roster(entries=(RosterEntry(name="a", site="s"),))
        self.table.lines.begin(view, LineRules(majority, roster), [], self.table.names)
        return self.lines.begin(self.table)

    def connect(self, connection: int) -> DaemonSession:
        """Connect a session that asks for the line, and order that."""
        session = DaemonSession(connection, limits=SessionLimits())
        member = MemberId(f"#u{connection}#a", connection)
        self.table.connect(0, member, "")
        assert self.lines.allows(session, gives_up=False)
        self.lines.claimed(connection)
        if self.table.lines.claim(L, (0, connection), member) is None:
            self.lines.grant(connection, 10 * connection)
        return session


def test_a_session_is_told_once_all_daemons_hold_what_came_before() -> None:
    told = Told()
    told.begin(majority=True)
    told.connect(1)
    told.lines.tell_held(9)
    assert told.told == []
    told.lines.tell_held(10)
    assert told.told == [1]


def test_the_messages_of_a_session_come_behind_what_its_line_depends_on() -> None:
    """They wait for its LINE; that of this view cannot be before the end of another session."""
    told = Told()
    told.begin(majority=True)
    told.connect(1)
    told.lines.tell_held(10)
    assert told.first == [(BundleKind.LINE, L)]
    told.lines.claimed(1)
    told.lines.grant(1, 11)
    told.lines.tell_held(11)
    assert told.told == [1], "it is told once"


def test_a_session_that_is_told_in_the_next_view_goes_on_with_the_line() -> None:
    told = Told()
    told.begin(majority=True)
    told.connect(1)
    assert told.begin(majority=True) == set()
    assert (told.told, told.ended, told.first) == ([1], [], [])


def test_without_a_majority_sessions_with_lines_end_and_none_begins() -> None:
    told = Told()
    told.begin(majority=True)
    told.connect(1)
    assert told.begin(majority=False) == {1}
    other = DaemonSession(2, limits=SessionLimits())
    assert not told.lines.allows(other, gives_up=False)
    assert ["no majority" in reason for reason in told.ended] == [True, True]


def test_a_session_has_one_line() -> None:
    told = Told()
    told.begin(majority=True)
    session = told.connect(1)
    assert not told.lines.allows(session, gives_up=False)
    assert told.ended == ["a session has one line"]


def test_only_a_line_that_a_session_has_is_given_up() -> None:
    """In a view in which no line goes on there may be daemons that could not read that."""
    told = Told()
    told.begin(majority=False)
    assert not told.lines.allows(DaemonSession(2, limits=SessionLimits()), gives_up=True)
    assert told.ended == ["a session gives up no line"]
    told.begin(majority=True)
    assert told.lines.allows(told.connect(1), gives_up=True)
