"""Steps of a core: what it counts, when the next one is due, and how it ends."""

import gc
import weakref
from collections.abc import Generator
from math import inf
from typing import Any, cast

import pytest

from groupcomm.config.core import CoreConfig, CounterStarts
from groupcomm.config.roster import AddDaemon, RemoveDaemon
from groupcomm.config.view import Incarnation, Start, View
from groupcomm.engine import (
    ChangeRoster,
    ClientOpened,
    CoreOver,
    DaemonCore,
    EndReason,
    Input,
    LeaveRequested,
)
from groupcomm.engine.counters import MAX_LATEST, Counters, Traffic
from groupcomm.engine.leaving import FOLLOW_S
from groupcomm.engine.protection import PlainProtection
from groupcomm.engine.roster import UseRoster
from groupcomm.engine.view_change import ViewChange
from groupcomm.errors import BadDatagram, ProtocolViolation, RemoteProtocolError
from groupcomm.level import ServiceLevel
from groupcomm.membership.reservation import Reservation
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.wire.bundle import Bundle, BundleKind
from tests.groupcomm.engine.clients import Clients
from tests.groupcomm.engine.cluster import Cluster

AGREED = ServiceLevel.AGREED


def lone(now: float = 0.0, **settings: Any) -> DaemonCore:
    """Return a daemon that is alone in its view."""
    config = CoreConfig(suite=0, sites=(("a",),), **settings)
    start = Start(name="a", incarnation=Incarnation(1, 7), mark=10**6)
    core = DaemonCore(config, start, keys=None, now=now, wall=0.0)
    while core.state is not MembershipState.OPERATIONAL or core.deadline <= now:
        core.step(now, [], [])
        core.deliver()
    return core


def after(core: DaemonCore, now: float = 0.0) -> float:
    """Take a step in which nothing comes; return the time of the next one."""
    core.step(now, [], [])
    core.deliver()
    return core.deadline


def left(core: DaemonCore) -> list[CoreOver]:
    """Have a daemon leave, and take some steps more; return the ends that it reports."""
    ends = []
    inputs: list[Input] = [LeaveRequested()]
    for _ in range(5):
        output = core.step(min(core.deadline, core._now + 1.0), [], inputs)
        core.deliver()
        ends += [output.over] if output.over is not None else []
        inputs = []
    assert core.state is MembershipState.LEFT
    return ends


# ---- when the next step is due ----


def complete(core: DaemonCore) -> None:
    """Have the core find the time of its next step, as at the end of each."""
    core.sessions.complete(core._output)
    core._set_deadline()


def test_the_next_step_is_due_when_the_first_part_has_something_to_do() -> None:
    core = lone()
    usual = after(core)
    assert 0.001 < usual < inf
    parts: list[tuple[Any, str]] = [
        (core.view_state, "deadline"),
        (core.leaving, "due"),
        (core.roster_manager, "due"),
        (core.sessions.names, "due"),
        (core.sessions.slow_receivers, "due"),
        (core.reservation, "due"),
    ]
    for part, name in parts:
        before = getattr(part, name)
        setattr(part, name, 0.001)
        complete(core)
        assert core.deadline == 0.001, name
        setattr(part, name, -5.0)
        complete(core)
        assert core.deadline == 0.0, "never in the past: the next step would seem late"
        setattr(part, name, before)
    complete(core)
    assert core.deadline == usual


def test_a_daemon_that_was_removed_waits_for_the_others_until_its_time_is_up() -> None:
    core = lone()
    usual = after(core)
    core.leaving.removed, core.leaving.follow_until = True, 0.001
    core._set_deadline()
    assert core.deadline == 0.001
    core.leaving.follow_until = 0.0
    core._set_deadline()
    assert core.deadline == usual


def test_a_daemon_that_has_left_reserves_nothing_any_more() -> None:
    core = lone()
    left(core)
    core.reservation.due = core._now + 0.001
    core._set_deadline()
    assert core.deadline > core._now + 0.001


def test_keys_that_a_bundle_has_changed_are_written_in_a_step_at_once() -> None:
    core = lone()
    core.key_manager.unstored = True
    assert after(core) == 0.0
    core._storage._keys = True
    assert after(core) > 0.0, "a write is under way: its end is an event of its own"


# ---- pauses ----


@pytest.mark.parametrize(("late_s", "is_pause"), [(0.0, False), (0.001, True)])
def test_a_step_that_is_late_by_a_token_timeout_shows_a_pause(
    late_s: float, is_pause: bool
) -> None:
    core = lone()
    limit = core.deadline + core.config.timing.token_timeout_s
    core.step(limit + late_s, [], [])
    assert core.membership.reasons[GatherReason.PAUSED] == is_pause


# ---- counts ----


