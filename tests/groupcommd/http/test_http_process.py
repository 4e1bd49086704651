"""The process that answers HTTP: by TLS for who proves who it is, as long as its daemon lives."""

import json
import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPSConnection
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from groupcomm_tools.running_cluster import RunningCluster
from groupcommd.config.http_table import HttpTable, HttpTlsTable, read_http, table_of
from groupcommd.http.__main__ import answer
from groupcommd.http.channel import Channel
from groupcommd.http.supply import SILENT_S, Supply
from groupcommd.http.watched_files import WatchedFiles
from tests.groupcomm_tools.shell import NO_PAUSES, tell
from tests.groupcommd.http.browser import OPEN
from tests.groupcommd.virtual import virtual_clock, virtual_daemons

PATIENCE_S = 20.0


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


@attrs.frozen
class Monitored:
    """A daemon that answers HTTP by TLS.

    Attributes:
        cluster: the cluster of the daemon.
        pki: the folder of the authority.
        token: the token of the program that scrapes it.
    """

    cluster: RunningCluster
    pki: Path
    token: str

    def scrape(self, *, token: str = "", name: str = "") -> tuple[int, str]:
        """Ask for metrics, with a token or a certificate; return the status and the text."""
        trust = ssl.create_default_context(cafile=str(self.pki / "ca.pem"))
        if name:
            trust.load_cert_chain(self.pki / f"{name}.pem", self.pki / f"{name}.key")
        started = [line for line in self.cluster.log("a") if "http" in line]
        host, _, port = str(started[-1]["http"]).rpartition(":")
        asking = HTTPSConnection(host, int(port), context=trust, timeout=PATIENCE_S)
        shown = {"Authorization": token} if token else {}
        asking.request("GET", "/metrics", headers={"Accept": OPEN, **shown})
        answer = asking.getresponse()
        told = answer.status, answer.read().decode()
        asking.close()
        return told

    @property
    def process(self) -> int:
        """The number of the process that answers, once there is one, and it does."""
        by = time.monotonic() + PATIENCE_S
        while not self._answers():
            assert time.monotonic() < by, "there is no process for HTTP"
            time.sleep(0.01)
        (found,) = children(self.cluster.pid("a"))
        return found

    def _answers(self) -> bool:
        with suppress(ConnectionError):  # its daemon has just started
            return self.scrape(token=f"Bearer {self.token}")[0] == 200
        return False


def children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def wait_until_ended(pid: int) -> None:
    """Wait for the end of a process of which this one is no parent."""
    by = time.monotonic() + PATIENCE_S
    with suppress(FileNotFoundError, ProcessLookupError):
        while " Z " not in Path(f"/proc/{pid}/stat").read_text():
            assert time.monotonic() < by, "it has outlived its daemon"
            time.sleep(0.01)


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    folder = tmp_path_factory.mktemp("http")
    pki, tokens = folder / "pki", folder / "http.tokens"
    assert tell("certs", "init", str(pki))[0] == 0
    assert tell("certs", "issue", str(pki), "a", "--host", "127.0.0.1")[0] == 0
    assert tell("certs", "issue", str(pki), "ann")[0] == 0
    status, token, _ = tell("tokens", "add", str(tokens), "prometheus")
    assert status == 0
    settings = f"""{NO_PAUSES}
[http]
listen = "127.0.0.1:0"
tokens = "{tokens}"
[http.tls]
certificate = "{pki}/a.pem"
key = "{pki}/a.key"
ca = "{pki}/ca.pem"
"""
    with RunningCluster(1, settings=settings) as cluster:
        found = Monitored(cluster, pki, token.strip())
        assert found.process, "it answers from here on"
        yield found


def test_a_scrape_by_tls_has_a_token_or_a_certificate(plant: Monitored) -> None:
    status, text = plant.scrape(token=f"Bearer {plant.token}")
    assert status == 200
    assert "groupcomm_operational 1.0" in text
    assert text.endswith("# EOF\n")
    assert plant.scrape(name="ann")[0] == 200
    assert plant.scrape()[0] == 401
    assert plant.scrape(token=f"Bearer {plant.token}x")[0] == 401
    with pytest.raises(ssl.SSLCertVerificationError):
        attrs.evolve(plant, pki=stranger(plant.pki.parent)).scrape()


