"""Keys are changed under load, with real daemons and the command that operators use."""

import getpass
import json
import time
from pathlib import Path
from typing import Any

import pytest
import trio

from groupcomm.events import DaemonView, Message
from groupcomm.host.key_file import read_key_file, write_key_file
from groupcomm_client import TlsOptions, connect
from groupcomm_tools.certificates import issue, make_authority
from groupcomm_tools.local_cluster import LocalCluster
from groupcommd.programs.token_file import add_token
from tests.groupcommd.hosts import command, make_hosts, run

NAMES = "abc"
TIMING = "[timing]\ntoken_timeout_s = 2.0\n"  # so a busy machine changes no view
BATCH = 20
CALIBRATED_S = 0.3


def make_cluster() -> tuple[LocalCluster, dict[str, Path]]:
    """Three daemons, each with a configuration and a key file of its own, as on three hosts."""
    cluster, hosts = make_hosts(NAMES, 'key_file = "the.key"', tables=TIMING)
    return cluster, {name: host / "the.key" for name, host in hosts.items()}


async def keys(*arguments: object) -> tuple[int, str, str]:
    """Run `groupcomm keys`; return exit status, output and messages."""
    return await run("keys", *arguments)


async def sealing(cluster: LocalCluster, name: str) -> dict[str, Any]:
    status, output, _ = await keys("status", "--json", "--address", cluster[name].unix)
    assert status == 0
    found: dict[str, Any] = json.loads(output)
    return found


async def until_all(cluster: LocalCluster, names: str, active: int, ids: set[str]) -> None:
    """Wait until these daemons say that all seal with a key and have these."""
    with trio.fail_after(20):
        for name in names:
            while True:
                found = await sealing(cluster, name)
                if found["active"] == active and set(found["keys"]) == ids:
                    break


