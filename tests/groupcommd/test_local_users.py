"""Users of one host: a daemon knows whose a program is, and lets in those whom it is open for."""

import os
import socket
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from groupcomm.errors import Code, ConfigError
from groupcomm.host import addresses
from groupcomm.session.frames import FrameKind, encode_hello
from groupcomm_client.blocking import connect
from groupcomm_client.spread_api.functions import _address
from groupcomm_client.targets import default_address
from groupcomm_tools import cli
from groupcomm_tools.running_cluster import RunningCluster
from groupcommd.programs import local_users
from groupcommd.programs.listeners import Listener, loopback_listener
from groupcommd.programs.local_users import (
    admission,
    check_tcp_users,
    tcp_user,
    unix_principal,
    unix_user,
)
from groupcommd.programs.peer_names import PeerRefused
from tests.groupcomm_tools.shell import NO_PAUSES
from tests.groupcommd.nobody import NOBODY, as_nobody, can_be_nobody

ME: Final = os.geteuid()
PATIENCE_S: Final = 20.0

SAY_HELLO: Final = """
where, hello = sys.argv[1:]
host, _, port = where.rpartition(":")
client = socket.socket(socket.AF_UNIX if "/" in where else socket.AF_INET)
try:
    client.connect(where if "/" in where else (host, int(port)))
    client.sendall(bytes.fromhex(hello))
    frame = client.recv(1000)
    print(frame[4], frame[5:].decode("latin-1"))
except OSError as error:
    print(error)
"""
"""Say HELLO, and tell the kind of the answer."""


def greeting() -> str:
    return encode_hello("eve").hex()


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster(1, settings=NO_PAUSES, tcp=True) as made:
        yield made


def status(cluster: RunningCluster) -> dict[str, Any]:
    with connect(cluster.address("a")) as local:
        return local.ask("status")


# ---- who comes in ----


def test_by_default_there_is_no_port_for_programs() -> None:
    with RunningCluster(1, settings=NO_PAUSES) as cluster:
        assert cluster.tcp_address("a") == "None"
        own = status(cluster)["listens"]
        host, _, port = own.rpartition(":")
        for at in {host, "127.0.0.1"}:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((at, int(port)), PATIENCE_S)
        if can_be_nobody():
            assert "refused" in as_nobody(SAY_HELLO, own, greeting())
            assert "ermission denied" in as_nobody(SAY_HELLO, cluster.address("a"), greeting())


def test_another_user_comes_in_by_tcp_as_little_as_by_the_socket(cluster: RunningCluster) -> None:
    if not can_be_nobody():
        return
    before = status(cluster)
    kind, _, text = as_nobody(SAY_HELLO, cluster.tcp_address("a"), greeting()).partition(" ")
    assert int(kind) == FrameKind.CLOSED
    assert f"user {NOBODY} may not connect to this daemon" in text
    assert "ermission denied" in as_nobody(SAY_HELLO, cluster.address("a"), greeting())
    after = status(cluster)
    assert after["refused"] == {**before["refused"], "user": before["refused"].get("user", 0) + 1}
    assert {each["user"] for each in after["sessions"]}.isdisjoint({"eve"})


def test_the_daemons_user_is_known_by_tcp_as_by_the_socket(cluster: RunningCluster) -> None:
    with connect(cluster.tcp_address("a"), user="ann") as ann:
        users = {each["user"]: each["principal"] for each in status(cluster)["sessions"]}
        assert users["ann"] == unix_principal(ME)
        assert ann.ask("status")["daemon"] == "a", "who it is allows it"
    assert cli.main(["keys", "status", "--address", cluster.tcp_address("a")]) == 0


def test_all_users_come_in_by_tcp_where_all_may() -> None:
    if not can_be_nobody():
        return
    with RunningCluster(1, settings=NO_PAUSES, clients='unix_for = "all"', tcp=True) as cluster:
        stay = SAY_HELLO + "sys.stdout.flush(); sys.stdin.read()"
        kind, _, _ = as_nobody(stay, cluster.tcp_address("a"), greeting()).partition(" ")
        assert int(kind) == FrameKind.WELCOME
        with connect(cluster.address("a")) as local:
            log = [line["text"] for line in cluster.log("a")]
            assert local.ask("status")["refused"] == {}, log


@pytest.fixture
async def half() -> AsyncIterator[tuple[Listener, socket.socket, socket.socket]]:
    """A listener that nobody may come through, and both ends of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listener = loopback_listener(listening, lambda _: False)
        with socket.create_connection(listening.getsockname(), PATIENCE_S) as theirs:
            ours, _ = listening.accept()
            with ours:
                ours.setblocking(False)
                yield listener, theirs, ours


async def test_who_is_refused_is_notified_and_nothing_that_he_sends_is_read(
    half: tuple[Listener, socket.socket, socket.socket],
) -> None:
    listener, theirs, ours = half
    theirs.sendall(encode_hello("eve"))
    refusals: list[PeerRefused] = []

    async def admit() -> None:
        try:
            await listener.authenticate(ours)
        except PeerRefused as refused:
            refusals.append(refused)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(admit)
        told = await trio.to_thread.run_sync(theirs.recv, 1000)
        theirs.close()
    assert [(each.reason, each.code) for each in refusals] == [("user", Code.REJECT_AUTH)]
    assert told[4] == FrameKind.CLOSED
    assert f"user {ME} may not connect".encode() in told


@pytest.mark.parametrize("opened_for", ["owner", "group", "all"])
def test_a_port_is_open_for_whom_the_socket_is_open(opened_for: str, tmp_path: Path) -> None:
    unix = tmp_path / "a.sock"
    unix.touch()
    admits = admission(opened_for, unix)
    assert admits(0)
    assert admits(ME)
    assert admits(NOBODY) == (opened_for == "all")
    assert admits(4_000_000_000) == (opened_for == "all"), "a user that there is not"


def test_the_group_of_the_socket_may_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unix = tmp_path / "a.sock"
    unix.touch()
    groups = {"nobody": [NOBODY, unix.stat().st_gid]}
    monkeypatch.setattr(os, "getgrouplist", lambda name, own: groups.get(name, [own]))
    assert admission("group", unix)(NOBODY)
    assert not admission("owner", unix)(NOBODY)


# ---- whose a connection is ----


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Ends of a connection: the program's, the daemon's."""
    with ExitStack() as stack:
        yield connected(stack, "127.0.0.1")


