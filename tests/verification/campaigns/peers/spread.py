"""Spread's daemons: agreed order, like ours, in C; and its client, the library by ctypes.

Spread is packaged nowhere, so it is measured where its daemon `spread` is in PATH and the linker
finds its library, or where SPREAD_DAEMON and SPREAD_LIBRARY name both files.
"""

import ctypes
import ctypes.util
import os
import select
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from ctypes import byref, c_char, c_int, c_int16, c_short
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Final, Self

import trio

from groupcomm.errors import GroupCommError
from groupcomm_tools.bench.plan import GROUP, Plan
from groupcomm_tools.bench.runs import Command
from tests.verification.campaigns.peers.launching import (
    START_S,
    Programs,
    last_words,
    not_installed,
    open_server,
    packages_of,
)
from tests.verification.campaigns.peers.nodes import Node, open_nodes, run
from tests.verification.campaigns.peers.peer import LISTEN_S, Client, Peer, Servers

PORT: Final = 4803
LOOPBACK_MTU: Final = 60_000
"""As for the other systems; Spread's packets have 1,472 bytes."""

_HEADERS: Final = Path("tests", "groupcomm_client", "spread_header")
_AGREED: Final = 0x10
_SELF_DISCARD: Final = 0x40
_REGULAR: Final = 0x3F
_MEMBERSHIP: Final = 0x1000
_NAME: Final = 32
_GROUPS: Final = 100
_LARGEST: Final = 144_000
_AT_ONCE: Final = 256
_WAIT_S: Final = 15.0
_SETTLED_S: Final = 1.0
_BY_LINES: Final = ("stdbuf", "--output=L")
"""Has the daemon write its log line by line."""

SETTINGS: Final = """DebugFlags = {{ PRINT EXIT }}
MaxSessionMessages = 200000
DaemonUser = root
DaemonGroup = root
RuntimeDir = {folder}
"""
"""The lines of a configuration behind its segments; `members` reads what the flags have logged."""

_CONFIGURATION: Final = (
    """Spread_Segment {segment}:{port} {{
{nodes}}}
"""
    + SETTINGS
)


class SpreadClient(Client):
    """A member of the group, or a sender.

    Its daemon is reached by TCP: the name of its unix socket is the same for all daemons of a host.
    """

    window_bytes: ClassVar[int] = 4 << 20  # it ends the session of a receiver with too many waiting

    def __init__(self, address: str, *, sends: bool) -> None:
        self._library = ctypes.CDLL(library())
        self._box = c_int()
        private = ctypes.create_string_buffer(_NAME)
        name = b"s" if sends else b"r%d" % (os.getpid() % 100_000)
        self._check(
            "SP_connect",
            self._library.SP_connect(
                f"{PORT}@{address}".encode(), name, 0, int(not sends), byref(self._box), private
            ),
        )
        self._poll = select.poll()
        self._poll.register(self._box.value, select.POLLIN)
        self._service, self._count = c_int(), c_int()
        self._type, self._mismatch = c_int16(), c_int()
        self._sender = (c_char * _NAME)()
        self._groups = (c_char * (_NAME * _GROUPS))()
        self._data = ctypes.create_string_buffer(_LARGEST)

    @classmethod
    async def open(cls, address: str, plan: Plan, *, sends: bool) -> Self:
        client = cls(address, sends=sends)
        if sends:
            time.sleep(_SETTLED_S)  # receivers have joined at their daemons, but not yet at ours
            return client
        client._check("SP_join", client._library.SP_join(client._box, GROUP.encode()))
        deadline = time.monotonic() + _WAIT_S
        while not client._receive()[0] & _MEMBERSHIP:
            if time.monotonic() > deadline:
                raise GroupCommError("its daemon does not let it join")
        return client

    async def send(self, messages: Sequence[bytes]) -> None:
        multicast, box, group = self._library.SP_multicast, self._box, GROUP.encode()
        kind = c_short(0)
        for data in messages:
            status = multicast(box, _AGREED | _SELF_DISCARD, group, kind, len(data), data)
            if status != len(data):
                raise GroupCommError(f"SP_multicast fails with status {status}")

    async def receive(self) -> list[bytes]:
        if not self._poll.poll(LISTEN_S * 1000):
            return []
        batch: list[bytes] = []
        while len(batch) < _AT_ONCE:
            service, data = self._receive()
            if service & _REGULAR:
                batch.append(data)
            if not self._poll.poll(0):
                break
        return batch

    def _receive(self) -> tuple[int, bytes]:
        """Wait for the next message; return its type and its data."""
        self._service.value = 0
        length = self._library.SP_receive(
            *(self._box, byref(self._service), self._sender, _GROUPS, byref(self._count)),
            *(self._groups, byref(self._type), byref(self._mismatch), _LARGEST, self._data),
        )
        self._check("SP_receive", length)
        return self._service.value, ctypes.string_at(self._data, length)

    def _check(self, function: str, status: int) -> None:
        if status < 0 or (function == "SP_connect" and status != 1):
            raise GroupCommError(f"{function} fails with status {status}; does spread run?")


