"""What a core wants to have on disk is written in threads; the daemon goes on meanwhile.

A disk may take seconds, or never answer, as an NFS server that is gone. The thread that waits for
it is left alone then: neither the daemon nor its end waits for it.
"""

from collections.abc import Callable

import trio

from groupcomm.engine import (
    Input,
    KeysStored,
    MarkNotStored,
    MarkStored,
    RollStored,
    Store,
    StoreKeys,
    StoreMark,
)
from groupcommd.key_service import KeyService
from groupcommd.state_dir import StateDir, StateError


class Writer:
    """Writes for one core.

    Args:
        state: the folder for marks of view counters.
        keys: has the files of keys and identities.
        tell: has the core hear what became of a write.
        fail: is called with an error that is no failure of the disk.

    Attributes:
        writes: how many are under way.
    """

    def __init__(
        self,
        state: StateDir,
        keys: KeyService,
        tell: Callable[[Input], None],
        fail: Callable[[Exception], None],
    ) -> None:
        self._state = state
        self._keys = keys
        self._tell = tell
        self._fail = fail
        self.writes = 0

    async def write(self, wanted: Store) -> None:
        """Write one thing, and tell the core."""
        self.writes += 1
        try:
            answer = await self._write(wanted)
        except Exception as error:
            self._fail(error)
            return
        self.writes -= 1
        self._tell(answer)

    async def _write(self, wanted: Store) -> Input:
        if isinstance(wanted, StoreKeys):
            await self._keys.store(wanted.keys)
            return KeysStored(wanted.keys)
        if isinstance(wanted, StoreMark):
            return await self._write_mark(wanted.mark)
        await self._keys.store_roll(wanted.roll)
        return RollStored(wanted.roll)

    async def _write_mark(self, mark: int) -> Input:
        try:
            await trio.to_thread.run_sync(self._state.store, mark, abandon_on_cancel=True)
        except StateError as error:
            return MarkNotStored(str(error))
        return MarkStored(mark)
