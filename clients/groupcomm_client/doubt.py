"""Doubt: how many of the messages of a session a crash of its daemon may lose.

Joins and leaves take numbers, too. Those of them behind which no message was in doubt are none.
"""


class Doubt:
    """The numbers of a session's messages, and those up to which they are known to be safe.

    Attributes:
        last_sent: the number of the last message.
    """

    __slots__ = ("_from", "_is_over", "_shown", "last_sent")

    def __init__(self) -> None:
        self.last_sent = self._shown = self._from = 0
        self._is_over = False

    def note_change(self, number: int, accepted: int | None, returned: int) -> None:
        """Note a join or a leave; the other arguments are those of `count`."""
        if not self.count(accepted, returned):
            self._from = number

    def note_shown(self, number: int) -> None:
        """Note that the daemon has shown by an answer that it has all up to a number."""
        self._shown = max(self._shown, number)

    def end(self) -> None:
        """Note that the goodbye was answered: that comes once the session's end is ordered."""
        self._is_over = True

    def count(self, accepted: int | None, returned: int) -> int:
        """Return the most messages, of those sent last, that may be lost.

        Args:
            accepted: the daemon has accepted all up to this number; None if it is too old to say
                so. Then it has all before a message that it has answered or returned.
            returned: the last message that came back.
        """
        safe = max(self._shown, returned) if accepted is None else accepted
        return 0 if self._is_over else max(0, self.last_sent - max(safe, self._from))
