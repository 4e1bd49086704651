"""Certificates: each is for its use alone, and proves one principal."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import attrs
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from groupcomm.errors import CannotConnect, ConfigError, SessionEnded
from groupcomm.host.addresses import Address
from groupcomm.host.tls import principal_of
from groupcomm_client import ConnectOptions, TlsOptions
from groupcomm_client.blocking import connect
from groupcomm_tools.certificates import issue, make_authority
from groupcomm_tools.commands.web import load_tls
from groupcomm_tools.running_cluster import RunningCluster
from groupcommd.programs.credentials import TlsConfig, read_tls_credentials
from tests.groupcomm_tools.shell import NO_PAUSES
from tests.groupcommd.signed import sign

PATIENCE_S = 20.0
TOKEN = "sensor:that nobody else shall learn"


@attrs.frozen
class Plant:
    """A daemon for whom an authority signs.

    Attributes:
        cluster: the cluster of the daemon.
        address: the address at which it listens for TLS.
        folder: the folder of the authority.
        daemon: certificate and key of the daemon.
    """

    cluster: RunningCluster
    address: str
    folder: Path
    daemon: tuple[Path, Path]

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def shown(self) -> dict[str, Any]:
        """Return the status of certificates, by the principals of programs that have one."""
        with connect(self.cluster.address("a")) as local:
            sessions = local.ask("status")["sessions"]
        return {each["principal"]: each["certificate"] for each in sessions if each["certificate"]}


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plant]:
    folder = tmp_path_factory.mktemp("pki")
    ca, _ = make_authority(folder, 1.0)
    certificate, key = daemon = issue(folder, "press", ["127.0.0.1"], 1.0)
    clients = (
        f'tls = {{address = "127.0.0.1:0", certificate = "{certificate}", key = "{key}",'
        f' ca = "{ca}"}}\n'
    )
    with RunningCluster(1, settings=NO_PAUSES, clients=clients) as cluster:
        yield Plant(cluster, cluster.tls_address("a"), folder, daemon)


# ---- keys that are locked ----


@pytest.mark.parametrize("who", ["program", "daemon", "web"])
def test_nobody_is_asked_for_the_password_of_a_key(who: str, tmp_path: Path) -> None:
    """OpenSSL would read it from the terminal, or the first line of what a program is to send."""
    ca, _ = make_authority(tmp_path, 1.0)
    certificate, key = issue(tmp_path, "ann", ["127.0.0.1"], 1.0)
    opened = serialization.load_pem_private_key(key.read_bytes(), password=None)
    locked = serialization.BestAvailableEncryption(b"secret")
    forms = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key.write_bytes(opened.private_bytes(*forms, locked))
    tls = TlsOptions(ca=ca, certificate=certificate, key=key)
    config = TlsConfig(address=Address("127.0.0.1", 0), certificate=certificate, key=key)
    uses: dict[str, Callable[[], object]] = {
        "program": lambda: ExitStack().enter_context(connect("tls://127.0.0.1:1", tls=tls)),
        "daemon": lambda: read_tls_credentials(config),
        "web": lambda: load_tls(certificate, key),
    }
    with pytest.raises(ConfigError, match="locked with a password"):
        uses[who]()


@pytest.mark.parametrize("content", ["", "\n"])
def test_a_file_without_a_token_is_an_error(content: str, tmp_path: Path) -> None:
    """A pipe of a shell, as in `--token-file <(...)`, is empty when it is read again."""
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"token is empty"):
        ExitStack().enter_context(connect("tls://127.0.0.1:1", tls=TlsOptions(token=file)))


# ---- in the place of a daemon ----


class Impostor:
    """Listens with a certificate as a daemon would, and keeps what programs tell it.

    Attributes:
        address: the address at which it listens.
        heard: the bytes received from programs.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PATIENCE_S)
        self.address = f"tls://localhost:{self._listener.getsockname()[1]}"
        self.heard = b""
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> "Impostor":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        accepted, _ = self._listener.accept()
        accepted.settimeout(PATIENCE_S)
        with (
            accepted,
            suppress(OSError),
            self._context.wrap_socket(accepted, server_side=True) as tls,
        ):
            self.heard = tls.recv(4096)


