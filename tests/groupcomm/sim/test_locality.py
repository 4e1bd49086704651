"""A site orders its own AGREED messages alone, and programs of other sites send to it in order."""

from collections.abc import Callable
from math import inf

import pytest

from groupcomm.clocks.stamp import Stamp
from groupcomm.engine.view import ViewState
from groupcomm.events import Message, Ordered, Transition
from groupcomm.level import ServiceLevel
from groupcomm.order.order import Order
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.faults.partitions import between
from groupcomm.sim.run import run_seed
from groupcomm.sim.settings import Options, plain_settings
from groupcomm.wire.data import DataPacket
from groupcomm.wire.horizon import HorizonNotice
from tests.groupcomm.sim.checked_cluster import CheckedCluster
from tests.verification.mutants.catalogue import find_mutant

DELAY_S = 0.05
SOON_S = 0.005
AGREED, SAFE = ServiceLevel.AGREED, ServiceLevel.SAFE


class Halls:
    """Two sites of two daemons; the first three programs are of group "hall", all of "all"."""

    def __init__(self, *, wide: bool = False) -> None:
        self.checked = CheckedCluster(plain_settings(daemons=(2, 2), sites=2, delay_s=DELAY_S))
        self.cluster = self.checked.cluster
        here, there, here_too, there_too = self.checked.connect(4)
        sites = [0, 0, 1, 1]
        self.here = [c for c in (here, there, here_too, there_too) if sites[c.daemon] == 0]
        self.far = [c for c in (here, there, here_too, there_too) if sites[c.daemon] == 1]
        self.checked.join("hall", self.here)
        if wide:
            self.checked.join("all", [self.here[0], *self.far])
        self.cluster.run(1.0)

    def send(self, client: SimulatedClient, group: str, text: bytes, level: int = AGREED) -> None:
        client.multicast([group], text, level=ServiceLevel(level))

    def got(self, client: SimulatedClient) -> list[bytes]:
        return [bytes(event.data) for event in client.events if isinstance(event, Message)]


@pytest.mark.parametrize("level", [AGREED, SAFE])
def test_a_message_inside_a_site_does_not_wait_for_another_one_even_if_that_is_cut_off(
    level: ServiceLevel,
) -> None:
    halls = Halls()
    halls.cluster.network.cut(between([0, 0, 1, 1]))
    for number in range(200):  # over the view change, too
        halls.send(halls.here[number % 2], "hall", b"%d" % number, level)
        halls.cluster.run(SOON_S)
        for client in halls.here:
            assert halls.got(client)[-1] == b"%d" % number
    halls.cluster.network.mend(between([0, 0, 1, 1]))
    halls.checked.finish()


def end_view_with_one_delivery(halls: Halls) -> None:
    """One of two daemons of a site delivers a local message; then both leave the view together."""
    apart, sites = between([0, 1, 2, 2]), between([0, 0, 1, 1])
    network = halls.cluster.network
    network.cut(apart)
    for client in halls.here:  # the daemon that has the token gives its one a number
        halls.send(client, "hall", client.user.encode())
    halls.cluster.run(0.65)  # the view has ended, and no next one is agreed to
    assert sorted(map(len, map(halls.got, halls.here))) == [0, 1]
    network.mend(apart)
    network.cut(sites)
    halls.cluster.run(3.0)
    network.mend(sites)
    halls.checked.finish()


def test_what_one_daemon_has_delivered_alone_is_in_the_regular_part_of_its_whole_site() -> None:
    halls = Halls()
    end_view_with_one_delivery(halls)
    first, second = map(halls.got, halls.here)
    assert first == second
    for client in halls.here:
        told = [event for event in client.events if isinstance(event, Message | Transition)]
        assert [type(event) for event in told[:3]] == [Message, Transition, Message]


def test_the_checkers_find_it_in_the_transitional_part() -> None:
    with find_mutant("one-boundary-for-both-lines").active(), pytest.raises(AssertionError):
        end_view_with_one_delivery(Halls())


APART, SITES = between([0, 1, 2, 2]), between([0, 0, 1, 1])
NEAR = ((0, 1), (1, 0))


def run_until_one_has(halls: Halls, text: bytes) -> SimulatedClient:
    """Let time pass until a program of the first site gets a message; return it."""
    for _ in range(30_000):
        for client in halls.here:
            if text in halls.got(client):
                return client
        halls.cluster.run(0.00001)
    raise AssertionError(f"nobody gets {text!r}")


