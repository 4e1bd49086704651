"""The events of clients of Spread, and the guarantees that must hold whatever happens to daemons.

It checks the guarantees of Spread to its programs, from the events of clients alone:

- views of one id have the same members, in the same order, and the same sets at all their members;
- a client is in each view that it receives, and its own set is one of the sets;
- two clients that go from one view to the next one in one set have delivered the same messages in
  between, in one order (extended virtual synchrony);
- a message is delivered once, and those of one sender in the order in which they were sent.
"""

from collections import defaultdict
from typing import Final

import attrs

from tests.groupcommd.spread_client import BY_LEAVE, TRANSITION, Received

MOST_SHOWN: Final = 20


@attrs.define
class Stay:
    """The messages of one client in a group from one view to the next, as (sender, number)."""

    view: bytes
    messages: list[tuple[str, int]] = attrs.field(factory=list)


class SpreadChecker:
    """Notes the events of all sessions; each session has a key that is never used again.

    Attributes:
        violations: the first violations.
        messages, views: the number of both, at all sessions together.
    """

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.messages = self.views = 0
        self._view: dict[bytes, tuple[tuple[str, ...], list[tuple[str, ...]]]] = {}
        self._stays: dict[tuple[int, str], Stay] = {}
        self._last: dict[tuple[int, str], int] = {}
        self._steps: dict[tuple[bytes, bytes, tuple[str, ...]], list[tuple[str, int]]] = {}
        self._compared = 0

    @property
    def compared(self) -> int:
        """Return the number of steps from one view to the next that two sessions shared."""
        return self._compared

    def see(self, session: int, name: str, message: Received) -> None:
        """Note the next message of a session of this name."""
        if message.type & 0x3F:
            self._see_message(session, message)
        elif message.is_view:
            self._see_view(session, name, message)
        elif message.type == BY_LEAVE:
            self._stays.pop((session, message.sender), None)
        else:
            self._see_transition(session, message)

    def _see_message(self, session: int, message: Received) -> None:
        self.messages += 1
        number = int(message.data[:12])
        last = self._last.get((session, message.sender), 0)
        if number <= last:
            self._tell(f"session {session}: {message.sender} {number} comes behind {last}")
        self._last[session, message.sender] = number
        for group in message.groups:
            stay = self._stays.get((session, group))
            if stay is not None:
                stay.messages.append((message.sender, number))

    def _see_transition(self, session: int, message: Received) -> None:
        stay = self._stays.get((session, message.sender))
        if message.type != TRANSITION or stay is None or message.data != stay.view:
            self._tell(f"session {session}: {message.type:#x} of {message.sender} ends no view")

    def _see_view(self, session: int, name: str, message: Received) -> None:
        self.views += 1
        key, group = message.group_id, message.sender
        told = (message.groups, message.sets)
        if self._view.setdefault(key, told) != told:
            self._tell(f"session {session}: view {key.hex()} of {group} is another one elsewhere")
        if name not in message.groups or message.own_set not in message.sets:
            self._tell(f"session {session}: {name} is not in its view of {group}")
        before = self._stays.get((session, group))
        together = message.own_set if message.type & 0x800 else ()
        if before is not None:
            step = (before.view, key, together)
            first = self._steps.setdefault(step, before.messages)
            self._compared += first is not before.messages
            if first != before.messages:
                self._tell(
                    f"session {session}: {len(before.messages)} messages of {group} between"
                    f" {before.view.hex()} and {key.hex()}, elsewhere {len(first)}, or others"
                )
        self._stays[session, group] = Stay(key)

    def _tell(self, text: str) -> None:
        if len(self.violations) < MOST_SHOWN:
            self.violations.append(text)

    def members_now(self, sessions: list[int], group: str) -> dict[bytes, list[int]]:
        """Return the sessions that are in each view of a group, by its id."""
        found = defaultdict(list)
        for session in sessions:
            stay = self._stays.get((session, group))
            if stay is not None:
                found[stay.view].append(session)
        return dict(found)
