"""Marks of view counters go to disk in a thread, one at a time; the daemon goes on meanwhile.

A disk may take seconds, or never answer, as an NFS server that is gone. The thread that waits for
it is left alone then: neither the daemon nor its end waits for it.
"""

from collections.abc import Callable

import trio

from groupcomm.core import DaemonCore
from groupcommd.disk_watch import DiskWatch
from groupcommd.state_dir import StateDir, StateError


class MarkWriter:
    """Writes what the core of a daemon wants to have reserved.

    Args:
        core: of the daemon.
        state: its folder.
        watch: is told how the disk does.
        turn: is called when the core has news.
        fail: is called with an error that is no failure of the disk.

    Attributes:
        writing: a write is under way.
    """

    def __init__(
        self,
        core: DaemonCore,
        state: StateDir,
        watch: DiskWatch,
        turn: Callable[[], None],
        fail: Callable[[Exception], None],
    ) -> None:
        self._core = core
        self._state = state
        self._watch = watch
        self._turn = turn
        self._fail = fail
        self.writing = False

    def look(self, nursery: trio.Nursery) -> None:
        """Begin a write if the core asks for one and none is under way."""
        if self._core.mark_to_store is not None and not self.writing:
            self.writing = True
            nursery.start_soon(self._write, self._core.mark_to_store)

    async def _write(self, mark: int) -> None:
        core = self._core
        try:
            await trio.to_thread.run_sync(self._state.store, mark, abandon_on_cancel=True)
        except StateError as error:
            core.store_failed(str(error), trio.current_time())
        except Exception as error:
            self._fail(error)
            return
        else:
            core.stored(mark, trio.current_time())
        self.writing = False
        self._watch.look(trio.current_time())
        self._turn()
