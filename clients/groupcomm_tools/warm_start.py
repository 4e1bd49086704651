"""Warm start: daemons are forked from a process that has imported everything they need.

Importing a daemon takes some 0.4 s of processor time, forking one a hundredth of that. Each daemon
is an ordinary process: it inherits modules, and the umask of the process that starts it. Other
commands can be started so, too: each has the standard streams that it is given. The process that
forks ends once nobody can send it requests any more, as when the process that starts
daemons was killed. They get a SIGTERM then, and leave in order.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

import trio

from groupcomm.host.parent import end_with_parent, show_as

LOST: Final = 255
"""Exit status of a process whose forking process was killed: the real one is unknown."""

_REQUEST_BYTES: Final = 1 << 20
_STATUS: Final = struct.Struct("=i")
_STREAMS: Final = ("stdin", "stdout", "stderr")
"""The standard streams, by descriptor."""


class ForkedProcess:
    """A process that was forked for this one; it is used like subprocess.Popen.

    Attributes:
        pid: process number.
        returncode: exit status, minus the number of the signal that has ended it; None while it is
            not known to have ended.
    """

    def __init__(self, pid: int, status: int) -> None:
        """Note the process; its exit status comes on the descriptor `status`."""
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """Return the exit status if the process has ended, else None."""
        return self.returncode if self._has_ended(0.0) else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process; return its exit status.

        Raises:
            subprocess.TimeoutExpired: it still runs after this time.
        """
        if not self._has_ended(timeout):
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to the process, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # the process has just ended
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process at once, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def _has_ended(self, timeout: float | None) -> bool:
        if self.returncode is None:
            end = select.poll()  # select cannot watch high descriptors
            end.register(self._status, select.POLLIN)
            if not end.poll(None if timeout is None else timeout * 1000.0):
                return False
            told = os.read(self._status, _STATUS.size)
            os.close(self._status)
            self.returncode = _STATUS.unpack(told)[0] if told else LOST
        return True


