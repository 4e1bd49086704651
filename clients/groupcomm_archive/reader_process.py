"""The process of an archive that sends from files: it is started once it is wanted, and ended."""

import array
import pickle
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Final

import attrs
import trio

from groupcomm_archive.file_reader import REQUEST_BYTES, Answer, FileRead, Request
from groupcomm_client.history.channel import PieceSealer

ENDED: Final = "the process that sends from files has ended"
RESTART_S: Final = 1.0
"""The time after the end of a process until there is another one."""

COMMAND: Final = (
    *(sys.executable, "-c"),
    "from groupcomm_archive.file_reader import main; main()",  # pickles name the module
)


def start_process(archive: int) -> subprocess.Popen[bytes]:
    """Start a process that gets its requests by a socket, given as a descriptor."""
    return subprocess.Popen(COMMAND, stdin=archive, stdout=subprocess.DEVNULL)


@attrs.define
class _Wait:
    """A request that is open."""

    answer: Answer | None = None
    has_ended: trio.Event = attrs.field(factory=trio.Event)


class ReaderProcess:
    """A process that sends pieces; see `groupcomm_archive.file_reader`.

    Attributes:
        pid: its process id; None while there is none that is ready.
    """

    def __init__(self) -> None:
        self.pid: int | None = None
        self._socket: trio.socket.SocketType | None = None
        self._wanted = trio.Event()
        self._numbers = count()
        self._waits: dict[int, _Wait] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have a process from the first `want` on, for the length of a block."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._run)
            yield
            nursery.cancel_scope.cancel()

    def want(self) -> bool:
        """Return whether the process is ready; start it if there is none."""
        self._wanted.set()
        return self._socket is not None

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            with suppress(OSError):  # the archive reads by itself then
                await self._run_once()
            self._wanted = trio.Event()
            await trio.sleep(RESTART_S)

    async def _run_once(self) -> None:
        """Run a process until it breaks."""
        own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with trio.socket.from_stdlib_socket(own) as end:
            with other:
                process = start_process(other.fileno())
            try:
                if await end.recv(1):
                    self._socket, self.pid = end, process.pid
                    await self._receive(end)
            finally:
                self._socket = self.pid = None
                process.kill()  # it only reads
                process.wait()
                for wait in self._waits.values():
                    wait.has_ended.set()
                self._waits.clear()

    async def _receive(self, end: trio.socket.SocketType) -> None:
        while data := await end.recv(REQUEST_BYTES):
            answer: Answer = pickle.loads(data)
            wait = self._waits.pop(answer.number, None)
            if wait is not None:
                wait.answer = answer
                wait.has_ended.set()

    async def send(
        self, wanted: FileRead, channel: trio.socket.SocketType, sealer: PieceSealer
    ) -> Answer:
        """Send pieces by a channel, up to the place that is wanted.

        Nobody else may send by it until this returns. The sealer goes on where the process ended.

        Raises:
            OSError: there is no process, or it has ended; what it has sent is not known.
        """
        end = self._socket
        if end is None:
            raise ConnectionError(ENDED)
        number, wait = next(self._numbers), _Wait()
        self._waits[number] = wait
        request = pickle.dumps(Request(number, wanted, sealer.key, sealer.count))
        descriptors = array.array("i", [channel.fileno()])
        try:
            with suppress(OSError, trio.ClosedResourceError):  # it has ended: no answer comes
                await end.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
                await wait.has_ended.wait()
        finally:
            self._waits.pop(number, None)
            if wait.answer is None:
                with suppress(OSError):  # the subscriber has closed it
                    channel.shutdown(socket.SHUT_RDWR)  # so the process sends nothing any more
        if wait.answer is None:
            raise ConnectionError(ENDED)
        sealer.count = wait.answer.count
        return wait.answer
