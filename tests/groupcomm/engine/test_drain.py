"""A daemon that is about to stop admits nobody, tells its programs, and leaves after the last."""

from random import Random

import pytest

from groupcomm.engine import (
    ClientGone,
    ClientOpened,
    CoreOver,
    DrainBegun,
    DrainOver,
    DrainRequested,
    DrainStatus,
    EndReason,
    LeaveRequested,
)
from groupcomm.engine.drain import STOPPED, STOPPED_EMPTY
from groupcomm.engine.intake import STEP_WORK
from groupcomm.errors import Code
from groupcomm.events import Closed, Connected, DaemonStopping, Event, Message
from groupcomm.level import ServiceLevel
from groupcomm.session.client_session import ClientSession
from groupcomm.session.frames import Capability, encode_hello
from tests.groupcomm.engine.clients import Clients
from tests.groupcomm.engine.cluster import Cluster, Program

AGREED = ServiceLevel.AGREED
OTHERS = ("tls://10.0.0.2:4804",)
DRAIN = DrainRequested(within_s=30.0, addresses=OTHERS, observer="operator")


def notices(events: list[Event]) -> list[DaemonStopping]:
    return [event for event in events if isinstance(event, DaemonStopping)]


def drain_of(clients: Clients) -> DrainStatus:
    found = clients.core.status(0.0).drain
    assert found is not None
    return found


def leaves(clients: Clients) -> bool:
    return clients.core.leaving.begun


def settled(*sites: str, **settings: object) -> Cluster:
    cluster = Cluster(*sites, **settings)
    cluster.start("".join(sites))
    cluster.run(1.0)
    return cluster


# ---- what programs are told ----


def test_each_session_is_told_by_when_and_where_others_are() -> None:
    clients = Clients()
    one = clients.connect("u")
    clients.step(DRAIN)
    assert clients.heard(one) == [DaemonStopping(within_s=30.0, addresses=OTHERS)]
    assert not leaves(clients)


def test_a_daemon_that_is_not_about_to_stop_reports_no_drain() -> None:
    clients = Clients()
    assert clients.core.status(0.0).drain is None
    clients.connect("u")
    clients.step(DRAIN)
    assert drain_of(clients).left_s == 30.0


def test_a_session_that_was_about_to_be_admitted_is_told_behind_its_welcome() -> None:
    cluster = settled("ab")
    late = Program(cluster.cores["a"], "u")
    cluster.programs.append(late)
    cluster.step("a", [], [ClientOpened(late.connection), *late.say()])
    cluster.step("a", [], [DRAIN])
    assert late.events == [], "its connect needs the token"
    cluster.run(0.1)
    assert isinstance(late.events[0], Connected)
    assert [round(notice.within_s) for notice in notices(late.events)] == [30]


def test_a_client_of_an_older_release_is_not_told_and_served_as_before() -> None:
    clients = Clients()
    old = clients.core.next_connection()
    clients.sessions[old] = session = ClientSession("u")
    session.pop_output(1 << 20)
    session._bundler.add_frame(encode_hello("u", Capability.REFUSALS))
    clients.step(ClientOpened(old))
    assert isinstance(clients.talk(old)[0], Connected)
    clients.step(DRAIN)
    assert clients.heard(old) == []
    session.multicast("#u#a", b"still", level=AGREED)
    (message,) = clients.talk(old)
    assert isinstance(message, Message)


def test_no_session_is_admitted_and_the_reason_says_where_to_go() -> None:
    clients = Clients()
    clients.connect("u")
    clients.step(DRAIN)
    refused = clients.end(clients.start("v"))
    assert refused.code == Code.REJECT_STOPPING
    assert "is about to stop" in refused.reason
    assert OTHERS[0] in refused.reason


def test_who_waits_for_a_name_is_refused_at_once() -> None:
    clients = Clients()
    one, heir = clients.connect("u", principal="p"), clients.start("u", principal="q")
    for number in range(STEP_WORK):  # the holder of the name may have gone unseen meanwhile
        clients.sessions[one].join(f"g{number}")
    clients.step_once(clients.said(one), clients.said(heir))
    assert clients.heard(heir) == []
    clients.step(DRAIN)
    (refused,) = clients.heard(heir)
    assert isinstance(refused, Closed)
    assert refused.code == Code.REJECT_STOPPING


def test_a_second_request_changes_the_time() -> None:
    clients = Clients()
    one = clients.connect("u")
    clients.step(DRAIN)
    clients.step(DrainRequested(within_s=5.0))
    assert [notice.within_s for notice in notices(clients.heard(one))] == [30.0, 5.0]
    assert clients.core.deadline <= 5.0


# ---- how long it takes ----


def test_it_leaves_once_the_last_program_has_gone() -> None:
    clients = Clients()
    one, other = clients.connect("u"), clients.connect("v")
    clients.step(DRAIN)
    assert drain_of(clients) == DrainStatus(left_s=30.0, gone=0, staying=("u", "v"))
    clients.sessions[one].close()
    assert clients.end(one).code == Code.OK
    assert drain_of(clients) == DrainStatus(left_s=30.0, gone=1, staying=("v",))
    assert not leaves(clients)
    clients.step(ClientGone(other))
    assert leaves(clients)


