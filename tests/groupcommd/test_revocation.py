"""Invalid certificates: they let nobody in, and sessions that they have opened end."""

import os
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
import trio
from cryptography import x509

from groupcomm.errors import Code, ConfigError, SessionEnded
from groupcomm.session.frames import encode_hello
from groupcomm_client import TlsOptions, connect
from groupcomm_client.byte_stream import ByteSocket
from groupcomm_client.connection import Connection
from groupcomm_client.credentials import Credentials
from groupcomm_client.targets import open_socket
from groupcomm_client.trio_loop import TrioLoop
from groupcomm_tools import cli
from groupcomm_tools.certificates import issue, make_authority
from groupcommd.config.config_file import read_config
from groupcommd.programs import expiry
from groupcommd.programs.revocation_file import Revocations, read_revocations, revoke
from groupcommd.service import Service
from tests.groupcommd.signed import make_pki, sign
from tests.groupcommd.virtual import Daemons, reload, virtual_clock, virtual_daemons

PATIENCE_S: Final = 60.0


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


@attrs.frozen
class Plant:
    """A daemon, and who signs for it.

    Attributes:
        daemons: the one, a.
        folder: the folder of the configuration.
        pki: the folder of the authority.
    """

    daemons: Daemons
    folder: Path
    pki: Path

    @property
    def service(self) -> Service:
        return self.daemons["a"].service

    @property
    def revoked(self) -> Path:
        return self.pki / "revoked.toml"

    def reload(self) -> None:
        """Do as at SIGHUP."""
        reload(self.service, self.folder)

    def by(self, name: str, pki: Path | None = None) -> Any:
        """Connect with a certificate of this name."""
        folder = pki or self.pki
        return connect(
            self.daemons["a"].tls,
            tls=TlsOptions(
                ca=self.pki / "ca.pem",
                certificate=folder / f"{name}.pem",
                key=folder / f"{name}.key",
            ),
        )

    def revoke(self, *arguments: str) -> None:
        """Run the command."""
        assert cli.main(["certs", "revoke", str(self.pki), *arguments]) == 0


@pytest.fixture
async def plant(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> AsyncIterator[Plant]:
    pki = make_pki(tmp_path / "pki", "ann", "bob")
    names = ("certificate", "press.pem"), ("key", "press.key"), ("ca", "ca.pem")
    files = ", ".join(
        f'{key} = "{pki / name}"' for key, name in (*names, ("revoked", "revoked.toml"))
    )
    clients = f'tls = {{address = "127.0.0.1:0", {files}}}'
    async with virtual_daemons(tmp_path, "a", clients) as daemons:
        yield Plant(daemons, tmp_path, pki)


async def read_to_the_end(session: Connection) -> None:
    while True:
        await session.receive()


async def ends(session: Connection, why: str) -> bool:
    with pytest.raises(SessionEnded, match=why) as caught, trio.fail_after(PATIENCE_S):
        await read_to_the_end(session)
    return caught.value.code == Code.REJECT_AUTH


async def goes_on(session: Connection) -> bool:
    answer = await session.ask("members g")
    return "members" in answer


async def is_refused(plant: Plant, name: str, why: str, pki: Path | None = None) -> bool:
    with pytest.raises(SessionEnded, match=why) as caught:
        async with plant.by(name, pki):
            pass
    return caught.value.code == Code.REJECT_AUTH


# ---- sessions ----


async def test_a_session_ends_when_its_certificate_does(
    plant: Plant, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign(plant.pki, [x509.DNSName("short")], file="short", lasts=timedelta(hours=1))
    async with plant.by("short") as short, plant.by("ann") as ann:
        assert await goes_on(short)
        later = datetime.now(UTC) + timedelta(hours=2)
        monkeypatch.setattr(expiry, "now", lambda: later)
        assert await ends(short, "the certificate of this program was revoked or has ended")
        assert await goes_on(ann)


async def test_a_certificate_that_is_revoked_ends_its_session_at_a_reload(
    plant: Plant, autojump_clock: trio.testing.MockClock
) -> None:
    async with plant.by("ann") as ann, plant.by("bob") as bob:
        plant.revoke("ann")
        plant.reload()
        assert await ends(ann, "revoked")
        assert await goes_on(bob)
        serial = next(iter(read_revocations(plant.revoked).serials))
        assert await is_refused(plant, f"ann-{serial:x}", f"certificate {serial:x} of cert:ann was")
        issue(plant.pki, "ann", [], 1.0)
        async with plant.by("ann") as again:
            assert await goes_on(again)
    assert plant.service.connections.refusals.counts == {"certificate": 1}


async def test_all_certificates_of_a_principal_are_revoked(
    plant: Plant, autojump_clock: trio.testing.MockClock
) -> None:
    sign(plant.pki, [x509.DNSName("ann")], file="host")
    async with plant.by("ann") as ann, plant.by("host") as host:
        plant.revoke("--principal", "cert:ann")
        plant.reload()
        assert await ends(ann, "revoked")
        assert await goes_on(host), "cert:dns:ann"
        (plant.pki / "ann.pem").unlink()
        (plant.pki / "ann.key").unlink()
        issue(plant.pki, "ann", [], 1.0)
        assert await is_refused(plant, "ann", "of cert:ann was revoked")


async def test_a_certificate_that_nobody_has_here_is_revoked_by_its_serial(
    plant: Plant, autojump_clock: trio.testing.MockClock
) -> None:
    async with plant.by("ann") as ann:
        (shown,) = plant.service.connections.certificates().values()
        plant.revoke("--serial", f"{shown.serial:X}")
        plant.reload()
        assert await ends(ann, "revoked")


async def test_sessions_end_whose_authority_is_gone(
    plant: Plant, autojump_clock: trio.testing.MockClock
) -> None:
    """One was added before, so that programs could change over."""
    make_authority(plant.pki / "new", 1.0)
    issue(plant.pki / "new", "eve", [], 1.0)
    ca, new = plant.pki / "ca.pem", (plant.pki / "new" / "ca.pem").read_bytes()
    old = ca.read_bytes()
    trusted = plant.folder / "trusted.pem"
    trusted.write_bytes(old)

    async with plant.by("ann") as ann:
        ca.write_bytes(old + new)
        plant.reload()
        trust: dict[str, Any] = {"ca": trusted, "certificate": plant.pki / "new" / "eve.pem"}
        where = plant.daemons["a"].tls
        trust["key"] = plant.pki / "new" / "eve.key"
        async with connect(where, tls=TlsOptions(**trust)) as eve:
            assert await goes_on(ann)
            late = await half_open(plant, "ann")
            ca.write_bytes(new)
            plant.reload()
            assert await ends(ann, "its authority is not trusted any more")
            assert await goes_on(eve)
            late.send(memoryview(encode_hello("ann")))
            await trio.lowlevel.wait_readable(late)
            assert b"certificate of cert:ann is not trusted any more" in late.recv(1000)
            late.close()


async def half_open(plant: Plant, name: str) -> ByteSocket:
    """Shake hands with a certificate, and say nothing yet."""
    own = TlsOptions(
        ca=plant.folder / "trusted.pem",
        certificate=plant.pki / f"{name}.pem",
        key=plant.pki / f"{name}.key",
    )
    return await open_socket(plant.daemons["a"].tls, TrioLoop(), Credentials.of(own))


# ---- files ----


def damage(path: Path) -> None:
    path.write_text("[serials]\nx = 1\n")


def let_all_write(path: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (damage, "the file holds no revocations"),
        (let_all_write, "others may write to it"),
        (Path.unlink, "No such file"),
    ],
    ids=["damaged", "writable", "gone"],
)
async def test_a_file_that_is_not_to_be_believed_changes_nothing(
    spoil: Callable[[Path], None], said: str, plant: Plant, autojump_clock: trio.testing.MockClock
) -> None:
    async with plant.by("ann") as ann:
        plant.revoke("ann")
        spoil(plant.revoked)
        with pytest.raises(ConfigError, match=said):
            plant.reload()
        assert await goes_on(ann)
        assert plant.service.reloads == 0


@pytest.mark.parametrize(
    "text",
    [
        "serials = []",
        "[serials]\nxyz = 1",
        '[serials]\n"" = 1',
        f"[serials]\n{'a' * 65} = 1",
        '[principals]\n"ann" = 1',
        '[principals]\n"cert:a\\u0007" = 1',
        "[others]",
        "\xff",
    ],
)
def test_what_holds_no_revocations_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "revoked").write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match="the file holds no revocations; make one with"):
        read_revocations(tmp_path / "revoked")


