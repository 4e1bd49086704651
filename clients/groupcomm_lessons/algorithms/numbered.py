"""Messages with one number each for the whole group, delivered in the order of the numbers."""

from groupcomm_lessons.algorithms.process import Message, Name


class Numbered:
    """The numbered messages at one process, from 1 and without gaps.

    Attributes:
        delivered: the number up to which all have been removed.
    """

    def __init__(self, me: Name) -> None:
        self._me = me
        self._held: dict[int, Message | None] = {}
        self.delivered = 0

    def add(self, number: int, message: Message | None) -> tuple[Message, ...]:
        """Hold a message; return the messages that may be delivered now, without those for others.

        None stands for a message that is not for this process, but has its number.
        """
        self._held[number] = message
        found = []
        while self.delivered + 1 in self._held:
            self.delivered += 1
            found.append(self._held.pop(self.delivered))
        return tuple(m for m in found if m is not None and self._me in m.destinations)

    @property
    def waiting(self) -> tuple[Message, ...]:
        """Return the messages for this process that wait for a lower number, in order."""
        held = (message for _, message in sorted(self._held.items()))
        return tuple(m for m in held if m is not None and self._me in m.destinations)
