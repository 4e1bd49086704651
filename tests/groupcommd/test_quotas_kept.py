"""The quotas of one principal, and a daemon's time limits for proofs: on virtual time."""

import logging
import socket
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from groupcomm.errors import Code, LocalProtocolError, SessionEnded
from groupcomm.events import Message
from groupcomm.host.key_file import write_key_file
from groupcomm_client import Connection, ConnectOptions, TlsOptions, connect
from groupcomm_tools.certificates import issue, make_authority
from groupcommd.programs.connections import HELLO_S, MAX_TURNED_AWAY
from groupcommd.programs.token_file import add_token, remove_token
from groupcommd.service import WALL_INTERVAL_S
from tests.groupcommd.virtual import reload, virtual_clock, virtual_daemons


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


@attrs.frozen
class Proofs:
    """Files of a daemon, and what a program needs."""

    clients: str
    tokens: Path
    options: dict[str, Any]


@pytest.fixture
def proofs(tmp_path: Path) -> Proofs:
    ca, _ = make_authority(tmp_path, 1.0)
    certificate, key = issue(tmp_path, "d", ["127.0.0.1"], 1.0)
    tokens = tmp_path / "tokens"
    token = add_token(tokens, "ann")
    clients = f'address = "127.0.0.1:0", certificate = "{certificate}", key = "{key}"'
    return Proofs(f'tls = {{{clients}}}\ntokens = "{tokens}"\n', tokens, {"ca": ca, "token": token})


async def received(connection: Connection, count: int) -> float:
    """Return the time at which this many messages have come."""
    while count:
        count -= isinstance(await connection.receive(), Message)
    return trio.current_time()


async def test_who_does_not_finish_the_handshake_is_cut_off(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, proofs: Proofs
) -> None:
    async with virtual_daemons(tmp_path, "a", proofs.clients) as daemons:
        host, _, port = daemons["a"].tls.removeprefix("tls://").rpartition(":")
        for said in (b"", b"\x16\x03\x01\x02\x00"):
            with socket.create_connection((host, int(port))) as silent:
                silent.sendall(said)
                silent.setblocking(False)
                started = trio.current_time()
                await trio.lowlevel.wait_readable(silent)
                assert silent.recv(100) == b""
                assert HELLO_S <= trio.current_time() - started < HELLO_S + 0.1
        assert daemons["a"].service.connections.refusals.counts == {"slow": 2}
        assert len(daemons["a"].service.connections) == 0


@pytest.mark.parametrize("quota", ["messages_per_s = 100", "bytes_per_s = 15_000"])
async def test_who_sends_too_fast_waits_and_loses_nothing(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, quota: str
) -> None:
    async with virtual_daemons(tmp_path, "a", f"quotas = {{{quota}}}\n") as daemons:
        where = str(daemons["a"].unix)
        async with connect(where) as one, connect(where) as other:
            await one.join("g")
            started = trio.current_time()
            for sender in (one, other):
                for _ in range(2):
                    await sender.multicast_many("g", [bytes(100)] * 200)
                    await trio.sleep(0.1)
            took_s = await received(one, 800) - started
            # Bytes that are read at once are charged at once: two of four parts may pass freely.
            assert took_s > 1.5, "what came later had to wait for what the first has used"
            started = trio.current_time()
            await other.multicast_ordered("g", b"")
            assert 4.0 < trio.current_time() - started + took_s < 10.0, "one pays for the other"
        assert daemons["a"].service.core.sessions.intake.quota_waits >= 2


