"""A cluster of real daemons grows and shrinks while it works, by `groupcomm daemons`."""

import json
import signal
from collections.abc import AsyncIterator

import pytest
import trio

from groupcomm.events import DaemonView
from groupcomm_client import connect
from groupcomm_tools.local_cluster import ClusterError, free_ports
from tests.groupcommd.growing import GrowingCluster, log_of
from tests.groupcommd.hosts import run


class Observer:
    """A program that stays at one daemon, and counts the views that it sees."""

    def __init__(self) -> None:
        self.views: list[tuple[str, ...]] = []

    async def run(self, address: str) -> None:
        async with connect(address) as connection:
            while True:
                event = await connection.receive()
                if isinstance(event, DaemonView):
                    self.views.append(tuple(event.daemons))

    async def sees(self, *views: str) -> None:
        """Wait for the last of these views; assert that there were exactly these since."""
        wanted = [tuple(view) for view in views]
        with trio.fail_after(15):
            while self.views[-1:] != wanted[-1:]:
                await trio.sleep(0.01)
        assert self.views == wanted
        self.views.clear()


@pytest.fixture
async def cluster() -> AsyncIterator[GrowingCluster]:
    """Return daemons that do not run; only the first one knows itself alone."""
    cluster = GrowingCluster({"a": "a", "b": "ab", "c": "bc"})
    try:
        yield cluster
    finally:
        cluster.close()


async def grow(cluster: GrowingCluster, name: str, through: str, *more: str) -> None:
    address = cluster.at[name]
    status, _, told = await cluster.ask("add", name, "--address", address, *more, through=through)
    assert (status, "may join: start it" in told) == (0, True), told
    await cluster[name].start()


async def test_one_daemon_becomes_three_one_moves_one_is_removed(cluster: GrowingCluster) -> None:
    """A program sees one view a step; a restart of all keeps the roster, whatever files say."""
    observer = Observer()
    await cluster["a"].start()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(observer.run, str(cluster["a"].unix))
        await observer.sees("a")
        await grow(cluster, "b", "a")
        await observer.sees("ab")
        await grow(cluster, "c", "b")  # its file does not list a
        await observer.sees("abc")
        await refuse(cluster)
        await move(cluster, observer)
        await remove(cluster, observer)
        nursery.cancel_scope.cancel()
    await restart_all(cluster)
    await come_back(cluster)


async def refuse(cluster: GrowingCluster) -> None:
    """Impossible changes are refused with the reason, and change nothing."""
    for words, reason in (
        (("add", "d", "--address", cluster.at["b"]), "b is at"),
        (("add", "b", "--address", "127.0.0.1:9"), "daemon b is in the roster already"),
        (("add", "d", "--address", "127.0.0.1:0"), "a port above 0 is needed"),
        (("add", "d", "--address", "[::1]:7"), "all addresses must be IPv4 ones"),
        (("add", "d", "--address", "10.0.0.4"), "first groupcomm daemons move"),
        (("add", "d", "--address", "10.0.0.300"), "the host must be an IP address in digits"),
        (("remove", "z"), "daemon z is not in the roster; it has a, b, c"),
        (("replace", "z", "y", "--address", "127.0.0.1:9"), "daemon z is not in the roster"),
    ):
        status, output, told = await cluster.ask(*words, through="c")
        assert (status, output) == (1, "")
        assert reason in told


async def move(cluster: GrowingCluster, observer: Observer) -> None:
    """Daemon c is moved while it is down: it learns that at its old place, and then goes there."""
    host, _, _ = cluster.at["c"].partition(":")
    new = f"{host}:{free_ports(host, 1)[0]}"
    assert await cluster["c"].leave() == 0
    await observer.sees("ab")
    status, _, told = await cluster.ask("move", "c", "--address", new, through="b")
    assert (status, "restart it" in told) == (0, True), told
    await cluster["c"].start()
    await observer.sees("abc")
    assert any(f"is to be at {new}" in line for line in log_of(cluster["c"], "restart it soon"))
    assert await cluster["c"].leave() == 0
    await observer.sees("ab")  # before it is back: else there may be one view in place of two
    await cluster["c"].start()
    await observer.sees("abc")
    assert (await cluster.status("c"))["listens"] == new
    roster = await cluster.roster("a")
    assert [each["addresses"] for each in roster["daemons"]][2] == [new]


async def remove(cluster: GrowingCluster, observer: Observer) -> None:
    """Daemon b is down, and is removed; when it comes back it ends with the reason."""
    assert await cluster["b"].leave() == 0
    await observer.sees("ac")
    status, output, _ = await cluster.ask("remove", "b", "--json", through="c")
    assert (status, [each["name"] for each in json.loads(output)["daemons"]]) == (0, ["a", "c"])
    await cluster["b"].start()
    assert await cluster["b"].ended() == 2
    assert "daemon b was removed from the cluster: roster" in cluster["b"].last_words
    with pytest.raises(ClusterError, match="was removed from the cluster"):  # so its disk says
        await cluster["b"].start()
    assert observer.views == []


async def restart_all(cluster: GrowingCluster) -> None:
    """The roster on disk counts, and the log and SIGHUP say what it overrules."""
    number = (await cluster.roster("a"))["number"]
    for name in "ac":
        assert await cluster[name].leave() == 0
    for name in "ac":
        await cluster[name].start()
    await cluster.settle("ac")
    roster = await cluster.roster("c")
    assert (roster["number"], roster["majority"]) == (number, True)
    assert len(log_of(cluster["a"], "ignored: sites.*.daemons (the roster also has c)")) == 1
    cluster["c"].signal(signal.SIGHUP)
    with trio.fail_after(10):
        while len(log_of(cluster["c"], "sites.main.daemons.b (not in the roster)")) < 2:
            await trio.sleep(0.02)
    assert not log_of(cluster["c"], "change only with a restart")


async def come_back(cluster: GrowingCluster) -> None:
    """A removed daemon is added again, in a new site, and starts without the roster of its disk."""
    (cluster.folder / "b.state" / "roster.json").unlink()
    await grow(cluster, "b", "a", "--site", "north")
    await cluster.settle("abc")
    status, output, told = await links(cluster, "set", "north-main=2.5", "--json")
    assert (status, json.loads(output)["links"]) == (
        0,
        [{"sites": ["main", "north"], "delay_ms": 2.5}],
    )
    status, output, told = await links(cluster, "list")
    assert (status, output.splitlines()[-1].split()) == (0, ["main-north", "2.5", "ms"]), told
    status, _, told = await links(cluster, "remove", "main-south")
    assert (status, "the sites are: main, north" in told) == (1, True)
    assert (await links(cluster, "remove", "main-north"))[0] == 0
    assert (await cluster.roster("b"))["links"] == []


async def links(cluster: GrowingCluster, *words: str) -> tuple[int, str, str]:
    """Run `groupcomm links`; return the exit status, the output and the messages."""
    return await run("links", *words, "--through", cluster["a"].unix)
