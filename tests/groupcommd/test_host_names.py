"""Daemons that are listed with the names of their hosts."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest
import trio
import trio.testing

from groupcomm.config.roster import AddDaemon, MoveDaemon, RemoveDaemon
from groupcomm.config.versions import HOST_NAMES, Versions
from groupcomm.config.votes import CountDaemon
from groupcomm.errors import ConfigError, LocalProtocolError
from groupcomm.host.addresses import Address
from groupcomm.host.key_file import write_key_file
from groupcomm_tools.local_cluster import free_ports
from groupcommd.config import present_address
from groupcommd.config.config_file import read_addresses, read_config
from groupcommd.config.daemon_config import DaemonConfig, describe
from groupcommd.config.present_address import HostUnknown
from groupcommd.config.roster_config import overruled, with_roster
from groupcommd.config.seeds import Seed, parse_host_name
from groupcommd.files.state_dir import StateDir
from groupcommd.host.loop_watch import LoopWatch
from groupcommd.joining.roster_service import RosterService
from groupcommd.network.host_names import LONGEST_LOOK_UP_S, TELL_S, HostNames
from groupcommd.network.sockets import Sockets
from groupcommd.network.udp import UdpSocket
from groupcommd.operators.assessment import check_view
from groupcommd.service import Service
from tests.groupcommd.test_networks import view_of
from tests.groupcommd.virtual import QuickState, virtual_clock

FILE = """
key_file = "key"
[sites.hall.daemons]
a = "127.0.0.1:4803"
b = "b.test:5001"
"""
B = Seed("b.test", 5001, is_name=True)
HERE, THERE = Address("10.0.0.7", 5001), Address("10.0.0.8", 5001)


def config_of(folder: Path, name: str = "a", text: str = FILE, **more: Any) -> DaemonConfig:
    if not (folder / "key").exists():
        write_key_file(folder / "key")
    path = folder / "plant.toml"
    path.write_text(text)
    return read_config(path, name=name, state_dir=folder / name, **more)


# ---- configuration ----


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("b.test", Seed("b.test", 4803, is_name=True)),
        ("dns:b.test:7", Seed("b.test", 7, is_name=True)),
        *((text, None) for text in ("10.0.0.1", "10.0.0.300", "::1", "srv:b.test", "b:0", "", "-")),
    ],
)
def test_a_name_is_told_from_an_address(text: str, found: Seed | None) -> None:
    assert parse_host_name(text) == found


def test_a_daemon_with_a_name_has_no_address_until_it_was_looked_up(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    assert config.addresses == {"a": Address("127.0.0.1", 4803)}
    assert config.names == {"b": B}
    assert (config.known, config.remote) == (frozenset("ab"), frozenset())
    entry = config.core.roster.entry("b")
    assert entry is not None
    assert entry.addresses == ("b.test:5001",), "the roster has the name"
    with pytest.raises(ConfigError, match="b: listed with a name; use digits here"):
        read_addresses(tmp_path / "plant.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FILE.replace('"b.test:5001"', '["b.test", "10.0.0.1"]'), "has addresses in digits"),
        (FILE + 'c = "b.test:5001"', "b and c are both at b.test:5001"),
        (FILE.replace('key_file = "key"', ""), "key_file is missing, and b at b.test:5001"),
    ],
)
def test_what_is_wrong_with_names_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config_of(tmp_path, text=text)


def test_a_daemon_listens_where_its_name_leads_or_on_the_way_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found: list[Address] = []
    monkeypatch.setattr(present_address, "look_up", lambda _: found)
    found[:] = THERE, Address("127.0.0.9", 5001)
    assert config_of(tmp_path, "b").addresses["b"] == Address("127.0.0.9", 5001)
    found[:] = [THERE]
    config = config_of(tmp_path, "b")
    assert config.addresses["b"] == Address("127.0.0.1", 5001)
    assert "b.test:5001 leads to 10.0.0.8, not to this host: this daemon listens" in caplog.text
    alone = FILE.replace('a = "127.0.0.1:4803"\n', "")
    with pytest.raises(HostUnknown, match=r"address of this daemon, b, .* there is no way to"):
        config_of(tmp_path, "b", alone)
    known = Address("10.0.0.9", 5001)
    assert config_of(tmp_path, "b", alone, own=known).addresses["b"] == known, "as for SIGHUP"


def test_rosters_may_have_names(tmp_path: Path) -> None:
    file = config_of(tmp_path)
    roster = file.core.roster.changed(AddDaemon(name="c", site="hall", addresses=("c.test:7",)))
    running = with_roster(attrs.evolve(file, located={"b": HERE}), roster)
    started = config_of(tmp_path, roster=roster)
    for config in (running, started):
        assert config.names == {"b": B, "c": Seed("c.test", 7, is_name=True)}
        assert list(config.addresses) == ["a"]
    assert running.located == {"b": HERE}
    counted = with_roster(running, roster.changed(CountDaemon("c")))
    assert counted.located == {"b": HERE}
    moved = with_roster(counted, counted.core.roster.changed(MoveDaemon("b", ("10.0.0.1:1",))))
    assert (moved.located, moved.addresses["b"]) == ({}, Address("10.0.0.1", 1))
    assert list(moved.names) == ["c"]
    gone = with_roster(counted, counted.core.roster.changed(RemoveDaemon("b")))
    assert (gone.located, gone.names["b"]) == ({"b": HERE}, B), "it is told that it was removed"
    (text,) = overruled(file.core.roster, {"a": (Address("127.0.0.1", 4803),)}, moved.core.roster)[
        :1
    ]
    assert text == "sites.hall.daemons.b (now at 10.0.0.1:1)"


def test_a_missing_daemon_is_shown_with_the_name_of_its_host(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    later = {"configured": ["a", "b"], "daemons": ["a"], "peers": [], "files": {"differ": []}}
    for located, way in (
        ({}, "b.test:5001 (it leads to no address: repair the name)"),
        ({"b": HERE}, "b.test:5001 (10.0.0.7:5001)"),
    ):
        told = describe(attrs.evolve(config, located=located))
        assert told["names"] == {"b": "b.test:5001"}
        found = check_view(cast("Any", SimpleNamespace(later=later, configuration=told)))
        assert f"check that UDP {way} passes" in found.remedy


async def test_no_name_gets_into_the_roster_while_a_daemon_cannot_read_that(tmp_path: Path) -> None:
    members = {"a": Versions(features=HOST_NAMES), "b": Versions()}
    protocol = SimpleNamespace(view=Versions(), members=members)
    core = cast("Any", SimpleNamespace(status=lambda _: SimpleNamespace(protocol=protocol)))
    service = RosterService(core, config_of(tmp_path))
    with pytest.raises(LocalProtocolError, match=r"^b: an earlier release, .* names of hosts"):
        service.check_addresses("c", ["c.test"])
    members["b"] = members["a"]
    assert service.check_addresses("c", ["c.test"]) == ("c.test:4803",)
    with pytest.raises(ConfigError, match=r"b is at b.test:5001 already"):
        service.check_addresses("c", ["dns:b.test:5001"])
    assert service.check_addresses("b", ["b.test:5001"]) == ("b.test:5001",)


def test_a_daemon_that_is_nowhere_yet_gets_nothing() -> None:
    own = Address("127.0.0.1", 0)
    with_socket = UdpSocket(own, {}, absent=["b"])
    try:
        with_socket.send([("b", b"x"), ("a", b"own")])
        with_socket.send([("b", b"x")])
        with_socket.socket.setblocking(True)
        with_socket.socket.settimeout(1.0)
        assert with_socket.socket.recv(9) == b"own", "an unknown name is the daemon's own"
        assert with_socket.sent_bytes == 3
    finally:
        with_socket.close()


# ---- lookups ----


@attrs.define
class Scene:
    """One watched name on virtual time.

    Attributes:
        answer: the addresses that a lookup finds; None: it fails.
        asked: the times of lookups.
        hears: whether the daemon says that it hears this one.
        located: the addresses that were told, with their times.
    """

    config: DaemonConfig
    answer: list[Address] | None = None
    asked: list[float] = attrs.field(factory=list)
    hears: bool = False
    located: list[tuple[float, Address]] = attrs.field(factory=list)

    async def look_up(self, host: Seed) -> list[Address]:
        assert host == B
        self.asked.append(trio.current_time())
        if self.answer is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.answer

    def locate(self, name: str, address: Address) -> None:
        assert name == "b"
        if not self.located or self.located[-1][1] != address:
            self.located.append((trio.current_time(), address))

    def heard(self, _: float) -> Iterator[tuple[str, bool, bool]]:
        yield "b", True, self.hears


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


@asynccontextmanager
async def watched(folder: Path) -> AsyncIterator[tuple[Scene, HostNames]]:
    config = config_of(folder)
    own = {"a": Address("10.0.0.1", 4803)}
    scene = Scene(attrs.evolve(config, addresses=own))
    names = HostNames(scene, cast("Any", scene), scene.look_up)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(names.run, config.names)
        yield scene, names
        nursery.cancel_scope.cancel()


async def test_a_name_is_looked_up_until_it_leads_somewhere(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with watched(tmp_path) as (scene, _):
        begun = trio.current_time()
        await trio.sleep(TELL_S + LONGEST_LOOK_UP_S)
        assert [at - begun for at in scene.asked[:5]] == pytest.approx([0, 0.25, 0.75, 1.75, 3.75])
        steps = [b - a for a, b in zip(scene.asked[5:], scene.asked[6:], strict=False)]
        assert steps == pytest.approx([LONGEST_LOOK_UP_S] * len(steps))
        assert len(caplog.messages) == 2, "at first, and after a minute"
        assert caplog.messages[0] == (
            "daemon b: b.test:5001 cannot be looked up: Name or service not known; datagrams to it"
            " go nowhere until a lookup succeeds; the next ones are in 0.25 to 5 s"
        )
        scene.answer = [Address("::1", 5001), Address("10.0.0.1", 4803)]
        await trio.sleep(TELL_S + LONGEST_LOOK_UP_S)
        assert "it leads to no address that this daemon can send to" in caplog.text
        scene.answer = [HERE]
        await trio.sleep(LONGEST_LOOK_UP_S)
        assert [at for _, at in scene.located] == [HERE]


async def test_a_daemon_that_does_not_hear_this_one_is_looked_up_again(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with watched(tmp_path) as (scene, names):
        scene.answer, scene.hears = [HERE], True
        await trio.sleep(60)
        assert len(scene.asked) == 1
        scene.hears, scene.answer, silent = False, [THERE], trio.current_time()
        await trio.sleep(2)
        assert scene.located[-1][1] == THERE
        assert scene.located[-1][0] <= silent + 1.25
        scene.answer = [THERE, HERE]
        await trio.sleep(LONGEST_LOOK_UP_S)
        assert HERE in [at for _, at in scene.located[2:]], "each of several addresses is tried"
        scene.answer = None
        asked = len(scene.asked)
        await trio.sleep(30)
        assert asked + 6 <= len(scene.asked) <= asked + 8
        told = len(scene.located)
        names.use({})
        asked = len(scene.asked)
        await trio.sleep(60)
        assert (len(scene.asked), len(scene.located)) == (asked, told)


async def test_a_removed_daemon_is_looked_up_rarely_and_in_silence(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with watched(tmp_path) as (scene, _):
        scene.config = with_roster(
            scene.config, scene.config.core.roster.changed(RemoveDaemon("b"))
        )
        await trio.sleep(10 * TELL_S)
        assert 10 < len(scene.asked) < 20
        assert not caplog.messages
        scene.answer = [HERE]
        await trio.sleep(TELL_S)
        assert [at for _, at in scene.located] == [HERE], "so it can be told that it was removed"


async def test_few_names_are_looked_up_at_a_time(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """A server that does not answer keeps no disk waiting for a thread."""
    busy = most = 0

    async def hang(_: Seed) -> list[Address]:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await trio.sleep(1)
        busy -= 1
        return [HERE]

    async with watched(tmp_path) as (scene, _), trio.open_nursery() as nursery:
        scene.answer = [HERE]
        locator = SimpleNamespace(config=scene.config, locate=lambda *_: None)
        names = HostNames(cast("Any", locator), cast("Any", scene), hang)
        hosts = {f"d{at}": Seed(f"d{at}.test", 1, is_name=True) for at in range(20)}
        nursery.start_soon(names.run, hosts)
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    assert most == 4


# ---- whole daemons ----


LookUp = Callable[[Seed], Awaitable[list[Address]]]


async def serve(
    config: DaemonConfig,
    state: StateDir,
    look_up: LookUp,
    task_status: trio.TaskStatus[Service] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a service with real sockets."""
    config = attrs.evolve(config, unix=config.state_dir / "sock", spread_unix=None)
    with Sockets(config) as sockets:
        service = Service(config, state, state.begin(config.name), sockets, look_up)
        service.loop = LoopWatch(bool)  # the loop is that of a test, which may keep it busy
        task_status.started(service)
        await service.run()


