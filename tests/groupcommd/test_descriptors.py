"""No program can open enough connections to end a daemon, or to keep others out."""

import logging
import os
import resource
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio
import trio.testing

from groupcomm.errors import Code
from groupcomm.events import Message
from groupcomm.security.quotas import Quotas
from groupcomm.session.daemon_frames import decode_closed_untrusted
from groupcomm.session.frames import DAEMON_FRAME_BYTES, FrameKind, FrameReader, encode_hello
from groupcomm_client import Connection, connect
from groupcomm_tools.local_cluster import LocalCluster
from groupcommd.files.state_dir import StateDir, StateError
from groupcommd.host.bounded_log import BURST, INTERVAL_S
from groupcommd.host.process import (
    MAX_CONNECTIONS,
    RESERVE,
    connection_capacity,
    is_exhausted,
    notify_systemd,
    raise_descriptor_limit,
    retry_while_exhausted,
)
from groupcommd.programs import local_users
from groupcommd.programs.connections import ConnectionQuotas
from groupcommd.programs.token_file import TokenBook, add_token
from tests.groupcommd.virtual import virtual_clock

PATIENCE_S = 20.0
LIMIT = 1024
"""The limits of a daemon's file descriptors, soft and hard."""

ATTEMPTS = 1100
NO_USER = 3_999_999_999


@contextmanager
def limited(descriptors: int) -> Iterator[None]:
    """Let this process have this number of further descriptors."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = max(map(int, os.listdir("/proc/self/fd"))) + 1  # noqa: PTH208 - of numbers
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + descriptors, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextmanager
def exhausted() -> Iterator[None]:
    """All descriptors are taken until the block ends."""
    with limited(8), ExitStack() as stack:
        with pytest.raises(OSError, match="Too many open files") as caught:  # noqa: PT012
            while True:
                stack.callback(os.close, os.open("/dev/null", os.O_RDONLY))
        assert is_exhausted(caught.value)
        yield


# ---- a daemon ----


def limit_of(daemon: Path) -> tuple[str, ...]:
    return "/bin/sh", "-c", f'ulimit -n {LIMIT}; exec "$@"', str(daemon)


def open_many(path: Path, stack: ExitStack, count: int = ATTEMPTS) -> list[socket.socket]:
    """Connections that say hello."""
    raise_descriptor_limit()  # raise the limit of this process, which needs it itself
    opened = []
    for number in range(count):
        made = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        made.connect(str(path))  # it waits while too many other connections do
        made.settimeout(PATIENCE_S)
        with suppress(BrokenPipeError):  # it was refused already; the reason is there to be read
            made.sendall(encode_hello(f"rude{number}"))
        opened.append(made)
    return opened


def first_frame(connection: socket.socket) -> bytes:
    reader, data = FrameReader(DAEMON_FRAME_BYTES), b""
    while data := connection.recv(65_536):
        for frame in reader.feed(data):
            return frame
    return b""


def first_frames(connections: list[socket.socket]) -> list[bytes]:
    return [first_frame(each) for each in connections]


async def echo(connection: Connection, data: bytes) -> None:
    with trio.fail_after(PATIENCE_S):
        await connection.multicast("g", data)
        while True:
            event = await connection.receive()
            if isinstance(event, Message) and event.data == data:
                return


async def test_a_daemon_outlives_more_connections_than_it_has_descriptors() -> None:
    began = time.monotonic()
    cluster = LocalCluster("ab")
    daemon = cluster["a"]
    daemon._prefix = limit_of(daemon.unix)
    async with cluster:
        await cluster.settle("ab")
        async with connect(str(daemon.unix)) as good:
            await good.join("g")
            with ExitStack() as stack:
                opened = await trio.to_thread.run_sync(open_many, daemon.unix, stack)
                frames = await trio.to_thread.run_sync(first_frames, opened)
                kinds = [frame[0] for frame in frames]
                admitted = kinds.count(FrameKind.WELCOME)
                assert 20 < admitted < (LIMIT - RESERVE) // 2 + 2, "half of the room, for one"
                refused = decode_closed_untrusted(frames[kinds.index(FrameKind.CLOSED)])
                assert refused.code == Code.REJECT_QUOTA
                assert "as many as it leaves to all others" in refused.reason
                await come_back(cluster, "b")
                await echo(good, b"the view was stored, with all these connections open")
                status = await good.ask("status")
                assert status["connections"] == admitted + 1
                assert status["refused"]["quota"] == ATTEMPTS - admitted
                lower_limit(daemon.pid)  # other processes use what the system has
                await trio.to_thread.run_sync(open_many, daemon.unix, stack, 30)
                daemon.signal(signal.SIGUSR1)
                daemon.signal(signal.SIGHUP)
                await come_back(cluster, "b")
                await echo(good, b"and with none left at all")
        assert daemon.running
        texts = [line["text"] for line in daemon.lines() if line["level"] in ("warning", "error")]
        told = [
            text for text in texts if "no room for another connection: Too many open files" in text
        ]
        assert 1 <= len(told) <= BURST + (time.monotonic() - began) / INTERVAL_S, "and no flood"


async def come_back(cluster: LocalCluster, name: str) -> None:
    """A daemon starts anew: the others store a view."""
    cluster[name].kill()
    await cluster[name].start()
    await cluster.settle("ab")


def lower_limit(pid: int) -> None:
    """A process has no descriptor left."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    numbers = [int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (max(numbers) + 1, hard))


