"""How peers find each other: whom to greet, and who is refused.

Founders are members from the beginning: each names all of them, and whoever greets one learns all
the addresses that this one knows, so any two of them meet. A latecomer greets anybody, and is sent
on to the one that welcomes: the first member by name.
"""

from groupcomm.algorithms.direct.datagrams import Address, Hello
from groupcomm.algorithms.direct.settings import MAX_MEMBERS, MAX_NAME_BYTES, Timing
from groupcomm.algorithms.process import Name
from groupcomm.errors import LocalProtocolError

TRIES_ELSEWHERE = 4
"""So often a latecomer greets whom it was sent to before it asks again where it began."""


class Greeting:
    """Addresses to greet, again and again until somebody answers there."""

    def __init__(self, timing: Timing, addresses: tuple[Address, ...]) -> None:
        self._timing = timing
        self._first = addresses
        self._tries = dict.fromkeys(addresses, 0)
        self._next_at = dict.fromkeys(addresses, 0.0)

    def add(self, address: Address, now: float) -> None:
        """Greet somebody there, too."""
        if address not in self._tries:
            self._tries[address], self._next_at[address] = 0, now

    def go_to(self, address: Address, now: float) -> None:
        """Greet nobody else, as long as there is a hope that somebody is there."""
        if address not in self._tries:
            self.end()
            self.add(address, now)

    def answered(self, address: Address) -> None:
        """Somebody was met there."""
        self._tries.pop(address, None)
        self._next_at.pop(address, None)

    def end(self) -> None:
        """Greet nobody any more."""
        self._tries.clear()
        self._next_at.clear()

    def due(self, now: float, *, late: bool) -> list[Address]:
        """Whom to greet now; `late`: as a latecomer, who greets one at a time."""
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
        """When the next greeting is due; None if nobody is to be greeted."""
        return min(self._next_at.values(), default=None)


def refusal(hello: Hello, algorithm: str, founders: tuple[Name, ...], *, late: bool) -> str | None:
    """Why somebody new cannot be a member; None if it can.

    Args:
        hello: what it says.
        algorithm: that runs here.
        founders: of this group; none if this peer came late itself.
        late: whether latecomers are taken.
    """
    if hello.algorithm != algorithm:
        return f"{algorithm} runs here, not {hello.algorithm}; all members need the same algorithm"
    if hello.founders and not founders:
        return "this group has begun long ago; come without a list of members"
    if hello.founders and hello.founders != founders:
        here, there = ", ".join(founders), ", ".join(hello.founders)
        return f"members here are {here}, not {there}; all must name the same"
    if not hello.founders and not late:
        return (
            f"{algorithm} has a fixed set of members, {', '.join(founders)}, and takes no"
            " latecomer; VectorSession does, or name all members from the beginning"
        )
    return None


def check_names(me: Name, founders: tuple[Name, ...]) -> None:
    """Refuse what does not fit datagrams.

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
        raise LocalProtocolError(f"{len(founders)} members; {MAX_MEMBERS} are the most")
