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


class _Shared(Generic[T]):
    """What the versions since one base share.

    Attributes:
        base: the members of the first version.
        log: the changes since then, each a member and whether it has joined.
        latest: the last change of each member that has changed.
    """

    __slots__ = ("base", "latest", "log")

    def __init__(self, base: dict[T, None]) -> None:
        self.base = base
        self.log: list[tuple[T, bool]] = []
        self.latest: dict[T, bool] = {}


class ListVersion(Generic[T]):
    """One version of a list, which never changes; it is equal to a tuple of the same members."""

    __slots__ = ("_count", "_shared", "_whole")

    def __init__(self, shared: _Shared[T]) -> None:
        """Refer to all changes up to now."""
        self._shared = shared
        self._count = len(shared.log)
        self._whole: tuple[T, ...] | None = None

    def __contains__(self, member: T) -> bool:
        """Return whether a member is in this version, without computing its list."""
        shared = self._shared
        if self._count == len(shared.log):
            return shared.latest.get(member, member in shared.base)
        return member in self.whole()

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
            found = dict(self._shared.base)
            for member, joined in self._shared.log[: self._count]:
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
        size: the number of members.
    """

    __slots__ = ("_shared", "size", "version")

    def __init__(self, members: Iterable[T]) -> None:
        self.replace(members)

    def __reduce__(self) -> tuple[type, tuple[tuple[T, ...]]]:
        return MemberList, (self.version.whole(),)

    def replace(self, members: Iterable[T]) -> None:
        """Begin anew with these members, each once."""
        base = dict.fromkeys(members)
        self._shared = _Shared(base)
        self.size = len(base)
        self.version = ListVersion(self._shared)

    def join(self, member: T) -> bool:
        """Add a last member; return False if it is one already, which changes nothing."""
        return self._change(member, joined=True)

    def leave(self, member: T) -> bool:
        """Remove a member; return False if it is none, which changes nothing."""
        return self._change(member, joined=False)

    def _change(self, member: T, *, joined: bool) -> bool:
        if (member in self.version) == joined:
            return False
        shared = self._shared
        shared.log.append((member, joined))
        shared.latest[member] = joined
        self.size += 1 if joined else -1
        self.version = ListVersion(shared)
        if len(shared.log) > most_changes(len(shared.base)):
            self.replace(self.version.whole())
        return True
