"""Real daemons with identities: made by the commands, evicted, rebuilt."""

import contextlib
import json
from pathlib import Path

import pytest
import trio

from groupcomm.errors import ConfigError
from groupcomm.host.key_file import write_key_file
from groupcomm_tools.local_cluster import LocalCluster
from groupcommd.config.config_file import read_config
from groupcommd.config.daemon_config import describe
from groupcommd.files.identity_file import read_identity, read_roll
from tests.groupcommd.hosts import command, make_hosts, run

NAMES = "abc"
LINES = 'key_file = "the.key"\nidentity = "own.identity"\nidentities = "all.identities"'


async def make_cluster() -> tuple[LocalCluster, dict[str, Path]]:
    """Three daemons, each with files of its own, as on three hosts; the folders of the hosts."""
    cluster, hosts = make_hosts(NAMES, LINES)
    for name, host in hosts.items():
        await renew(name, host, hosts)
    return cluster, hosts


async def renew(name: str, host: Path, hosts: dict[str, Path], daemons: str = "") -> None:
    """A new identity, told to all hosts; to the daemons that run, too."""
    status, public, _ = await run("identity", "new", host / "own.identity")
    assert status == 0
    for other, place in hosts.items():
        address = place.parent / f"{other}.sock" if other in daemons else "/nowhere"
        added = await run(
            *("identity", "add", place / "all.identities", name, public.strip()),
            *("--address", address, "--json"),
        )
        assert (added[0], json.loads(added[1])["reloaded"]) == (0, other in daemons)


async def test_a_daemon_is_evicted_and_comes_back_with_a_new_identity() -> None:
    cluster, hosts = await make_cluster()
    async with cluster:
        await cluster.settle(NAMES)
        status, output, _ = await run("keys", "status", "--json", "--address", cluster["a"].unix)
        told = json.loads(output)["identities"]
        assert (status, sorted(told["daemons"]), told["evicted"]) == (0, ["a", "b", "c"], {})

        assert (await run("keys", "evict", "c", "--address", cluster["a"].unix))[0] == 0
        assert await cluster["c"].ended() == 2
        log = cluster["c"].log.read_text()
        assert "this daemon was evicted" in log
        await cluster.settle("ab")
        # Under load it may have lost the view before it was told, and a notice has ended it.
        know = NAMES if "was evicted: the others" in log else "ab"
        with trio.fail_after(20):
            while not all(read_roll(hosts[n] / "all.identities").evicted for n in know):
                await trio.sleep(0.05)
        _, shown, _ = await run("keys", "status", "--address", cluster["b"].unix)
        assert "\nevicted   c (" in shown
        status, _, text = await run("keys", "evict", "c", "--address", cluster["b"].unix)
        assert (status, "c is evicted already" in text) == (1, True)

        with contextlib.suppress(Exception):
            await cluster["c"].start()
        assert await cluster["c"].ended() == 2, "its own file says so, or the others do"
        (hosts["c"] / "own.identity").unlink()
        await renew("c", hosts["c"], hosts, daemons="ab")
        await cluster["c"].start()
        await cluster.settle(NAMES)


async def test_who_does_not_know_that_it_was_evicted_is_told_so_and_ends() -> None:
    """It was down, and its files are old; so are those of a copy of its disk."""
    cluster, hosts = await make_cluster()
    async with cluster:
        await cluster.settle(NAMES)
        cluster["c"].kill()
        await cluster.settle("ab")
        assert (await run("keys", "evict", "c", "--address", cluster["b"].unix))[0] == 0
        with trio.fail_after(20):
            while not all(read_roll(hosts[n] / "all.identities").evicted for n in "ab"):
                await trio.sleep(0.05)
        begin = {name: len(cluster[name].lines()) for name in "ab"}
        await cluster["c"].start()
        assert await cluster["c"].ended() == 2
        assert "says that the others do not trust its identity any more; once" in words_of(cluster)
        removed = await run("daemons", "remove", "c", "--through", cluster["a"].unix)
        assert removed[0] == 0, removed
        await cluster["c"].start()
        assert await cluster["c"].ended() == 2
        assert "any more, and that roster 1 does not have it; once" in words_of(cluster)
        for name, since in begin.items():
            views = [line["daemons"] for line in cluster[name].lines()[since:] if "daemons" in line]
            assert not any("c" in view for view in views), views