class ForkServer:
    """A process that imports a module, and forks once for each call of its ``main``."""

    def __init__(self, module: str) -> None:
        """Start the process; it imports the module while this process continues."""
        self._channel, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with far:
            command = [sys.executable, "-m", __name__, module, str(far.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[far.fileno()])

    def start(self, arguments: Sequence[str], **streams: int) -> ForkedProcess:
        """Call ``main(arguments)`` in a new process.

        Args:
            arguments: arguments of the command line.
            streams: descriptors for its standard streams, by name: stdin, stdout, stderr. The
                others are those of the process that forks.

        Raises:
            OSError: the process that forks has ended.
        """
        status, far = os.pipe()
        request = {
            "arguments": arguments,
            "env": dict(os.environ),
            "folder": str(Path.cwd()),
            "streams": [_STREAMS.index(name) for name in streams],
        }
        try:
            sent = [far, *streams.values()]
            socket.send_fds(self._channel, [json.dumps(request).encode()], sent)
            pid = self._channel.recv(_STATUS.size)
            if not pid:
                raise ConnectionResetError("the process that forks daemons has ended")
        except OSError:
            os.close(status)
            raise
        finally:
            os.close(far)
        return ForkedProcess(_STATUS.unpack(pid)[0], status)

    def close(self) -> None:
        """Send no more requests: the process ends, and has those end that it has forked."""
        self._channel.close()
        self._process.wait()


_servers: Final[dict[tuple[str, ...], ForkServer]] = {}
_one_at_a_time: Final = threading.Lock()


@atexit.register
def _close_all() -> None:
    while _servers:
        _servers.popitem()[1].close()


@trio.lowlevel.enable_ki_protection  # ^C between a request and its answer would mix answers up
def start_warm(module: str, arguments: Sequence[str], **streams: int) -> ForkedProcess:
    """Call ``main(arguments)`` of a module in a new process that has imported it already.

    Args:
        module: name of the module.
        arguments: arguments of the command line, without the program's name.
        streams: see `ForkServer.start`.
    """
    with _one_at_a_time:
        key = (module, *_read_at_start())
        if key in _servers:
            try:
                return _servers[key].start(arguments, **streams)
            except OSError:  # the process was killed
                _servers.pop(key).close()
        _servers[key] = ForkServer(module)
        return _servers[key].start(arguments, **streams)


def _read_at_start() -> list[str]:
    """Return the environment variables that only act when an interpreter starts."""
    found = os.environ.items()
    return sorted(f"{name}={text}" for name, text in found if name.startswith(("PYTHON", "LD_")))


# ---- the forking process ----


class _Forks:
    """The forked processes, and the pipes on which their exit statuses are awaited.

    Args:
        channel: socket on which requests come.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._woken, self._waker = socket.socketpair()  # written at the end of a forked process
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._statuses: dict[int, int] = {}

    def serve(self) -> dict[str, Any] | None:
        """Fork for each request; return the request in the forked process, and None at the end."""
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        while True:
            ready = select.select([self._channel, self._woken], [], [])[0]
            if self._woken in ready:
                self._woken.recv(4096)
                self._reap()
            if self._channel in ready:
                text, descriptors = b"", list[int]()
                with contextlib.suppress(
                    ConnectionError
                ):  # the process that starts daemons is gone
                    text, descriptors, _, _ = socket.recv_fds(self._channel, _REQUEST_BYTES, 4)
                if not text:
                    return None
                request: dict[str, Any] = json.loads(text)
                status, *given = descriptors
                if self._fork(status, dict(zip(request["streams"], given, strict=True))):
                    return request

    def _fork(self, status: int, streams: Mapping[int, int]) -> bool:
        """Fork once; return whether this is the new process."""
        parent = os.getpid()
        pid = os.fork()
        if pid:
            for given in streams.values():
                os.close(given)
            self._statuses[pid] = status
            self._channel.send(_STATUS.pack(pid))
            return False
        signal.set_wakeup_fd(-1)
        for end in (self._woken, self._waker, self._channel):
            end.close()
        for descriptor in (status, *self._statuses.values()):
            os.close(descriptor)
        for number, given in streams.items():
            os.dup2(given, number)
            os.close(given)
            _renew(number)
        end_with_parent(signal.SIGTERM, parent)
        return True

    def _reap(self) -> None:
        """Report the exit status of each process that has ended."""
        for pid, status in list(self._statuses.items()):
            ended, code = os.waitpid(pid, os.WNOHANG)
            if ended:
                with contextlib.suppress(BrokenPipeError):  # no process waits for the status
                    os.write(status, _STATUS.pack(os.waitstatus_to_exitcode(code)))
                os.close(status)
                del self._statuses[pid]


def _renew(number: int) -> None:
    """Make the object of a standard stream anew, as an interpreter does at its start."""
    name = _STREAMS[number]
    former = getattr(sys, name)
    lines = name == "stderr" or former.write_through or os.isatty(number)
    stream = os.fdopen(
        number,
        "r" if number == 0 else "w",
        buffering=1 if lines else -1,
        encoding=former.encoding,
        errors=former.errors,
        closefd=False,
    )
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing: the signal only wakes up the process."""


def _serve(module: str, descriptor: int) -> int:
    main: Callable[[Sequence[str]], int] = importlib.import_module(module).main
    gc.collect()
    gc.freeze()  # untouched memory stays shared
    usual = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGCHLD)}
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # the process that starts daemons decides whether ^C ends them
    signal.signal(signal.SIGCHLD, _ignore)
    request = _Forks(socket.socket(fileno=descriptor)).serve()
    if request is None:
        return 0
    for number, handler in usual.items():
        signal.signal(number, handler)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["folder"])
    show_as(" ".join([module.partition(".")[0], *request["arguments"]]))
    return main(request["arguments"])


if __name__ == "__main__":
    sys.exit(_serve(sys.argv[1], int(sys.argv[2])))
