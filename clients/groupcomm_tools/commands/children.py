"""Commands that handle messages as processes of their own: for `groupcomm serve` and `work`.

A command is done when it exits, whatever it leaves in the background. It has a process group of its
own, which is killed if the command takes too long, or if this program is to end.
"""

import argparse
import fcntl
import math
import os
import shutil
import signal
import struct
import subprocess
import termios
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final

import attrs
import trio

from groupcomm.errors import ConfigError, GroupCommError
from groupcomm.names import check_group
from groupcomm_client.coordination.limits import MAX_DATA_BYTES
from groupcomm_tools.commands.guardian import guardian
from groupcomm_tools.stopping import run_tasks
from groupcomm_tools.terminal import Reports

SHOWN_BYTES: Final = 500
"""The bytes of a failed command's standard error that others get."""

KILL_S: Final = 1.0
"""The time between SIGTERM and SIGKILL."""

_READ_BYTES: Final = 65_536


class CommandFailed(GroupCommError):
    """The command could not handle a message; the text is for the other programs."""


class CannotStart(GroupCommError):
    """The command cannot be started; this host is at fault, not the message."""


@attrs.frozen
class Done:
    """The end of a command.

    Attributes:
        status: its exit status, minus the number of the signal that has ended it.
        output: its standard output, if it was to be kept.
        why: the end of its standard error.
    """

    status: int
    output: bytes
    why: str

    def check(self) -> None:
        """Raise CommandFailed unless the exit status is 0."""
        if self.status:
            raise CommandFailed(f"exit status {self.status}: {self.why}")


def check_command(command: Sequence[str]) -> None:
    """Raise ConfigError if there is no such command."""
    if shutil.which(command[0]) is None:
        raise ConfigError(
            f"{command[0]}: there is no such program, or it may not be executed; write one that"
            " this host has"
        )


async def execute(
    command: Sequence[str], data: bytes, about: Mapping[str, str], *, keep_output: bool
) -> Done:
    """Run a command to its end; it is killed if this is cancelled.

    Args:
        command: the command and its words.
        data: its standard input.
        about: more variables of its environment.
        keep_output: whether its standard output is returned; else it goes where that of this
            process goes.

    Raises:
        CannotStart: it cannot be started.
        CommandFailed: it prints more than a message may have.
    """
    pipe = subprocess.PIPE
    try:
        guardian.start()
        process = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe if keep_output else None,
            stderr=pipe,
            env={**os.environ, **about},
            bufsize=0,
            process_group=0,
        )
    except OSError as error:
        raise CannotStart(f"cannot start {command[0]}: {error.strerror}") from None
    with process:
        return await _Running(process).run(data)


class _Running:
    """A command that runs."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._output = bytearray()
        self._messages = bytearray()
        self._reading = trio.CancelScope()
        pipes: Iterable[IO[bytes] | None] = (process.stdin, process.stdout, process.stderr)
        for each in pipes:
            if each is not None:
                os.set_blocking(each.fileno(), False)

    async def run(self, data: bytes) -> Done:
        """Give it its input; return its end."""
        end = os.pidfd_open(self._process.pid)
        guardian.add(self._process.pid)
        try:
            with self._reading:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._feed, data)
                    for pipe in (self._process.stdout, self._process.stderr):
                        nursery.start_soon(self._read, pipe)
                    await trio.lowlevel.wait_readable(end)
                    self._reading.cancel()  # processes that it has left may have the pipes
            for pipe in (self._process.stdout, self._process.stderr):
                if pipe is not None and (count := _waiting_bytes(pipe)):
                    self._keep(pipe, os.read(pipe.fileno(), count))
            if len(self._output) > MAX_DATA_BYTES:
                raise CommandFailed(f"the command prints more than {MAX_DATA_BYTES:,} bytes")
        except BaseException:
            await self._kill(end)
            raise
        finally:
            guardian.discard(self._process.pid)
            os.close(end)
        why = bytes(self._messages).decode(errors="replace").strip()
        return Done(self._process.wait(), bytes(self._output), why)

    async def _feed(self, data: bytes) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        rest = memoryview(data)
        with pipe, suppress(BrokenPipeError):  # it reads no more
            while rest:
                await trio.lowlevel.wait_writable(pipe)
                with suppress(BlockingIOError):
                    rest = rest[os.write(pipe.fileno(), rest) :]

    async def _read(self, pipe: IO[bytes] | None) -> None:
        while pipe is not None:
            await trio.lowlevel.wait_readable(pipe)
            with suppress(BlockingIOError):
                data = os.read(pipe.fileno(), _READ_BYTES)
                if not data:
                    return
                self._keep(pipe, data)

    def _keep(self, pipe: IO[bytes], data: bytes) -> None:
        if pipe is self._process.stderr:
            self._messages += data
            del self._messages[:-SHOWN_BYTES]
            return
        self._output += data
        if len(self._output) > MAX_DATA_BYTES:
            self._reading.cancel()

    async def _kill(self, end: int) -> None:
        """End it, and what it has started."""
        number = self._process.pid
        with suppress(ProcessLookupError), trio.CancelScope(shield=True):
            os.killpg(number, signal.SIGTERM)
            with trio.move_on_after(KILL_S):
                await trio.lowlevel.wait_readable(end)
            os.killpg(number, signal.SIGKILL)


def _waiting_bytes(pipe: IO[bytes]) -> int:
    """Return the number of bytes that wait in a pipe."""
    found: Any = fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4)
    return int(struct.unpack("i", found)[0])


class CommandProgram:
    """A program that handles with a command what it gets, until it is enough.

    Args:
        options: the options of its command line: group, command, count, duration_s.

    Attributes:
        reports: what it tells of its work.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.reports = Reports()
        self._options = options
        self._group = check_group(options.group)
        self._command: Sequence[str] = options.command
        self._fault: CannotStart | None = None
        self._ended = 0
        self._enough = trio.Event()

    async def run(self) -> None:
        """Handle what comes until it is enough."""
        raise NotImplementedError

    def play(self) -> None:
        """Run to the end.

        Raises:
            ConfigError: there is no such command.
            CannotStart: the command cannot be started any more.
        """
        check_command(self._command)
        with self.reports:
            run_tasks(self.run)
        if self._fault is not None:
            raise self._fault

    def give_up(self, fault: CannotStart) -> None:
        """End the program, as its command cannot be started."""
        self._fault = fault
        self._enough.set()

    def count_one(self) -> None:
        """Note that something was handled."""
        self._ended += 1
        if self._ended == self._options.count:
            self._enough.set()

    async def until_enough(self, place: str) -> None:
        """Say where it is; wait for the count or the duration, a SIGTERM, or until it gives up."""
        seconds = self._options.duration_s
        async with trio.open_nursery() as nursery:
            await nursery.start(self._await_sigterm)  # before it says that it is there
            self.reports.say(place)
            with trio.move_on_after(math.inf if seconds is None else seconds):
                await self._enough.wait()
            nursery.cancel_scope.cancel()

    async def _await_sigterm(
        self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        with trio.open_signal_receiver(signal.SIGTERM) as signals:
            task_status.started()
            async for _ in signals:
                self._enough.set()
