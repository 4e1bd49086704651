"""Daemons' shells on virtual time, with a network in this process instead of UDP.

Everything else is real: sockets of clients, folders, the event loop; only its clock jumps whenever
all wait for it.
"""

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, cast

import attrs
import trio
import trio.testing

from groupcomm.engine import Segmentation
from groupcomm.host.addresses import DEFAULT_HOST, DEFAULT_PORT, Address
from groupcommd.config.config_file import read_config
from groupcommd.config.daemon_config import DaemonConfig
from groupcommd.files.state_dir import StateDir, StateRecord
from groupcommd.host.loop_watch import LoopWatch
from groupcommd.http.channel import Channel
from groupcommd.http.server import HttpServer, serve
from groupcommd.http.supervisor import HttpSupervisor
from groupcommd.http.supply import Supply
from groupcommd.network.sockets import HttpSocket, Sockets, listen_tcp, listen_unix, open_http
from groupcommd.network.udp import Asked
from groupcommd.programs.credentials import read_tls_credentials
from groupcommd.programs.listeners import Listener, TlsListener, unix_listener
from groupcommd.programs.local_users import owners
from groupcommd.service import Service

DELAY_S: Final = 0.0002

JUMP_AFTER_S: Final = 0.003
"""Real time in which nothing happens; threads and sockets of one process take less."""


def virtual_clock() -> trio.testing.MockClock:
    """A clock that jumps to the next awaited time."""
    return trio.testing.MockClock(autojump_threshold=JUMP_AFTER_S)


class FakeUdp:
    """The part of a `UdpSocket` that a service needs: datagrams come out of a list."""

    lost = sent_bytes = received_bytes = 0
    gso = gro = False
    buffer_bytes = dropped = 0
    filtered = False
    segments: Final[dict[str, int]] = {"joined": 0, "given_up": 0, "junk": 0, "kept_bytes": 0}
    address = Address(DEFAULT_HOST, DEFAULT_PORT)

    def __init__(self, network: "FakeNetwork", name: str) -> None:
        self._network = network
        self._name = name
        self._bell, self._button = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._bell.setblocking(False)
        self._arrived: list[bytes] = []
        self.sockets = [self._bell]

    def arrive(self, datagrams: Sequence[bytes]) -> None:
        """They are there now."""
        self._arrived += datagrams
        self._button.send(b"!")

    def drain(self) -> list[bytes]:
        """See UdpSocket."""
        try:
            while self._bell.recv(1):
                continue
        except BlockingIOError:
            arrived, self._arrived = self._arrived, []
            return arrived
        return []

    def pop_asked(self) -> list[Asked]:
        return []

    def pop_strange(self) -> int:
        """See UdpSocket; nothing comes in segments."""
        return 0

    def measure_path(self) -> None:
        """See UdpSocket; nothing is known."""

    def use_segmentation(self, segmentation: Segmentation) -> None:
        """See UdpSocket; every datagram passes whole."""

    def source_of(self, index: int) -> None:
        """See UdpSocket; nobody is a stranger here."""

    def filter(self, wanted: object) -> None:
        """See UdpSocket; it needs none."""

    def learn(self, *, clean: bool) -> None:
        """See UdpSocket; all is from its network."""

    def send(self, transmissions: Sequence[tuple[str | None, bytes]]) -> None:
        """See UdpSocket."""
        self._network.carry(self._name, transmissions)

    def close(self) -> None:
        """Give the sockets back."""
        self._bell.close()
        self._button.close()


