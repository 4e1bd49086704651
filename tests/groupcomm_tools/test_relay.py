"""The relay, with real datagrams."""

import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trio

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import Address
from groupcomm.sim.faults.faults import Faults
from groupcomm_tools.commands.relay import RelayCommands
from groupcomm_tools.relay import BUFFER_BYTES, Line, Pair, Relay

COUNT = 200


@contextmanager
def receivers(names: str) -> Iterator[dict[str, socket.socket]]:
    """A socket for each daemon."""
    with ExitStack() as stack:
        found = {}
        for name in names:
            made = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            made.bind(("127.0.0.1", 0))
            made.setblocking(False)
            found[name] = made
        yield found


@asynccontextmanager
async def running(
    sockets: dict[str, socket.socket],
    line: Line | None = None,
    lines: dict[Pair, Line | None] | None = None,
) -> AsyncIterator[Relay]:
    addresses = {name: Address(*each.getsockname()) for name, each in sockets.items()}
    relay = Relay(addresses, seed=3, line=line, lines=lines)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(relay.run)
        yield relay
        nursery.cancel_scope.cancel()


def send(sockets: dict[str, socket.socket], relay: Relay, pair: tuple[str, str]) -> None:
    address = relay.ports[pair].address
    for number in range(COUNT):
        sockets[pair[0]].sendto(b"%d" % number, (address.host, address.port))


async def received(target: socket.socket, quiet_s: float = 0.2) -> list[bytes]:
    """All that comes until nothing does for a while."""
    found: list[bytes] = []
    while True:
        with trio.move_on_after(quiet_s) as patience:
            await trio.lowlevel.wait_readable(target)
        if patience.cancelled_caught:
            return found
        found.append(target.recv(65536))


async def test_what_is_sent_to_a_port_comes_out_at_its_target_in_order() -> None:
    with receivers("abc") as sockets:
        async with running(sockets) as relay:
            send(sockets, relay, ("a", "b"))
            assert await received(sockets["b"]) == [b"%d" % number for number in range(COUNT)]
            assert await received(sockets["c"]) == []


async def test_a_burst_of_large_datagrams_is_not_lost() -> None:
    # More than the system's default, and no more than any process may have.
    large = [bytes(59_000) + b"%d" % number for number in range(5)]
    with receivers("ab") as sockets:
        sockets["b"].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        async with running(sockets) as relay:
            address = relay.ports["a", "b"].address
            for datagram in large:  # while the relay gets no turn
                sockets["a"].sendto(datagram, (address.host, address.port))
            assert await received(sockets["b"]) == large


async def test_cuts_are_one_way_and_end() -> None:
    with receivers("ab") as sockets:
        async with running(sockets) as relay:
            relay.cut([("a", "b")])
            send(sockets, relay, ("a", "b"))
            send(sockets, relay, ("b", "a"))
            assert await received(sockets["b"]) == []
            assert len(await received(sockets["a"])) == COUNT
            relay.mend()
            send(sockets, relay, ("a", "b"))
            assert len(await received(sockets["b"])) == COUNT


async def test_what_is_held_comes_later() -> None:
    with receivers("ab") as sockets:
        async with running(sockets) as relay:
            relay.hold([("a", "b")], 0.5)
            send(sockets, relay, ("a", "b"))
            assert await received(sockets["b"]) == []
            assert len(await received(sockets["b"], 1.0)) == COUNT


async def test_faults_lose_double_reorder_and_corrupt() -> None:
    sent = [b"%d" % number for number in range(COUNT)]
    with receivers("ab") as sockets:
        async with running(sockets) as relay:
            relay.suffer(Faults(loss=0.3))
            send(sockets, relay, ("a", "b"))
            some = await received(sockets["b"])
            assert some == [each for each in sent if each in some]
            assert len(some) < COUNT
            relay.suffer(Faults(duplication=0.3, reorder_packets=8, corruption=0.1))
            send(sockets, relay, ("a", "b"))
            many = await received(sockets["b"])
            assert len(many) > COUNT
            assert set(many) - set(sent)
            relay.suffer(None)
            send(sockets, relay, ("a", "b"))
            after = await received(sockets["b"])
            assert after[-COUNT:] == sent


async def test_a_narrow_path_is_slow_and_drops_what_does_not_fit() -> None:
    with receivers("ab") as sockets:
        async with running(sockets, Line(bytes_per_s=1000.0)) as relay:
            send(sockets, relay, ("a", "b"))
            got = await received(sockets["b"], 0.5)
            assert 10 < len(got) < COUNT


async def test_paths_differ_and_some_are_direct(tmp_path: Path) -> None:
    lines: dict[Pair, Line | None] = {
        ("a", "b"): Line(loss=1.0),
        ("b", "a"): Line(loss=0.5),
        ("a", "c"): None,
    }
    with receivers("abc") as sockets:
        async with running(sockets, lines=lines) as relay:
            send(sockets, relay, ("a", "b"))
            send(sockets, relay, ("b", "a"))
            assert await received(sockets["b"]) == []
            assert 0 < len(await received(sockets["a"])) < COUNT
            with pytest.raises(ConfigError, match="no path between a and c leads through"):
                list(relay.between("a", "c"))
            relay.write(tmp_path / "via.json")
        own = "{}:{}".format(*sockets["c"].getsockname())
    written = json.loads((tmp_path / "via.json").read_text())
    assert written["a"]["c"] == own
    assert written["b"]["c"] != own


async def test_one_path_is_mended_and_another_stays_cut() -> None:
    with receivers("abc") as sockets:
        async with running(sockets) as relay:
            relay.cut([("a", "b"), ("a", "c")])
            relay.mend([("a", "b")])
            send(sockets, relay, ("a", "b"))
            send(sockets, relay, ("a", "c"))
            assert len(await received(sockets["b"])) == COUNT
            assert await received(sockets["c"]) == []


async def test_in_orders_a_site_stands_for_its_daemons() -> None:
    with receivers("abc") as sockets:
        async with running(sockets) as relay:
            commands = RelayCommands(relay, {"north": ("a", "b"), "south": ("c",)})
            commands.execute("cut north>south")
            send(sockets, relay, ("b", "c"))
            send(sockets, relay, ("c", "b"))
            assert await received(sockets["c"]) == []
            assert len(await received(sockets["b"])) == COUNT


async def test_orders_are_understood_or_answered_with_what_is_wrong(tmp_path: Path) -> None:
    with receivers("abc") as sockets:
        async with running(sockets) as relay:
            commands = RelayCommands(relay)
            for order in ("", "cut a b", "cut a>c", "split a | b c", "hold a>b 0.1", "mend"):
                commands.execute(order)
            for order in ("loss 0.5", "reorder 4", "loss 0"):
                commands.execute(order)
            for order in ("cut a x", "cut a>", "loss 2", "loss x", "stop", "split a b"):
                with pytest.raises(ConfigError):
                    commands.execute(order)
            relay.write(tmp_path / "via.json")
    written = json.loads((tmp_path / "via.json").read_text())
    assert {source: sorted(targets) for source, targets in written.items()} == {
        "a": ["b", "c"],
        "b": ["a", "c"],
        "c": ["a", "b"],
    }
