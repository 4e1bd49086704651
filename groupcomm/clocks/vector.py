"""Vector clocks: one count per process, equal to happens-before and not only in line with it.

Source: K. Birman, A. Schiper, P. Stephenson, "Lightweight Causal and Atomic Group Multicast", ACM
TOCS 9(3), 1991, section 5. Here a vector counts broadcasts: those sent by its owner, and those
delivered from each other member. Members come and go. What a stamp says about a process that is no
member of the receiver's vector is ignored, as no message of that process can still be waited for.
"""

import enum
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from groupcomm.errors import LocalProtocolError

Member = TypeVar("Member", bound=Hashable)
Count = TypeVar("Count", int, tuple[int, int])


LARGEST_COUNT: Final = 2**64 - 1
"""Stamps have 64 bits for a count."""


class Relation(enum.Enum):
    """The relation of one event or message to another."""

    BEFORE = enum.auto()
    EQUAL = enum.auto()
    AFTER = enum.auto()
    CONCURRENT = enum.auto()


def relate(first: Mapping[Any, Count], second: Mapping[Any, Count], nothing: Count) -> Relation:
    """Compare two vectors; `nothing` is the count of a member that one of them lacks."""
    members = first.keys() | second.keys()
    less = any(first.get(one, nothing) < second.get(one, nothing) for one in members)
    more = any(first.get(one, nothing) > second.get(one, nothing) for one in members)
    if less:
        return Relation.CONCURRENT if more else Relation.BEFORE
    return Relation.AFTER if more else Relation.EQUAL


class VectorClock(Generic[Member]):
    """The counts of one process, or the copy of them that a message carries."""

    __slots__ = ("_counts",)

    def __init__(self, members: Iterable[Member] = ()) -> None:
        """Start with a count of 0 for each member."""
        self._counts: dict[Member, int] = dict.fromkeys(members, 0)

    def __getitem__(self, member: Member) -> int:
        return self._counts.get(member, 0)

    def __contains__(self, member: Member) -> bool:
        return member in self._counts

    def add(self, member: Member, count: int = 0) -> None:
        """Add a member that has joined, without waiting for its first `count` broadcasts.

        Args:
            member: the member.
            count: 0 to 2**64 - 1.

        Raises:
            LocalProtocolError: it is a member already, or the count is out of its range.
        """
        if member in self._counts:
            raise LocalProtocolError(f"{member!r} is a member already; drop it first")
        if not 0 <= count <= LARGEST_COUNT:
            raise LocalProtocolError(
                f"the count of {member!r} is {count}; pass 0 to {LARGEST_COUNT}"
            )
        self._counts[member] = count

    def drop(self, member: Member) -> None:
        """Drop a member that has left.

        Raises:
            LocalProtocolError: it is no member.
        """
        self._check(member)
        del self._counts[member]

    def tick(self, member: Member) -> int:
        """Count a broadcast of a member: the owner's as it sends, another's as it is delivered.

        Raises:
            LocalProtocolError: it is no member, or its count has reached 2**64 - 1.
        """
        self._check(member)
        if self._counts[member] == LARGEST_COUNT:
            raise LocalProtocolError(
                f"{LARGEST_COUNT} broadcasts of {member!r} were counted, and 64 bits hold no more;"
                " drop the member, and let it come again by another name"
            )
        self._counts[member] += 1
        return self._counts[member]

    def merge(self, other: "VectorClock[Member]") -> None:
        """Raise every member's count to that of `other`."""
        for member, count in self._counts.items():
            if other[member] > count:
                self._counts[member] = other[member]

    def copy(self) -> "VectorClock[Member]":
        """Return a copy for a message to carry: the clock itself continues to count."""
        twin: VectorClock[Member] = VectorClock()
        twin._counts = self._counts.copy()
        return twin

    def compare(self, other: "VectorClock[Member]") -> Relation:
        """Return the relation of this vector to `other`; a member that one of them lacks counts
        0."""
        return relate(self._counts, other._counts, 0)

    def concurrent_with(self, other: "VectorClock[Member]") -> bool:
        """Return whether of two messages with these stamps neither can have caused the other."""
        return self.compare(other) is Relation.CONCURRENT

    def items(self) -> Iterable[tuple[Member, int]]:
        """Return the members and their counts."""
        return self._counts.items()

    def deliverable(self, stamp: "VectorClock[Member]", sender: Member) -> bool:
        """Return whether a message is its sender's next broadcast, with all its causes here.

        Messages of a process that is no member yet wait for its join.
        """
        if sender not in self._counts or stamp[sender] != self._counts[sender] + 1:
            return False
        return all(
            stamp[member] <= count for member, count in self._counts.items() if member != sender
        )

    def _check(self, member: Member) -> None:
        if member not in self._counts:
            raise LocalProtocolError(f"{member!r} is no member; add it first")

    def __repr__(self) -> str:
        counts = ", ".join(f"{member}: {count}" for member, count in self._counts.items())
        return f"<VectorClock {counts}>"
