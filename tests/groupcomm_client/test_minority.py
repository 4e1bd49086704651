"""Groups that pause in a part of real daemons without a quorum, for every kind of connection."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from groupcomm.events import DaemonView, GroupView, Message, Refused
from groupcomm_client import Reconnected
from groupcomm_client.blocking import connect
from groupcomm_tools import cli
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.kinds import Kind, next_of, played

MOMENT_S = 0.2


@pytest.fixture
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("abc", relay=True) as running:
        yield running


async def until_view(kind: Kind, connection: Any, *, majority: bool) -> None:
    """Receive until a view of the daemons begins that has a majority, or has none."""
    while (await next_of(kind, connection, DaemonView)).majority is not majority:
        pass


async def until_paused(kind: Kind, connection: Any, group: str, *, paused: bool) -> GroupView:
    while True:
        view: GroupView = await next_of(kind, connection, GroupView)
        if (view.group, view.paused) == (group, paused):
            return view


@played
async def test_members_pause_or_leave_and_the_majority_comes_first(
    kind: Kind, cluster: RunningCluster
) -> None:
    async with (
        kind.connect(cluster.address("a"), "ann") as ann,
        kind.connect(cluster.address("a"), "lea") as lea,
        kind.connect(cluster.address("b"), "bob") as bob,
    ):
        await ann.join("orders", minority="pause")
        await lea.join("orders", minority="leave")
        await bob.join("orders", minority="pause")
        cluster.partition("a", "bc")
        await until_paused(kind, ann, "orders", paused=True)
        refused = await next_of(kind, lea, Refused)
        assert (refused.number, refused.group, refused.bound) == (0, "orders", "quorum")
        while not (await next_of(kind, lea, GroupView)).own:
            pass
        assert "orders" not in lea.groups
        await until_view(kind, bob, majority=True)
        await ann.multicast("orders", b"held")
        await bob.multicast("orders", b"major")
        assert (await next_of(kind, bob, Message)).data == b"major"
        while (event := await kind.receive(ann, MOMENT_S)) is not None:
            assert not isinstance(event, Message)
        cluster.heal()
        await until_paused(kind, ann, "orders", paused=False)
        for each in (ann, bob):
            assert (await next_of(kind, each, Message)).data == b"held"
        await until_view(kind, lea, majority=True)
        assert len((await lea.join("orders", minority="leave")).members) == 3


def test_operators_see_which_groups_pause_and_for_whom(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    where = cluster.address("a")
    with connect(where, user="ann") as ann:
        ann.join("orders", minority="pause")
        assert ann.ask("members orders")["paused_for"] == []
        cluster.partition("a", "bc")
        while ann.ask("status")["paused"] != {"orders": ["#ann#a"]}:
            time.sleep(MOMENT_S)
        assert cli.main(["members", "orders", "--address", where]) == 0
        told = capsys.readouterr().err
        assert "orders is paused, as the daemons that hear each other are no majority" in told
        assert "it pauses for #ann#a" in told


@played
async def test_a_connection_that_reconnects_without_a_quorum_goes_on_in_other_groups(
    kind: Kind, cluster: RunningCluster
) -> None:
    async with kind.connect(cluster.address("a"), "ann", reconnect=True) as ann:
        await ann.join("orders", minority="pause")
        await ann.join("news")
        cluster.partition("a", "bc")
        await until_paused(kind, ann, "orders", paused=True)
        cluster.kill("a")
        cluster.start("a")
        await next_of(kind, ann, Reconnected)
        assert "news" in ann.groups
        assert "orders" not in ann.groups
        cluster.heal()
        view = await until_paused(kind, ann, "orders", paused=False)
        assert view.includes(ann.member)
        await ann.multicast("orders", b"again")
        assert (await next_of(kind, ann, Message)).data == b"again"