# ---- shares of connections ----


def test_without_a_quota_a_principal_has_half_of_what_others_leave() -> None:
    allowances, taken = ConnectionQuotas(Quotas(), most=100), 0

    def fill(principal: str) -> int:
        nonlocal taken
        count = 0
        while not allowances.open(principal, taken + 1):
            taken, count = taken + 1, count + 1
        return count

    assert fill("rude") == 50
    assert fill("second") == 25
    assert fill("third") == 13
    allowances.close("rude")
    taken -= 1
    assert not allowances.open("fourth", taken + 1)
    assert allowances.connections() == {"rude": 49, "second": 25, "third": 13, "fourth": 1}


def test_a_quota_stands_for_the_share() -> None:
    allowances = ConnectionQuotas(Quotas(connections=2), most=100)
    assert [allowances.open("p", taken) for taken in (1, 2)] == ["", ""]
    assert "as many as it may have" in allowances.open("p", 3)
    allowances.close("p")
    assert not allowances.open("p", 3)


def test_a_daemon_asks_for_what_it_can_use_and_keeps_a_reserve() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(list(Path("/proc/self/fd").iterdir()))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (opened + RESERVE + 11, before[1]))
        assert 9 <= connection_capacity() <= 13
        assert raise_descriptor_limit() == min(before[1], MAX_CONNECTIONS + 256)
        assert connection_capacity() > 100
        resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 5, before[1]))
        assert connection_capacity() == 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


# ---- work without descriptors ----


def test_a_mark_is_stored_without_one(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    mark = state.begin("a").mark
    with exhausted():
        state.store(mark + 1)
        state.store(mark + 2)
        (tmp_path / "state.json.new").unlink()
        state.store(mark + 3)
    state.close()
    assert f'"mark": {mark + 3}' in (tmp_path / "state.json").read_text()


def test_tokens_count_as_before_while_their_file_cannot_be_opened(tmp_path: Path) -> None:
    now, path = datetime.now(UTC), tmp_path / "tokens"
    token = add_token(path, "ann")
    book = TokenBook(path)
    path.touch()
    os.utime(path, (0, 0))
    with exhausted():
        assert book.name_of(token, now) == "ann"
        assert book.knows("ann", now)
        assert not book.expired(now)
    add_token(path, "bob")
    assert book.knows("bob", now)


def test_systemd_is_not_notified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "@nobody")
    with exhausted():
        assert not notify_systemd("STOPPING=1")


def test_users_are_called_as_before_and_others_have_no_name_made_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise `unix:ann` would be `uid:1000` meanwhile, and have the share of two."""
    me, later = os.geteuid(), time.monotonic() + 10 * local_users.NAMES_KEPT_S
    known = local_users.unix_principal(me)
    monkeypatch.setattr(time, "monotonic", lambda: later)
    with exhausted():
        assert local_users.unix_principal(me) == known
        with pytest.raises(OSError, match="Too many open files"):
            local_users.unix_principal(NO_USER)
        assert local_users.owners() == (known, local_users.unix_principal(0))
    assert local_users.unix_principal(NO_USER) == f"uid:{NO_USER}"


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


async def test_what_needs_one_waits_for_it_and_says_so_once(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tries = 0

    def write() -> str:
        nonlocal tries
        tries += 1
        if tries < 5:
            raise StateError("cannot be used") from OSError(24, "Too many open files")
        return "done"

    with caplog.at_level(logging.WARNING, "groupcommd"):
        assert await retry_while_exhausted("the state", write) == "done"
    assert [record.getMessage() for record in caplog.records] == [
        "the state waits for a file descriptor: Too many open files"
    ]
    with pytest.raises(StateError):
        await retry_while_exhausted("the state", fail)


def fail() -> None:
    raise StateError("the disk is full") from OSError(28, "No space left on device")
