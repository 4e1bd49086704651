"""Half messages: what clients of Spread have sent of messages that have not come whole.

A message is translated once it is whole. Until then its bytes wait here, and their sender may never
send the rest. So one listener keeps MOST_BYTES of them, and half of that for one principal. Where
there would be more, the client whose half message is the oldest has to go: of an honest one the
rest comes within moments.
"""

from collections.abc import Hashable
from typing import ClassVar, Final

MOST_BYTES: Final = 64 * 1024 * 1024
"""The bytes of all half messages at one listener."""

PRINCIPAL_SHARE: Final = 2
"""A principal may fill this fraction of it: 1/2."""


class HalfMessages:
    """The half messages at one listener.

    Attributes:
        ended: the number of clients that had to go, at all listeners; their sockets count.
    """

    ended: ClassVar[int] = 0

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._sizes: dict[Hashable, tuple[str, int]] = {}  # by client, the oldest first
        self._used: dict[str, int] = {}  # by principal
        self._total = 0

    def note(
        self, client: Hashable, principal: str, size: int, *, begins: bool = False
    ) -> Hashable | None:
        """Note the size of a client's half message; return the client that has to go, or None.

        Args:
            client: the client.
            principal: its principal.
            size: the bytes of the message that have come; 0 if none waits.
            begins: whether it is another message than the one noted before.
        """
        _, before = self._sizes.get(client, ("", 0))
        if begins or not size:
            self._sizes.pop(client, None)
        if size:
            self._sizes[client] = (principal, size)
        self._total += size - before
        used = self._used[principal] = self._used.get(principal, 0) + size - before
        if not used:
            del self._used[principal]
        if self._total <= self._most and used <= self._most // PRINCIPAL_SHARE:
            return None
        crowded = used > self._most // PRINCIPAL_SHARE
        return next(c for c, (p, _) in self._sizes.items() if p == principal or not crowded)
