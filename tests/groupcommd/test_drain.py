"""The shell of a daemon that is about to stop, on virtual time."""

import json
import logging
import socket
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
import trio
import trio.testing

from groupcomm.errors import SessionEnded
from groupcomm.events import DaemonStopping, Message
from groupcomm_client import Connection, ConnectOptions, Reconnected, TlsOptions, connect
from groupcomm_client.end_to_end import KeyChanged, SharedSecret
from groupcomm_client.filters import compression
from groupcomm_tools.certificates import issue, make_authority
from groupcommd import cli
from groupcommd.operators.drain_service import DrainService
from groupcommd.service import Service, ServiceEnd
from tests.groupcommd.http.browser import ask
from tests.groupcommd.virtual import virtual_clock, virtual_daemons

TCP: Final = '[http]\nlisten = "127.0.0.1:0"\n'
PATIENCE_S: Final = 60.0


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


async def next_of(connection: Connection, wanted: type) -> Any:
    with trio.fail_after(PATIENCE_S):
        while True:
            event = await connection.receive()
            if isinstance(event, wanted):
                return event


# ---- questions ----


@pytest.mark.parametrize(
    ("words", "allowed", "error"),
    [
        ("30", False, "only the daemon's own user and root may stop it"),
        ("now", True, "unknown command drain 'now'"),
        ("-1", True, "0 to 3600 s, not -1"),
        ("nan", True, "0 to 3600 s, not nan"),
        ("1e9", True, "0 to 3600 s, not 1e9"),
    ],
)
def test_a_drain_is_begun_by_the_owner_with_a_time_alone(
    words: str, allowed: bool, error: str
) -> None:
    begun: list[tuple[float, str]] = []
    nothing: Any = None
    service = DrainService(nothing, lambda *told: begun.append(told))
    assert error in json.loads(service.answer(words, allowed=allowed))["error"]
    assert begun == []
    assert json.loads(service.answer("2.5 ann b", allowed=True)) == {"asked": "drain 2.5"}
    assert begun == [(2.5, "ann b")]