def test_datagrams_that_are_dropped_are_reported_with_the_step_in_which_they_came() -> None:
    core = lone()
    output = core.step(0.0, [b"junk", b"more junk"], [])
    core.deliver()
    assert output.rejected == 2
    assert [datagram for datagram, _ in output.dropped] == [b"junk", b"more junk"]
    assert (core.counters.received, core.counters.bad) == (2, 2)
    output = core.step(0.0, [b"again"], [])
    assert (output.rejected, len(output.dropped)) == (1, 1)
    output = core.step(0.0, [], [])
    assert (output.rejected, list(output.dropped)) == (0, [])


def test_only_the_first_dropped_datagrams_of_a_step_are_kept() -> None:
    counters = Counters()
    for number in range(MAX_LATEST + 3):
        counters.reject(b"%d" % number, "tag")
    assert counters.latest == [(b"%d" % number, "tag") for number in range(MAX_LATEST)]
    assert (counters.bad, counters.rejected) == (MAX_LATEST + 3, {"tag": MAX_LATEST + 3})


def test_breaches_are_counted_by_their_kind() -> None:
    counters = Counters()
    for error in (
        BadDatagram("short", "x"),
        ProtocolViolation("token", "x"),
        ProtocolViolation("token", "y"),
        RemoteProtocolError("x"),
    ):
        counters.note_violation(error)
    assert counters.violations == {"short": 1, "token": 2, "passed on": 1}


def message(kind: int, count: int, index: int, size: int) -> Bundle:
    made = Bundle(kind, AGREED, 0, 1, index, count, ("g",), 0, bytes(size), 14 + size)
    made.address(1, "u", ())
    return made


@pytest.mark.parametrize(
    ("kind", "count", "index", "messages", "size"),
    [
        (BundleKind.MESSAGES, 3, 0, 3, 100),
        (BundleKind.FRAGMENT, 2, 0, 0, 100),
        (BundleKind.FRAGMENT, 2, 1, 1, 100),
        (BundleKind.JOIN, 1, 0, 0, 0),
    ],
)
def test_messages_count_when_they_are_whole_and_joins_never(
    kind: int, count: int, index: int, messages: int, size: int
) -> None:
    traffic = Traffic()
    traffic.count_sent(message(kind, count, index, 100))
    assert (traffic.taken[AGREED], traffic.taken_bytes[AGREED]) == (messages, size)
    assert sum(traffic.taken) == messages
    assert sum(traffic.delivered) == sum(traffic.delivered_bytes) == 0
    if kind <= BundleKind.FRAGMENT:
        traffic.count_delivered(message(kind, count, index, 100), 5)
        assert (traffic.delivered[AGREED], traffic.delivered_bytes[AGREED]) == (5 * messages, 500)


def test_each_datagram_that_is_sent_counts_once() -> None:
    cluster = Cluster("abc")
    cluster.start("abc")
    cluster.run(0.5)
    core = cluster.cores["a"]
    before = core.counters.sent
    program = cluster.connect("a", "u")
    program.session.multicast("g", b"x", level=AGREED)
    (given,) = program.say()
    sent = len(core.step(cluster.now, [], [given]).datagrams)
    core.deliver()
    assert core.counters.sent >= before + sent > before


def test_what_came_while_the_daemon_stood_still_is_stale() -> None:
    cluster = Cluster("ab")
    cluster.start("ab")
    cluster.run(0.5)
    a, b = cluster.cores["a"], cluster.cores["b"]
    datagrams = [b._protection.seal(None, bytes(40)) for _ in range(3)]
    a.step(a.deadline + 10.0, datagrams, [])
    assert a.counters.stale == 3


# ---- numbers of connections ----


def test_connection_numbers_that_may_be_used_count_from_their_start() -> None:
    first = 2**40
    core = lone(starts=CounterStarts(connection=first))
    number = core.next_connection()
    assert core.used == number - first
    assert core.view_state is not None
    core.view_state.delivery.groups.highest[0] = number + 5
    assert core.used == number + 5 - first


def test_a_view_that_has_ended_is_not_kept() -> None:
    """Its packets would take memory until the next view ends."""
    core = lone()
    assert core.view_state is not None
    old, key = weakref.ref(core.view_state), core.view_state.key
    core.membership.gather(GatherReason.PATH_LOST, core._now)
    while core.view_state is None or core.view_state.key == key or core.deadline <= core._now:
        after(core, core.deadline)
    gc.collect()
    assert old() is None


