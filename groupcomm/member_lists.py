"""Member lists: the members of one group through its changes, so that a change costs only itself.

Pure. A version of the list is a base and the first so many entries of a log, which all versions
since that base share (a persistent structure: the versions before a change stay as they were). The
list of a version is computed when it is asked for. After as many changes as `most_changes` allows
there is another base, so a version costs at most a little more than its own list, however long the
group lives.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Final, Generic, TypeVar

MOST_CHANGES: Final = 64
"""The changes after which a small group has another base; a large one after an eighth of it."""

T = TypeVar("T", bound=Hashable)


def most_changes(members: int) -> int:
    """Return the most changes that a version computes its list from, given its base's size."""
    return max(MOST_CHANGES, members // 8)


class ListVersion(Generic[T]):
    """One version of a list, which never changes; it is equal to a tuple of the same members."""

    __slots__ = ("_base", "_count", "_log", "_whole")

    def __init__(self, base: dict[T, None], log: list[tuple[T, bool]], count: int) -> None:
        """Refer to a base, and to the first `count` entries of its log; both are shared."""
        self._base = base
        self._log = log
        self._count = count
        self._whole: tuple[T, ...] | None = None

    def __contains__(self, member: object) -> bool:
        """Return whether a member is in this version, without computing its list."""
        for at in range(self._count - 1, -1, -1):
            changed, joined = self._log[at]
            if changed == member:
                return joined
        return member in self._base

    def __iter__(self) -> Iterator[T]:
        return iter(self.whole())

    def __eq__(self, other: object) -> bool:
        return self.whole() == (other.whole() if isinstance(other, ListVersion) else other)

    def __hash__(self) -> int:
        return self.whole().__hash__()

    def __repr__(self) -> str:
        return repr(self.whole())

    def whole(self) -> tuple[T, ...]:
        """Return the list; it is computed once."""
        if self._whole is None:
            found = dict(self._base)
            for member, joined in self._log[: self._count]:
                if joined:
                    found[member] = None
                else:
                    del found[member]
            self._whole = tuple(found)
        return self._whole

    def __reduce__(self) -> tuple[type, tuple[tuple[T, ...]]]:
        return tuple, (self.whole(),)  # a copy elsewhere shares nothing


class MemberList(Generic[T]):
    """The present list of a group's members, in the order in which they joined.

    Attributes:
        version: the present version.
    """

    __slots__ = ("_base", "_log", "_members", "version")

    def __init__(self, members: Iterable[T]) -> None:
        self._members: dict[T, None] = {}
        self.replace(members)

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[T]:
        return iter(self._members)

    def replace(self, members: Iterable[T]) -> None:
        """Begin anew with these members, each once."""
        self._members = dict.fromkeys(members)
        self._rebase()

    def _rebase(self) -> None:
        self._base = dict(self._members)
        self._log: list[tuple[T, bool]] = []
        self.version = ListVersion(self._base, self._log, 0)

    def join(self, member: T) -> bool:
        """Add a last member; return False if it is one already, which changes nothing."""
        if member in self._members:
            return False
        self._members[member] = None
        self._note(member, joined=True)
        return True

    def leave(self, member: T) -> bool:
        """Remove a member; return False if it is none, which changes nothing."""
        if member not in self._members:
            return False
        del self._members[member]
        self._note(member, joined=False)
        return True

    def _note(self, member: T, *, joined: bool) -> None:
        self._log.append((member, joined))
        self.version = ListVersion(self._base, self._log, len(self._log))
        if len(self._log) > most_changes(len(self._base)):
            self._rebase()
