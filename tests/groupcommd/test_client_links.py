"""Programs prove who they are: unix sockets, certificates, tokens; and who does not stays out."""

import os
import random
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest

import groupcommd.cli
from groupcomm.errors import (
    CannotConnect,
    Code,
    ConfigError,
    GroupCommError,
    LocalProtocolError,
    SessionEnded,
)
from groupcomm.events import Message
from groupcomm.session.frames import encode_bye, encode_hello, encode_query
from groupcomm_client import ConnectOptions, TlsOptions
from groupcomm_client.blocking import connect
from groupcomm_client.program import FAILED
from groupcomm_client.spread_api import SP_connect, SP_disconnect
from groupcomm_tools import cli
from groupcomm_tools.certificates import issue, make_authority
from groupcomm_tools.running_cluster import RunningCluster
from groupcommd.programs.listeners import MAX_HALF_OPEN
from groupcommd.programs.token_file import add_token, remove_token
from tests.groupcomm_client.kinds import KINDS, Kind, played
from tests.groupcomm_tools.shell import NO_PAUSES

PATIENCE_S = 20.0


@attrs.frozen
class Plant:
    """A daemon that listens on TLS, and files of programs.

    Attributes:
        cluster: the cluster of the one daemon.
        address: its address for TLS.
        ca: whom to trust.
        ann: certificate and key of a program.
        stranger: the same, of an authority that the daemon does not know.
        tokens: path of the file.
        token: the token in that file.
    """

    cluster: RunningCluster
    address: str
    ca: Path
    ann: tuple[Path, Path]
    stranger: tuple[Path, Path]
    tokens: Path
    token: str

    @property
    def status(self) -> dict[str, Any]:
        """Return the daemon's log."""
        with connect(self.cluster.address("a")) as local:
            return local.ask("status")

    def refused(self, why: str) -> int:
        """Return the number of programs refused for this reason."""
        found: int = self.status["refused"].get(why, 0)
        return found


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plant]:
    folder = tmp_path_factory.mktemp("plant")
    ca, _ = make_authority(folder, 1.0)
    certificate, key = issue(folder, "press", ["127.0.0.1"], 1.0)
    make_authority(folder / "other", 1.0)
    tokens = folder / "tokens"
    token = add_token(tokens, "sensor")
    clients = (
        f'tls = {{address = "127.0.0.1:0", certificate = "{certificate}", key = "{key}",'
        f' ca = "{ca}"}}\ntokens = "{tokens}"\nunix_for = "all"\n'
    )
    with RunningCluster(1, settings=NO_PAUSES, clients=clients) as cluster:
        yield Plant(
            cluster,
            cluster.tls_address("a"),
            ca,
            issue(folder, "ann", [], 1.0),
            issue(folder / "other", "eve", [], 1.0),
            tokens,
            token,
        )