def test_revocations_are_added_and_none_is_lost(tmp_path: Path) -> None:
    path, odd = tmp_path / "revoked", 'cert:uri:a"b\\c=ü'
    revoke(path, Revocations({0xA1: "ann"}, {}))
    revoke(path, Revocations({0xB2: "bob"}, {odd: "x"}))
    os.chmod(path, 0o644)  # noqa: PTH101 - everybody may read it
    found = revoke(path, Revocations({0xA1: "again"}, {"cert:eve": "y"}))
    assert found == read_revocations(path)
    assert dict(found.serials) == {0xA1: "ann", 0xB2: "bob"}
    assert set(found.principals) == {odd, "cert:eve"}


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_authority(tmp_path, 1.0)
    for words, said in (
        ((), "give DIR and one of NAME, --serial and --principal"),
        (("ann", "--serial", "1"), "give DIR and one of NAME"),
        (("ann",), "ann.pem is missing; revoke it with --serial"),
        (("ca",), "'ca' is not the name of a certificate that was issued"),
        (("--serial", "x"), "must be hexadecimal digits"),
        (("--principal", "token:x"), "'token:x' is not a principal of a certificate"),
    ):
        assert cli.main(["certs", "revoke", str(tmp_path), *words]) == 2
        assert said in capsys.readouterr().err
    assert read_revocations(tmp_path / "revoked.toml") == Revocations(), "none, from the start"
    certificate, key = issue(tmp_path, "ann", [], 1.0)
    assert cli.main(["certs", "revoke", str(tmp_path), "ann"]) == 0
    assert "revoked.toml to the daemons' hosts" in capsys.readouterr().err
    assert not certificate.exists()
    assert not key.exists()
    assert len(list(tmp_path.glob("ann-*"))) == 2


def test_revocations_need_an_authority(tmp_path: Path) -> None:
    config = tmp_path / "d.toml"
    config.write_text(
        'name = "d"\n[clients]\ntokens = "t"\n'
        '[clients.tls]\ncertificate = "c"\nkey = "k"\nrevoked = "r"\n'
    )
    with pytest.raises(ConfigError, match="revoked is set, and clients"):
        read_config(config, name=None, state_dir=tmp_path)