CLIENT = SpreadClient


class Spread(Peer):
    """Daemons in one segment, on nodes of their own if there are several.

    Args:
        mtu: the MTU of the network, bytes.
    """

    name = family = "spread"
    sending = "one call per message"

    def __init__(self, mtu: int = LOOPBACK_MTU) -> None:
        self._mtu = mtu

    def adapted(self, plan: Plan) -> Plan | None:
        return plan if plan.size <= _LARGEST else None

    def missing(self) -> str:
        if not daemon() or not library():
            return "not installed; build it, and set SPREAD_DAEMON and SPREAD_LIBRARY to its files"
        if os.geteuid():
            return "each node has a network of its own; run it as root"
        return ""

    @asynccontextmanager
    async def open(self, plan: Plan) -> AsyncIterator[Servers]:
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="groupcomm-")))
            nodes = stack.enter_context(open_nodes(plan.daemons, self._mtu, ()))
            path = folder / "spread.conf"
            path.write_text(configuration(nodes, folder))
            pids, logs = [], []
            for at, node in enumerate(nodes):
                logs.append(folder / f"{node.address}.log")
                server = (daemon(), "-n", f"n{at + 1}", "-c", str(path))
                command = [*node.prefix, *_BY_LINES, *server]
                log = logs[-1]
                pids.append(await stack.enter_async_context(open_server(command, log, log.exists)))
            stack.callback(Path(f"/tmp/{PORT}").unlink, missing_ok=True)
            await _formed(nodes, logs)
            addresses = [node.address for node in nodes]
            prefixes = [node.prefix for node in nodes]
            yield Servers(pids, self.programs(addresses, folder, prefixes))

    def programs(
        self, addresses: Sequence[str], folder: Path, prefixes: Sequence[Sequence[str]]
    ) -> Programs:
        """Return what makes the command lines of its programs."""
        return Programs(__name__, addresses, folder, prefixes)


class SpreadInC(Spread):
    """The same with programs in C, as most of Spread's users have."""

    name = "spread, programs in C"

    def missing(self) -> str:
        return super().missing() or not_installed(packages_of(gcc="cc"))

    def programs(
        self, addresses: Sequence[str], folder: Path, prefixes: Sequence[Sequence[str]]
    ) -> Programs:
        binary = folder / "program"
        source = Path(__file__).with_name("spread_program.c")
        file = Path(library())
        named = str(file) if file.is_absolute() else f"-l:{file}"
        run("cc", "-O2", f"-I{_HEADERS}", "-o", str(binary), str(source), named)
        return _ProgramsInC(str(binary), addresses, folder, prefixes)


class _ProgramsInC(Programs):
    """Makes their command lines; `module` is the path of the program."""

    def words(self, role: str, address: str, index: int, counters: Path, plan: Plan) -> Command:
        window = SpreadClient.window_bytes // plan.size
        return [
            *(self.module, role, f"{PORT}@{address}", str(index), str(counters)),
            *(str(plan.receivers), GROUP, str(plan.size), str(window), str(plan.rate)),
        ]


def daemon() -> str:
    """Return the path of the daemon; empty if it is not installed."""
    return os.environ.get("SPREAD_DAEMON") or shutil.which("spread") or ""


def library() -> str:
    """Return the name of the library; empty if it is not installed."""
    return os.environ.get("SPREAD_LIBRARY") or ctypes.util.find_library("spread-core") or ""


def release() -> str:
    """Return the release of the library; empty if it is not installed."""
    if not library():
        return ""
    numbers = c_int(), c_int(), c_int()
    ctypes.CDLL(library()).SP_version(*map(byref, numbers))
    return ".".join(str(number.value) for number in numbers)


def configuration(nodes: Sequence[Node], folder: Path) -> str:
    """Return the configuration of all daemons, which are in one segment."""
    lines = [f"    n{at + 1} {node.address}\n" for at, node in enumerate(nodes)]
    segment = ".".join([*nodes[0].address.split(".")[:3], "255"])
    return _CONFIGURATION.format(segment=segment, port=PORT, nodes="".join(lines), folder=folder)


async def _formed(nodes: Sequence[Node], logs: Sequence[Path]) -> None:
    """Wait until all daemons are in one membership.

    Raises:
        GroupCommError: they do not find each other.
    """
    with trio.move_on_after(START_S):
        while not all(members(log) == len(nodes) for log in logs):
            await trio.sleep(0.02)
        return
    raise GroupCommError(f"spread's daemons do not find each other: {last_words(logs[0])}")


def members(log: Path) -> int:
    """Return the number of daemons in the last membership that a daemon has logged."""
    found = log.read_text(errors="replace").rpartition("Num Segments")[2]
    return found.count("\tn")