class Load:
    """Half of what the cluster takes, from one program at a to one at c."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self.heard: list[bytes] = []
        self.views = 0
        self.sent = 0
        self.joined = trio.Event()
        self.ended = trio.Event()

    async def receive(self) -> None:
        async with connect(str(self._cluster["c"].unix)) as receiver:
            await receiver.join("load")
            self.joined.set()
            while self.heard[-1:] != [b"last"]:
                event = await receiver.receive()
                self.views += isinstance(event, DaemonView)
                if isinstance(event, Message):
                    self.heard.append(event.data)

    async def send(self) -> None:
        async with connect(str(self._cluster["a"].unix)) as sender:
            await self.joined.wait()
            began = time.monotonic()
            while time.monotonic() < began + CALIBRATED_S:
                await self._batch(sender)
            pause_s = (time.monotonic() - began) / (self.sent / BATCH)
            while not self.ended.is_set():
                batch_began = trio.current_time()
                await self._batch(sender)
                await trio.sleep_until(batch_began + 2 * pause_s)
            await sender.multicast_ordered("load", b"last")
            self.sent += 1

    async def _batch(self, sender: Any) -> None:
        texts = [b"%d" % (self.sent + number) for number in range(BATCH)]
        await sender.multicast_many("load", texts)
        self.sent += BATCH


@pytest.mark.long
async def test_a_rotation_at_half_load_changes_no_view_and_loses_nothing() -> None:
    """A daemon that was down ends with the remedy; who has the first key alone is a stranger."""
    cluster, files = make_cluster()
    stolen = files["c"].read_bytes()
    async with cluster:
        await cluster.settle(NAMES)
        views = {name: cluster[name].view for name in NAMES}
        load = Load(cluster)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(load.receive)
            nursery.start_soon(load.send)
            await load.joined.wait()
            await trio.sleep(CALIBRATED_S)
            await rotate(cluster, files)
            load.ended.set()
        assert load.heard == [b"%d" % number for number in range(load.sent - 1)] + [b"last"]
        assert load.views == 1, "the one at the beginning"
        assert {name: cluster[name].view for name in NAMES} == views
        for path in files.values():
            assert read_key_file(path).active == 2
            assert path.stat().st_mode & 0o777 == 0o600
        await come_back(cluster, files)
        await evict(cluster, files["c"], stolen)


async def rotate(cluster: LocalCluster, files: dict[str, Path]) -> None:
    status, _, told = await keys("add", files["a"], "--address", cluster["a"].unix)
    assert status == 0
    assert "opens datagrams with all of them" in told
    status, _, told = await keys("promote", 2, "--address", cluster["a"].unix)
    assert status == 1
    assert "key 2 is not known at" in told
    for name in "bc":
        added = await keys(
            "add", files[name], "--from", files["a"], "--address", cluster[name].unix
        )
        assert added[0] == 0
    with trio.fail_after(20):
        while (await keys("promote", 2, "--address", cluster["b"].unix))[0]:
            await trio.sleep(0.1)
    await until_all(cluster, NAMES, 2, {"1", "2"})


async def come_back(cluster: LocalCluster, files: dict[str, Path]) -> None:
    """The file of c is an old copy: it ends and says why; with the key it is let in."""
    cluster["c"].kill()
    await cluster.settle("ab")
    lines = files["c"].read_text().replace("active = 2", "active = 1").splitlines()
    files["c"].write_text("\n".join(line for line in lines if not line.startswith("2 = ")))
    await cluster["c"].start()
    assert await cluster["c"].ended() == 2
    log = cluster["c"].log.read_text()
    assert "seals with key 2, which is not in" in log.splitlines()[-1]
    assert f"groupcomm keys add {files['c']} --from COPY" in log.splitlines()[-1]
    status, _, told = await keys("add", files["c"], "--from", files["a"], "--address", "/nowhere")
    assert (status, "it will read the file when it starts" in told) == (0, True)
    await cluster["c"].start()
    await cluster.settle(NAMES)


async def evict(cluster: LocalCluster, file: Path, stolen: bytes) -> None:
    """The first key is retired without c; a thief who has it neither hears nor is heard."""
    cluster["c"].kill()
    await cluster.settle("ab")
    retire = ("retire", 1, "--address", cluster["a"].unix)
    status, _, told = await keys(*retire)
    assert (status, "c would be locked out" in told) == (1, True), told
    with trio.fail_after(30):
        while (done := await keys(*retire, "--without-missing"))[0]:
            assert "may still be on their way: wait" in done[2]
            await trio.sleep(0.5)
    await until_all(cluster, "ab", 2, {"2"})
    view = cluster["a"].view
    file.write_bytes(stolen)
    await cluster["c"].start()
    await cluster.settle("c")
    for name in "ca":  # each of them drops the datagrams of the other
        with trio.fail_after(20):
            while not (await status_of(cluster, name))["datagrams"]["rejected"].get("key"):
                await trio.sleep(0.05)
    thief = await status_of(cluster, "c")
    assert thief["daemons"] == ["c"]
    assert thief["datagrams"]["rejected"].keys() == {"key"}
    assert all(peer["heard_s"] is None for peer in thief["peers"])
    assert (cluster["a"].view, cluster["b"].view) == (view, view)


async def status_of(cluster: LocalCluster, name: str) -> dict[str, Any]:
    async with connect(str(cluster[name].unix)) as connection:
        return await connection.ask("status")


def test_commands_refuse_what_they_cannot_do(tmp_path: Path) -> None:
    one, other = tmp_path / "one.key", tmp_path / "other.key"
    write_key_file(one)
    write_key_file(other)
    before = one.read_bytes()
    for arguments, wanted, text in (
        (("add", one, "--from", other), 2, "is it the file of another cluster"),
        (("add", tmp_path / "none.key"), 2, "No such file"),
        (("promote", "2", "--address", "/nowhere"), 3, "/nowhere"),
    ):
        status, _, told = command("keys", *arguments)
        assert (status, text in told) == (wanted, True), told
    assert one.read_bytes() == before


async def test_keys_are_changed_by_the_daemons_user_alone_and_there_must_be_some(
    tmp_path: Path,
) -> None:
    token = add_token(tmp_path / "tokens", getpass.getuser())
    ca, _ = make_authority(tmp_path, 1.0)
    certificate, key = issue(tmp_path, "a", ["127.0.0.1"], 1.0)
    tls = f'{{address = "127.0.0.1:0", certificate = "{certificate}", key = "{key}"}}'
    clients = f'tls = {tls}\ntokens = "{tmp_path / "tokens"}"'
    head = 'insecure = true\naccess = [{who = "*", may = "admin"}]'
    async with LocalCluster("a", head, clients=clients, tcp=True) as cluster:
        await cluster.settle("a")
        questions = "keys reload", "keys promote 2", "keys retire 1"
        async with connect(
            f"tls://{cluster['a'].tls}", tls=TlsOptions(ca=ca, token=token)
        ) as connection:
            for question in questions:
                assert "only the daemon's own user" in (await connection.ask(question))["error"]
        for address in (cluster["a"].tcp, str(cluster["a"].unix)):
            async with connect(address) as connection:
                for question in questions:
                    assert "no key_file" in (await connection.ask(question))["error"]
                assert "ask for keys" in (await connection.ask("keys eat 1"))["error"]
