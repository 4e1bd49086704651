"""What archives hold of named cursors, and the messages about them. Pure.

The entries of a cursor are ordered by their ranks, and the highest one counts, whatever the order
in which archives get them. So archives that were parted agree again once they have exchanged what
they have. docs/history.md says what is promised.
"""

from typing import TypeAlias

import msgspec

from groupcomm.clocks.stamp import Position
from groupcomm.events import MemberId
from groupcomm_client.history.places import NOWHERE


class CursorEntry(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a cursor.

    Attributes:
        name: its name.
        groups: the groups whose line it is a place of, sorted.
        generation: the number of times that it was moved or removed. Within one generation it only
            goes forward.
        position: its place; None if it was removed.
        by: the private name of the program that has acknowledged or moved it last.
    """

    name: str
    groups: tuple[str, ...]
    generation: int
    position: Position | None
    by: str = ""

    @property
    def rank(self) -> tuple[object, ...]:
        """Return what orders the entries of one cursor; the highest one counts."""
        place = self.position or NOWHERE
        return self.generation, self.position is not None, place, self.by, self.groups

    def reaches(self, other: "CursorEntry") -> bool:
        """Return whether this entry is as far as another one, or replaces it."""
        return self.rank[:3] >= other.rank[:3]


class FindCursor(msgspec.Struct, frozen=True, array_like=True, tag=32):
    """A question to all archives: where is this cursor?"""

    number: int
    name: str
    groups: tuple[str, ...]


class PutCursor(msgspec.Struct, frozen=True, array_like=True, tag=33):
    """A request to all archives to hold an entry, unless they have a higher one."""

    number: int
    entry: CursorEntry


class CursorAnswer(msgspec.Struct, frozen=True, array_like=True, tag=34):
    """The answer of an archive to either of them; what it says is on its disk.

    Attributes:
        number: the number of the request.
        archives: all archives that have got the request, and answer.
        entry: the highest entry; None if the cursor does not exist.
        refusal: why the request is refused; "" if it is not.
    """

    number: int
    archives: tuple[MemberId, ...]
    entry: CursorEntry | None
    refusal: str = ""


class ListCursors(msgspec.Struct, frozen=True, array_like=True, tag=35):
    """A question to all archives: which cursors are there?"""

    number: int


class CursorList(msgspec.Struct, frozen=True, array_like=True, tag=36):
    """The answer of an archive: all entries, also of cursors that were removed."""

    number: int
    archives: tuple[MemberId, ...]
    entries: tuple[CursorEntry, ...]


class CursorExchange(msgspec.Struct, frozen=True, array_like=True, tag=37):
    """What archives that have stayed together hold, for those that come together with them.

    Attributes:
        view: the view of the group of archives that has brought them together.
        part: the archives that hold this.
        entries: all entries.
    """

    view: Position
    part: tuple[MemberId, ...]
    entries: tuple[CursorEntry, ...]


CursorFrame: TypeAlias = (
    FindCursor | PutCursor | CursorAnswer | ListCursors | CursorList | CursorExchange
)


def merge_entry(entries: dict[str, CursorEntry], entry: CursorEntry) -> bool:
    """Enter an entry unless there is a higher one; return whether that changed anything."""
    known = entries.get(entry.name)
    if known is not None and known.rank >= entry.rank:
        return False
    entries[entry.name] = entry
    return True