def words_of(cluster: LocalCluster) -> str:
    """Return the last words of daemon c."""
    return cluster["c"].last_words


def test_files_that_are_wrong_say_what_is(tmp_path: Path) -> None:
    key, identity, roll = tmp_path / "the.key", tmp_path / "own.identity", tmp_path / "all"
    write_key_file(key)
    _, public, _ = command("identity", "new", identity)
    assert command("identity", "show", identity)[1] == public
    status, _, text = command("identity", "new", identity)
    assert (status, "choose another path" in text) == (2, True)
    assert command("identity", "add", roll, "press", public.strip(), "--address", "/no")[0] == 0
    status, _, text = command("identity", "add", roll, "other", public.strip(), "--address", "/no")
    assert (status, "press and other have the same key" in text) == (2, True)
    assert command("identity", "add", roll, "other", "12")[0] == 2
    assert roll.read_text().count("\n") == 4, "as it was"

    config = tmp_path / "cluster.toml"
    for lines, text in (
        ('identity = "own.identity"', "identity is set and identities is not"),
        ('identities = "all"', "identities is set and identity is not"),
        ('identity = "own.identity"\nidentities = "all"', "key_file is not"),
    ):
        config.write_text(f'name = "press"\n{lines}\n')
        with pytest.raises(ConfigError, match=text):
            read_config(config, name=None, state_dir=None)
    config.write_text('key_file = "the.key"\nidentity = "own.identity"\nidentities = "all"\n')
    with pytest.raises(ConfigError, match="oven are not listed"):
        read_config(config, name="oven", state_dir=None)
    found = read_config(config, name="press", state_dir=None)
    assert found.core.suite == 2
    assert read_identity(identity).hex() not in json.dumps(describe(found))
    assert repr(read_identity(identity)) not in json.dumps(describe(found)) + repr(found)

    roll.chmod(0o666)
    with pytest.raises(ConfigError, match="chmod go-w"):
        read_roll(roll)
    roll.chmod(0o644)
    identity.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_identity(identity)
    identity.chmod(0o600)
    for path, wrong, text, read in (
        (identity, 'private = "12"', "64 hexadecimal digits", read_identity),
        (identity, "[x", "not valid TOML", read_identity),
        (identity, 'other = "1"', "must have private", read_identity),
        (roll, "[daemons]\npress = 1", "64 hexadecimal digits", read_roll),
        (roll, 'press = "1"', "must have a table", read_roll),
        (
            roll,
            f"[daemons]\n'a#b' = '{public.strip()}'",
            "separates the parts of private names",
            read_roll,
        ),
    ):
        path.write_text(wrong)
        with pytest.raises(ConfigError, match=text):
            read(path)


async def test_a_daemon_that_is_removed_is_evicted_once_it_has_left() -> None:
    cluster, hosts = await make_cluster()
    async with cluster:
        await cluster.settle(NAMES)
        through = ("--through", cluster["a"].unix)
        status, _, told = await run("daemons", "remove", "c", *through)
        assert (status, "no daemon trusts the identity of c any more" in told) == (0, True), told
        assert await cluster["c"].ended() == 2
        assert "daemon c was removed from the cluster" in cluster["c"].log.read_text()
        with trio.fail_after(20):
            while not all(read_roll(hosts[n] / "all.identities").evicted for n in "ab"):
                await trio.sleep(0.05)
        status, _, told = await run("daemons", "remove", "b", "--keep-identity", *through)
        assert (status, "trusts" in told) == (0, False), told
        assert "b" not in read_roll(hosts["a"] / "all.identities").evicted.values()