def stranger(folder: Path) -> Path:
    """Return the folder of another authority."""
    assert tell("certs", "init", str(folder / "other"))[0] == 0
    return folder / "other"


def test_a_process_that_is_lost_is_told_and_another_one_answers(plant: Monitored) -> None:
    assert os.getpriority(os.PRIO_PROCESS, plant.process) > os.getpriority(os.PRIO_PROCESS, 0)
    os.kill(plant.process, signal.SIGTERM)  # systemd signals all processes of a service that stops
    assert plant.scrape(token=f"Bearer {plant.token}")[0] == 200
    lost = plant.process
    os.kill(lost, signal.SIGKILL)
    wait_until_ended(lost)
    status, text = plant.scrape(token=f"Bearer {plant.token}")  # it waits in the system's queue
    assert status == 200
    assert "groupcomm_http_starts_total 2.0" in text
    told = [line for line in plant.cluster.log("a") if "ended" in line]
    assert told[0]["ended"] == "killed by SIGKILL"
    assert told[0]["level"] == "error"


def test_it_ends_with_its_daemon_however_that_ends(plant: Monitored) -> None:
    stopped = plant.process
    os.kill(stopped, signal.SIGSTOP)  # the process cannot even read that the channel has ended
    plant.cluster.kill("a")
    wait_until_ended(stopped)
    plant.cluster.start("a")
    last = plant.process
    assert plant.cluster.leave("a") == 0
    wait_until_ended(last)
    plant.cluster.start("a")
    assert plant.process, "tests in any order find one"


async def test_a_process_that_tells_nothing_is_given_up(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with virtual_daemons(tmp_path, "a") as daemons:
        service = daemons["a"].service
        supply = Supply(service._parts, WatchedFiles(lambda: service.config))
        near, far = socket.socketpair()
        began = trio.current_time()
        with near, far:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(supply.serve, Channel(near))
                await trio.sleep(SILENT_S / 2)
                await Channel(far).send("log", "", b'{"level": 10, "text": "here"}')
        assert SILENT_S <= trio.current_time() - began - SILENT_S / 2 < SILENT_S + 1


async def test_whatever_it_says_the_daemon_goes_on(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with virtual_daemons(tmp_path, "a") as daemons:
        service = daemons["a"].service
        supply = Supply(service._parts, WatchedFiles(lambda: service.config))
        for said in (b"hello\n", b"x" * 10_000, b'["ready","",-1]\n', b"[]\n", b'["log","",2]\n{}'):
            near, far = socket.socketpair()
            far.send(said)
            far.close()
            with trio.fail_after(1.0):
                await supply.serve(Channel(near))
            near.close()


async def test_a_file_that_has_become_wrong_is_named_in_the_log_of_the_daemon(
    tmp_path: Path,
) -> None:
    tokens = tmp_path / "http.tokens"
    tokens.write_text("nonsense")
    tokens.chmod(0o600)
    table = {"listen": "127.0.0.1:1", "tokens": str(tokens)}
    settings = {"unix": str(tmp_path / "sock"), "unix_for": "owner", "http": table}
    near, far = socket.socketpair()
    with near, far, socket.socket() as listening:
        daemon = Channel(near)
        await daemon.send("settings", "", json.dumps(settings).encode())
        assert await answer(listening, Channel(far)) == 1
        frame = await daemon.receive()
    assert frame is not None
    assert frame.word == "log"
    assert str(tokens) in json.loads(frame.body)["text"]


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "[::1]:2", "unix:http.sock"])
@pytest.mark.parametrize("tokens", [None, "http.tokens"])
@pytest.mark.parametrize("ca", [None, "ca.pem"])
def test_its_settings_are_those_of_the_daemon(
    listen: str, tokens: str | None, ca: str | None, tmp_path: Path
) -> None:
    tls = HttpTlsTable(certificate="a.pem", key="a.key", ca=ca, revoked=ca)
    has_tls = ca is not None and not listen.startswith("unix:")
    table = HttpTable(listen=listen, tokens=tokens, tls=tls if has_tls else None)
    config = read_http(table, tmp_path)
    assert config is not None
    assert read_http(table_of(config), Path("elsewhere")) == config
