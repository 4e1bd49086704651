"""The supply: the daemon's answers to the questions of its HTTP process.

This is all the work of the daemon for HTTP: it reads values and encodes them as JSON, whatever the
number of requests and streams. The process repeats a question at most twice a second, and after a
change.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

import attrs
import trio

from groupcomm.engine import News
from groupcomm.membership.states import MembershipState
from groupcommd.host.bounded_log import BoundedLog
from groupcommd.http.channel import Channel, Frame
from groupcommd.http.history import History
from groupcommd.http.metrics import read_all
from groupcommd.http.overview import Overview
from groupcommd.http.snapshot import HttpCounts, Snapshot
from groupcommd.http.watched_files import WatchedFiles
from groupcommd.http.work_share import WorkShare
from groupcommd.operators.answers import PIECES
from groupcommd.operators.status import DaemonParts, may_admin, status

SILENT_S: Final = 30.0
"""A process that has sent nothing for this long hangs."""

_log = logging.getLogger("groupcommd")


class Supply:
    """The supply of one start of a daemon.

    Args:
        parts: returns the parts of the daemon.
        files: the files whose age is reported.

    Attributes:
        history: the latest views.
        starts: the number of starts of the process.
        answered: the number of answered questions.
        makers: functions that make the pieces of answers, by question.
    """

    def __init__(self, parts: Callable[[], DaemonParts], files: WatchedFiles) -> None:
        self._parts = parts
        self._files = files
        self._share = WorkShare()
        self._log = BoundedLog()
        self._counts = HttpCounts()
        self._changed = trio.Event()
        self._settings = b""  # new ones, which the process does not have yet
        self.history = History()
        self.starts = 0
        self.answered = 0
        self.makers: dict[str, Callable[[Snapshot], Iterable[bytes]]] = {
            "ready": _ready,
            "metrics": _metrics,
            "status": lambda snapshot: status(snapshot.parts),
            "events": Overview().make,
        }

    def note(self, news: Iterable[News]) -> None:
        """Note new views."""
        self.history.note(news)
        self._changed.set()

    def renew(self, settings: bytes) -> None:
        """Have the process read its files again, and ask anew who may see what.

        Args:
            settings: as the process gets them first; b"": those that it has.
        """
        self._settings = settings or self._settings
        self._changed.set()

    async def serve(self, channel: Channel) -> None:
        """Answer the questions of a process until it has ended, broken off or hangs."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._tell_changes, channel)
                with trio.CancelScope(deadline=trio.current_time() + SILENT_S) as patience:
                    while (frame := await channel.receive()) is not None:
                        patience.deadline = trio.current_time() + SILENT_S
                        await self._accept(channel, frame)
                nursery.cancel_scope.cancel()
        except* (OSError, ValueError) as errors:
            _log.debug("the HTTP process has broken off: %s", errors.exceptions)

    async def _accept(self, channel: Channel, frame: Frame) -> None:
        made, rest, is_whole = list[bytes](), self._answer(frame), False
        while not is_whole:
            async with self._share:
                try:
                    with self._parts().loop.step("answered a question of HTTP"):
                        pieces = list(islice(rest, PIECES))
                    made += pieces
                    is_whole = len(pieces) < PIECES
                except Exception:
                    made, is_whole = [], True  # an empty body reports an error
                    self._log.line(
                        "error", logging.ERROR, "HTTP: an error of this daemon", exc_info=True
                    )
        if frame.word != "log":
            await channel.send(frame.word, frame.argument, b"".join(made))

    async def _tell_changes(self, channel: Channel) -> None:
        """Send a notice of each change, as earlier answers are wrong then, and new settings."""
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            settings, self._settings = self._settings, b""
            if settings:
                await channel.send("settings", "", settings)
            await channel.send("changed")

    def _answer(self, question: Frame) -> Iterator[bytes]:
        if question.word == "log":
            line = json.loads(question.body)
            _log.log(line["level"], "%s", line["text"])
            return
        self.answered += 1
        if question.word == "may":
            yield json.dumps(self._may(question.argument)).encode()
            return
        counts = HttpCounts(**json.loads(question.body))
        self._counts = attrs.evolve(counts, starts=self.starts, work_s=self._share.used_s)
        parts = self._parts()
        found = parts.core.status(trio.current_time())
        programs = parts.core.programs_status(least_output=1)  # not a row for each program
        snapshot = Snapshot(parts, found, programs, self._counts, self.history, self._files)
        yield from self.makers[question.word](snapshot)

    def _may(self, principal: str) -> bool:
        access = self._parts().config.access
        return not access.restricts or may_admin(access, principal)


def _metrics(snapshot: Snapshot) -> list[bytes]:
    return [json.dumps(read_all(snapshot), separators=(",", ":")).encode()]


def _ready(snapshot: Snapshot) -> list[bytes]:
    """Return the view of the daemon; None while it looks for one."""
    view = snapshot.status.view
    if snapshot.status.state is not MembershipState.OPERATIONAL:
        view = None
    told = {
        "view": None if view is None else str(view.id),
        "daemons": 0 if view is None else len(view.daemons),
        "majority": bool(snapshot.status.majority),
        "drains": snapshot.status.drain is not None,
    }
    return [json.dumps(told).encode()]