def test_without_programs_it_leaves_at_once() -> None:
    clients = Clients()
    clients.step(DRAIN)
    assert leaves(clients)


def test_the_operator_who_watches_does_not_hold_it_up() -> None:
    clients = Clients()
    watcher, one = clients.connect("operator"), clients.connect("u")
    clients.step(DRAIN)
    assert drain_of(clients).staying == ("u",)
    clients.step(ClientGone(one))
    assert leaves(clients)
    last = clients.heard(watcher)[-1]
    assert isinstance(last, Closed)
    assert last.code == Code.CONNECTION_CLOSED


@pytest.mark.parametrize("at", [29.9, 30.0])
def test_it_leaves_when_the_time_is_up(at: float) -> None:
    clients = Clients()
    one = clients.connect("u")
    clients.step(DRAIN)
    assert clients.core.deadline <= 30.0
    clients.step_once(now=at)
    assert leaves(clients) == (at >= 30.0)
    assert isinstance(clients.heard(one)[-1], Closed) == leaves(clients)


@pytest.mark.parametrize("goes", [True, False])
def test_the_operator_is_told_whether_a_program_was_left(goes: bool) -> None:
    clients = Clients()
    operator, one = clients.connect("operator"), clients.connect("u")
    clients.step(DRAIN)
    if goes:
        clients.step(ClientGone(one))
    clients.step_once(now=30.0)
    last = clients.heard(operator)[-1]
    assert isinstance(last, Closed)
    assert last.reason == (STOPPED_EMPTY if goes else STOPPED)


def test_a_daemon_that_is_told_to_leave_meanwhile_leaves_now() -> None:
    clients = Clients()
    clients.connect("u")
    clients.step(DRAIN)
    clients.step(LeaveRequested())
    assert leaves(clients)
    clients.step(DRAIN)  # the drain comes too late
    assert drain_of(clients).left_s == 0.0


# ---- among other daemons ----


def test_the_log_says_how_it_began_and_ended() -> None:
    cluster = settled("ab")
    cluster.connect("a", "u")
    cluster.step("a", [], [DrainRequested(within_s=2.0)])
    cluster.run(3.0)
    news = [each for each in cluster.shells["a"].news if isinstance(each, DrainBegun | DrainOver)]
    assert news == [DrainBegun(within_s=2.0, programs=1), DrainOver(gone=0, staying=("u",))]
    over = cluster.shells["a"].over
    assert isinstance(over, CoreOver)
    assert over.end is EndReason.LEFT


def moved(cluster: Cluster, program: Program, to: str) -> Program:
    """End a session in order, and return one of the same user at another daemon."""
    program.session.close()
    while not isinstance(last := program.events[-1], Closed):
        cluster.run(0.01)
    assert last.code == Code.OK
    cluster.step(program.core.start.name, [], [ClientGone(program.connection)])
    return cluster.connect(to, program.session.user)


@pytest.mark.parametrize("seed", range(6))
def test_what_was_sent_before_the_goodbye_is_delivered_once_and_before_what_comes_behind(
    seed: int,
) -> None:
    """Programs move under load, while every twentieth datagram is lost; a receiver that stays gets
    each sender's messages in order."""
    cluster, random = settled("abc"), Random(seed)
    cluster.lost = lambda _: random.random() < 0.05 * bool(seed)
    receiver = cluster.connect("c", "reader")
    receiver.session.join("g")
    programs = [cluster.connect("a", f"u{n}") for n in range(5)]
    cluster.run(0.1)
    for round_ in range(20):
        for program in programs:
            data = f"{program.session.user} {round_}".encode()
            program.session.multicast("g", data, level=AGREED, ordered=round_ == 19)
        cluster.run(0.0003)
    cluster.step("a", [], [DrainRequested(within_s=30.0)])
    cluster.run(0.01)
    programs = [moved(cluster, program, "b") for program in programs]
    cluster.run(2.0)
    over = cluster.shells["a"].over
    assert over is not None, "long before the time is up"
    assert over.end is EndReason.LEFT
    for round_ in range(20, 25):
        for program in programs:
            data = f"{program.session.user} {round_}".encode()
            program.session.multicast("g", data, level=AGREED)
    cluster.run(2.0)
    told = [event.data.decode() for event in receiver.events if isinstance(event, Message)]
    for program in programs:
        user = program.session.user
        mine = [text for text in told if text.startswith(f"{user} ")]
        assert mine == [f"{user} {round_}" for round_ in range(25)]


def test_a_daemon_that_waits_for_its_programs_does_everything_else_in_time() -> None:
    clients = Clients()
    clients.connect("u")
    before = clients.core.deadline
    clients.step(DRAIN)
    assert clients.core.deadline == before < DRAIN.within_s
