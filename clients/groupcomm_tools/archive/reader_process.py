"""The process of an archive that reads its files: it is started once it is wanted, and ended."""

import pickle
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio

from groupcomm_client.history.frames import EncodedPiece
from groupcomm_log.errors import LogError
from groupcomm_tools.archive.file_reader import LENGTH, FileRead

RESTART_S: Final = 1.0
"""The time after the end of a process until there is another one."""

_BUFFER_BYTES: Final = 1024 * 1024


class ReaderProcess:
    """A process that reads pieces; see `groupcomm_tools.archive.file_reader`.

    Attributes:
        pid: its process id; None while there is none that is ready.
    """

    def __init__(self) -> None:
        self.pid: int | None = None
        self._stream: trio.SocketStream | None = None
        self._wanted = trio.Event()
        self._broken = trio.Event()
        self._turn = trio.Lock()

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
        return self._stream is not None

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            with suppress(OSError, trio.BrokenResourceError):  # the archive reads by itself then
                await self._run_once()
            self._wanted = trio.Event()
            await trio.sleep(RESTART_S)

    async def _run_once(self) -> None:
        """Run a process until it breaks."""
        own, other = socket.socketpair()
        for each in (own, other):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        async with trio.SocketStream(trio.socket.from_stdlib_socket(own)) as stream:
            with other:
                command = [sys.executable, "-m", "groupcomm_tools.archive.file_reader"]
                process = subprocess.Popen(command, stdin=other.fileno(), stdout=subprocess.DEVNULL)
            try:
                if await stream.receive_some(1):
                    self._broken = trio.Event()
                    self._stream, self.pid = stream, process.pid
                    await self._broken.wait()
            finally:
                self._stream = self.pid = None
                process.kill()  # it only reads
                process.wait()

    async def read(self, wanted: FileRead) -> EncodedPiece:
        """Return a piece; `want` must have returned True.

        Raises:
            LogError: the rows are damaged, or were removed.
            OSError: the process has ended.
        """
        async with self._turn:
            stream = self._stream
            if stream is None:
                raise ConnectionError("the process that reads files has ended")
            try:
                request = pickle.dumps(wanted, pickle.HIGHEST_PROTOCOL)
                await stream.send_all(LENGTH.pack(len(request)) + request)
                size = LENGTH.unpack(await _exactly(stream, LENGTH.size))[0]
                answer = pickle.loads(await _exactly(stream, size))
            except BaseException as error:
                self._broken.set()  # what it would say next is not known
                if isinstance(error, trio.BrokenResourceError):
                    raise ConnectionError("the process that reads files has ended") from None
                raise
        if isinstance(answer, str):
            raise LogError(answer)
        assert isinstance(answer, EncodedPiece)
        return answer


async def _exactly(stream: trio.SocketStream, size: int) -> bytearray:
    data = bytearray()
    while len(data) < size:
        more = await stream.receive_some(size - len(data))
        if not more:
            raise trio.BrokenResourceError
        data += more
    return data
