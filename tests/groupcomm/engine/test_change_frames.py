"""Changes of groups at a daemon: shared frames, what they cost, and the views that they lead to."""

from collections.abc import Iterable
from typing import Final

import pytest
from hypothesis import given

from groupcomm.clocks.stamp import ViewId
from groupcomm.engine.access_control import AccessControl
from groupcomm.engine.change_frames import ChangeFrames, ListsShown
from groupcomm.engine.held_changes import MOST_HOLD_S
from groupcomm.events import GroupView, MemberId
from groupcomm.groups.changes import GroupChange
from groupcomm.security.access import Access, Rule, Verb
from groupcomm.security.quotas import Quotas
from groupcomm.session.client_session import ClientSession
from groupcomm.session.daemon_frames import decode_view_untrusted
from groupcomm.session.daemon_session import DaemonSession, SessionLimits
from groupcomm.session.differences import decode_difference_untrusted
from groupcomm.session.frames import DAEMON_FRAME_BYTES, Capability, FrameKind, FrameReader
from groupcomm.session.group_lists import GroupLists
from groupcomm.session.requests import Hello
from tests.groupcomm.engine.clients import PLENTY, Clients
from tests.groupcomm.groups.stage import VIEW, Audience, Stage
from tests.groupcomm.groups.test_groups import ACTS

OLD: Final = ViewId(1, "a", 1)
NEW: Final = ViewId(2, "a", 2)


def session_of(connection: int, *, takes: bool = True, name: str = "") -> DaemonSession:
    session = DaemonSession(connection, limits=SessionLimits())
    session.asked = Hello("u", Capability.DIFFERENCES if takes else 0)
    session.member = MemberId(name or f"#u{connection}#a", connection)
    return session


class Told(Audience):
    """The sessions of one daemon, each with a client that keeps its lists.

    Every second one is of an older release, and gets whole lists.
    """

    def __init__(self, home: str) -> None:
        super().__init__()
        self.home = home
        self.frames = ListsShown(AccessControl())
        self.lists: dict[int, GroupLists] = {}

    def show_change(
        self, connections: Iterable[int], change: GroupChange, own: int | None = None
    ) -> None:
        frames = ChangeFrames(change)
        for connection in [*connections] if own is None else [*connections, own]:
            session = session_of(
                connection, takes=connection % 2 == 0, name=f"#u{connection}#{self.home}"
            )
            frame = self.frames.frame_for(session, frames, own=connection == own)[4:]
            found = self._read(session, frame)
            expected = change.view(own=connection == own)
            assert found == expected, "whichever form tells it"
            self.views.append((connection, found))

    def _read(self, session: DaemonSession, frame: bytes) -> GroupView:
        lists = self.lists.setdefault(session.connection, GroupLists())
        if frame[0] == FrameKind.VIEW:
            view = decode_view_untrusted(frame, VIEW.id)
            lists.hold(view, session.member)
            return view
        assert session.asked.wishes & Capability.DIFFERENCES
        return lists.apply(decode_difference_untrusted(frame, VIEW.id), session.member)


@given(ACTS)
def test_differences_lead_to_the_same_views_as_whole_lists(
    acts: list[tuple[str, int, int, str]],
) -> None:
    stage = Stage()
    for groups, name in zip(stage.groups, "ab", strict=True):
        groups._audience = Told(name)
    present: set[tuple[int, int]] = set()
    for act, daemon, connection, group in acts:
        user = f"u{connection}"
        known = (daemon, connection) in present
        if act == "connect" and not known:
            stage.connect(daemon, connection, user)
            present.add((daemon, connection))
        elif act == "disconnect" and known:
            stage.disconnect(daemon, connection, user)
            present.remove((daemon, connection))
        elif act in ("join", "leave"):
            (stage.join if act == "join" else stage.leave)(daemon, connection, user, group)


# ---- who may not see the members ----


def test_who_may_see_the_members_again_gets_the_whole_list_and_then_differences() -> None:
    """What it held meanwhile was only itself, which no difference is about."""
    control = AccessControl()
    shown, session = ListsShown(control), session_of(2)
    hidden = Access(rules=(Rule(("*",), ("g",), frozenset((Verb.JOIN,))),))
    stage = Stage()
    changes: list[GroupChange] = []

    class Kept(Audience):
        def show_change(
            self, connections: Iterable[int], change: GroupChange, own: int | None = None
        ) -> None:
            if 2 in (*connections, own):
                changes.append(change)
                frame = shown.frame_for(session, ChangeFrames(change), own=own == 2)
                kinds.append(FrameKind(frame[4]))

    kinds: list[FrameKind] = []
    stage.groups[0]._audience = Kept()
    for connection in (2, 3, 4, 5, 6):
        stage.connect(0, connection, f"u{connection}")
        control.set_rules(hidden if connection in (3, 4) else Access(), Quotas())
        stage.join(0, connection, f"u{connection}", "g")
    view, difference = FrameKind.VIEW, FrameKind.DIFFERENCE
    assert kinds == [view, view, view, view, difference]
    assert shown.shares(session, "g")