async def test_everybody_is_told_that_it_is_about_to_stop(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Health, metrics, status, the report to the other daemons, and the log."""
    caplog.set_level(logging.INFO, "groupcommd")
    async with (
        virtual_daemons(tmp_path, "ab", head=TCP) as daemons,
        connect(str(daemons["a"].unix), user="ann") as ann,
        connect(str(daemons["b"].unix)) as other,
    ):
        assert (await ask(daemons["a"].http, "/readyz")).status == 200
        daemons["a"].service.drain(6.0)
        assert (await next_of(ann, DaemonStopping)).addresses == ()
        await trio.sleep(1.0)
        told = await ask(daemons["a"].http, "/readyz")
        assert (told.status, told.body) == (503, b"not ready: it is about to stop\n")
        assert b"groupcomm_draining 1.0" in (await ask(daemons["a"].http, "/metrics")).body
        drain = (await ann.ask("status"))["drain"]
        assert (drain["gone"], drain["staying"]) == (0, ["ann"])
        assert 0.0 < drain["left_s"] < 6.0
        await other.ask("cluster")
        await trio.sleep(1.0)
        assert "stops_in_s" in (await other.ask("cluster"))["reports"]["a"]
        assert (await other.ask("status"))["drain"] is None
        with pytest.raises(SessionEnded):
            await next_of(ann, Reconnected)
    lines = [line.getMessage() for line in caplog.records]
    assert any("is about to stop, within 6 s" in line for line in lines)
    assert any("the sessions of 1 end now: 'ann'" in line for line in lines)


# ---- signals ----


async def test_a_signal_drains_first_and_a_second_one_ends_the_wait(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[ServiceEnd] = []
    run = Service.run

    async def noted(self: Service) -> ServiceEnd:
        ends.append(await run(self))
        return ends[-1]

    monkeypatch.setattr(Service, "run", noted)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        async with (
            virtual_daemons(tmp_path, "ab", head="drain_s = 20\n") as daemons,
            connect(str(daemons["a"].unix)) as ann,
        ):
            service = daemons["a"].service
            cli._stop(service, service.config)
            notice = await next_of(ann, DaemonStopping)
            assert notice.within_s == pytest.approx(20.0)
            seconds = 20 + service.config.core.leave_timeout_s + 3
            told = supervisor.recv(100).decode().splitlines()
            assert told == ["STOPPING=1", f"EXTEND_TIMEOUT_USEC={seconds * 1e6:.0f}"]
            begun = trio.current_time()
            await trio.sleep(5.0)
            await ann.ask("status")  # it is served
            cli._stop(service, service.config)
            with pytest.raises(SessionEnded):
                await next_of(ann, Reconnected)
            await daemons.settle("b", PATIENCE_S)
            assert trio.current_time() - begun < 15.0
            await trio.sleep(2.0)
            assert ends == [ServiceEnd.LEFT]


# ---- what else moves with a program ----


async def both_read(*programs: Connection) -> None:
    """Wait until both programs have a key that both can read."""

    async def has_key(program: Connection) -> None:
        while len((await next_of(program, KeyChanged)).readers) < 2:
            pass

    async with trio.open_nursery() as nursery:
        for program in programs:
            nursery.start_soon(has_key, program)


async def test_filters_and_secrets_move_with_a_program(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    options = ConnectOptions(filters=[compression])
    secret = SharedSecret(b"s" * 32)
    async with virtual_daemons(tmp_path, "ab") as daemons:
        both = f"{daemons['a'].unix},{daemons['b'].unix}"
        async with (
            connect(both, user="ann", reconnect=True, options=options) as ann,
            connect(str(daemons["b"].unix), user="bob", options=options) as bob,
        ):
            for program in (ann, bob):
                await program.join("g", secret=secret)
            await both_read(ann, bob)
            await ann.multicast("g", b"before" * 100)
            daemons["a"].service.drain(PATIENCE_S)
            assert (await next_of(bob, Message)).data == b"before" * 100
            assert (await next_of(ann, Reconnected)).moved
            await both_read(ann, bob)
            await ann.multicast("g", b"after" * 100)
            assert (await next_of(bob, Message)).data == b"after" * 100
            assert (await next_of(ann, Message)).data == b"after" * 100


# ---- addresses of other daemons ----


async def test_a_program_of_another_host_moves_to_an_address_that_its_daemon_names(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    pki = tmp_path / "pki"
    make_authority(pki, 1.0)
    issue(pki, "press", ["127.0.0.1"], 1.0)
    issue(pki, "ann", [], 1.0)
    files = f'certificate = "{pki}/press.pem", key = "{pki}/press.key", ca = "{pki}/ca.pem"'
    clients = f'tls = {{address = "127.0.0.1:0", {files}}}'
    tls = TlsOptions(ca=pki / "ca.pem", certificate=pki / "ann.pem", key=pki / "ann.key")
    async with (
        virtual_daemons(tmp_path, "abc", clients) as daemons,
        connect(daemons["a"].tls, user="ann", reconnect=True, tls=tls) as ann,
        connect(str(daemons["a"].unix), user="local", reconnect=True) as local,
    ):
        daemons["c"].service.drain(PATIENCE_S)  # it leaves at once, or is about to stop itself
        await daemons.settle("ab", PATIENCE_S)
        daemons["a"].service.drain(20.0)
        notice = await next_of(ann, DaemonStopping)
        assert notice.addresses == (daemons["b"].tls,)
        moved = await next_of(ann, Reconnected)
        assert (moved.moved, moved.member.name) == (True, "#ann#b")
        assert (await next_of(local, DaemonStopping)).addresses == notice.addresses
        assert (await local.ask("status"))["daemon"] == "a", "it has nowhere to go"
        assert attrs.asdict(moved)["in_doubt"] == 0
