"""Changes of large groups that follow each other fast go out together, and in their order."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groupcomm.engine import held_changes, session_output
from groupcomm.engine.held_changes import (
    MANY,
    MOST_BYTES,
    MOST_HOLD_S,
    PART_S,
    SESSIONS_A_PART,
    SESSIONS_A_STEP,
    ChangeLog,
    HeldChanges,
    hold_s,
    sessions_a_part,
)
from groupcomm.engine.inputs import ClientDismissed, ClientGone, Input, ProgramSettings
from groupcomm.errors import Code
from groupcomm.events import Cause, Connected, GroupView, Message
from groupcomm.level import ServiceLevel
from groupcomm.security.access import Access, Rule, Verb
from groupcomm.session.client_session import ClientSession
from groupcomm.session.daemon_session import DaemonSession, SessionLimits
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings
from tests.groupcomm.engine.clients import PLENTY, Clients

NEWCOMERS = 20


def held_by(readers: int) -> tuple[HeldChanges, ChangeLog]:
    """Changes of one group with readers 1, 2, ... that have everything."""
    held = HeldChanges()
    log = held.logs["g"] = ChangeLog()
    for reader in range(1, readers + 1):
        held.read(reader, log)
    return held, log


def test_the_first_change_goes_out_at_once_and_those_behind_it_together() -> None:
    held, log = held_by(3)
    with few(many=3, a_step=3, a_part=2):
        held.append(log, b"a")
        assert [changes for _, changes in held.pop_due(1.0)] == [(b"a",)] * 3
        assert held.due == inf
        assert not held.waiting
        log = held.logs["g"] = ChangeLog()
        for reader in (1, 2, 3):
            held.read(reader, log)
        held.append(log, b"b")
        assert held.pop_due(1.0) == [(1, (b"b",)), (2, (b"b",))]
        held.append(log, b"c")
        assert held.due == 1.0 + PART_S, "another change does not hurry it"
        assert held.pop_due(held.due - 0.0001) == []
        assert held.pop(2) == (b"c",), "it gets something else, which must come behind"
        held.append(log, b"d")
        assert held.pop_due(held.due) == [(3, (b"bcd",))]
        assert held.pop_due(held.due) == [(1, (b"cd",)), (2, (b"d",)), (3, ())], "it was quiet"


@pytest.mark.parametrize("readers", [1, 100, 1000, 30_000])
def test_each_has_its_turn_in_time_and_few_have_it_at_once(readers: int) -> None:
    held, log = held_by(readers)
    held.append(log, b"a")
    while held.due < inf:
        held.pop_due(1.0)
    log = held.logs["g"] = ChangeLog()
    for reader in range(readers):
        held.read(reader, log)
    served, now = dict.fromkeys(range(readers), 1.0), 1.0
    for _ in range(3 * readers // sessions_a_part(readers) + 3):
        held.append(log, b"b")
        now = max(now, held.due)
        some = held.pop_due(now)
        assert len(some) <= sessions_a_part(readers)
        for reader, _ in some:
            assert now <= served[reader] + MOST_HOLD_S + 2 * PART_S
            assert now <= served[reader] + hold_s(readers) + 3 * PART_S
            served[reader] = now
    assert sessions_a_part(1000) == SESSIONS_A_PART < sessions_a_part(30_000)


def test_changes_of_several_groups_keep_their_order() -> None:
    held, log = held_by(2)
    other = held.logs["h"] = ChangeLog()
    held.read(2, other)
    for each, frame in ((log, b"1"), (other, b"2"), (log, b"3"), (other, b"4")):
        held.append(each, frame)
    assert (held.pop(1), held.pop(2)) == ((b"13",), (b"1234",))


def test_a_step_serves_so_many_and_the_rest_get_what_came_meanwhile() -> None:
    held, log = held_by(SESSIONS_A_STEP + 1)
    held.append(log, b"a")
    first = held.pop_due(1.0)
    assert [changes for _, changes in first] == [(b"a",)] * SESSIONS_A_STEP
    held.append(log, b"b")
    assert held.due <= 1.0
    assert held.pop_due(1.0) == [(SESSIONS_A_STEP + 1, (b"ab",))]
    assert held.due == 1.0 + PART_S, "the first ones lack one"


def test_a_log_has_only_what_was_appended_since_the_last_round_began() -> None:
    held, log = held_by(SESSIONS_A_STEP + 1)
    now = 1.0
    held.append(log, b"0")
    for _ in range(5):
        assert len(held.pop_due(now)) == SESSIONS_A_STEP
        held.append(log, b"1")
        assert len(held.pop_due(now)) == 1
        assert len(log.entries) == 1
        now += MOST_HOLD_S


def test_neither_the_time_nor_the_bytes_of_changes_that_wait_grow_without_a_bound() -> None:
    assert hold_s(10**6) == MOST_HOLD_S
    held, log = held_by(1)
    held.append(log, b"a")
    held.pop_due(1.0)
    log = held.logs["g"] = ChangeLog()
    for reader in range(SESSIONS_A_STEP):
        held.read(reader, log)
    held.append(log, bytes(MOST_BYTES - 1))
    assert len(held.pop_due(1.0)) == SESSIONS_A_PART
    assert held.due > 1.0
    held.append(log, b"b")
    assert held.due == -inf
    assert len(held.pop_due(1.0)) == SESSIONS_A_STEP - SESSIONS_A_PART


class Storm:
    """Many members at one daemon, and newcomers at another one that join as fast as they can."""

    def __init__(self, members: int) -> None:
        self.cluster = Cluster(plain_settings(daemons=2))
        self.members = [self.connect(f"m{number}", 0) for number in range(members)]
        self.newcomers = [self.connect(f"n{number}", 1) for number in range(NEWCOMERS)]
        self.cluster.run(0.5)
        for member in self.members:
            member.join("g")
        self.cluster.run(3.0)
        self.told = [len(member.events) for member in self.members]

    def connect(self, name: str, daemon: int) -> SimulatedClient:
        return self.cluster.connect(name, daemon)

    def written(self) -> int:
        """Have the newcomers join; return the writes to the first member until all are told."""
        core, writes = self.cluster.daemons[0].core, 0
        welcome = self.members[0].events[0]
        assert isinstance(welcome, Connected)
        number = welcome.member.connection
        pop = core.pop_output

        def counted(connection: int, limit: int) -> list[object]:
            nonlocal writes
            parts = pop(connection, limit)
            writes += connection == number and bool(parts)
            return list(parts)

        core.pop_output = counted  # type: ignore[method-assign, assignment]
        for newcomer in self.newcomers:
            newcomer.join("g")
            self.cluster.run(0.002)
        self.cluster.run(MOST_HOLD_S + 0.1)
        return writes

    def joins(self, at: int) -> list[str]:
        """Return the names that a member was told to have joined, in order."""
        events = self.members[at].events[self.told[at] :]
        return [
            member.user
            for event in events
            if isinstance(event, GroupView) and event.cause is Cause.JOIN
            for member in event.changed
        ]


@pytest.mark.parametrize(("members", "most"), [(MANY + 6, NEWCOMERS // 2), (MANY // 2, NEWCOMERS)])
def test_a_storm_of_joins_costs_a_large_group_few_writes_and_nobody_a_change(
    members: int, most: int
) -> None:
    storm = Storm(members)
    writes = storm.written()
    assert 1 <= writes <= most
    for at in range(members):
        assert storm.joins(at) == [f"n{number}" for number in range(NEWCOMERS)]


def test_a_message_behind_changes_that_wait_takes_them_along() -> None:
    storm = Storm(MANY + 6)
    for newcomer in storm.newcomers[:5]:
        newcomer.join("g")
    storm.cluster.run(0.003)
    storm.newcomers[0].multicast(["g"], b"hello")
    storm.cluster.run(0.004)
    for at, member in enumerate(storm.members):
        assert storm.joins(at) == [f"n{number}" for number in range(5)]
        assert isinstance(member.events[-1], Message)


def test_n_joins_cost_the_outputs_of_n_members_few_entries_and_not_the_square(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The work that was most of a storm: one entry for each change and member."""
    pushed = 0
    push = DaemonSession.push

    def counted(session: DaemonSession, *frame: bytes, droppable: bool = False) -> bool:
        nonlocal pushed
        pushed += 1
        return push(session, *frame, droppable=droppable)

    clients = Clients()
    programs = [clients.connect(f"u{number}") for number in range(3 * MANY)]
    monkeypatch.setattr(DaemonSession, "push", counted)
    for program in programs:
        clients.sessions[program].join("g")
    clients.step(*map(clients.said, programs))
    for part in range(1, 100):
        clients.step_once(now=part * PART_S)
    members = [
        len([*view.members])
        for program in programs
        for view in clients.heard(program)[-1:]
        if isinstance(view, GroupView)
    ]
    assert members == [len(programs)] * len(programs)
    assert pushed <= MANY * (MANY + 1) // 2 + 5 * len(programs)