def told(client: SimulatedClient, since: int) -> list[str]:
    """Return the messages that a program has got, and where the regular part ended."""
    kept = [event for event in client.events[since:] if isinstance(event, Message | Transition)]
    return [event.data.decode() if isinstance(event, Message) else "transition" for event in kept]


def end_view(halls: Halls, *, together: bool) -> list[list[str]]:
    """Cut the two daemons of a site off from each other, at once; then they leave the view together
    without the other site, or each for itself; return what their programs are told meanwhile."""
    network = halls.cluster.network
    network.cut(APART)
    before = [len(client.events) for client in halls.here]
    halls.cluster.run(0.65)  # the view has ended, and no next one is agreed to
    if together:
        network.mend(APART)
    network.cut(SITES)
    halls.cluster.run(3.0)
    found = [told(client, since) for client, since in zip(halls.here, before, strict=True)]
    if not together:
        network.mend(APART)
    network.mend(SITES)
    halls.checked.finish()
    return found


@pytest.mark.parametrize("together", [True, False])
def test_a_safe_message_that_one_daemon_has_delivered_comes_to_all_of_its_site(
    together: bool,
) -> None:
    halls = Halls()
    other, first = halls.here
    halls.send(other, "hall", b"first", SAFE)  # the token stays with its daemon
    halls.cluster.run(0.5)
    halls.cluster.network.cut(NEAR[1:])
    halls.send(other, "hall", b"safe", SAFE)
    assert run_until_one_has(halls, b"safe") is first
    assert halls.got(other) == [b"first"], "it has not heard that the whole site holds the next one"
    halls.cluster.network.mend(NEAR[1:])
    found = dict(zip(halls.here, end_view(halls, together=together), strict=True))
    regular, rest = ["safe", "transition"], ["transition", "safe"]
    assert found[other][:2] == (regular if together else rest)
    assert found[first][0] == "transition"


def end_with_what_one_daemon_lacks(halls: Halls) -> list[list[str]]:
    """A SAFE message follows one of the other site that one of the two daemons has not got."""
    network = halls.cluster.network
    halls.send(halls.far[0], "hall", b"cause", ServiceLevel.FIFO)
    halls.cluster.run(DELAY_S - SOON_S)
    network.cut(NEAR)  # it comes to one of them
    sender = run_until_one_has(halls, b"cause")
    network.mend(NEAR)
    halls.send(sender, "hall", b"safe", SAFE)
    halls.cluster.run(0.001)
    return end_view(halls, together=False)


def test_a_daemon_can_deliver_nothing_that_follows_what_it_lacks() -> None:
    """Alone it would deliver neither, and SAFE means that all who stay connected do."""
    found = end_with_what_one_daemon_lacks(Halls())
    assert sorted(each[:2] for each in found) == [["transition"], ["transition", "safe"]]


def test_the_checkers_find_that_it_said_that_it_can() -> None:
    with find_mutant("safe-without-v").active(), pytest.raises(AssertionError):
        end_with_what_one_daemon_lacks(Halls())


def end_behind_a_safe_message() -> list[list[str]]:
    """One of two daemons delivers a message to all behind a SAFE one that no other site knows of
    yet."""
    halls = Halls()
    inside = halls.here[0]
    halls.here = [halls.cluster.connect(f"more{daemon}", daemon) for daemon in (0, 1)]
    halls.cluster.run(1.0)
    halls.checked.join("all", [*halls.here, halls.far[0]])
    halls.cluster.run(1.0)
    halls.send(inside, "hall", b"safe", SAFE)
    halls.cluster.run(SOON_S)
    assert halls.got(inside) == [b"safe"]
    halls.send(halls.far[0], "all", b"wide")
    halls.cluster.run(SOON_S)
    halls.cluster.network.cut(SITES)  # what the other site has to say of the SAFE message is lost
    halls.cluster.network.cut(NEAR)
    run_until_one_has(halls, b"wide")
    assert sorted(map(len, map(halls.got, halls.here))) == [0, 1]
    halls.cluster.network.mend({*SITES, *NEAR})
    return end_view(halls, together=True)


def test_a_regular_part_goes_on_behind_a_safe_message_that_its_site_has_delivered() -> None:
    found = end_behind_a_safe_message()
    assert sorted(each[:2] for each in found) == [["transition"], ["wide", "transition"]]


