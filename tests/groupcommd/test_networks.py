"""Daemons with several addresses: the networks that they use, and views over the rest of them."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from groupcomm.config.core import Timing
from groupcomm.engine import DaemonCore
from groupcomm.host.addresses import Address
from groupcomm.membership.states import MembershipState
from groupcomm_tools.local_cluster import START_S, LocalDaemon, free_ports
from groupcommd.config.config_file import read_config
from groupcommd.network.networks import Networks
from groupcommd.network.sockets import Sockets
from groupcommd.service import Service
from tests.groupcomm.engine.cluster import Cluster
from tests.groupcommd.virtual import QuickState, virtual_clock

HOSTS = ("127.71.3.1", "127.71.3.2")
TIMING = Timing()


def addresses(names: str) -> dict[str, tuple[Address, ...]]:
    ports = [free_ports(host, len(names)) for host in HOSTS]
    return {
        name: tuple(Address(host, ports[at][place]) for at, host in enumerate(HOSTS))
        for place, name in enumerate(names)
    }


def opened(places: dict[str, tuple[Address, ...]], name: str, far: str = "") -> Networks:
    others = {other: place for other, place in places.items() if other != name}
    return Networks(places[name], others, TIMING, remote=far)


@pytest.fixture
def three() -> Iterator[tuple[Networks, Networks, Networks]]:
    places = addresses("abc")
    found = tuple(opened(places, name) for name in "abc")
    yield found[0], found[1], found[2]
    for each in found:
        each.close()


def drained(networks: Networks, wanted: int) -> list[list[bytes]]:
    """Return arrivals, drain by drain, until this many have come and no more do."""
    found: list[list[bytes]] = []
    for _ in range(1000):
        if batch := networks.drain():
            found.append(batch)
        elif sum(map(len, found)) >= wanted:
            return found
    return found


def hear(
    ears: Networks,
    mouth: Networks,
    network: int,
    name: str,
    now: float,
    *,
    hears_me: bool = True,
) -> None:
    """Let a daemon be heard on one network, as the core would tell it."""
    mouth._networks[network].send([("a", b"beacon")])
    assert drained(ears, 1) == [[b"beacon"]]
    ears.note([(name, True, hears_me)], now)


def test_all_networks_are_used_until_somebody_was_heard(
    three: tuple[Networks, Networks, Networks],
) -> None:
    a, b, c = three
    a.send([("b", b"one"), (None, b"all")])
    assert drained(b, 4) == [[b"one", b"all"]] * 2
    assert drained(c, 2) == [[b"all"]] * 2
    assert a.networks_to("nobody") == (0,)  # its own name, or one that is not listed


def test_the_first_network_on_which_a_daemon_answers_is_used(
    three: tuple[Networks, Networks, Networks],
) -> None:
    a, b, _ = three
    hear(a, b, 1, "b", 5.0)
    assert a.networks_to("b") == (1,)
    hear(a, b, 0, "b", 5.1)
    assert a.networks_to("b") == (0,)
    a.send([("b", b"one"), ("b", b"two")])
    assert drained(b, 2) == [[b"one", b"two"]]


def test_a_network_that_fails_is_left_in_time(three: tuple[Networks, Networks, Networks]) -> None:
    a, b, _ = three
    hear(a, b, 0, "b", 5.0)
    left = 5.0
    while a.networks_to("b") == (0,):
        left += TIMING.beacon_interval_s
        a.note([("b", False, left <= 5.0 + a.fresh_s)], left)
    assert left - 5.0 < TIMING.token_timeout_s
    assert a.networks_to("b") == (0, 1)
    hear(a, b, 1, "b", left)
    assert a.networks_to("b") == (1,)


def test_who_does_not_hear_is_sent_to_on_all_networks(
    three: tuple[Networks, Networks, Networks],
) -> None:
    a, b, _ = three
    hear(a, b, 0, "b", 5.0, hears_me=False)
    assert a.networks_to("b") == (0, 1)


def test_all_members_may_be_on_different_networks(
    three: tuple[Networks, Networks, Networks],
) -> None:
    a, b, c = three
    hear(a, b, 0, "b", 5.0)
    hear(a, c, 1, "c", 5.0)
    a.send([(None, b"all")])
    assert (drained(b, 1), drained(c, 1)) == ([[b"all"]], [[b"all"]])


def test_a_daemon_with_one_address_is_on_the_first_network_only() -> None:
    places = addresses("ab")
    places["b"] = places["b"][:1]
    a = opened(places, "a")
    assert a.networks_to("b") == (0,)
    a.close()


# ---- what a core tells of those that it hears ----


def heard(core: DaemonCore, since: float) -> dict[str, tuple[bool, bool]]:
    """By name: whether it was heard with the last step, and says that it hears this daemon."""
    return {name: (is_heard, hears) for name, is_heard, hears in core.heard(since)}


def test_a_core_tells_whom_it_has_heard_with_the_last_step() -> None:
    cluster = Cluster("abc")
    cluster.start("abc")
    cluster.run(1.0)
    cluster.isolate("a", "b", "c")
    cluster.run(0.2)
    core, since = cluster.cores["a"], cluster.now - 1.0
    cluster.step("a", [], [])
    assert heard(core, since) == {"b": (False, True), "c": (False, True)}
    lost = [datagram for _, one, other, datagram in cluster.log if (one, other) == ("b", "a")]
    cluster.step("a", lost[-1:], [])
    assert heard(core, since) == {"b": (True, True), "c": (False, True)}


def test_a_core_tells_who_has_not_said_lately_that_it_hears_it() -> None:
    cluster = Cluster("abc")
    cluster.start("abc")
    cluster.run(1.0)
    core, fresh_s = cluster.cores["a"], 3 * TIMING.beacon_interval_s
    cluster.deafen("b", "a")
    cluster.run(2 * fresh_s + TIMING.token_timeout_s)
    told = heard(core, cluster.now - fresh_s)
    assert (told["b"][1], told["c"][1]) == (False, True)
    cluster.isolate("a", "b", "c")
    cluster.run(0.5 * fresh_s)
    assert heard(core, cluster.now - fresh_s)["c"][1]
    cluster.run(0.6 * fresh_s)
    assert not heard(core, cluster.now - fresh_s)["c"][1]


# ---- daemons ----

CONFIG = """
clients.tcp = "off"
clients.spread_unix = "off"
[sites.main.daemons]
a = [{a}]
b = [{b}]
"""


async def test_a_view_forms_over_the_second_network_if_the_first_is_dead(tmp_path: Path) -> None:
    """Each has a wrong first address of the other one; in the view nothing goes there."""
    a, b, *others = addresses("abcd").values()  # together, so that all ports differ
    right, wrong = {"a": a, "b": b}, dict(zip("ab", others, strict=True))
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


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


@asynccontextmanager
async def two_daemons(folder: Path) -> AsyncIterator[Sequence[Service]]:
    """Services on virtual time, in one view, with real sockets on both networks."""
    places = addresses("ab")
    texts = {name: ", ".join(f'"{place}"' for place in places[name]) for name in places}
    path = folder / "cluster.toml"
    path.write_text(CONFIG.format(**texts))
    services = []
    with ExitStack() as stack:
        async with trio.open_nursery() as nursery:
            for name in "ab":
                config = read_config(path, name=name, state_dir=folder / name, make_key=True)
                config = attrs.evolve(config, unix=folder / f"{name}.sock")
                sockets = stack.enter_context(Sockets(config))
                state = QuickState(config.state_dir)
                stack.callback(state.close)
                service = Service(config, state, state.begin(name), sockets)
                services.append(service)
                nursery.start_soon(service.run)
            with trio.fail_after(5.0):
                while any(view_of(service) != ["a", "b"] for service in services):
                    await trio.sleep(0.01)
            yield services
            nursery.cancel_scope.cancel()


def view_of(service: Service) -> list[str]:
    """The daemons of its view, once it is in one."""
    view = service.core.view
    if view is None or service.core.state is not MembershipState.OPERATIONAL:
        return []
    return [daemon.name for daemon in view.daemons]


async def test_a_network_that_dies_ends_no_view_though_nothing_at_all_comes_any_more(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_daemons(tmp_path) as services:
        await trio.sleep(1.0)
        views = [service.core.view for service in services]
        for service, other in zip(services, "ba", strict=True):
            networks = service._networks
            assert networks is not None
            assert networks.networks_to(other) == (0,)
            monkeypatch.setattr(networks._networks[0], "send", lambda _: None)
        await trio.sleep(3.0)
        assert [service.core.view for service in services] == views
        assert [service.core.state for service in services] == [MembershipState.OPERATIONAL] * 2
