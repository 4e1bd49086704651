"""The cursors of one archive: it holds what all archives hold, and answers programs about it.

Pure: events of the archive's session and results of its disk in, messages and writes out. All
archives that are together apply the same requests at the same places of the agreed order, so they
hold the same. docs/history.md has the states.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

import attrs
import msgspec

from groupcomm.clocks.stamp import Position, format_position
from groupcomm.events import DaemonView, GroupView, MemberId, Message, Transition
from groupcomm.level import ServiceLevel
from groupcomm_client.history.cursors import (
    CursorAnswer,
    CursorEntry,
    CursorExchange,
    CursorList,
    FindCursor,
    ListCursors,
    PutCursor,
    merge_entry,
)
from groupcomm_client.history.frames import ARCHIVES, HEAD, Frame, decode_untrusted, encode
from groupcomm_client.history.subscriber import Send

MOST_CURSORS: Final = 10_000
"""The cursors that archives hold; further ones are refused."""

MOST_REMOVED: Final = 10_000
"""The removed cursors that they remember, so that an archive that was away brings none back."""

MOST_HELD: Final = 10_000
"""The requests that wait while archives exchange what they hold; others are sent again anyway."""

Request: TypeAlias = FindCursor | PutCursor | ListCursors


@attrs.frozen
class StoreCursors:
    """An action: write all entries, and call `ArchivedCursors.stored` then."""

    entries: tuple[CursorEntry, ...]


Action: TypeAlias = Send | StoreCursors


class ArchivedCursors:
    """The cursors of an archive in one session; call `handle` for every event.

    Attributes:
        entries: the highest entry of each cursor, by name.
        is_current: whether it holds all that the other archives of its view hold.
    """

    def __init__(
        self,
        me: MemberId,
        entries: Iterable[CursorEntry] = (),
        view: DaemonView | None = None,
    ) -> None:
        """Begin in a session that joins the archives later.

        Args:
            me: the session.
            entries: what the disk holds.
            view: the present view of daemons, if it was received already.
        """
        self.entries = {entry.name: entry for entry in entries}
        self.is_current = False
        self._me = me
        self._on_line = view is None or view.majority is not False
        self._regular = True
        self._view: Position | None = None  # of the group of archives
        self._members: tuple[MemberId, ...] = ()  # in this view
        self._part: set[MemberId] = {me}  # the archives that hold the same as this one
        # The archives whose entries came in this view. Those of its own part count only then, too:
        # others get them no earlier, and all must become current at the same place.
        self._exchanged: set[MemberId] = set()
        self._held: list[tuple[Message, Request]] = []  # requests that came before it was current
        self._version = 1 if self.entries else 0  # they may be of an earlier session that ended
        self._writing = self._stored = 0  # before they were on disk
        self._answers: list[tuple[int, str, Frame]] = []  # each waits until its version is stored
        self._actions: list[Action] = []

    # ---- events ----

    def handle(self, event: object) -> None:
        """Handle one event of the session."""
        match event:
            case DaemonView():
                self._on_line, self._regular = event.majority is not False, True
            case Transition():
                self._regular = False
            case GroupView() if event.group == ARCHIVES and self._me in event.members:
                self._on_view(event)
            case Message() if event.data.startswith(HEAD) and event.groups == (ARCHIVES,):
                match decode_untrusted(event.data):
                    case CursorExchange() as exchange if event.sender in self._members:
                        self._on_exchange(exchange)
                    case FindCursor() | PutCursor() | ListCursors() as request:
                        self._on_request(event, request)
                    case _:
                        pass
        self._write()

    def _on_view(self, view: GroupView) -> None:
        self._view, self._members = view.id, view.members
        self._part = self._part.intersection(view.vs_set) | {self._me}
        self._exchanged = set()
        if self._part.issuperset(view.members):
            self._become_current()
            return
        # A member that has come later lacks them, so the others forget them, too.
        self._held.clear()
        self.is_current = False
        ordered = tuple(member for member in view.members if member in self._part)
        if ordered[0] == self._me:
            self._send(ARCHIVES, CursorExchange(view.id, ordered, tuple(self.entries.values())))

    def _on_exchange(self, exchange: CursorExchange) -> None:
        for entry in exchange.entries:
            self._merge(entry)
        if exchange.view == self._view and not self.is_current:
            self._exchanged.update(exchange.part)
            if self._exchanged.issuperset(self._members):
                self._part = set(self._members)
                self._become_current()

    def _become_current(self) -> None:
        self.is_current = True
        held, self._held = self._held, []
        for message, request in held:
            self._apply(message, request)

    def _on_request(self, message: Message, request: Request) -> None:
        if not self._on_line or (not self._regular and _is_ahead(message, request)):
            return  # its program repeats it; the line may have come further than this daemon knows
        if self.is_current:
            self._apply(message, request)
        elif len(self._held) < MOST_HELD:
            self._held.append((message, request))

    # ---- requests ----

    def _apply(self, message: Message, request: Request) -> None:
        """Carry out a request; all archives do that with the same entries."""
        sender, number = message.sender, request.number
        match request:
            case ListCursors():
                entries = tuple(self.entries.values())
                self._answer(sender, CursorList(number, self._members, entries))
            case FindCursor(name=name, groups=groups):
                self._answer_about(sender, number, name, self._refusal(name, groups))
            case PutCursor(entry=entry):
                refusal = self._refusal(entry.name, entry.groups)
                if _is_ahead(message, request):
                    assert entry.position is not None, "else it is not ahead"
                    refusal = (
                        f"{format_position(entry.position)} is ahead of the history: a cursor must"
                        " be at a place that has come, and of this cluster"
                    )
                if not refusal:
                    self._merge(msgspec.structs.replace(entry, by=sender.name))
                self._answer_about(sender, number, entry.name, refusal)

    def _refusal(self, name: str, groups: tuple[str, ...]) -> str:
        """Return why a cursor is refused; "" if it is not."""
        known = self.entries.get(name)
        if known is not None and known.position is not None:
            if known.groups == groups:
                return ""
            return (
                f"cursor {name} belongs to {', '.join(known.groups)}, not {', '.join(groups)}:"
                " use another name, or remove it with groupcomm history cursors remove"
            )
        if known is None and self._count >= MOST_CURSORS:
            return (
                f"there are {MOST_CURSORS} cursors, and no more are kept: remove some with"
                " groupcomm history cursors remove"
            )
        return ""

    @property
    def _count(self) -> int:
        """Return the number of cursors that were not removed."""
        if len(self.entries) < MOST_CURSORS:
            return len(self.entries)
        return sum(entry.position is not None for entry in self.entries.values())

    def _merge(self, entry: CursorEntry) -> None:
        if not merge_entry(self.entries, entry):
            return
        self._version += 1
        if entry.position is None and len(self.entries) > MOST_REMOVED:
            removed = sorted(e.name for e in self.entries.values() if e.position is None)
            for name in removed[:-MOST_REMOVED]:
                del self.entries[name]

    def _answer_about(self, sender: MemberId, number: int, name: str, refusal: str) -> None:
        entry = self.entries.get(name)
        self._answer(sender, CursorAnswer(number, self._members, entry, refusal))

    def _answer(self, sender: MemberId, frame: Frame) -> None:
        self._answers.append((self._version, sender.name, frame))

    # ---- the disk ----

    def stored(self) -> None:
        """Note that the disk holds the entries of the last `StoreCursors`."""
        self._stored = self._writing
        self._write()

    def _write(self) -> None:
        """Send the answers that the disk holds; have the next entries written."""
        ready = [each for each in self._answers if each[0] <= self._stored]
        del self._answers[: len(ready)]
        for _, to, frame in ready:
            self._send(to, frame, ServiceLevel.FIFO)
        if self._writing == self._stored < self._version:
            self._writing = self._version
            self._actions.append(StoreCursors(tuple(self.entries.values())))

    def _send(self, to: str, frame: Frame, level: ServiceLevel = ServiceLevel.AGREED) -> None:
        self._actions.append(Send(to, encode(frame), level))

    def pop_actions(self) -> list[Action]:
        """Remove and return what to do, in order."""
        actions, self._actions = self._actions, []
        return actions


def _is_ahead(message: Message, request: Request) -> bool:
    """Return whether a message asks for a place behind its own: nobody was given that."""
    if not isinstance(request, PutCursor) or message.position is None:
        return False
    return request.entry.position is not None and request.entry.position > message.position
