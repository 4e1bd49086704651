"""Several sites as processes: three of two daemons, with a relay that puts 20 ms between them."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from groupcomm.events import Message
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm_client.blocking import BlockingConnection, connect
from groupcomm_tools.relay import Line
from groupcomm_tools.running_cluster import RunningCluster

COUNT = 8
LAST = b"that is all"
PATIENCE_S = 30

Heard = list[tuple[str, ServiceLevel, bytes]]
"""The sender, level and text of each message, in the order of deliveries."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster(6, sites=3, line=Line(delay_s=0.02)) as running:
        yield running


def join_all(
    stack: ExitStack, cluster: RunningCluster, names: str
) -> dict[str, BlockingConnection]:
    """Return a program at each of these daemons; all are in the group."""
    found = {
        name: stack.enter_context(connect(cluster.address(name), user=f"at-{name}"))
        for name in names
    }
    for connection in found.values():
        connection.join("room")
    for connection in found.values():
        while len(connection.groups["room"].members) < len(found):
            connection.receive()
    return found


def heard(connection: BlockingConnection, senders: int) -> Heard:
    """Receive until this many programs have said that they are done."""
    found: Heard = []
    while senders:
        event = connection.receive(PATIENCE_S)
        if isinstance(event, Message):
            senders -= event.data == LAST
            found.append((event.sender.name, event.level, event.data))
    return found


def check_orders(all_heard: list[Heard]) -> None:
    """Nothing twice, one order of AGREED and SAFE, and each sender's own from FIFO on."""
    for found in all_heard:
        assert len(set(found)) == len(found)
    agreed = [[each for each in found if each[1] >= ServiceLevel.AGREED] for found in all_heard]
    assert agreed.count(agreed[0]) == len(agreed)
    for found in all_heard:
        for sender in {each[0] for each in found}:
            numbers = [
                int(text)
                for name, level, text in found
                if name == sender and level >= ServiceLevel.FIFO and text != LAST
            ]
            assert numbers == sorted(numbers)


def test_sites_have_rings_and_links_between_them(cluster: RunningCluster) -> None:
    assert cluster.sites == {"north": ("a", "b"), "south": ("c", "d"), "east": ("e", "f")}
    with connect(cluster.address("d")) as connection:
        found = connection.ask("status")
    assert found["rings"] == [["a", "b"], ["c", "d"], ["e", "f"]]
    site_of = {daemon: site for site, daemons in cluster.sites.items() for daemon in daemons}
    joined = sorted(sorted(site_of[end] for end in link) for link in found["links"])
    assert joined == [["east", "north"], ["east", "south"], ["north", "south"]]


def test_all_levels_reach_all_sites_in_order(cluster: RunningCluster) -> None:
    with ExitStack() as stack:
        programs = join_all(stack, cluster, "abcdef")
        for number in range(COUNT):
            for sender in "ad":
                for level in LEVELS:
                    text = b"%d" % (number * len(LEVELS) + level)
                    programs[sender].multicast("room", text, level=level)
        for sender in "ad":
            programs[sender].multicast("room", LAST, level=ServiceLevel.SAFE)
        all_heard = [heard(each, senders=2) for each in programs.values()]
    for found in all_heard:
        reliable = [each for each in found if each[1] > ServiceLevel.UNRELIABLE]
        assert len(reliable) == 2 * (COUNT * (len(LEVELS) - 1) + 1)
    check_orders(all_heard)


def test_a_gateway_is_killed_and_those_who_stay_hear_the_same(cluster: RunningCluster) -> None:
    with ExitStack() as stack:
        programs = join_all(stack, cluster, "bdf")
        rest = stack.enter_context(connect(cluster.address("c"), user="at-c"))
        for number in range(COUNT):
            for sender in "bdf":
                programs[sender].multicast("room", b"%d" % number)
            rest.multicast("room", b"%d" % number)
        cluster.kill("c")
        for sender in "bdf":
            programs[sender].multicast("room", b"%d" % COUNT)
            programs[sender].multicast("room", LAST)
        all_heard = [heard(each, senders=3) for each in programs.values()]
    check_orders(all_heard)
    assert all(set(found) == set(all_heard[0]) for found in all_heard)
    assert all(len([e for e in f if e[0] == "#at-d#d"]) == COUNT + 2 for f in all_heard)
    cluster.settle(*"abdef")
    with connect(cluster.address("f")) as connection:
        assert ["a", "d"] in connection.ask("status")["links"]
    cluster.start("c")
    cluster.settle()


def test_a_site_is_cut_off_and_comes_back(cluster: RunningCluster) -> None:
    near, far = cluster.sites["north"] + cluster.sites["south"], cluster.sites["east"]
    with ExitStack() as stack:
        programs = join_all(stack, cluster, "adf")
        cluster.partition(near, far)
        cluster.settle(*near)
        cluster.settle(*far)
        for sender in "af":
            programs[sender].multicast("room", LAST, level=ServiceLevel.SAFE)
        apart = {name: heard(each, senders=1) for name, each in programs.items()}
        assert {name: found[0][0] for name, found in apart.items()} == {
            "a": "#at-a#a",
            "d": "#at-a#a",
            "f": "#at-f#f",
        }
        cluster.heal()
        cluster.settle()
        for sender in "adf":
            programs[sender].multicast("room", LAST, level=ServiceLevel.SAFE)
        together = [heard(each, senders=3) for each in programs.values()]
    check_orders(together)
    assert together.count(together[0]) == 3


@pytest.mark.long
def test_over_a_chain_the_ends_hear_each_other_through_the_middle() -> None:
    with (
        RunningCluster(3, sites=3, shape="chain", line=Line(delay_s=0.01, loss=0.02)) as chain,
        ExitStack() as stack,
    ):
        programs = join_all(stack, chain, "abc")
        assert programs["a"].ask("status")["links"] == [["a", "b"], ["b", "c"]]
        for number in range(COUNT):
            programs["a"].multicast("room", b"%d" % number, level=ServiceLevel.CAUSAL)
        programs["a"].multicast("room", LAST)
        assert all(len(heard(each, senders=1)) == COUNT + 1 for each in programs.values())
        chain.partition("b", "c")
        chain.settle("a", "b")
        chain.settle("c")
        chain.heal()
        chain.settle()