def connected(stack: ExitStack, host: str, to: str = "") -> tuple[socket.socket, socket.socket]:
    family, theirs = (socket.AF_INET6 if ":" in each else socket.AF_INET for each in (host, to))
    listener = stack.enter_context(socket.create_server((host, 0), family=family))
    program = stack.enter_context(socket.socket(theirs if to else family))
    if to:
        program.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    program.connect((to or host, listener.getsockname()[1]))
    return program, stack.enter_context(listener.accept()[0])


@pytest.mark.parametrize(
    ("host", "to"),
    [("127.0.0.1", ""), ("127.7.7.7", ""), ("::1", ""), ("127.0.0.1", "::ffff:127.0.0.1")],
)
def test_the_system_tells_whose_a_connection_is(host: str, to: str) -> None:
    with ExitStack() as stack:
        program, accepted = connected(stack, host, to)
        assert tcp_user(accepted) == ME
        assert tcp_user(program) == ME, "the other way round as well"
        check_tcp_users(host)


@pytest.mark.parametrize("left", ["close", "shut", "reset"])
def test_who_has_gone_is_nobody_and_not_root(
    left: str, pair: tuple[socket.socket, socket.socket]
) -> None:
    """The kernel gives user 0 to a closed socket, while its bytes wait here."""
    program, accepted = pair
    program.sendall(encode_hello("eve"))
    if left == "shut":
        program.shutdown(socket.SHUT_WR)
    elif left == "close":
        program.close()
    else:
        program.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes((1, 0, 0, 0)) + bytes(4))
        program.close()
    found = None
    try:
        found = tcp_user(accepted)
    except OSError:
        assert left == "reset"
    assert found is None


def test_an_answer_counts_only_while_the_connection_is_there(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is gone somebody else may have its addresses, and the answer be about him."""
    program, accepted = pair
    monkeypatch.setattr(local_users, "_ask", lambda *_: ME)
    assert tcp_user(accepted) == ME
    program.close()
    assert tcp_user(accepted) is None


def test_a_listener_at_the_other_ends_place_is_not_taken_for_it() -> None:
    """The kernel finds a listener where there is no connection."""
    here = "127.77.0.1"  # where no other test may be given the port that has become free
    with socket.create_server((here, 0)) as listener, socket.socket() as program:
        program.bind((here, 0))
        program.connect(listener.getsockname())
        accepted, _ = listener.accept()
        ours, theirs = accepted.getsockname(), program.getsockname()
        program.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes((1, 0, 0, 0)) + bytes(4))
    with accepted, socket.create_server(theirs):
        places = local_users._place(theirs), local_users._place(ours)
        assert local_users._ask(socket.AF_INET, *places) is None


def test_another_users_connection_is_his() -> None:
    if not can_be_nobody():
        return
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as thread:
        where = f"127.0.0.1:{listener.getsockname()[1]}"
        done = thread.submit(as_nobody, SAY_HELLO, where, greeting())
        accepted, _ = listener.accept()
        with accepted:
            assert tcp_user(accepted) == NOBODY
            accepted.sendall(b"seen.")
        assert done.result() == str(ord("."))


def test_a_unix_socket_tells_it_itself() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert unix_user(one) == ME


def test_where_the_system_does_not_tell_no_daemon_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_users, "_NETLINK_SOCK_DIAG", 31)  # no socket option has this number
    with pytest.raises(ConfigError, match="this system does not tell the user of a TCP connection"):
        check_tcp_users("127.0.0.1")


# ---- where programs look for their daemon ----


def test_a_program_is_never_led_to_a_port_that_anybody_could_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While no daemon runs another user may listen at 127.0.0.1:4803."""
    monkeypatch.delenv("GROUPCOMM_ADDRESS", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setattr(addresses, "SYSTEM_FOLDER", tmp_path / "service")  # this host may have one
    assert default_address() == str(tmp_path / "runtime" / "groupcomm" / "groupcomm.sock")
    for name in ("4803", "4803@localhost", ""):
        assert _address(name) is None, "the default address"
    assert _address("4804@localhost") == "localhost:4804"


def test_a_program_that_lacks_the_runtime_folder_finds_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.delenv("GROUPCOMM_ADDRESS", raising=False)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "groupcomm.sock").touch()
    assert default_address() == str(tmp_path / "run" / "groupcomm.sock")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert default_address() == str(tmp_path / "run" / "groupcomm.sock")