def test_a_member_that_reads_nothing_is_cut_off_by_its_limit_and_the_others_go_on() -> None:
    clients = Clients(SessionLimits(unreliable_drop_bytes=0, output_cap_bytes=8000))
    programs = [clients.connect(f"u{number}") for number in range(MANY + 2)]
    slow, churner, *others = programs
    sessions = clients.core.sessions.by_connection
    for program in programs:
        clients.sessions[program].join("g")
        clients.talk(program)
    for turn in range(100):
        change = clients.sessions[churner].leave if turn % 2 else clients.sessions[churner].join
        if turn:
            change("g")
        clients.now += hold_s(len(programs))
        clients.talk(churner)
        told = [clients.heard(other) for other in others]
        assert sessions[slow].output_bytes <= 8000
    assert sessions[slow].too_slow
    assert all(not sessions[other].too_slow for other in others)
    assert all(told), "each has heard of the last change"


# ---- the same output as if nothing was held ----

GROUPS = ("g", "h")
BLIND = Access(
    rules=(
        Rule(("*",), ("*",), frozenset({Verb.JOIN, Verb.SEND, Verb.UNICAST}), ("*",)),
        Rule(("seer",), ("*",), frozenset({Verb.SEE_MEMBERS})),
    )
)
VERBS = ("join", "leave", "send", "private", "read", "pass", "bye", "lost", "dismiss", "rules")
ACTS = st.lists(
    st.tuples(st.sampled_from(VERBS), st.integers(0, 8), st.integers(0, 1)), max_size=40
)