def test_a_roster_that_the_rest_of_a_view_brings_counts_before_the_next_view_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That view was agreed on with the roster before: the daemon looks for another one."""
    core = lone()
    roster = core.config.roster.changed(AddDaemon(name="b", site="1"))

    def finish(*_: object) -> Generator[None, None, bool]:
        core.roster_manager.effects.append(UseRoster(roster, stored=True))
        monkeypatch.undo()
        yield  # in two steps
        return True

    monkeypatch.setattr(ViewChange, "finish", finish)
    core.membership.gather(GatherReason.PATH_LOST, core._now)
    before = core.view
    while core.config.roster is not roster:
        after(core, core.deadline)
    assert core.view is before, "the old view goes on to end"
    after(core, core.deadline)
    assert core.view is not before
    assert core.membership.reasons[GatherReason.ROSTER_CHANGED] == 1


def test_a_daemon_that_says_that_it_is_busy_does_not_lose_the_token() -> None:
    cluster = Cluster("abc")
    cluster.start("abc")
    cluster.run(0.5)
    a, b = cluster.cores["a"], cluster.cores["b"]
    assert a.view_state is not None
    monitor, timeout_s = a.view_state.ring.monitor, a.config.timing.token_timeout_s
    for times in range(1, 5):
        now = a._now + times * timeout_s
        a.view_state.excuse(b.start.daemon.number, now)
        assert monitor.heard_at == pytest.approx(now)
    a.view_state.ring.step(now + 0.9 * timeout_s)
    assert monitor.token_losses == 0
    a.view_state.ring.step(now + 1.1 * timeout_s)
    assert monitor.token_losses == 1


# ---- ends ----


def test_a_daemon_ends_once_and_hands_over_its_keys() -> None:
    core = lone()
    (over,) = left(core)
    assert (over.end, over.unfinished, over.roster) == (EndReason.LEFT, "", None)


def test_a_daemon_that_cannot_leave_in_order_says_what_is_left() -> None:
    cluster = Cluster("ab", leave_timeout_s=0.3)
    cluster.start("ab")
    cluster.run(0.5)
    cluster.connect("a", "u")
    cluster.isolate("a", "b")
    cluster.cores["a"].leave()
    cluster.run(0.35)
    over = cluster.shells["a"].over
    assert over is not None
    assert over.end is EndReason.CUT_SHORT
    assert "1 packets are not held by the whole view" in over.unfinished


def test_a_daemon_that_was_removed_learns_the_roster_without_it() -> None:
    cluster = Cluster("abc")
    cluster.start("abc")
    cluster.run(1.0)
    cluster.cores["a"].command(ChangeRoster(change=RemoveDaemon("c"), forced=False))
    begun = cluster.now
    while cluster.shells["c"].over is None:
        cluster.run(0.01)
        assert cluster.now < begun + FOLLOW_S
    over = cluster.shells["c"].over
    assert over.end is EndReason.REMOVED
    assert over.roster is not None
    assert over.roster.names == ("a", "b")


def test_a_removed_daemon_whose_others_do_not_follow_leaves_after_a_while() -> None:
    cluster = Cluster("abc")
    cluster.start("abc")
    cluster.run(1.0)
    core = cluster.cores["c"]

    def follow() -> bool:
        assert core.view_state is not None
        differ = core.membership.others_say(differ=True)
        progress = core.view_state.leave_progress(core.state, others_differ=differ, is_missed=False)
        return core.leaving.others_follow(progress, core._now)

    assert follow(), "it was not removed"
    core.leaving.remove(core._now)
    core.leave()
    assert not follow()
    core._now += FOLLOW_S - 0.001
    assert not follow()
    for name in "ab":
        (peer,) = (p for p in core.membership.peers.values() if p.name == name)
        cast(Any, peer).differs = True
    assert follow(), "all say that they use the roster"
    for peer in core.membership.peers.values():
        cast(Any, peer).differs = False
    core._now += 0.001
    assert follow(), "they had time enough"


# ---- groups, as the shell sees them ----


def test_the_shell_sees_groups_and_members_by_the_deliveries_of_its_daemon() -> None:
    clients = Clients()
    assert clients.core.groups() == {}
    one, two = clients.connect("u"), clients.connect("v")
    for number, group in ((one, "g"), (two, "g"), (two, "h")):
        clients.sessions[number].join(group)
        clients.talk(number)
    assert {name: len(found) for name, found in clients.core.groups().items()} == {"g": 2, "h": 1}
    members = [str(member.id) for member in clients.core.groups()["g"]]
    assert members == [f"#u#a/{one}", f"#v#a/{two}"], "in the order in which they joined"
    assert clients.core.pop_output(one + two, 100) == [], "nobody has this number"


def test_a_daemon_without_a_view_has_no_groups() -> None:
    core = DaemonCore(
        CoreConfig(suite=0, sites=(("a", "b"),)),
        Start(name="a", incarnation=Incarnation(1, 7)),
        keys=None,
        now=0.0,
        wall=0.0,
    )
    assert (core.groups(), core.view_state) == ({}, None)
    assert core.freeze() is None
    assert core.near == frozenset("b")


def test_connection_numbers_are_reserved_in_each_step_with_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = 2**40
    core = lone(starts=CounterStarts(connection=first))
    asked: list[tuple[int, float]] = []
    monkeypatch.setattr(Reservation, "keep_ahead", lambda _, used, now: asked.append((used, now)))
    core.step(0.0, [], [])
    assert asked == []
    number = core.next_connection()
    core.step(0.0, [], [ClientOpened(number)])
    assert asked == [(number - first, 0.0)]


def test_the_protection_learns_each_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """With identities daemons give each other new secrets then."""
    begun: list[View] = []
    monkeypatch.setattr(PlainProtection, "begin_view", lambda _, view: begun.append(view))
    core = lone()
    assert begun == [core.view]
