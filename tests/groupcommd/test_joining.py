"""A daemon joins a running cluster with a token, and needs neither key nor token afterwards."""

import json
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from groupcomm_tools.local_cluster import ClusterError, LocalDaemon, free_ports
from tests.groupcommd.growing import GrowingCluster, log_of
from tests.groupcommd.hosts import run

FILE = """
[clients]
tcp = "off"
spread_unix = "off"
"""


@pytest.fixture
async def cluster() -> AsyncIterator[GrowingCluster]:
    """Return a daemon that knows itself alone, and another one that does not run."""
    cluster = GrowingCluster({"a": "a", "b": "b"})
    try:
        await cluster["a"].start()
        yield cluster
    finally:
        cluster.close()


def outside(cluster: GrowingCluster, *options: str) -> LocalDaemon:
    """Return daemon b, which is to run with a file that names nothing of the cluster."""
    daemon = cluster["b"]
    path = cluster.folder / "outside.toml"
    path.write_text(FILE)
    daemon._config = path
    daemon._options = options
    return daemon


async def invite(cluster: GrowingCluster, *more: str) -> str:
    status, token, told = await cluster.ask("invite", "b", *more, through="a")
    assert (status, token.startswith("gcj1.")) == (0, True), told
    return token.strip()


async def is_in_view(cluster: GrowingCluster, name: str) -> None:
    with trio.fail_after(15):
        while not all(
            each["in_view"] and each["counts"] for each in (await cluster.roster(name))["daemons"]
        ):
            await trio.sleep(0.02)


async def test_a_daemon_joins_with_a_token_once_and_starts_again_without(
    cluster: GrowingCluster,
) -> None:
    token = await invite(cluster)
    port = str(free_ports("127.0.0.1", 1)[0])
    asks = "--join", f"dns:{cluster.at['a']}", "--port", port, "--token"
    daemon = outside(cluster, *asks, token)
    await daemon.start()
    await is_in_view(cluster, "b")
    assert (await cluster.roster("a"))["daemons"][1]["addresses"] == [f"127.0.0.1:{port}"]
    state = daemon._state
    for name in ("cluster.key", "joined.toml", "roster.json"):
        assert (state / name).stat().st_mode & 0o777 == 0o600
    assert not (state / "joining.json").exists()
    _, output, _ = await cluster.ask("list", through="a")
    assert "invited: b, who has joined" in output
    daemon.stop()
    for options in ((), (*asks, token)):  # the unit file may keep the token
        daemon = outside(cluster, *options)
        await daemon.start()
        await is_in_view(cluster, "b")
        daemon.stop()
    assert log_of(daemon, "the token is not used")
    (state / "joined.toml").unlink()
    await is_refused(outside(cluster, *asks, token), "the token was used already")


async def is_refused(daemon: LocalDaemon, part: str, status: int = 4) -> None:
    """Assert that a daemon ends with this status, and says why."""
    with pytest.raises(ClusterError, match="does not start") as caught:
        await daemon.start()
    assert part in str(caught.value)
    assert daemon._process is not None
    assert daemon._process.poll() == status


async def test_daemons_that_cannot_join_are_told_why(cluster: GrowingCluster) -> None:
    old = await invite(cluster)
    token = await invite(cluster)
    seed = cluster.at["a"]
    taken = f'[sites.main.daemons]\nb = "{seed}"\n'
    other = str(free_ports("127.0.0.1", 1)[0])
    for part, status, options in (
        ("does not know this token", 4, ("--join", seed, "--port", other, "--token", old)),
        ("a is at 127.", 4, ("--join", seed, "--token", token)),
        ("the token is damaged", 2, ("--join", seed, "--token", token[:-9])),
        ("needs daemons to ask", 2, ("--token", token)),
        ("needs a token", 2, ("--join", seed)),
        ("port is 0", 2, ("--join", seed, "--port", "0", "--token", token)),
        ("must be HOST", 2, ("--join", "a b", "--token", token)),
    ):
        daemon = outside(cluster, *options)
        if part.startswith("a is at"):
            daemon._config.write_text(FILE + taken)
        await is_refused(daemon, part, status)
    daemon = outside(cluster, "--join", seed, "--token", token)
    daemon.name = "x"
    await is_refused(daemon, "the token is for daemon b", 2)
    short = await invite(cluster, "--valid", "1s")
    await trio.sleep(2.1)
    daemon = outside(cluster, "--join", seed, "--port", other, "--token", short)
    daemon.name = "b"
    await is_refused(daemon, "the token has expired")
    assert [each["name"] for each in (await cluster.roster("a"))["daemons"]] == ["a"]
    assert log_of(cluster["a"], "daemon b was refused: the token has expired")


async def test_invitations_are_checked(cluster: GrowingCluster) -> None:
    for words, part in (
        (("invite", "a"), "daemon a is in the roster already"),
        (("invite", "b", "--site", "far", "--valid", "40d"), "1 s to 30 days"),
        (("invite", "b#c"), "contains '#'"),
    ):
        status, _, told = await cluster.ask(*words, through="a")
        assert (status, part in told) == (1, True), told
    status, output, _ = await cluster.ask("invite", "b", "--json", through="a")
    found: dict[str, Any] = json.loads(output)
    assert (status, found["invitations"][0]["name"]) == (0, "b")
    _, output, _ = await cluster.ask("list", through="a")
    assert "invited: b, for 3" in output


async def test_a_daemon_that_nobody_answers_goes_on_until_a_signal(
    cluster: GrowingCluster,
) -> None:
    token = await invite(cluster)
    nobody = f"127.0.0.1:{free_ports('127.0.0.1', 1)[0]}"
    daemon = outside(cluster, "--join", f"{nobody},dns:no.invalid", "--token", token)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_starts_in_vain, daemon)
        with trio.fail_after(10):
            while not daemon.log.exists() or not log_of(daemon, "asks to join"):
                await trio.sleep(0.02)
        daemon.signal(signal.SIGTERM)
    assert log_of(daemon, "left before the cluster has admitted")
    assert (await run("daemons", "list", "--through", cluster["a"].unix))[0] == 0


async def _starts_in_vain(daemon: LocalDaemon) -> None:
    with pytest.raises(ClusterError):
        await daemon.start()