@pytest.mark.parametrize("proof", ["token", "certificate"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@played
async def test_programs_talk_over_tls_and_the_daemon_knows_whose_they_are(
    kind: Kind, proof: str, plant: Plant
) -> None:
    whole = random.Random(1).randbytes(3_000_000)
    proofs: dict[str, dict[str, Any]] = {
        "token": {"token": plant.token},
        "certificate": {"certificate": plant.ann[0], "key": plant.ann[1]},
    }
    options = {"ca": plant.ca, **proofs[proof], "reconnect": proof == "certificate"}
    async with kind.connect(plant.address, "max", **options) as max_:
        await max_.join("g")
        await max_.multicast("g", whole)
        got = b""
        while not got:
            event = await kind.receive(max_, PATIENCE_S)
            assert event is not None
            got = event.data if isinstance(event, Message) else b""
        assert got == whole
        principals = {each["principal"] for each in plant.status["sessions"]}
        assert {"token": "token:sensor", "certificate": "cert:ann"}[proof] in principals


def test_who_cannot_prove_who_he_is_learns_what_to_do(plant: Plant) -> None:
    stranger = {"certificate": plant.stranger[0], "key": plant.stranger[1]}
    where, trusting = plant.address, {"ca": plant.ca}
    cases: list[tuple[str, dict[str, Any], type[GroupCommError], str]] = [
        (where, trusting, SessionEnded, "a certificate or a token, and got none"),
        (where, {**trusting, "token": "sensor:no"}, SessionEnded, "the token is wrong"),
        (where, {**trusting, **stranger}, CannotConnect, "refuses certificate .*UNKNOWN_CA"),
        (where, {}, CannotConnect, "not signed by the system's certificates"),
        (where, {"ca": plant.stranger[0]}, CannotConnect, "not signed by ca .*eve.pem"),
        (where, {"ca": "/nowhere"}, ConfigError, "ca /nowhere: No such file"),
        (where, {**trusting, "certificate": plant.ca}, ConfigError, "key in the same file"),
        (where.replace("127.0.0.1", "localhost"), trusting, CannotConnect, "for another host"),
        (where[6:], {}, SessionEnded, "this port speaks TLS: connect to tls://HOST:PORT"),
        (where[6:], {"token": plant.token}, LocalProtocolError, "sent over TLS only"),
        ("tls://127.0.0.1:1", trusting, CannotConnect, "refused - is the daemon running"),
    ]
    for address, options, error, said in cases:
        with (
            pytest.raises(error, match=said),
            connect(
                address,
                options=ConnectOptions(timeout_s=PATIENCE_S),
                tls=TlsOptions(**options) if options else None,
            ),
        ):
            pass


def test_a_refused_token_is_refused_for_good(plant: Plant) -> None:
    with (
        pytest.raises(SessionEnded) as caught,
        connect(plant.address, tls=TlsOptions(ca=plant.ca, token="x:y")),
    ):
        pass
    assert caught.value.code == Code.REJECT_AUTH


def test_tokens_count_from_when_they_are_made_until_they_are_revoked(plant: Plant) -> None:
    past = datetime.now(UTC) - timedelta(days=1)
    fresh, old = add_token(plant.tokens, "fresh"), add_token(plant.tokens, "old", past)
    with connect(plant.address, tls=TlsOptions(ca=plant.ca, token=fresh)) as one:
        assert one.ask("members g")["members"] == []
    for token in (old, fresh):
        if token is fresh:
            remove_token(plant.tokens, "fresh")
        with (
            pytest.raises(SessionEnded),
            connect(plant.address, tls=TlsOptions(ca=plant.ca, token=token)),
        ):
            pass


def test_the_environment_has_what_commands_and_spread_programs_need(
    plant: Plant,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GROUPCOMM_CA", str(plant.ca))
    monkeypatch.setenv("GROUPCOMM_TOKEN", plant.token)
    mbox, private = SP_connect(plant.address, "ann")
    SP_disconnect(mbox)
    assert private == "#ann#a"
    lines, secret = tmp_path / "lines", tmp_path / "token"
    lines.write_text("one\n")
    secret.write_text(plant.token + "\n")
    pub = ["pub", "g", str(lines), "--address", plant.address]
    assert cli.main(pub) == 0
    monkeypatch.delenv("GROUPCOMM_TOKEN")
    assert cli.main([*pub, "--token-file", str(secret)]) == 0
    assert cli.main(pub) == FAILED
    assert "certificate or a token" in capsys.readouterr().err


# ---- before it is known who somebody is ----


def raw(plant: Plant, *, tls: bool = False) -> socket.socket:
    """A connection that has said nothing yet."""
    host, _, port = plant.address.removeprefix("tls://").rpartition(":")
    made = socket.create_connection((host, int(port)), PATIENCE_S)
    context = ssl.create_default_context(cafile=plant.ca)
    return context.wrap_socket(made, server_hostname=host) if tls else made


def ended(client: socket.socket) -> bool:
    """Return whether the daemon ends a connection in time, whatever it sends before."""
    with suppress(ConnectionError, ssl.SSLError):
        while client.recv(65_536):
            pass
    return True


def test_half_open_connections_have_room_for_others(plant: Plant) -> None:
    before = plant.refused("half-open")
    with ExitStack() as stack:
        silent = [stack.enter_context(raw(plant)) for _ in range(MAX_HALF_OPEN + 20)]
        with connect(plant.address, tls=TlsOptions(ca=plant.ca, token=plant.token)) as good:
            good.join("g")
        assert all(ended(client) for client in silent[:20]), "the oldest were cut off"
    assert plant.refused("half-open") >= before + 20


def test_nothing_but_a_hello_is_looked_at_before(plant: Plant) -> None:
    rng = random.Random(2)
    hello = encode_hello("max", 0, "sensor:wrong")
    told = [encode_bye(), encode_query("status"), hello, encode_hello("max"), hello[:-1] + b"\xff"]
    told += [b"\0\0\x10\x01" + bytes(4097), b"\xff\xff\xff\xff", bytes(4), b"\0\0\0\1\x01"]
    told += [rng.randbytes(rng.randint(8, 5000)) for _ in range(20)]
    told += [b"\0\0\0\x05" + bytes((kind,)) + rng.randbytes(4) for kind in range(32)]
    before = plant.status
    for data in told:
        with raw(plant, tls=True) as bad:
            bad.sendall(data)
            bad.setblocking(True)
            with suppress(OSError):
                bad.shutdown(socket.SHUT_WR)
            assert ended(bad)
        with raw(plant) as bad:
            bad.sendall(data)
            bad.shutdown(socket.SHUT_WR)
            assert ended(bad)
    after = plant.status
    assert after["messages"] == before["messages"]
    assert len(after["sessions"]) == 1, "that which asks"
    bugs = [line for line in plant.cluster.log("a") if "failed to serve connection" in line["text"]]
    assert not bugs, bugs[0]["trace"]


# ---- unix sockets ----

AS_NOBODY = """
import os, socket, sys
os.setgroups([]), os.setgid(65534), os.setuid(65534)
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
client.sendall(bytes.fromhex(sys.argv[2]))
print(client.recv(100)[4], flush=True)
sys.stdin.read()
"""


def test_users_of_this_host_are_known_by_their_names(plant: Plant) -> None:
    if os.geteuid() != 0:
        print("only root can be somebody else: nothing but the own name is looked at")
        assert {each["principal"] for each in plant.status["sessions"]} != {"unix:root"}
        return
    path = plant.cluster.address("a")
    Path(path).parent.chmod(0o711)
    program = subprocess.Popen(
        [sys.executable, "-c", AS_NOBODY, path, encode_hello("eve").hex()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert program.stdout is not None
    assert int(program.stdout.readline()) == 16, "WELCOME"
    users = {each["user"]: each["principal"] for each in plant.status["sessions"]}
    program.communicate()
    assert users.pop("eve") == "unix:nobody"
    assert set(users.values()) == {"unix:root"}
    Path(path).parent.chmod(0o700)


# ---- files ----


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("key", "clients.tls.key .*: others may read it"),
        ("tokens", "clients.tokens .*: others may read it"),
        ("certificate", "No such file or directory; make the files with: groupcomm certs"),
        ("folder", "others may enter .*; mend that with: chmod 700"),
    ],
)
def test_a_daemon_does_not_start_with_files_that_others_can_use(
    tmp_path: Path, change: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ca, _ = make_authority(tmp_path, 1.0)
    certificate, key = issue(tmp_path, "d", [], 1.0)
    add_token(tmp_path / "tokens", "ann")
    run = tmp_path / "run"
    run.mkdir(0o700)
    {"key": key, "tokens": tmp_path / "tokens", "folder": run}.get(change, ca).chmod(0o755)
    if change == "certificate":
        certificate.unlink()
    config = tmp_path / "d.toml"
    config.write_text(
        f'name = "d"\n[clients]\nunix = "{run}/d.sock"\ntcp = "off"\ntokens = "tokens"\n'
        f'[clients.tls]\naddress = "127.0.0.1:0"\ncertificate = "d.pem"\nkey = "d.key"\n'
    )
    command = ["--config", str(config), "--port", "0", "--state-dir", str(tmp_path / "state")]
    assert groupcommd.cli.main(command) == groupcommd.cli.USAGE
    told = capsys.readouterr().err
    assert re.search(said, told), told
