"""Clients of Spread that break rules, and rules that they are held to."""

import os
import pwd
import re
import socket
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio
import trio.testing

from groupcomm.errors import ConfigError, SessionEnded
from groupcomm.host.addresses import Address
from groupcomm_client import connect as connect_own
from groupcomm_tools.local_cluster import LocalCluster
from groupcommd.config.config_file import read_config
from groupcommd.network.sockets import listen_tcp
from groupcommd.programs.listeners import loopback_listener
from groupcommd.programs.spread_listener import spread_tcp, spread_unix
from groupcommd.programs.unix_sockets import close_unix, listen_for_spread
from tests.groupcommd import spread_client as spread
from tests.groupcommd.spread_client import SpreadClient, connect, open_stream
from tests.groupcommd.virtual import virtual_clock, virtual_daemons

NETWORK_VIEW = spread.REGULAR_VIEW | spread.BY_NETWORK


@pytest.fixture
def virtual() -> trio.testing.MockClock:
    """Time that does not pass while nobody waits for it."""
    return virtual_clock()


@pytest.fixture(scope="module")
def daemon() -> Iterator[LocalCluster]:
    limits = "output_cap_bytes = 2000000\nunreliable_drop_bytes = 0"
    with closing(LocalCluster("a", clients=limits)) as running:
        trio.run(running.__aenter__)
        yield running


def breaches(eve: SpreadClient) -> dict[str, bytes]:
    """Raised when a session ends."""
    message, agreed = eve.message, spread.AGREED
    return {
        "two types": message(spread.JOIN | spread.LEAVE, ["room"]),
        "two services": message(agreed | spread.SAFE, ["room"]),
        "no type": message(0, ["room"]),
        "a type of daemons": message(spread.REGULAR_VIEW, ["room"]),
        "another sender": message(agreed, ["room"], sender="#ann#a"),
        "101 groups": message(agreed, ["g"] * 101),
        "a negative count": message(agreed, [], sizes=(-1, 0)),
        "a negative length": message(agreed, [], sizes=(1, -1)),
        "2 GB": message(agreed, [], sizes=(1, 2**31 - 1)),
        "half an order": b"\x10\0\0\x80" + message(agreed, ["room"])[4:],
        "a hint with more": message(agreed, ["room"])[:40] + b"\x81\0\0\x80" + bytes(36),
    }


async def change(client: SpreadClient) -> spread.Received:
    """Return the next view that a member has caused; on a slow machine daemons cause some."""
    while (view := await client.view()).type == NETWORK_VIEW:
        pass
    return view


async def test_each_breach_ends_one_session_and_others_see_it_go(daemon: LocalCluster) -> None:
    where = daemon["a"].spread
    async with await connect(where, "ann") as ann:
        await ann.join("room")
        await ann.view()
        names = breaches(ann)
        for what in names:
            async with await connect(where, "eve") as eve:
                await eve.join("room")
                assert (await change(ann)).type == spread.REGULAR_VIEW | spread.BY_JOIN
                await eve.raw(breaches(eve)[what])
                await eve.ended()
                left = await change(ann)
                assert (left.type, left.sets) == (0x1400, [("#eve#a",)]), what
        await ann.multicast("room", b"still here")
        assert (await ann.text()).data == b"still here"


async def test_half_a_message_is_no_message(daemon: LocalCluster) -> None:
    where = daemon["a"].spread
    async with await connect(where, "ann") as ann:
        await ann.join("room")
        await ann.view()
        for length in (1, 47, 48, 79, 80, 84):
            async with await connect(where, "eve") as eve:
                await eve.join("room")
                await change(ann)
                await eve.raw(eve.message(spread.AGREED, ["room"], b"hello")[:length])
            while (found := await ann.receive()).type in (spread.TRANSITION, NETWORK_VIEW):
                pass  # the same as in `change`
            assert found.type == spread.REGULAR_VIEW | spread.BY_DISCONNECT


