"""The process that answers HTTP for a daemon, which starts it: see supervisor.py.

python -m groupcommd.http LISTENING CHANNEL        (two descriptors)
"""

import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Final

import trio

from groupcomm.errors import GroupCommError
from groupcomm.host.parent import end_with_parent
from groupcommd.http.channel import Channel
from groupcommd.http.process_log import ChannelHandler
from groupcommd.http.server import serve

NICENESS: Final = 10
"""The daemon's process goes first, and others that are as important."""


def main() -> int:
    """Answer HTTP until the daemon has ended; return the exit status."""
    listening, channel = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    # These ask the daemon to end, and its process group gets them, too.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    end_with_parent(signal.SIGKILL)
    with suppress(OSError):
        os.nice(NICENESS)
    return trio.run(answer, listening, Channel(channel))


async def answer(listening: socket.socket, channel: Channel) -> int:
    """Answer HTTP until the daemon has ended; return 1 if a file of its settings is wrong."""
    status = 0
    handler = ChannelHandler()
    log = logging.getLogger("groupcommd")
    log.addHandler(handler)
    log.propagate = False
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(handler.run, channel)
            try:
                await serve(listening, channel)
            except* GroupCommError as errors:
                log.error("HTTP: %s", "; ".join(map(str, errors.exceptions)))
                await handler.send(channel)
                status = 1
            nursery.cancel_scope.cancel()
    except* ConnectionError:
        status = 0  # the daemon has ended
    finally:
        log.removeHandler(handler)
        log.propagate = True
    return status


if __name__ == "__main__":
    sys.exit(main())
