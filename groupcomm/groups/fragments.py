"""Recipients of messages that come in fragments: members from the first to the last of them."""

from collections.abc import Iterable

Key = tuple[int, int, int]
"""(daemon, connection number, message number): the message that a fragment belongs to."""


class OpenMessages:
    """The messages of which some fragments were delivered here and some were not."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[Key, tuple[list[int], int]] = {}  # recipients, fragments delivered

    def recipients(
        self, key: Key, current: Iterable[int], count: int
    ) -> tuple[list[int], list[int]]:
        """Take one more fragment of a message of `count`.

        Args:
            key: the message.
            current: connections that would get a message delivered now.
            count: fragments of the message.

        Returns:
            Who gets the fragment, and who had got earlier ones but may not have the rest.
        """
        known = self._open.get(key)
        if known is None:
            staying, gone, seen = list(current), list[int](), 1
        else:
            now = set(current)
            staying = [connection for connection in known[0] if connection in now]
            gone = [connection for connection in known[0] if connection not in now]
            seen = known[1] + 1
        if seen < count:
            self._open[key] = (staying, seen)
        else:
            self._open.pop(key, None)
        return staying, gone

    def end_session(self, daemon: int, connection: int) -> list[tuple[int, list[int]]]:
        """Drop the open messages of a sender: (message number, who had got fragments) of each."""
        keys = [key for key in self._open if key[:2] == (daemon, connection)]
        return [(key[2], self._open.pop(key)[0]) for key in keys]

    def end_older(self, key: Key) -> list[tuple[int, list[int]]]:
        """Drop a sender's open messages below this one; for levels that may lose fragments."""
        keys = [old for old in self._open if old[:2] == key[:2] and old[2] < key[2]]
        return [(old[2], self._open.pop(old)[0]) for old in keys]

    def end_all(self) -> list[tuple[Key, list[int]]]:
        """Drop all open messages: each with those who had got fragments of it."""
        ended = [(key, recipients) for key, (recipients, _) in self._open.items()]
        self._open.clear()
        return ended
