"""Daemons with several addresses: which networks are used, and a view over what is left of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from groupcomm.config.core import Timing
from groupcomm.config.view import Incarnation
from groupcomm.membership.peers import Peer
from groupcomm.wire.membership import Beacon
from groupcomm_client.local_cluster import START_S, LocalDaemon, free_ports
from groupcommd.addresses import Address
from groupcommd.networks import Networks

HOSTS = ("127.71.3.1", "127.71.3.2")
TIMING = Timing()
ME = (1, 10)
"""Number and random id of a."""


def addresses(names: str) -> dict[str, tuple[Address, ...]]:
    ports = [free_ports(host, len(names)) for host in HOSTS]
    return {
        name: tuple(Address(host, ports[at][place]) for at, host in enumerate(HOSTS))
        for place, name in enumerate(names)
    }


def opened(places: dict[str, tuple[Address, ...]], name: str, far: str = "") -> Networks:
    others = {other: place for other, place in places.items() if other != name}
    return Networks(places[name], others, TIMING, far=far)


@pytest.fixture
def three() -> Iterator[tuple[Networks, Networks, Networks]]:
    places = addresses("abc")
    found = tuple(opened(places, name) for name in "abc")
    yield found[0], found[1], found[2]
    for each in found:
        each.close()


def heard(name: str, at: float, *, hears_me: bool = True) -> Peer:
    """A daemon that was heard at a time, and told then whom it hears."""
    peer = Peer(ord(name), name, Incarnation(1, 20))
    peer.heard_at = peer.beacon_at = at
    peer.beacon = Beacon(0, bytes(16), (ME,) if hears_me else (), bytes(16), 0, 1, 0)
    return peer


def drained(networks: Networks, wanted: int) -> list[list[bytes]]:
    """What comes, drain by drain, until so many have come and nothing else does."""
    found: list[list[bytes]] = []
    for _ in range(1000):
        if batch := networks.drain():
            found.append(batch)
        elif sum(map(len, found)) >= wanted:
            return found
    return found


def hear(ears: Networks, mouth: Networks, network: int, peer: Peer, now: float) -> None:
    """Let a daemon be heard on one network, as the core would note it."""
    mouth._networks[network].send([("a", b"beacon")])
    assert drained(ears, 1) == [[b"beacon"]]
    ears.note([peer], ME, now)


def test_all_networks_are_used_until_somebody_was_heard(
    three: tuple[Networks, Networks, Networks],
) -> None:
    a, b, c = three
    a.send([("b", b"one"), (None, b"all")])
    assert drained(b, 4) == [[b"one", b"all"]] * 2
    assert drained(c, 2) == [[b"all"]] * 2
    assert a.ways("nobody") == (0,)  # its own name, or one that is not listed


def test_the_first_network_on_which_a_daemon_answers_is_used(
    three: tuple[Networks, Networks, Networks],
) -> None:
    a, b, _ = three
    hear(a, b, 1, heard("b", 5.0), 5.0)
    assert a.ways("b") == (1,)
    hear(a, b, 0, heard("b", 5.1), 5.1)
    assert a.ways("b") == (0,)
    a.send([("b", b"one"), ("b", b"two")])
    assert drained(b, 2) == [[b"one", b"two"]]


def test_a_network_that_fails_is_left_in_time(three: tuple[Networks, Networks, Networks]) -> None:
    a, b, _ = three
    hear(a, b, 0, heard("b", 5.0), 5.0)
    silent = heard("b", 5.0)
    left = 5.0
    while a.ways("b") == (0,):
        left += TIMING.beacon_interval_s
        a.note([silent], ME, left)
    assert left - 5.0 < TIMING.token_timeout_s
    assert a.ways("b") == (0, 1)
    hear(a, b, 1, heard("b", left), left)
    assert a.ways("b") == (1,)


def test_who_does_not_hear_is_sent_to_on_all_networks(
    three: tuple[Networks, Networks, Networks],
) -> None:
    a, b, _ = three
    hear(a, b, 0, heard("b", 5.0, hears_me=False), 5.0)
    assert a.ways("b") == (0, 1)


def test_all_fellows_may_be_on_different_networks(
    three: tuple[Networks, Networks, Networks],
) -> None:
    a, b, c = three
    peers = heard("b", 5.0), heard("c", 5.0)
    hear(a, b, 0, peers[0], 5.0)
    hear(a, c, 1, peers[1], 5.0)
    a.send([(None, b"all")])
    assert (drained(b, 1), drained(c, 1)) == ([[b"all"]], [[b"all"]])


def test_a_daemon_with_one_address_is_on_the_first_network_only() -> None:
    places = addresses("ab")
    places["b"] = places["b"][:1]
    a = opened(places, "a")
    assert a.ways("b") == (0,)
    a.close()


CONFIG = """
clients.tcp = "off"
[sites.main.daemons]
a = [{a}]
b = [{b}]
"""


async def test_a_view_forms_over_the_second_network_if_the_first_is_dead(tmp_path: Path) -> None:
    """Each has a wrong first address of the other one; in the view nothing goes there."""
    right, wrong = addresses("ab"), addresses("ab")
    daemons = []
    for name in "ab":
        told = {
            other: (places if other == name else (wrong[other][0], places[1]))
            for other, places in right.items()
        }
        texts = {key: ", ".join(f'"{place}"' for place in told[key]) for key in told}
        path = tmp_path / f"{name}.toml"
        path.write_text(CONFIG.format(**texts))
        daemons.append(LocalDaemon(tmp_path, name, path, ()))
    try:
        for daemon in daemons:
            await daemon.start()
        with trio.fail_after(START_S):
            while [daemon.view[1] for daemon in daemons] != [("a", "b")] * 2:
                await trio.sleep(0.01)
    finally:
        for daemon in daemons:
            daemon.stop()
