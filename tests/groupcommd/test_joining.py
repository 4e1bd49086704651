"""A daemon joins a running cluster with a token, and needs neither key nor token afterwards."""

import json
import logging
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from groupcomm.joining.token import Token
from groupcomm_tools.local_cluster import ClusterError, LocalDaemon, free_ports
from groupcommd.cli import main
from groupcommd.files.identity_file import read_roll
from tests.groupcommd.growing import GrowingCluster, log_of
from tests.groupcommd.hosts import make_hosts, run
from tests.groupcommd.test_identities import LINES as IDENTITIES
from tests.groupcommd.test_identities import renew

FILE = """
[clients]
tcp = "off"
spread_unix = "off"
"""

TOKEN: Final = Token(
    cluster="plant", name="b", key_id=1, id=bytes(8), secret=bytes(16), public=bytes(32)
).encode()


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
    state = daemon.state
    for name in ("cluster.key", "joined.toml", "roster.json"):
        assert (state / name).stat().st_mode & 0o777 == 0o600
    assert not (state / "joining.json").exists()
    _, output, _ = await cluster.ask("list", through="a")
    assert "invited: b, who has joined" in output
    assert await daemon.leave() == 0
    daemon = outside(cluster)
    await daemon.start()
    await is_in_view(cluster, "b")


@pytest.mark.long
async def test_a_token_stays_used_and_expires(cluster: GrowingCluster) -> None:
    """A unit file may keep the token; a daemon that has lost its folder needs another one."""
    short = await invite(cluster, "--valid", "1s")
    port = str(free_ports("127.0.0.1", 1)[0])
    asks = "--join", cluster.at["a"], "--port", port, "--token"
    await trio.sleep(2.1)
    await is_refused(outside(cluster, *asks, short), "the token has expired")
    assert log_of(cluster["a"], "daemon b was refused: the token has expired")
    token = await invite(cluster)
    for _ in range(2):
        daemon = outside(cluster, *asks, token)
        await daemon.start()
        await is_in_view(cluster, "b")
        assert await daemon.leave() == 0
    assert log_of(daemon, "the token is not used")
    (daemon.state / "joined.toml").unlink()
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
    other = str(free_ports("127.0.0.1", 1)[0])
    lost = outside(cluster, "--join", seed, "--port", other, "--token", old)
    await is_refused(lost, "does not know this token")
    daemon = outside(cluster, "--join", seed, "--token", token)
    daemon._config.write_text(f'{FILE}[sites.main.daemons]\nb = "{seed}"\n')
    await is_refused(daemon, "a is at 127.")
    assert [each["name"] for each in (await cluster.roster("a"))["daemons"]] == ["a"]


@pytest.fixture
def log() -> Iterator[None]:
    """Keep the log of this process as it is."""
    kept = logging.getLogger("groupcommd")
    before = kept.handlers[:], kept.level, kept.propagate
    yield
    kept.handlers[:], kept.level, kept.propagate = before


@pytest.mark.parametrize(
    ("part", "options"),
    [
        ("the token is damaged", ("--join", "10.0.0.1", "--token", TOKEN[:-9])),
        ("needs daemons to ask", ("--token", TOKEN)),
        ("needs a token", ("--join", "10.0.0.1")),
        ("port is 0", ("--join", "10.0.0.1", "--port", "0", "--token", TOKEN)),
        ("must be HOST", ("--join", "a b", "--token", TOKEN)),
        ("the token is for daemon b", ("--join", "10.0.0.1", "--name", "x", "--token", TOKEN)),
    ],
)
def test_commands_that_cannot_work_are_refused(
    tmp_path: Path,
    log: None,
    capsys: pytest.CaptureFixture[str],
    part: str,
    options: Sequence[str],
) -> None:
    assert main(["--state-dir", str(tmp_path), *options]) == 2
    assert part in capsys.readouterr().err


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


@pytest.mark.long
async def test_daemons_with_identities_admit_one_that_they_trust() -> None:
    """The token brings key, settings and public keys; the identity has to be known before."""
    cluster, hosts = make_hosts("abc", IDENTITIES)
    for name, host in hosts.items():
        await renew(name, host, {other: hosts[other] for other in "ab"})
    for name in "ab":
        path = hosts[name] / "cluster.toml"
        rows = path.read_text().splitlines()
        at = next(row for row in rows if row.startswith("a = ")).split('"')[1]
        path.write_text("\n".join(row for row in rows if not row.startswith("c = ")))
    own = hosts["c"] / "cluster.toml"
    own.write_text(f'identity = "own.identity"\n{FILE}')
    try:
        for name in "ab":
            await cluster[name].start()
        await cluster.settle("ab")
        status, token, told = await run("daemons", "invite", "c", "--through", cluster["a"].unix)
        assert status == 0, told
        daemon, port = cluster["c"], str(free_ports("127.0.0.1", 1)[0])
        daemon._options = "--join", at, "--port", port, "--token", token.strip()
        await daemon.start()
        await cluster.settle("abc")
        roll = read_roll(daemon.state / "identities.toml")
        assert sorted(roll.daemons) == ["a", "b", "c"]
        _, output, _ = await run("keys", "status", "--json", "--address", daemon.unix)
        assert sorted(json.loads(output)["identities"]["daemons"]) == ["a", "b", "c"]
    finally:
        cluster.close()


async def _starts_in_vain(daemon: LocalDaemon) -> None:
    with pytest.raises(ClusterError):
        await daemon.start()
