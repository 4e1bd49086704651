"""From what a user writes to a daemon: all three kinds of connections."""

import json
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from groupcomm.errors import CannotConnect, ConfigError
from groupcomm.host.addresses import parse_daemon_address
from groupcomm_tools.local_cluster import LocalDaemon, free_ports
from tests.groupcomm_client.kinds import Kind, played

NAME = "press.plant.example"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port at which a daemon listens, at 127.0.0.1 alone."""
    folder = tmp_path_factory.mktemp("daemon")
    host = f"127.{1 + secrets.randbelow(254)}.0.1"
    config = folder / "cluster.toml"
    config.write_text(
        f'[sites.main.daemons]\na = "{host}:{free_ports(host, 1)[0]}"\n'
        '[clients]\ntcp = "127.0.0.1:0"\nspread_unix = "off"\n'
    )
    daemon = LocalDaemon(folder, "a", config, ())
    trio.run(daemon.start)
    yield int(json.loads((folder / "a.ports").read_text())["tcp"].rpartition(":")[2])
    daemon.stop()


def tell_addresses(monkeypatch: pytest.MonkeyPatch, *hosts: str) -> None:
    """Have the system's look-up know these addresses of NAME, in this order."""
    real = socket.getaddrinfo

    def look_up(host: Any, port: Any, *arguments: Any, **options: Any) -> list[Any]:
        if host not in (NAME, NAME.encode()):
            return real(host, port, *arguments, **options)
        return [entry for each in hosts for entry in real(each, port, *arguments, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@played
async def test_all_addresses_of_a_name_are_tried_in_turn(
    kind: Kind, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell_addresses(monkeypatch, "::1", "127.0.0.3", "127.0.0.1")
    async with kind.connect(f"{NAME}:{port}", "ann") as ann:
        assert ann.name == "#ann#a"


@played
async def test_why_none_of_them_will_do_is_reported(
    kind: Kind, port: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tell_addresses(monkeypatch, "127.0.0.2", "127.0.0.3")
    for address, reason in (
        (f"{NAME}:{port}", "plant.example:[0-9]+: Connection refused - is the daemon"),
        (str(tmp_path / ("long" * 50)), "AF_UNIX path too long"),
        (str(tmp_path / "nobody"), "No such file"),
        ("no.such.host.invalid", r"no.such.host.invalid: [A-Z\[]"),
        ("a" * 64, "label"),
    ):
        with pytest.raises(CannotConnect, match=reason):
            async with kind.connect(address):
                pass


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("10.0.0.1:99", "10.0.0.1", 99),
        ("press", "press", 4803),
        ("[::1]:99", "::1", 99),
        ("[::1]", "::1", 4803),
        ("::1", "::1", 4803),
    ],
)
def test_an_address_has_a_host_and_perhaps_a_port(address: str, host: str, port: int) -> None:
    found = parse_daemon_address(address)
    assert (found.path, found.host, found.port, found.secure) == (None, host, port, False)
    secure = parse_daemon_address(f"tls://{address}")
    assert (secure.host, secure.port) == (host, port if port == 99 else 4804)


NO_ADDRESSES = (
    *("http://h", "tls://a/b", "localhost:99999", "localhost:0", "localhost:", "localhost:many"),
    *(":4803", "tls://", "a b", "[::1", "1:2:3", ""),
)


@pytest.mark.parametrize("address", NO_ADDRESSES)
def test_what_is_no_address_is_called_so(address: str) -> None:
    with pytest.raises(ConfigError, match="is not an address"):
        parse_daemon_address(address)


@played
async def test_a_program_is_notified_of_an_address_that_is_none(kind: Kind) -> None:
    with pytest.raises(ConfigError, match="is not an address"):
        async with kind.connect("http://h"):
            pass
