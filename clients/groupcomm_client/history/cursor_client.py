"""A program's side of a named cursor: it asks the archives for its place, and acknowledges.

Pure: events of a session and the time in, messages to send out. One acknowledgement is in flight at
a time; of those that wait, the latest one counts. docs/history.md has the states.
"""

import enum
from datetime import datetime
from typing import Final, TypeAlias

import attrs

from groupcomm.clocks.stamp import Position
from groupcomm.events import MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm.names import check_cursor
from groupcomm_client.events import Received, Reconnected
from groupcomm_client.history.cursors import CursorAnswer, CursorEntry, FindCursor, PutCursor
from groupcomm_client.history.frames import ARCHIVES, HEAD, decode_untrusted, encode
from groupcomm_client.history.given import EARLIEST, Start
from groupcomm_client.history.subscriber import Send

RETRY_S: Final = 0.5
"""The time after which a request is sent again. It doubles each time until an archive answers."""

LONGEST_RETRY_S: Final = 8.0

SILENT_S: Final = 5.0
"""The time for which archives are waited for, once one has answered."""

First: TypeAlias = Start | Position | datetime
"""Where a subscription begins if its cursor does not exist yet."""


@attrs.frozen
class Cursor:
    """A named cursor as the start of a subscription.

    Attributes:
        name: its name, the same for all groups and programs.
        first: where to begin if it does not exist yet.
    """

    name: str = attrs.field(converter=check_cursor)
    first: First = EARLIEST


class CursorState(enum.Enum):
    """What the program's side of a cursor does."""

    FINDING = enum.auto()  # it asks the archives where the cursor is
    FOUND = enum.auto()  # it acknowledges
    REFUSED = enum.auto()  # the archives refuse it, or somebody else has moved it


