"""The process that answers HTTP for a daemon, which starts it: see supervisor.py.

python -m groupcommd.http LISTENING CHANNEL        (two descriptors)
"""

import ctypes
import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Final

import trio

from groupcommd.http.channel import Channel
from groupcommd.http.process_log import ChannelHandler
from groupcommd.http.server import serve

NICENESS: Final = 10
"""The daemon's process goes first, and others that are as important."""

_PR_SET_PDEATHSIG: Final = 1  # of prctl(2)


def main() -> int:
    """Answer HTTP until the daemon has ended."""
    listening, channel = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    # The daemon is asked to end by these, and its process groups gets them, too.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with suppress(OSError):
        os.nice(NICENESS)
    trio.run(_run, listening, channel)
    return 0


async def _run(listening: socket.socket, socket_: socket.socket) -> None:
    channel = Channel(socket_)
    handler = ChannelHandler()
    log = logging.getLogger("groupcommd")
    log.addHandler(handler)
    log.propagate = False
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(handler.run, channel)
            await serve(listening, channel)
            nursery.cancel_scope.cancel()
    except* ConnectionError:
        log.handlers.clear()  # the daemon has ended, and its log


if __name__ == "__main__":
    sys.exit(main())