async def test_where_all_connections_are_taken_others_are_notified_and_come_in_later(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with virtual_daemons(tmp_path, "a", "quotas = {connections = 100}\n") as daemons:
        clients, where = daemons["a"].service.connections, str(daemons["a"].unix)
        clients.quotas.most = 2
        async with connect(where):
            async with connect(where):
                for _ in range(2):
                    with pytest.raises(SessionEnded, match="2 connections, the most it may have"):
                        async with connect(where):
                            pass
                with ExitStack() as stack:
                    for _ in range(2 * MAX_TURNED_AWAY):
                        made = stack.enter_context(socket.socket(socket.AF_UNIX))
                        made.connect(where)
                    await trio.sleep(0)
                    await trio.sleep(0.1)
                    assert clients._turned_away <= MAX_TURNED_AWAY, "the reserve is small"
                assert clients.refusals.counts["full"] == 2 + 2 * MAX_TURNED_AWAY
            await trio.sleep(1)
            async with connect(where):
                assert len(clients) == 2


async def test_a_hello_by_tls_that_waits_for_its_turn_was_said_in_time(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, proofs: Proofs
) -> None:
    quota, let_in = "quotas = {messages_per_s = 1}\n", 0

    async def come(where: str) -> None:
        nonlocal let_in
        async with connect(
            where, options=ConnectOptions(timeout_s=100.0), tls=TlsOptions(**proofs.options)
        ):
            let_in += 1

    async with virtual_daemons(tmp_path, "a", proofs.clients + quota) as daemons:
        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(come, daemons["a"].tls)
        assert let_in == 8
        assert trio.current_time() - started > HELLO_S


async def test_joins_wait_too(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with (
        virtual_daemons(tmp_path, "a", "quotas = {joins_per_s = 2}\n") as daemons,
        connect(str(daemons["a"].unix)) as ann,
    ):
        started = trio.current_time()
        for number in range(12):
            await ann.join(f"g{number}")
        assert 4.0 < trio.current_time() - started < 6.0


async def test_a_principal_has_so_many_connections_and_no_more(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with virtual_daemons(tmp_path, "a", "quotas = {connections = 2}\n") as daemons:
        where = str(daemons["a"].unix)
        async with connect(where), connect(where):
            with pytest.raises(SessionEnded, match="as many as it may have") as caught:
                async with connect(where):
                    pass
            assert caught.value.code == Code.REJECT_QUOTA
        await trio.sleep(0.1)
        async with connect(where):
            pass
        assert daemons["a"].service.connections.refusals.counts == {"quota": 1}


async def test_a_reload_ends_sessions_of_revoked_tokens_and_changes_quotas(
    autojump_clock: trio.testing.MockClock,
    tmp_path: Path,
    proofs: Proofs,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with virtual_daemons(tmp_path, "a", proofs.clients) as daemons:
        service, file = daemons["a"].service, tmp_path / "cluster.toml"
        async with connect(daemons["a"].tls, tls=TlsOptions(**proofs.options)) as ann:
            await ann.join("g")
            file.write_text(file.read_text() + "quotas = {connections = 1}\n")
            await _reload(service, file, tmp_path, caplog)
            assert caplog.records[-1].__dict__["taken"] == ["quotas"]
            assert not ann.protocol.closed
            remove_token(proofs.tokens, "ann")
            await _reload(service, file, tmp_path, caplog)
            with pytest.raises(SessionEnded, match="revoked") as caught:
                await received(ann, 1)
            assert caught.value.code == Code.REJECT_AUTH
        assert service.reloads == 2


async def test_a_reload_with_a_wrong_key_file_leaves_certificates_and_tokens_as_they_were(
    autojump_clock: trio.testing.MockClock,
    tmp_path: Path,
    proofs: Proofs,
    caplog: pytest.LogCaptureFixture,
) -> None:
    key, file = tmp_path / "plant.key", tmp_path / "cluster.toml"
    write_key_file(key)
    head = f'key_file = "{key}"'
    async with virtual_daemons(tmp_path, "a", proofs.clients, head) as daemons:
        proofs.tokens.rename(tmp_path / "moved")
        file.write_text(file.read_text().replace(str(proofs.tokens), str(tmp_path / "moved")))
        fresh = add_token(proofs.tokens, "eve")
        right = key.read_text()
        key.unlink()
        write_key_file(key)
        with pytest.raises(LocalProtocolError, match="has another key of that number"):
            await _reload(daemons["a"].service, file, tmp_path, caplog)
        async with connect(daemons["a"].tls, tls=TlsOptions(**{**proofs.options, "token": fresh})):
            assert daemons["a"].service.reloads == 0, "the tokens are those of the old place"
        key.write_text(right)
        await _reload(daemons["a"].service, file, tmp_path, caplog)
        with pytest.raises(SessionEnded, match="the token is wrong"):
            async with connect(
                daemons["a"].tls, tls=TlsOptions(**{**proofs.options, "token": fresh})
            ):
                pass


async def test_a_session_ends_when_its_token_expires(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, proofs: Proofs
) -> None:
    async with (
        virtual_daemons(tmp_path, "a", proofs.clients) as daemons,
        connect(daemons["a"].tls, tls=TlsOptions(**proofs.options)) as ann,
        connect(str(daemons["a"].unix)) as bob,
    ):
        await bob.join("g")
        await ann.join("g")
        remove_token(proofs.tokens, "ann")
        await trio.sleep(3 * WALL_INTERVAL_S)
        await ann.multicast("g", b"a token that was removed counts for it until a reload")
        await received(bob, 1)
        add_token(proofs.tokens, "ann", datetime.now(UTC) - timedelta(seconds=1))
        with pytest.raises(SessionEnded, match="expired") as caught, trio.fail_after(60):
            await received(ann, 2)
        assert caught.value.code == Code.REJECT_AUTH
        await bob.multicast("g", b"it came otherwise")
        await received(bob, 1)


async def _reload(service: Any, file: Path, folder: Path, log: pytest.LogCaptureFixture) -> None:
    logging.getLogger("groupcommd").propagate = True
    with log.at_level(logging.INFO, "groupcommd"):
        reload(service, folder, file)