def test_a_program_cannot_serve_as_the_daemon_whose_name_it_has(
    plant: Plant, tmp_path: Path
) -> None:
    make_authority(tmp_path, 1.0)
    by_issue = issue(tmp_path, "localhost", [], 1.0)
    with_host = sign(tmp_path, [x509.DNSName("localhost")])
    for certificate, key in (by_issue, with_host):
        with (
            Impostor(certificate, key) as impostor,
            pytest.raises(CannotConnect, match="is not for a daemon"),
            connect(impostor.address, tls=TlsOptions(ca=tmp_path / "ca.pem", token=TOKEN)),
        ):
            pass
        assert impostor.heard == b""


def test_who_has_broken_into_a_daemon_is_no_program_by_its_certificate(plant: Plant) -> None:
    certificate, key = plant.daemon
    with (
        pytest.raises(CannotConnect, match="it must be a program's"),
        connect(
            plant.address,
            options=ConnectOptions(timeout_s=PATIENCE_S),
            tls=TlsOptions(ca=plant.ca, certificate=certificate, key=key),
        ),
    ):
        pass


# ---- principals ----

BOSSES: list[tuple[list[x509.GeneralName], str]] = [
    ([x509.UniformResourceIdentifier("groupcomm:boss")], "cert:boss"),
    ([x509.DNSName("boss")], "cert:dns:boss"),
    ([x509.DNSName("BOSS.Plant")], "cert:dns:boss.plant"),
    ([x509.RFC822Name("boss@plant")], "cert:mail:boss@plant"),
    ([x509.UniformResourceIdentifier("boss")], "cert:uri:boss"),
    ([x509.DNSName("groupcomm:boss")], "cert:dns:groupcomm:boss"),
    ([x509.UniformResourceIdentifier("groupcomm:dns:boss")], "cert:uri:groupcomm:dns:boss"),
    ([x509.UniformResourceIdentifier("groupcomm:")], "cert:uri:groupcomm:"),
]


@pytest.mark.parametrize(("names", "principal"), BOSSES, ids=[each for _, each in BOSSES])
def test_names_of_different_kinds_are_different_principals(
    names: list[x509.GeneralName], principal: str, plant: Plant
) -> None:
    certificate, key = sign(plant.folder, names)
    made = x509.load_pem_x509_certificate(certificate.read_bytes())
    with connect(plant.address, tls=TlsOptions(ca=plant.ca, certificate=certificate, key=key)):
        shown = {
            "serial": f"{made.serial_number:x}",
            "ends": made.not_valid_after_utc.isoformat(),
        }
        assert plant.shown == {principal: shown}


@pytest.mark.parametrize("names", [[], [x509.DNSName("boss\n")], [x509.DNSName("b" * 255)]])
def test_a_certificate_without_a_name_that_can_be_lets_nobody_in(
    names: list[x509.GeneralName], plant: Plant
) -> None:
    certificate, key = sign(plant.folder, names)
    with (
        pytest.raises(SessionEnded, match="has no name"),
        connect(plant.address, tls=TlsOptions(ca=plant.ca, certificate=certificate, key=key)),
    ):
        pass


@pytest.mark.parametrize(
    ("names", "principal"),
    [
        ([], None),
        ([("IP Address", "10.0.0.1")], None),
        ([("IP Address", "10.0.0.1"), ("DNS", "x")], "cert:dns:x"),
        ([("othername", "<unsupported>"), ("email", "a@b")], "cert:mail:a@b"),
        ([("DNS", "")], None),
        ([("DNS", "a\0b")], None),
        ([("DNS", "a\u202eb")], None),
        ([("URI", "groupcomm:" + "a" * 65)], "cert:uri:groupcomm:" + "a" * 65),
    ],
)
def test_the_first_name_counts(names: list[tuple[str, str]], principal: str | None) -> None:
    assert principal_of(names) == principal