class FakeNetwork:
    """Carries datagrams between daemons of this process.

    Attributes:
        cut: daemons whose datagrams are lost, in both directions.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.ends: dict[str, FakeUdp] = {}
        self.cut: set[str] = set()

    def carry(self, source: str, transmissions: Sequence[tuple[str | None, bytes]]) -> None:
        """Bring them to where they are meant for, a little later."""
        if source not in self.cut:
            self._nursery.start_soon(self._carry, source, list(transmissions))

    async def _carry(self, source: str, transmissions: list[tuple[str | None, bytes]]) -> None:
        await trio.sleep(DELAY_S)
        for name, end in self.ends.items():
            mine = [data for target, data in transmissions if target in (None, name)]
            if mine and name != source and name not in self.cut:
                end.arrive(mine)


class QuickState(StateDir):
    """A state folder whose disk takes no time: while it syncs, virtual time would fly."""

    def _write(self, record: StateRecord) -> None:
        self._record = record


@attrs.define
class FakeSockets:
    """Stands for `Sockets`."""

    udp: FakeUdp
    listeners: list[Listener]
    tls_listener: TlsListener | None = None
    http: HttpSocket | None = None
    tls: Address | None = None


class HttpTask:
    """The HTTP process as a task of this process.

    Attributes:
        server: the process that answers; None until the daemon has sent it the settings.
    """

    def __init__(
        self, nursery: trio.Nursery, listening: socket.socket, channel: socket.socket
    ) -> None:
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self.server: HttpServer | None = None
        nursery.start_soon(self._run, listening, channel.dup())

    async def _run(self, listening: socket.socket, end: socket.socket) -> None:
        def note(server: HttpServer) -> None:
            self.server = server

        with end, self._scope:
            await serve(listening, Channel(end), note)
        self._ended.set()

    async def end(self) -> str:
        """See HttpProcess."""
        await self._ended.wait()
        return "over"

    def kill(self) -> None:
        """See HttpProcess."""
        self._scope.cancel()


class VirtualService(Service):
    """A service whose HTTP is answered in this process.

    Attributes:
        http_tasks: the processes that have answered it, the latest last.
    """

    http_tasks: list[HttpTask]

    def _serve_http(self, at: HttpSocket, nursery: trio.Nursery) -> None:
        self.http_tasks = []

        def start(listening: socket.socket, channel: socket.socket) -> HttpTask:
            self.http_tasks.append(HttpTask(nursery, listening, channel))
            return self.http_tasks[-1]

        self._http = HttpSupervisor(at.socket, lambda: self.config, self._parts, start)
        nursery.start_soon(self._http.run)


@attrs.define
class Daemon:
    """One service, and where its clients connect."""

    service: VirtualService
    unix: Path
    tls: str
    http: str = ""

    @property
    def http_server(self) -> HttpServer:
        """What answers HTTP."""
        server = self.service.http_tasks[-1].server
        assert server is not None
        return server

    @property
    def supply(self) -> Supply:
        """What tells it."""
        assert self.service._http is not None
        return self.service._http.supply

    @property
    def members(self) -> str:
        """The daemons of its view."""
        view = self.service.core.view
        return "".join(daemon.name for daemon in view.daemons) if view is not None else ""


class Daemons:
    """Services that run in this process.

    Attributes:
        network: the network between them.
        all: the daemons by name.
    """

    def __init__(self, network: FakeNetwork) -> None:
        self.network = network
        self.all: dict[str, Daemon] = {}

    def __getitem__(self, name: str) -> Daemon:
        return self.all[name]

    async def settle(self, names: str, within_s: float) -> float:
        """Wait until these are in one view; virtual seconds that took."""
        started = trio.current_time()
        with trio.fail_after(within_s):
            while any(self[name].members != names for name in names):
                await trio.sleep(0.001)
        return trio.current_time() - started


@asynccontextmanager
async def virtual_daemons(
    folder: Path, names: str, clients: str = "", head: str = ""
) -> AsyncIterator[Daemons]:
    """Run a daemon for each letter, in one view at first; `clients` is TOML of that table, `head`
    of what stands in none.
    """
    lines = [f'{name} = "127.0.0.1:{4000 + at}"' for at, name in enumerate(names)]
    config_file = folder / "cluster.toml"
    config_file.write_text(
        "\n".join([head, "[sites.main.daemons]", *lines, "[clients]", 'tcp = "off"', clients])
    )
    async with trio.open_nursery() as nursery:
        daemons = Daemons(FakeNetwork(nursery))
        for name in names:
            config = read_config(config_file, name=name, state_dir=folder / name, make_key=True)
            config = attrs.evolve(config, unix=folder / f"{name}.sock")
            await nursery.start(_serve, daemons, config)
        await daemons.settle(names, 5.0)
        yield daemons
        nursery.cancel_scope.cancel()


async def _serve(
    daemons: Daemons,
    config: DaemonConfig,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    owners()  # read before virtual time matters
    name, listening = config.name, listen_unix(config.unix)
    listeners, tls_listener = [unix_listener(listening)], None
    if config.tls is not None:
        tls_listener = TlsListener(listen_tcp(config.tls.address), read_tls_credentials(config.tls))
        listeners.append(tls_listener)
    udp = daemons.network.ends[name] = FakeUdp(daemons.network, name)
    state = QuickState(config.state_dir)
    stack = ExitStack()
    http = open_http(config, config.http, stack) if config.http is not None else None
    port = tls_listener.socket.getsockname()[1] if tls_listener is not None else 0
    tls = Address(DEFAULT_HOST, port) if tls_listener is not None else None
    sockets = cast(Sockets, FakeSockets(udp, listeners, tls_listener, http, tls))
    service = VirtualService(config, state, state.begin(config.name), sockets)
    service.loop = LoopWatch(bool)  # the loop is that of a test, which may keep it busy
    daemons.all[name] = Daemon(service, config.unix, f"tls://127.0.0.1:{port}")
    daemons.all[name].http = http.name if http is not None else ""
    try:
        task_status.started()
        await service.run()
    finally:
        del daemons.network.ends[name]
        udp.close()
        stack.close()
        for listener in listeners:
            listener.socket.close()
        state.close()


def reload(service: Service, folder: Path, file: Path | None = None) -> None:
    """Have a daemon of this folder, a, read its configuration as at SIGHUP."""
    file = file or folder / "cluster.toml"
    config = read_config(file, name="a", state_dir=folder / "a", make_key=True)
    config = attrs.evolve(config, unix=folder / "a.sock")
    service.reload(config, service.read_files(config))
