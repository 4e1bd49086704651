"""The start of a daemon is counted on its disk, before its first datagram; that may take long.

While the disk does not answer the log says what is waited for, and the daemon can be ended.
"""

import logging
import signal
from collections.abc import AsyncIterator
from functools import partial

import trio

from groupcomm.config.start import Adoption, Start
from groupcommd.config_file import DaemonConfig
from groupcommd.descriptors import in_spite_of_exhaustion
from groupcommd.state_dir import StateDir, StateError

_ENDS = (signal.SIGTERM, signal.SIGINT)

_log = logging.getLogger("groupcommd")


async def count_start(
    config: DaemonConfig,
    state: StateDir,
    adopt: Adoption | None,
    signals: AsyncIterator[int],
    kept: list[int],
) -> Start | None:
    """Return the start, counted on disk; None if a signal has ended the daemon before.

    Args:
        config: of the daemon.
        state: its folder.
        adopt: what others know of earlier starts.
        signals: that come meanwhile; those that end the daemon are obeyed at once.
        kept: takes all of them, to be obeyed once the daemon is there.

    Raises:
        StateError: the record is damaged or cannot be written.
    """
    found: list[Start | StateError] = []

    async def count(over: trio.CancelScope) -> None:
        begin = partial(state.begin, config.name, adopt)
        try:
            found.append(await in_spite_of_exhaustion("the start", begin))
        except StateError as error:
            found.append(error)
        over.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count, nursery.cancel_scope)
        nursery.start_soon(_end_on_signal, nursery.cancel_scope, signals, kept)
        nursery.start_soon(_complain, config)
    if not found:
        _log.info("left before the disk had counted the start")
        return None
    if isinstance(found[0], StateError):
        raise found[0]
    return found[0]


async def _end_on_signal(
    over: trio.CancelScope, signals: AsyncIterator[int], kept: list[int]
) -> None:
    async for number in signals:
        kept.append(number)
        if number in _ENDS:
            over.cancel()


async def _complain(config: DaemonConfig) -> None:
    """Say what is waited for, the less often the longer it takes."""
    waited_s, wait_s = 0.0, config.disk_timeout_s
    while True:
        await trio.sleep(wait_s)
        waited_s += wait_s
        _log.error(
            "state_dir %s: the disk has not answered for %g s (disk_timeout_s = %g); this start"
            " has to be counted there before anything is sent: see to it with dmesg, mount and df",
            config.state_dir,
            waited_s,
            config.disk_timeout_s,
            extra={"state_dir": str(config.state_dir), "waits_s": waited_s},
        )
        wait_s = waited_s
