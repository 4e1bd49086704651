"""The source of the HTTP process: the latest answers of its daemon, renewed when they are old."""

import json
from collections.abc import Callable
from math import inf
from typing import Any, Final

import attrs
import trio

from groupcommd.http.channel import Channel
from groupcommd.http.gate import Refusal

FRESH_S: Final = 0.5
"""Answers are made anew after this time, and whenever a view was installed."""

ANSWER_S: Final = 2.0
"""A daemon whose loop runs answers within this time."""

MAX_KNOWN: Final = 1024
"""The number of answers that are kept: some, and one for each principal."""

ALIVE_S: Final = 5.0
"""The longest time between two questions: the daemon has to know that this process lives."""


@attrs.define(eq=False)
class Known:
    """The latest answer to one question.

    Attributes:
        body: the answer; b"" at first.
        at: the time at which it came.
        is_asked: whether the daemon was asked since, and has not answered.
        arrived: is set by the next answer.
    """

    body: bytes = b""
    at: float = -inf
    is_asked: bool = False
    arrived: trio.Event = attrs.field(factory=trio.Event)


class Source:
    """The latest answers of the daemon.

    Args:
        channel: the channel to the daemon.
        counts: returns the counts of this process, which become metrics.
    """

    def __init__(self, channel: Channel, counts: Callable[[], Any]) -> None:
        self._channel = channel
        self._counts = counts
        self._known: dict[tuple[str, str], Known] = {}

    async def run(self, note_change: Callable[[], None], renew: Callable[[bytes], None]) -> None:
        """Receive answers until the daemon has ended.

        Args:
            note_change: is called for each change: earlier answers are wrong from then on.
            renew: gets the settings when the daemon has read its configuration again.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_alive)
            while (frame := await self._channel.receive()) is not None:
                if frame.word in ("changed", "settings"):
                    for each in self._known.values():
                        each.at = -inf
                    if frame.word == "settings":
                        renew(frame.body)
                    note_change()
                    continue
                known = self._of(frame.word, frame.argument)
                known.body, known.at, known.is_asked = frame.body, trio.current_time(), False
                known.arrived.set()
                known.arrived = trio.Event()
            nursery.cancel_scope.cancel()

    async def _keep_alive(self) -> None:
        while True:
            await self._ask("ready", "")
            await trio.sleep(ALIVE_S)

    def _of(self, word: str, argument: str) -> Known:
        key = word, argument
        if key not in self._known:
            if len(self._known) >= MAX_KNOWN:
                del self._known[next(each for each in self._known if each[1])]
            self._known[key] = Known()
        return self._known[key]

    def is_fresh(self, word: str, argument: str = "") -> bool:
        """Return whether the latest answer is fresh."""
        return trio.current_time() < self._of(word, argument).at + FRESH_S

    def latest(self, word: str, argument: str = "") -> bytes:
        """Return the latest answer, however old; b"" without any."""
        return self._of(word, argument).body

    async def get(self, word: str, argument: str = "") -> bytes:
        """Return a fresh answer; ask the daemon if there is none.

        Raises:
            Refusal: the daemon does not answer: its loop does not run.
        """
        known = self._of(word, argument)
        if self.is_fresh(word, argument):
            return known.body
        arrived = known.arrived
        if not known.is_asked:
            await self._ask(word, argument)
        with trio.move_on_after(ANSWER_S) as patience:
            await arrived.wait()
        if not patience.cancelled_caught and not known.body:
            raise Refusal(500, "error", "an error of this daemon: see its log")
        if patience.cancelled_caught:
            raise Refusal(503, "daemon", f"the daemon has not answered for {ANSWER_S:g} s")
        return known.body

    async def _ask(self, word: str, argument: str) -> None:
        self._of(word, argument).is_asked = True
        body = json.dumps(self._counts()).encode()
        await self._channel.send(word, argument, body)