class CursorClient:
    """A program's side of a cursor; call `handle` for events, and `wake` at `deadline`.

    Attributes:
        state: see `CursorState`.
        name: its name.
        position: the highest place that archives are known to hold; None if the cursor does not
            exist.
        wanted: the latest acknowledgement; None if there is none.
        refusal: why it is refused; "" if it is not.
        deadline: when to call `wake`; None for never.
        alone_since: since when a request is open that no archive has answered; None if there is
            none.
    """

    def __init__(
        self, me: MemberId, name: str, groups: tuple[str, ...], number: int, *, now: float
    ) -> None:
        """Begin to look for a cursor.

        Args:
            me: the session.
            name: the name of the cursor.
            groups: the groups whose line it is a place of.
            number: a number that no earlier request of this session has.
            now: the time in seconds.
        """
        self.state = CursorState.FINDING
        self.position: Position | None = None
        self.refusal = ""
        self.deadline: float | None = now
        self.alone_since: float | None = now
        self._me = me
        self.name = name
        self._groups = tuple(sorted(set(groups)))
        self._number = number
        self._generation = 0
        self.wanted: Position | None = None  # the latest acknowledgement
        self._target: CursorEntry | None = None  # the one in flight
        self._held: dict[MemberId, CursorEntry | None] = {}  # what each archive holds, at least
        self._archives: tuple[MemberId, ...] = ()  # those that answer, as the last answer says
        self._silent: set[MemberId] = set()  # those that are not waited for
        self._silent_at: float | None = None  # when those without an answer are silent
        self._sent_at: float | None = None
        self._retry_s = RETRY_S
        self._actions: list[Send] = []

    def acknowledge(self, position: Position, now: float) -> bool:
        """Have the archives hold this place, unless they hold a higher one.

        Returns:
            Whether there is a message to send; if not, an earlier one is in flight, or none needed.
        """
        if self.wanted is None or position > self.wanted:
            self.wanted = position
            self._send_next(now)
        return bool(self._actions)

    def has_acknowledged(self, position: Position) -> bool:
        """Return whether the archives hold this place, or a higher one."""
        return self.position is not None and self.position >= position

    def handle(self, event: Received, now: float) -> None:
        """Handle one event of the session."""
        match event:
            case Message() if event.data.startswith(HEAD) and event.groups == (self._me.name,):
                frame = decode_untrusted(event.data)
                if isinstance(frame, CursorAnswer) and frame.number == self._number:
                    self._on_answer(event.sender, frame, now)
            case Reconnected(member=member):
                self._me = member
                self._sent_at = None  # an answer to the earlier session does not come
                self._set_deadline(now)
            case _:
                pass

    def _on_answer(self, sender: MemberId, answer: CursorAnswer, now: float) -> None:
        entry = answer.entry
        if self.state is CursorState.REFUSED:
            return
        self.alone_since = None
        self._retry_s = RETRY_S
        self._silent_at = self._silent_at or now + SILENT_S
        self._silent.discard(sender)
        self._archives = answer.archives
        if answer.refusal:
            self._refuse(answer.refusal)
        elif self.state is CursorState.FOUND and entry and entry.generation > self._generation:
            self._refuse(
                f"cursor {self.name} was moved or removed by {entry.by}:"
                " subscribe again to go on where it is now"
            )
        else:
            before = self._held.get(sender)
            if before is None or (entry is not None and entry.reaches(before)):
                self._held[sender] = entry
            self._complete(now)
        self._set_deadline(now)

    def _refuse(self, why: str) -> None:
        self.state = CursorState.REFUSED
        self.refusal = why
        self._target = None

    def _complete(self, now: float) -> None:
        """Go on if all archives that are waited for have answered."""
        waited_for = [each for each in self._archives if each not in self._silent]
        if self.state is CursorState.FINDING:
            if self._held and all(each in self._held for each in waited_for):
                self._found(now)
        elif self._target is not None and self._is_held(waited_for):
            self.position = self._target.position
            self._target = None
            self._send_next(now)

    def _is_held(self, waited_for: list[MemberId]) -> bool:
        """Return whether some archive holds the target, and all these do."""
        return any(map(self._has_target, self._held)) and all(map(self._has_target, waited_for))

    def _has_target(self, archive: MemberId) -> bool:
        held, target = self._held.get(archive), self._target
        return held is not None and target is not None and held.reaches(target)

    def _found(self, now: float) -> None:
        self.state = CursorState.FOUND
        entries = [entry for entry in self._held.values() if entry is not None]
        highest = max(entries, key=lambda entry: entry.rank, default=None)
        if highest is not None:
            self._generation, self.position = highest.generation, highest.position
        self._send_next(now)

    def _send_next(self, now: float) -> None:
        """Begin to send the latest acknowledgement, if none is in flight."""
        wanted = self.wanted
        if self.state is not CursorState.FOUND or self._target is not None or wanted is None:
            return
        if not self.has_acknowledged(wanted):
            self._target = CursorEntry(self.name, self._groups, self._generation, wanted)
            self.alone_since, self._silent_at = now, None
            self._send(now)
        self._set_deadline(now)

    def wake(self, now: float) -> None:
        """Let time pass."""
        if self._is_asking:
            if self._silent_at is not None and now >= self._silent_at:
                self._silent.update(
                    each
                    for each in self._archives
                    if each not in self._held or (self._target and not self._has_target(each))
                )
                self._complete(now)
            if self._is_asking and (self._sent_at is None or now >= self._sent_at + self._retry_s):
                if self._sent_at is not None:
                    self._retry_s = min(2 * self._retry_s, LONGEST_RETRY_S)
                self._send(now)
        self._set_deadline(now)

    @property
    def _is_asking(self) -> bool:
        return self.state is CursorState.FINDING or self._target is not None

    def _set_deadline(self, now: float) -> None:
        self.deadline = None
        if self._is_asking:
            self.deadline = now if self._sent_at is None else self._sent_at + self._retry_s
            if self._silent_at is not None and now < self._silent_at:
                self.deadline = min(self.deadline, self._silent_at)

    def _send(self, now: float) -> None:
        self._sent_at = now
        if self._target is None:
            data, level = encode(FindCursor(self._number, self.name, self._groups)), "AGREED"
        else:
            data, level = encode(PutCursor(self._number, self._target)), "SAFE"
        self._actions.append(Send(ARCHIVES, data, ServiceLevel[level]))

    def pop_actions(self) -> list[Send]:
        """Remove and return the messages to send, in order."""
        actions, self._actions = self._actions, []
        return actions
