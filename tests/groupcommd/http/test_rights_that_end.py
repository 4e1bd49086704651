"""HTTP: rights that end while a daemon runs. No connection or stream outlives what let it in."""

import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio
import trio.testing
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from groupcomm.errors import ConfigError
from groupcomm_tools.certificates import issue, make_authority, revoke_issued
from groupcommd.http import server as server_module
from groupcommd.http.server import CHECK_S
from groupcommd.programs.token_file import add_token, remove_token
from tests.groupcommd.http.browser import read_answer, request
from tests.groupcommd.signed import make_pki, sign
from tests.groupcommd.virtual import Daemons, reload, virtual_clock, virtual_daemons

PATIENCE_S: Final = 60.0
RULE: Final = '[[access]]\nwho = "*"\nmay = "admin"\n'
OTHER_RULE: Final = '[[access]]\nwho = "unix:nobody"\nmay = "admin"\n'


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


@attrs.frozen
class Plant:
    """A daemon that answers HTTP by TLS.

    Attributes:
        daemons: the one, a.
        folder: the folder of the configuration.
        pki: the folder of the authority.
        opened: all connections, which are closed in the end.
    """

    daemons: Daemons
    folder: Path
    pki: Path
    opened: list["Stream"] = attrs.field(factory=list)

    @property
    def tokens(self) -> Path:
        return self.folder / "http.tokens"

    def reload(self, change: Callable[[str], str] = str) -> None:
        """Do as at SIGHUP, after a change of the configuration."""
        path = self.folder / "cluster.toml"
        path.write_text(change(path.read_text()))
        reload(self.daemons["a"].service, self.folder)

    async def by(self, name: str = "", pki: Path | None = None) -> "Stream":
        """Connect, with a certificate of this name if one is given."""
        trust = ssl.create_default_context(cafile=str(self.pki / "ca.pem"))
        if name:
            folder = pki or self.pki
            trust.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
        port = int(self.daemons["a"].http.rpartition(":")[2])
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        secure = trio.SSLStream(stream, trust, server_hostname="127.0.0.1", https_compatible=True)
        self.opened.append(secure)
        await secure.do_handshake()
        return secure

    async def status(self, name: str = "", token: str = "", path: str = "/metrics") -> int:
        """Ask on a new connection; return the status, 0 if the connection was cut."""
        return await asked(await self.by(name), path, token)


Stream = trio.SSLStream[trio.SocketStream]


async def asked(stream: Stream, path: str = "/metrics", token: str = "") -> int:
    """Ask; return the status, 0 if the connection was cut."""
    bearer = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        await stream.send_all(request(path, **bearer))
        return (await read_answer(stream)).status
    except (trio.BrokenResourceError, AssertionError):
        return 0


async def is_cut(stream: Stream) -> bool:
    """Read until the daemon has closed the connection."""
    with trio.fail_after(PATIENCE_S):
        try:
            while await stream.receive_some():
                continue
        except trio.BrokenResourceError:
            return True
    return True


async def goes_on(stream: Stream) -> bool:
    """Return whether events still come after the rights were looked at."""
    till = trio.current_time() + 4 * CHECK_S
    while trio.current_time() < till:
        if not await stream.receive_some():
            return False
    return True


