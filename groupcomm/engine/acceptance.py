"""Acceptance: tells clients which of their messages a crash of this daemon cannot lose any more.

Pure. ``now`` is in seconds. A message with a number is accepted once every daemon of the view holds
its packet, or once its view has ended: then it was delivered to all that go on together with this
daemon. An UNRELIABLE message is accepted once it was sent, and a refused one at once.

The work is per packet, not per message: the messages of one session get their numbers in their
order, so the last one in a packet stands for all before it.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from math import inf
from typing import Final

import attrs

from groupcomm.session.daemon_frames import encode_accepted
from groupcomm.session.daemon_session import DaemonSession
from groupcomm.wire.bundle import Bundle, BundleKind
from groupcomm.wire.packet import Raw

TELL_S: Final = 0.02
"""The least time between two frames to a session; what is accepted meanwhile is told in one."""

SLOW_S: Final = 0.5
"""A client that has not read the last frame gets the next one this much later at the earliest."""

_FRAGMENT: Final = int(BundleKind.FRAGMENT)
_MESSAGES: Final = int(BundleKind.MESSAGES)


@attrs.define
class _Progress:
    """The messages of one session.

    Attributes:
        packet: the last packet with one of them that is not held by all; None if there is none.
        held: the last message that all hold.
        notified: the last message of which the client knows that.
        end: the place in the session's output at which the last frame ends.
    """

    packet: int | None = None
    held: int = 0
    notified: int = 0
    end: int = 0


class Acceptance:
    """The messages of local sessions on their way to be held by all daemons of the view.

    Attributes:
        unsettled: by packet that is not held by all yet: the last message in it, by connection; in
            the order of numbers.
        due: the time at which clients are told; inf if there is nothing to tell.
        postponed: the sessions that are told nothing before the next view: whether their messages
            count is decided then.
    """

    __slots__ = (
        "_changed",
        "_notified_at",
        "_progress",
        "due",
        "postponed",
        "unsettled",
    )

    def __init__(self) -> None:
        self.unsettled: deque[tuple[int, dict[int, int]]] = deque()
        self._progress: defaultdict[int, _Progress] = defaultdict(_Progress)  # by connection
        self._notified_at = -inf
        self._changed: set[int] = set()
        self.postponed: frozenset[int] = frozenset()
        self.due = inf

    def note_numbered(self, bundle: Bundle, packet: int) -> None:
        """Note that a bundle of a session has its number in this packet of the own ring."""
        last = bundle.message
        if bundle.kind == _MESSAGES:
            last += bundle.count - 1
        elif bundle.kind == _FRAGMENT and bundle.index < bundle.count - 1:
            last -= 1
        unsettled = self.unsettled
        if not unsettled or unsettled[-1][0] != packet:
            unsettled.append((packet, {}))
        unsettled[-1][1][bundle.session] = last
        self._progress[bundle.session].packet = packet

    def note_done(self, connection: int, now: float) -> None:
        """Note that a message was sent without a number, or was refused."""
        self._change(connection, now)

    def settle(self, held: float, now: float) -> None:
        """Note that all daemons of the view hold the own ring's packets up to this number."""
        unsettled = self.unsettled
        while unsettled and unsettled[0][0] <= held:
            packet, messages = unsettled.popleft()
            for connection, message in messages.items():
                progress = self._progress[connection]
                progress.held = message
                if progress.packet == packet:
                    progress.packet = None
                self._change(connection, now)

    def _change(self, connection: int, now: float) -> None:
        self._changed.add(connection)
        self.due = min(self.due, max(now, self._notified_at + TELL_S))

    def release(self, now: float) -> None:
        """Tell all sessions again."""
        postponed, self.postponed = self.postponed, frozenset()
        for connection in postponed:
            self._change(connection, now)

    def forget(self, connection: int) -> None:
        """Forget a session that has ended."""
        self._changed.discard(connection)
        self._progress.pop(connection, None)

    def tell(
        self,
        now: float,
        sessions: dict[int, DaemonSession],
        push: Callable[[DaemonSession, tuple[Raw, ...]], None],
    ) -> None:
        """Push a frame to each session with news; one at a time, however slow its client is."""
        changed, self._changed, self.due = sorted(self._changed), set(), inf
        self._notified_at = now
        for connection in changed:
            session = sessions.get(connection)
            if session is None:
                self.forget(connection)
                continue
            if connection in self.postponed:
                continue
            progress = self._progress[connection]
            if session.output_popped < progress.end:
                self._changed.add(connection)
                self.due = now + SLOW_S
                continue
            accepted = progress.held
            if not session.backlog_bytes and progress.packet is None:
                accepted = session.last_complete  # all that has come was sent, held or refused
            if accepted > progress.notified:
                progress.notified = accepted
                push(session, (encode_accepted(accepted),))
                progress.end = session.output_popped + session.output_bytes
