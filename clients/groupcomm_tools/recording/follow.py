"""A recorder's sessions, one after another: each joins the groups and has its events written."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

import trio

from groupcomm.errors import CannotConnect, SessionEnded
from groupcomm_client.connection import Connection
from groupcomm_client.sessions import FIRST_PAUSE_S, FOR_GOOD, LONGEST_PAUSE_S
from groupcomm_tools.recording.recorder import Recorder

FEW: Final = 256
GATHER_S: Final = 0.002
"""After few events it waits so long for the next: to wake up costs more than to take many."""

Connect = Callable[[], AbstractAsyncContextManager[Connection]]


async def record(connect: Connect, groups: Sequence[str], recorder: Recorder) -> None:
    """Record until enough has come; what was received is then on disk, also when it is cancelled.

    A session that ends is followed by another one, as with `stay_connected`.

    Args:
        connect: opens a session for the length of a block.
        groups: that are joined, in this order.
        recorder: of the log.

    Raises:
        CannotConnect, SessionEnded: there is no first session, or no other can follow.
        LogError: not all that was received is on disk.
    """
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(recorder.write)
            nursery.start_soon(recorder.tend)
            await _follow(connect, groups, recorder)
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await recorder.finish()


async def _follow(connect: Connect, groups: Sequence[str], recorder: Recorder) -> None:
    why = ""
    pause_s = FIRST_PAUSE_S
    while True:
        sessions = recorder.sessions
        try:
            async with connect() as connection:
                recorder.begin_session(connection.member, why)
                for group in groups:
                    await connection.join(group)
                recorder.tell_joined(connection.member)
                pause_s = FIRST_PAUSE_S
                while not recorder.is_done:
                    events = await connection.receive_batch()
                    recorder.take(events)
                    if len(events) < FEW:
                        await trio.sleep(GATHER_S)
                return
        except (CannotConnect, SessionEnded) as error:
            if not recorder.sessions or error.code in FOR_GOOD:
                raise
            if recorder.sessions > sessions:
                why = str(error)
        await trio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