@pytest.fixture
async def plant(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> AsyncIterator[Plant]:
    pki, tokens = make_pki(tmp_path / "pki", "ann", "bob"), tmp_path / "http.tokens"
    add_token(tokens, "unused")
    head = f"""
[http]
listen = "127.0.0.1:0"
tokens = "{tokens}"
[http.tls]
certificate = "{pki}/press.pem"
key = "{pki}/press.key"
ca = "{pki}/ca.pem"
revoked = "{pki}/revoked.toml"
"""
    async with virtual_daemons(tmp_path, "a", RULE, head=head) as daemons:
        made = Plant(daemons, tmp_path, pki)
        yield made
        for stream in made.opened:
            await trio.aclose_forcefully(stream)


async def test_a_revoked_certificate_lets_nobody_in_and_ends_what_it_has_opened(
    plant: Plant,
    autojump_clock: trio.testing.MockClock,
) -> None:
    kept, watching, other = await plant.by("ann"), await plant.by("ann"), await plant.by("bob")
    assert await asked(kept) == 200
    assert await asked(watching, "/events") == 200
    assert await asked(other, "/events") == 200
    ann = plant.folder / "ann"
    ann.mkdir(mode=0o700)
    for suffix in ("pem", "key"):
        (ann / f"ann.{suffix}").write_bytes((plant.pki / f"ann.{suffix}").read_bytes())
    revoke_issued(plant.pki, "ann")
    plant.reload()
    assert await is_cut(kept)
    assert await is_cut(watching)
    assert await goes_on(other)
    again = await plant.by("ann", ann)
    assert await asked(again) == 0
    assert await plant.status("bob") == 200


async def test_an_authority_that_was_removed_lets_nobody_in(
    plant: Plant, autojump_clock: trio.testing.MockClock
) -> None:
    new, ca = plant.folder / "new", plant.pki / "ca.pem"
    make_authority(new, 1.0)
    issue(new, "eve", [], 1.0)
    old = ca.read_bytes()
    ca.write_bytes(old + (new / "ca.pem").read_bytes())
    plant.reload()
    ann, eve = await plant.by("ann"), await plant.by("eve", new)
    assert [await asked(ann), await asked(eve, "/events")] == [200, 200]
    (plant.folder / "other.pem").write_bytes((new / "ca.pem").read_bytes())
    plant.reload(lambda text: text.replace(f'"{ca}"', f'"{plant.folder}/other.pem"'))
    assert await is_cut(ann)
    assert await goes_on(eve)


async def test_a_renewed_certificate_is_shown_after_a_reload(
    plant: Plant, autojump_clock: trio.testing.MockClock
) -> None:
    before = (await plant.by()).getpeercert(binary_form=True)
    for suffix in ("pem", "key"):
        (plant.pki / f"press.{suffix}").unlink()
    issue(plant.pki, "press", ["127.0.0.1"], 2.0)
    plant.reload()
    await trio.sleep(CHECK_S)
    after = (await plant.by()).getpeercert(binary_form=True)
    assert before != after
    shown = x509.load_pem_x509_certificate((plant.pki / "press.pem").read_bytes())
    assert after == shown.public_bytes(Encoding.DER)


async def test_a_certificate_that_ends_ends_its_connections(
    plant: Plant, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign(plant.pki, [x509.DNSName("short")], file="short", lasts=timedelta(hours=1))
    short, ann = await plant.by("short"), await plant.by("ann")
    assert [await asked(short, "/events"), await asked(ann, "/events")] == [200, 200]
    monkeypatch.setattr(server_module, "now", lambda: datetime.now(UTC) + timedelta(hours=2))
    assert await is_cut(short)
    assert await goes_on(ann)


async def test_a_stream_ends_with_its_token_without_a_reload(
    plant: Plant, autojump_clock: trio.testing.MockClock
) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    removed, kept = add_token(plant.tokens, "removed"), add_token(plant.tokens, "kept", soon)
    first, second = await plant.by(), await plant.by()
    assert await asked(first, "/events", removed) == 200
    assert await asked(second, "/events", kept) == 200
    remove_token(plant.tokens, "removed")
    assert await is_cut(first)
    assert await goes_on(second)
    remove_token(plant.tokens, "kept")
    add_token(plant.tokens, "kept", datetime.now(UTC) - timedelta(seconds=1))
    assert await is_cut(second), "it has expired"


async def test_a_stream_ends_with_the_rule_that_allowed_it(
    plant: Plant, autojump_clock: trio.testing.MockClock
) -> None:
    watching = await plant.by("ann")
    assert await asked(watching, "/events") == 200
    plant.reload(lambda text: text.replace(RULE, OTHER_RULE))
    assert await is_cut(watching)
    assert await plant.status("ann") == 403


async def test_files_that_are_wrong_change_nothing(
    plant: Plant, autojump_clock: trio.testing.MockClock
) -> None:
    watching = await plant.by("ann")
    assert await asked(watching, "/events") == 200
    (plant.pki / "revoked.toml").write_text("[serials]\nx = 1\n")
    with pytest.raises(ConfigError, match="no revocations"):
        plant.reload()
    assert await goes_on(watching)
    assert plant.daemons["a"].service.reloads == 0


async def test_another_address_needs_a_restart_and_rules_change_all_the_same(
    plant: Plant, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    watching = await plant.by("ann")
    assert await asked(watching, "/events") == 200
    plant.reload(
        lambda text: text.replace(RULE, OTHER_RULE).replace(
            'listen = "127.0.0.1:0"', 'listen = "127.0.0.1:1"'
        )
    )
    assert "these settings change only with a restart: http" in caplog.text
    assert await is_cut(watching)
