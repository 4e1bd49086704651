"""Programs whose token or certificate is renewed while they run: a reconnecting one goes on."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio
import trio.testing

from groupcomm.errors import Code, SessionEnded
from groupcomm_client import Reconnected, TlsOptions, connect
from groupcomm_client.connection import Connection
from groupcomm_tools.certificates import issue, revoke_issued
from groupcommd.programs.token_file import add_token, remove_token
from tests.groupcommd.signed import make_pki
from tests.groupcommd.virtual import Daemons, reload, virtual_clock, virtual_daemons

PATIENCE_S: Final = 120.0


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


@attrs.frozen
class Plant:
    """A daemon with programs of other hosts.

    Attributes:
        daemons: the one, a.
        folder: the folder of all files.
    """

    daemons: Daemons
    folder: Path

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens"

    def reload(self) -> None:
        """Do as at SIGHUP."""
        reload(self.daemons["a"].service, self.folder)


@pytest.fixture
async def plant(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> AsyncIterator[Plant]:
    make_pki(tmp_path, "ann")
    add_token(tmp_path / "tokens", "other")
    clients = (
        f'tls = {{address = "127.0.0.1:0", certificate = "{tmp_path}/press.pem",'
        f' key = "{tmp_path}/press.key", ca = "{tmp_path}/ca.pem",'
        f' revoked = "{tmp_path}/revoked.toml"}}\ntokens = "{tmp_path}/tokens"'
    )
    async with virtual_daemons(tmp_path, "a", clients) as daemons:
        yield Plant(daemons, tmp_path)


async def is_in_another_session(connection: Connection) -> bool:
    with trio.fail_after(PATIENCE_S):
        while not isinstance(await connection.receive(), Reconnected):
            continue
    return "members" in await connection.ask("members g")


async def test_a_token_that_was_rotated_is_read_again(
    plant: Plant, autojump_clock: trio.testing.MockClock
) -> None:
    file = plant.folder / "sensor.token"
    file.write_text(add_token(plant.tokens, "sensor"))
    tls = TlsOptions(ca=plant.folder / "ca.pem", token=file)
    async with connect(plant.daemons["a"].tls, user="s", reconnect=True, tls=tls) as sensor:
        for name in ("sensor2", "sensor3"):
            old, _, _ = file.read_text().partition(":")
            file.write_text(add_token(plant.tokens, name))
            remove_token(plant.tokens, old)
            plant.reload()
            assert await is_in_another_session(sensor)
        remove_token(plant.tokens, "sensor3")
        plant.reload()
        with pytest.raises(SessionEnded) as caught:
            await is_in_another_session(sensor)
        assert caught.value.code == Code.REJECT_AUTH, "the file holds the token that was removed"


async def test_a_token_file_that_is_being_replaced_is_waited_for(
    plant: Plant, autojump_clock: trio.testing.MockClock
) -> None:
    file = plant.folder / "sensor.token"
    file.write_text(add_token(plant.tokens, "sensor"))
    tls = TlsOptions(ca=plant.folder / "ca.pem", token=file)
    async with connect(plant.daemons["a"].tls, user="s", reconnect=True, tls=tls) as sensor:
        file.unlink()
        remove_token(plant.tokens, "sensor")
        plant.reload()

        async def write_later() -> None:
            await trio.sleep(20.0)
            file.write_text(add_token(plant.tokens, "again"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write_later)
            assert await is_in_another_session(sensor)


async def test_a_certificate_that_was_renewed_is_shown_by_the_next_session(
    plant: Plant, autojump_clock: trio.testing.MockClock
) -> None:
    files = {"certificate": plant.folder / "ann.pem", "key": plant.folder / "ann.key"}
    tls = TlsOptions(ca=plant.folder / "ca.pem", **files)
    async with connect(plant.daemons["a"].tls, user="ann", reconnect=True, tls=tls) as ann:
        revoke_issued(plant.folder, "ann")
        issue(plant.folder, "ann", [], 1.0)
        plant.reload()
        assert await is_in_another_session(ann)