async def test_requests_come_in_single_bytes_and_fifty_in_one_write(daemon: LocalCluster) -> None:
    async with await connect(daemon["a"].spread, "ann") as ann:
        whole = ann.message(spread.JOIN, ["room"]) + ann.message(spread.AGREED, ["room"], b"slow")
        for at in range(len(whole)):
            await ann.raw(whole[at : at + 1])
        assert (await ann.text()).data == b"slow"
        many = [ann.message(spread.FIFO, ["room"], b"%d" % number) for number in range(50)]
        await ann.raw(b"".join(many))
        assert [(await ann.text()).data for _ in many] == [b"%d" % n for n in range(50)]


async def test_who_says_nothing_or_little_keeps_nobody_waiting(daemon: LocalCluster) -> None:
    where = daemon["a"].spread
    silent = [await open_stream(where) for _ in range(5)]
    await silent[0].send_all(b"\x04")
    await silent[1].send_all(b"\x04\x04\x00\x01\x03an")
    await silent[2].send_all(b"\x04\x04\x00\x01\x03bob")
    async with await connect(where, "ann") as ann:
        await ann.multicast(ann.name, b"hello")
        assert (await ann.text()).data == b"hello"
    for stream in silent:
        await stream.aclose()


async def test_who_does_not_read_is_cut_off_and_others_go_on(daemon: LocalCluster) -> None:
    where = daemon["a"].spread
    async with await connect(where, "ann") as ann, await connect(where, "eve") as eve:
        await eve.join("room")
        await ann.join("room")
        await ann.view()
        left = spread.REGULAR_VIEW | spread.BY_DISCONNECT
        with trio.fail_after(30):
            while True:
                await ann.multicast("room", bytes(100_000))
                found = await ann.receive()
                while not found.type & 0x3F and found.type != left:
                    found = await ann.receive()  # she joins; or the machine is slow
                if found.is_view:
                    break
        assert (found.type, found.sets) == (left, [("#eve#a",)])


async def test_our_own_clients_learn_that_it_is_not_their_socket(
    daemon: LocalCluster,
) -> None:
    stream = await open_stream(daemon["a"].spread)
    await stream.send_all(b"\0\0\0\x05\1\1abc")
    with trio.fail_after(10):
        assert b"only programs of Spread connect here" in await stream.receive_some(1000)
    await stream.aclose()


async def test_rules_hold_for_clients_of_spread() -> None:
    me = pwd.getpwuid(os.geteuid()).pw_name
    rules = f"""
[[access]]
who = "spread:{me}"
may = ["join", "send", "see-members"]
groups = "open*"
names = "ann"
"""
    async with LocalCluster("a", rules) as cluster:
        where = cluster["a"].spread
        with pytest.raises(spread.Rejected) as refused:
            await connect(where, "ben")
        assert refused.value.code == -5
        async with await connect(where) as nameless:
            assert nameless.name.startswith("#r")
        async with await connect(where, "ann") as ann:
            await ann.join("closed")
            found = await ann.receive()
            assert (found.type, found.rejected) == (spread.REJECT, spread.BY_JOIN)
            assert found.groups == ("closed", ann.name)
            await ann.multicast("closed", b"x", spread.SAFE)
            found = await ann.receive()
            assert (found.type, found.rejected) == (spread.REJECT, spread.SAFE)
            await ann.join("open1")
            assert (await ann.view()).groups == (ann.name,)


def test_a_path_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "4803"
    first = listen_for_spread(path, "all")
    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    with pytest.raises(ConfigError, match="another daemon, which listens there"):
        listen_for_spread(path, "owner")
    first.close()  # as after a kill: the path stays
    second = listen_for_spread(path, "owner")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    close_unix(second, path)
    assert not list(tmp_path.iterdir())
    path.write_text("something")
    with pytest.raises(ConfigError, match="is a file and no socket"):
        listen_for_spread(path, "owner")
    tmp_path.chmod(0o777)
    with pytest.raises(ConfigError, match="others may replace"):
        listen_for_spread(path, "owner")
    assert path.read_text() == "something"


def test_a_path_that_became_another_daemons_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "4803"
    ours = listen_for_spread(path, "owner")
    path.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as theirs:
        theirs.bind(str(path))
        theirs.listen()
        close_unix(ours, path)
        assert path.exists()