def test_the_checkers_find_a_boundary_before_it() -> None:
    mutant = find_mutant("the-boundary-stops-at-what-a-ring-has-passed")
    with mutant.active(), pytest.raises(AssertionError):
        end_behind_a_safe_message()


def test_a_group_with_a_member_that_others_may_reach_waits_and_one_without_does_not() -> None:
    halls = Halls(wide=True)
    both, local = halls.here
    local.join("own")
    halls.cluster.run(1.0)
    halls.send(both, "hall", b"waits")
    halls.send(both, "own", b"is next of its session")
    halls.send(local, "own", b"does not")
    halls.cluster.run(SOON_S)
    assert halls.got(local) == [b"does not"]
    halls.checked.finish()
    assert halls.got(local) == [b"does not", b"waits", b"is next of its session"]


def test_a_stranger_gets_a_right_first_and_the_group_is_local_again_after_its_silence() -> None:
    halls = Halls()
    stranger, member = halls.far[0], halls.here[0]
    halls.send(stranger, "hall", b"asks")
    halls.cluster.run(2 * DELAY_S)
    assert halls.got(member) == []
    halls.cluster.run(2 * DELAY_S)
    assert halls.got(member) == [b"asks"]
    halls.send(stranger, "hall", b"has it")
    halls.cluster.run(1.5 * DELAY_S)
    assert halls.got(member) == [b"asks", b"has it"]
    halls.send(member, "hall", b"wide")
    halls.cluster.run(SOON_S)
    assert b"wide" not in halls.got(member)
    halls.cluster.run(130.0)
    halls.send(member, "hall", b"local")
    halls.cluster.run(SOON_S)
    assert halls.got(member)[-1] == b"local"
    halls.checked.finish()


def test_who_answers_many_of_another_site_gets_all_rights_in_one_round_trip() -> None:
    """It got one after the other: twenty answers took two seconds."""
    halls = Halls()
    asking = [halls.cluster.connect(f"asking{number}", 2) for number in range(20)]
    halls.cluster.run(1.0)
    for client in asking:
        halls.send(halls.here[0], client.name, b"answer")
    halls.cluster.run(3.5 * DELAY_S)
    assert [halls.got(client) for client in asking] == [[b"answer"]] * 20
    halls.checked.finish()


def test_a_safe_message_to_oneself_shows_that_the_other_site_is_still_there() -> None:
    """The mutex, an election and archives rely on it: else both sites could go on alone."""
    halls = Halls()
    client = halls.here[0]
    halls.send(client, client.name, b"mark", SAFE)
    halls.cluster.run(2.5 * DELAY_S)
    assert halls.got(client) == [b"mark"]
    halls.cluster.network.cut(between([0, 0, 1, 1]))
    halls.send(client, "hall", b"local", SAFE)
    halls.send(client, client.name, b"second mark", SAFE)
    halls.cluster.run(0.4)
    assert halls.got(client) == [b"mark", b"local"]
    halls.cluster.run(2.0)
    (left,) = [at for at, event in enumerate(client.events) if isinstance(event, Transition)]
    got = [bytes(e.data) for e in client.events[left:] if isinstance(e, Message)]
    assert got == [b"second mark"], "in the transitional part, which proves nothing"
    halls.cluster.network.mend(between([0, 0, 1, 1]))
    halls.checked.finish()


def test_the_position_of_a_local_message_is_told_once_it_is_delivered_where_it_was_sent() -> None:
    halls = Halls()
    one, other = halls.here
    one.multicast(["hall"], b"local", level=AGREED, ordered=True)
    one.multicast(["hall"], bytes(5000), level=AGREED, ordered=True)  # in fragments
    other.multicast(["elsewhere"], b"global: nobody gets it", level=AGREED, ordered=True)
    halls.cluster.run(SOON_S)
    told = [event for event in one.events if isinstance(event, Ordered)]
    got = [event for event in one.events if isinstance(event, Message)]
    assert [each.position for each in told] == [each.position for each in got]
    assert (len(told), any(each.transitional for each in told)) == (2, False)
    assert not any(isinstance(event, Ordered) for event in other.events)
    halls.cluster.run(2 * DELAY_S)
    assert len([event for event in other.events if isinstance(event, Ordered)]) == 1
    halls.checked.finish()


