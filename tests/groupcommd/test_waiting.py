"""What a daemon waits for in threads may hang: a name service, a disk with its files."""

import os
import pwd
import signal
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import trio
import trio.testing

from groupcomm_client import connect
from groupcommd import cli
from groupcommd.programs.local_users import NAMES_KEPT_S, unix_principal
from groupcommd.programs.peer_names import PeerRefused, admitted_principal, principal_of
from groupcommd.programs.token_file import TokenBook, add_token, remove_token
from tests.groupcommd.virtual import virtual_clock, virtual_daemons

NO_USER = 3_000_017


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


@pytest.fixture
def answers() -> Iterator[Event]:
    """Set once what hangs is to answer; also at the end, as threads wait for it."""
    made = Event()
    yield made
    made.set()


async def test_while_the_name_service_hangs_users_keep_their_names(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch, answers: Event
) -> None:
    known = unix_principal(os.geteuid())
    later = time.monotonic() + 2 * NAMES_KEPT_S
    right = pwd.getpwuid

    def hang(uid: int) -> pwd.struct_passwd:
        answers.wait(60)
        return right(uid)

    monkeypatch.setattr("groupcommd.programs.local_users.pwd.getpwuid", hang)
    monkeypatch.setattr("groupcommd.programs.local_users.time.monotonic", lambda: later)
    assert await principal_of(os.geteuid()) == known
    with pytest.raises(PeerRefused, match=f"examine it with getent passwd {NO_USER}"):
        await principal_of(NO_USER)
    with pytest.raises(PeerRefused, match="name service of this host has not answered"):
        await admitted_principal(lambda uid: bool(hang(uid)), os.geteuid())


async def test_a_daemon_leaves_while_the_disk_of_its_configuration_hangs(
    autojump_clock: trio.testing.MockClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answers: Event,
) -> None:
    """It serves meanwhile, too."""
    reads = []

    def hang(*arguments: Any) -> None:
        reads.append(arguments)
        answers.wait(60)

    monkeypatch.setattr(cli, "_configure", hang)

    async def signals() -> AsyncIterator[int]:
        while not reads:
            await trio.sleep(0.01)
        async with connect(str(daemons["a"].unix)) as ann:
            await ann.ask("status")
        yield signal.SIGHUP
        yield signal.SIGTERM
        await trio.sleep_forever()

    async with virtual_daemons(tmp_path, "a") as daemons, trio.open_nursery() as nursery:
        service = daemons["a"].service
        kept = [signal.SIGHUP]
        nursery.start_soon(cli._obey, service, Namespace(), service.config, kept, signals())
        with trio.fail_after(60):
            while "a" in daemons.network.ends:
                await trio.sleep(0.01)
        assert len(reads) == 1, "the second one waits for the first"
        nursery.cancel_scope.cancel()


def test_a_book_of_tokens_looks_at_its_file_only_when_it_is_told_to(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    token = add_token(path, "ann")
    now = datetime.now(UTC)
    book = TokenBook(path, by_itself=False)
    remove_token(path, "ann")
    assert book.name_of(token, now) == "ann"
    book.refresh()
    assert book.name_of(token, now) is None
