"""The way in which peers find each other: the addresses that they greet, and refused peers.

Founders are members from the beginning: each names all of them, and a peer that greets one learns
all the addresses which that one knows, so any two of them meet. A latecomer greets any member, and
is sent on to its sponsor: the first member by name.
"""

from groupcomm.errors import LocalProtocolError
from groupcomm_lessons.algorithms.direct.datagrams import Address, Hello
from groupcomm_lessons.algorithms.direct.settings import MAX_MEMBERS, MAX_NAME_BYTES, Timing
from groupcomm_lessons.algorithms.process import Name

TRIES_ELSEWHERE = 4
"""The times a latecomer greets its sponsor before it asks again where it began."""


class Greeting:
    """The addresses to greet, again and again until a peer answers there."""

    def __init__(self, timing: Timing, addresses: tuple[Address, ...]) -> None:
        self._timing = timing
        self._first = addresses
        self._tries = dict.fromkeys(addresses, 0)
        self._next_at = dict.fromkeys(addresses, 0.0)

    def add(self, address: Address, now: float) -> None:
        """Greet this address, too."""
        if address not in self._tries:
            self._tries[address], self._next_at[address] = 0, now

    def go_to(self, address: Address, now: float) -> None:
        """Greet only this address, as long as there is hope that a peer is there."""
        if address not in self._tries:
            self.end()
            self.add(address, now)

    def answered(self, address: Address) -> None:
        """Note that a peer has answered there."""
        self._tries.pop(address, None)
        self._next_at.pop(address, None)

    def end(self) -> None:
        """Greet no address any more."""
        self._tries.clear()
        self._next_at.clear()

    def due(self, now: float, *, late: bool) -> list[Address]:
        """Return the addresses to greet now; `late`: one at a time, as a latecomer does."""
        found = [address for address, at in self._next_at.items() if at <= now]
        for address in found:
            if late and self._tries[address] == TRIES_ELSEWHERE and address not in self._first:
                self.go_to(self._first[0], now)
                return self.due(now, late=late)
            self._tries[address] += 1
            self._next_at[address] = now + self._timing.wait_s(self._tries[address])
        return found

    @property
    def deadline(self) -> float | None:
        """Return the time of the next greeting; None without addresses to greet."""
        return min(self._next_at.values(), default=None)


def refusal(hello: Hello, algorithm: str, founders: tuple[Name, ...], *, late: bool) -> str | None:
    """Return the reason why a new peer cannot be a member; None if it can.

    Args:
        hello: its greeting.
        algorithm: the algorithm that runs here.
        founders: the founders of this group; empty if this peer came late itself.
        late: whether latecomers are accepted.
    """
    if hello.algorithm != algorithm:
        return (
            f"{algorithm} runs here, not {hello.algorithm}: start all members with the same "
            "algorithm"
        )
    if hello.founders and not founders:
        return "this group was complete long ago: come as a latecomer, without a list of members"
    if hello.founders and hello.founders != founders:
        here, there = ", ".join(founders), ", ".join(hello.founders)
        return f"members here are {here}, not {there}: start all members with the same list"
    if not hello.founders and not late:
        return (
            f"{algorithm} has a fixed set of members, {', '.join(founders)}, and accepts "
            "no latecomer: use VectorSession, or name all members from the beginning"
        )
    return None


def check_names(me: Name, founders: tuple[Name, ...]) -> None:
    """Check that names fit datagrams.

    Raises:
        LocalProtocolError: a name is too long or empty, or there are too many.
    """
    for name in (me, *founders):
        if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
            raise LocalProtocolError(
                f"the name {name!r} has {len(name.encode())} bytes; it must have 1 to"
                f" {MAX_NAME_BYTES}"
            )
    if len(founders) > MAX_MEMBERS:
        raise LocalProtocolError(f"there are {len(founders)} members; {MAX_MEMBERS} are the most")