# ---- what it costs ----


def names_in(frame: bytes) -> int:
    """Return the number of members that a frame about a view names."""
    if frame[0] == FrameKind.VIEW:
        view = decode_view_untrusted(frame, OLD)
        return len(view.members) + len(view.changed) + len(view.vs_set)
    if frame[0] == FrameKind.DIFFERENCE:
        return len(decode_difference_untrusted(frame, OLD).members)
    return 0


class Crowd:
    """Programs of one daemon that join one group one after the other."""

    def __init__(self, size: int, *, differences: bool = True) -> None:
        self.clients = Clients()
        self.programs = [self.clients.start(f"u{number}") for number in range(size)]
        for program in self.programs:
            if not differences:
                user = self.clients.sessions[program].user
                self.clients.sessions[program] = ClientSession(user, differences=False)
            self.clients.talk(program)
        self.parts: dict[int, list[bytes]] = {program: [] for program in self.programs}

    def join_all(self) -> None:
        """Let all join in one step."""
        for program in self.programs:
            self.clients.sessions[program].join("g")
        self.step()

    def step(self) -> None:
        """Carry out what all have asked for in one step; keep the frames that come of it."""
        clients = self.clients
        clients.step(*map(clients.said, self.programs))
        end = clients.now + 2 * MOST_HOLD_S  # some members get what waits, then others
        while clients.now < end:
            clients.now = min(end, max(clients.now, clients.core.deadline))
            clients.step()
        for program, parts in self.parts.items():
            output = self.clients.core.pop_output(program, PLENTY)
            parts += [part for part in output if isinstance(part, bytes)]

    def frames(self, program: int) -> list[bytes]:
        return [*FrameReader(DAEMON_FRAME_BYTES).feed(b"".join(self.parts[program]))]

    def names(self, program: int) -> int:
        return sum(map(names_in, self.frames(program)))


@pytest.mark.parametrize("size", [20, 150])
def test_a_member_gets_about_as_many_names_as_there_are_members(size: int) -> None:
    """Not the square: its own list once, and one name for each member that comes later."""
    crowd = Crowd(size)
    crowd.join_all()
    counted = [crowd.names(program) for program in crowd.programs]
    assert max(counted) <= size + 2
    assert min(counted) >= size
    older = Crowd(20, differences=False)
    older.join_all()
    assert max(older.names(program) for program in older.programs) == 2 * sum(range(1, 21)) + 1


def test_all_members_get_the_same_bytes_of_a_change() -> None:
    """They are encoded once, and not copied for anybody."""
    crowd = Crowd(12)
    crowd.join_all()
    for parts in crowd.parts.values():
        parts.clear()
    crowd.clients.sessions[crowd.programs[3]].leave("g")
    crowd.step()
    told = [frame for parts in crowd.parts.values() for frame in parts]
    told = [frame for frame in told if frame[4] == FrameKind.DIFFERENCE]
    assert len(told) == 12, "also the one that has left"
    assert len(set(map(id, told))) == 1


def test_a_churning_member_costs_the_others_its_name_each_time() -> None:
    crowd = Crowd(100)
    crowd.join_all()
    before = crowd.names(crowd.programs[0])
    sizes = sum(map(len, crowd.parts[crowd.programs[0]]))
    churner = crowd.clients.sessions[crowd.programs[50]]
    for _ in range(10):
        churner.leave("g")
        churner.join("g")
    crowd.step()
    assert crowd.names(crowd.programs[0]) - before == 20
    assert sum(map(len, crowd.parts[crowd.programs[0]])) - sizes < 20 * 100


def test_who_wants_no_views_gets_its_own_join_and_leave_alone() -> None:
    """And it keeps nobody else from getting differences."""
    crowd = Crowd(4)
    quiet, reader, *others = crowd.programs
    sessions = crowd.clients.core.sessions
    sessions.by_connection[quiet].asked.wishes |= Capability.NO_VIEWS
    crowd.clients.sessions[quiet].join("g")
    crowd.clients.sessions[reader].join("g", views=False)
    for program in others:
        crowd.clients.sessions[program].join("g")
    crowd.step()
    assert [crowd.names(program) for program in (quiet, reader)] == [3, 3]
    assert [crowd.names(program) for program in others] == [5, 5], "with the quiet member"
    for program in (quiet, reader):
        crowd.clients.sessions[program].leave("g")
    crowd.step()
    assert [crowd.names(program) for program in (quiet, reader)] == [4, 4]
    assert [crowd.names(program) for program in others] == [6, 6]
