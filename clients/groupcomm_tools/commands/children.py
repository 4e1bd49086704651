"""Commands that handle messages as processes of their own: for `groupcomm serve` and `work`."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

import trio

from groupcomm.errors import GroupCommError

SHOWN_BYTES: Final = 500
"""The bytes of a failed command's standard error that others get."""


class CommandFailed(GroupCommError):
    """The command could not handle a message; the text is for the other programs."""


async def execute(
    command: Sequence[str], data: bytes, about: Mapping[str, str], *, keep_output: bool
) -> "subprocess.CompletedProcess[bytes]":
    """Run a command to its end; it is killed if this is cancelled.

    Args:
        command: the command and its words.
        data: its standard input.
        about: more variables of its environment.
        keep_output: whether its standard output is returned; else it goes where that of this
            process goes.

    Raises:
        CommandFailed: it cannot be started.
    """
    try:
        return await trio.run_process(
            command,
            stdin=data,
            env={**os.environ, **about},
            capture_stdout=keep_output,
            capture_stderr=True,
            check=False,
        )
    except OSError as error:
        raise CommandFailed(f"{command[0]}: {error.strerror}") from None


def check(done: "subprocess.CompletedProcess[bytes]") -> None:
    """Raise CommandFailed, with the end of its standard error, unless a command exited with 0."""
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip()[-SHOWN_BYTES:]
        raise CommandFailed(f"exit status {done.returncode}: {why}")


async def set_on_sigterm(enough: trio.Event) -> None:
    """Set an event at each SIGTERM, until cancelled."""
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            enough.set()