class Crowd:
    """Nine programs of one daemon: some are old, some want no views, some may not see members."""

    def __init__(self) -> None:
        self.clients = Clients()
        self.programs: list[int] = []
        for number in range(9):
            program = self.clients.start(f"u{number}", principal="seer" if number % 4 else "blind")
            session = ClientSession(f"u{number}", differences=number not in (2, 5))
            self.clients.sessions[program] = session
            self.clients.talk(program)
            self.programs.append(program)
        self.now = 0.0
        self.output = dict.fromkeys(self.programs, b"")
        self.ended: set[int] = set()

    def act(self, verb: str, number: int, choice: int) -> None:
        """Have one program do something, or time pass."""
        program, inputs = self.programs[number], list[Input]()
        if verb == "pass":
            self.now += 1.0 if number == 8 else number / 50  # a new view after a pause
        elif verb == "rules":
            inputs.append(ProgramSettings(access=BLIND if choice else Access()))
        elif verb == "read":
            self.output[program] += b"".join(self.clients.core.pop_output(program, PLENTY))
        elif program not in self.ended:
            inputs.append(self.ask(verb, number, GROUPS[choice]))
            self.ended |= {program} if verb in ("bye", "lost", "dismiss") else set()
        self.clients.step_once(*inputs, now=self.now)

    def ask(self, verb: str, number: int, group: str) -> Input:
        """Return what comes of what a program does."""
        program, session = self.programs[number], self.clients.sessions[self.programs[number]]
        match verb:
            case "lost":
                return ClientGone(program)
            case "dismiss":
                return ClientDismissed(program, Code.REJECT_AUTH, "over")
            case "join" if group not in session.memberships.asked:
                session.join(group)
            case "leave" if group in session.memberships.asked:
                session.leave(group)
            case "send":
                session.multicast([group], b"hello", level=ServiceLevel.AGREED)
            case "private":
                session.multicast([f"#u{(number + 1) % 9}#a"], b"hello", level=ServiceLevel.FIFO)
            case "bye":
                session.close()
            case _:
                pass  # it has asked before
        return self.clients.said(program)

    def run(self, acts: list[tuple[str, int, int]]) -> dict[int, bytes]:
        """Return all output of all programs."""
        for act in acts:
            self.act(*act)
        for _ in range(40):
            self.now += 0.1
            self.clients.step_once(now=self.now)
        for program in self.programs:
            self.output[program] += b"".join(self.clients.core.pop_output(program, PLENTY))
        assert not self.clients.core.sessions.output.held.waiting
        return self.output


@given(acts=ACTS)
@example([*(("leave", number, group) for number in range(1, 6) for group in (0, 1)), ("bye", 0, 0)])
def test_each_session_gets_the_same_bytes_as_if_nothing_was_held(
    acts: list[tuple[str, int, int]],
) -> None:
    everybody = [("join", number, group) for number in range(9) for group in (0, 1)]
    with few(many=3, a_step=2, a_part=1):
        held = Crowd().run(everybody[:12] + acts)
    assert held == Crowd().run(everybody[:12] + acts)


@contextmanager
def few(*, many: int, a_step: int, a_part: int) -> Iterator[None]:
    """Hold changes of groups with few members, and serve few sessions in a step or at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_output, "MANY", many)
        patch.setattr(held_changes, "SESSIONS_A_STEP", a_step)
        patch.setattr(held_changes, "SESSIONS_A_PART", a_part)
        yield