def test_what_follows_a_leave_waits_for_it_and_does_not_go_to_who_has_left() -> None:
    halls = Halls()
    one, other = halls.here
    other.join("new")
    one.join("new")
    halls.cluster.run(1.0)
    one.leave("new")
    halls.cluster.run(SOON_S)  # it has a number, and no daemon has delivered it
    other.multicast(["new"], b"without", level=AGREED)
    halls.checked.finish()
    assert (halls.got(one), halls.got(other)) == ([], [b"without"])


@pytest.mark.parametrize(
    ("group", "level", "wide", "most"),
    [("own", AGREED, True, 50), ("all", AGREED, True, inf), ("own", SAFE, False, 50)],
)
def test_what_a_site_delivers_alone_has_no_site_send_notices(
    group: str, level: ServiceLevel, wide: bool, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    notices: list[HorizonNotice] = []
    announce: Callable[[ViewState, HorizonNotice], None] = ViewState.announce

    def note(self: ViewState, notice: HorizonNotice) -> None:
        notices.append(notice)
        announce(self, notice)

    monkeypatch.setattr(ViewState, "announce", note)
    halls = Halls(wide=wide)
    sender = halls.here[1]
    sender.join("own")
    halls.cluster.run(10.0)  # the joins are forgotten
    notices.clear()
    for number in range(200):
        halls.send(sender, group, b"%d" % number, level)
        halls.cluster.run(SOON_S)
    assert {notice.ring for notice in notices} == {0, 1}
    assert len(notices) < most if most < inf else len(notices) > 250
    halls.checked.finish()


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_all_daemons_of_a_ring_decide_alike_what_is_local_and_what_it_waits_for(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided: dict[bytes, set[tuple[Stamp | None, int]]] = {}
    follow: Callable[[Order, DataPacket, Stamp | None, int], None] = Order.follow

    def note(self: Order, packet: DataPacket, wait: Stamp | None, number: int) -> None:
        decided.setdefault(packet.raw, set()).add((wait, number))
        follow(self, packet, wait, number)

    monkeypatch.setattr(Order, "follow", note)
    result = run_seed(seed, Options(daemons=5, sites=2, faults="all", duration_s=3.0))
    assert not result.findings
    assert all(len(waits) == 1 for waits in decided.values())
    assert any((None, 0) not in waits for waits in decided.values()), "some are local"


STEP_S = 0.00005


def got_last(client: SimulatedClient) -> bytes:
    last = client.events[-1]
    return bytes(last.data) if isinstance(last, Message) else b""


def delays_of(level: ServiceLevel, *, far: bool, load: bool = False) -> list[float]:
    """Return how long messages take to a group of one site of two daemons, in ms, rising.

    Args:
        level: their level.
        far: whether there is another site.
        load: whether a program of that sends to both.
    """
    daemons = (2, 2) if far else (2,)
    checked = CheckedCluster(plain_settings(daemons=daemons, sites=len(daemons), delay_s=DELAY_S))
    cluster = checked.cluster
    clients = checked.connect(2 * sum(daemons))
    here, there = ([c for c in clients if c.daemon // 2 == site] for site in (0, 1))
    members, others = here[:2], [*here[2:], *there]
    checked.join("hall", members)
    checked.join("all", others)
    cluster.run(1.0)
    found: list[float] = []
    for number in range(200):
        text = b"%d" % number
        if load:
            others[-1].multicast(["all"], bytes(100), level=AGREED)
        if number % 4 == 0:
            members[number // 4 % 2].multicast(["hall"], text, level=level)
            steps = 0
            while any(got_last(client) != text for client in members):
                cluster.run(STEP_S)
                steps += 1
            found.append(1000 * STEP_S * steps)
        cluster.run(SOON_S)
    return sorted(found)


@pytest.mark.parametrize("level", [AGREED, SAFE])
def test_a_message_inside_a_site_takes_as_long_as_in_a_cluster_of_that_site_alone(
    level: ServiceLevel,
) -> None:
    alone, idle = delays_of(level, far=False), delays_of(level, far=True)
    busy = delays_of(level, far=True, load=True)
    half, most = len(alone) // 2, len(alone) - 1
    assert idle[half] <= 1.2 * alone[half]
    assert busy[half] <= 2 * alone[half]
    assert busy[most] <= 1000 * DELAY_S