async def until_view(service: Service, names: list[str]) -> None:
    with trio.fail_after(4 * LONGEST_LOOK_UP_S):
        while view_of(service) != names:
            await trio.sleep(0.1)


async def test_daemons_find_each_other_by_name_also_at_another_address(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = free_ports("127.0.0.1", 2)
    text = 'preset = "local"' + FILE.replace("4803", str(a)).replace("b.test:5001", f"b.test:{b}")
    found: list[Address] = []
    monkeypatch.setattr(present_address, "look_up", lambda _: [Address("127.0.0.1", b)])

    async def look_up(_: Seed) -> list[Address]:
        if not found:
            raise OSError("no such name")
        return list(found)

    configs = [config_of(tmp_path, name, text) for name in "ab"]
    with ExitStack() as stack:
        states = [stack.enter_context(closing(QuickState(each.state_dir))) for each in configs]
        await meet_twice(configs, states, look_up, found)


async def meet_twice(
    configs: Sequence[DaemonConfig],
    states: Sequence[StateDir],
    look_up: LookUp,
    found: list[Address],
) -> None:
    """Start two daemons, and the second one again at another address; `found` is what lookups
    find.
    """
    config, state = configs[1], states[1]
    b = config.names["b"].port
    async with trio.open_nursery() as nursery:
        one = await nursery.start(serve, configs[0], states[0], look_up)
        async with trio.open_nursery() as first:
            await first.start(serve, config, state, look_up)
            await trio.sleep(5 * config.core.timing.token_timeout_s)
            assert view_of(one) == ["a"], "a daemon that is nowhere is not heard"
            found[:] = [Address("127.0.0.1", b)]
            await until_view(one, ["a", "b"])
            first.cancel_scope.cancel()
        await until_view(one, ["a"])
        found[:] = [Address("127.0.0.2", b)]
        there = {**config.addresses, "b": found[0]}
        await nursery.start(serve, attrs.evolve(config, addresses=there), state, look_up)
        await until_view(one, ["a", "b"])
        nursery.cancel_scope.cancel()