async def test_a_principal_with_too_many_connections_learns_so() -> None:
    async with LocalCluster("a", clients="[clients.quotas]\nconnections = 1") as cluster:
        async with await connect(cluster["a"].spread, "ann"):
            with pytest.raises(spread.Rejected) as refused:
                await connect(cluster["a"].spread, "ben")
        assert refused.value.code == -3


async def test_programs_connect_at_each_address_that_the_host_has_and_that_is_free() -> None:
    with socket.create_server(("127.0.0.3", 0)) as taken:
        port = taken.getsockname()[1]
        further = ["127.0.0.2", "127.0.0.1", "192.0.2.77", f"127.0.0.3:{port}"]
        clients = f"spread = true\nspread_addresses = {further}"
        async with LocalCluster("a", clients=clients) as cluster:
            own = cluster["a"].spread_tcp
            for where in (own, own.replace("127.0.0.1", "127.0.0.2")):
                async with await connect(where, "ann") as ann:
                    assert ann.name == "#ann#a"
            log = cluster["a"].log.read_text()
            assert f"cannot connect at 127.0.0.3:{port}" in log
            assert "192.0.2.77" not in log


@pytest.mark.parametrize(
    ("clients", "told"),
    [
        ("spread_addresses = '192.0.2.1'", "192.0.2.1:4803, and clients.spread is not true"),
        ("spread = true\nspread_addresses = '0.0.0.0'", "name those"),
        ("spread_addresses = 'localhost'", "an IP address in digits"),
    ],
)
def test_what_is_open_to_other_hosts_is_named_and_allowed(
    clients: str, told: str, tmp_path: Path
) -> None:
    (tmp_path / "g.toml").write_text(
        f"[sites.main.daemons]\na = '127.0.0.1'\n[clients]\n{clients}\n"
    )
    with pytest.raises(ConfigError, match=re.escape(told)):
        read_config(tmp_path / "g.toml", name="a", state_dir=tmp_path)


async def test_what_asks_for_nothing_is_charged_too(
    virtual: trio.testing.MockClock, tmp_path: Path
) -> None:
    """A quota of messages holds for messages to nobody: before, they were read without limit."""
    quotas = "quotas = {messages_per_s = 20}\n"
    async with virtual_daemons(tmp_path, "a", quotas) as daemons, trio.open_nursery() as nursery:
        path = tmp_path / "4803"
        with listen_for_spread(path, "owner") as unix:
            nursery.start_soon(daemons["a"].service.connections.listen, spread_unix(unix))
            async with await connect(path, "ann") as ann:
                begun = trio.current_time()
                await ann.raw(ann.message(spread.AGREED, []) * 120)
                await ann.multicast(ann.name, b"hello")
                assert (await ann.text()).data == b"hello"
                assert trio.current_time() - begun >= 4.0
            nursery.cancel_scope.cancel()


def admits(uid: int) -> bool:
    return uid == os.geteuid()


async def test_a_full_daemon_tells_each_kind_of_program_in_its_own_protocol(
    virtual: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with virtual_daemons(tmp_path, "a") as daemons, trio.open_nursery() as nursery:
        path, tcp = tmp_path / "4803", listen_tcp(Address("127.0.0.1", 0))
        shared = "{}:{}".format(*tcp.getsockname())
        connections = daemons["a"].service.connections
        connections.quotas.most = 1
        with listen_for_spread(path, "owner") as unix, tcp:
            own = loopback_listener(tcp, admits)
            for listener in (spread_unix(unix), spread_tcp(tcp, admits, own)):
                nursery.start_soon(connections.listen, listener)
            async with connect_own(str(daemons["a"].unix)):
                for where in (path, shared):
                    for version in ((3, 14), (4, 4, 0)):
                        with pytest.raises(spread.Rejected) as refused:
                            await connect(where, "ann", version=version)
                        assert refused.value.code == -3
                with pytest.raises(SessionEnded, match="1 connections, the most it may have"):
                    async with connect_own(shared):
                        pass
                silent = await open_stream(shared)  # nobody knows which kind of program this is
                assert await silent.receive_some(100) == b""
                await silent.aclose()
            assert connections.refusals.counts == {"full": 6}
            nursery.cancel_scope.cancel()
