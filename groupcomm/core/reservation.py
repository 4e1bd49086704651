"""Numbers for views and connections are reserved on disk ahead of their use, so that no later start
uses them again.
"""

from typing import Final

RESERVE_US: Final = 100_000
"""So far ahead of physical time when a daemon gathers. Not farther: a daemon whose disk is lost
begins at physical time, and must be above all it has used."""


class Reservation:
    """The mark of one daemon: numbers up to it may be used.

    Attributes:
        mark: what the disk holds.
        to_store: have the disk hold this mark, then call `stored`; None if it holds enough.
    """

    __slots__ = ("mark", "to_store")

    def __init__(self, mark: int) -> None:
        self.mark = mark
        self.to_store: int | None = None

    def may_use(self, counter: int) -> bool:
        """Whether the disk has reserved a counter; if not, that it does so is seen to."""
        if counter <= self.mark:
            return True
        self._reserve(counter)
        return False

    def look_ahead(self, reading: int) -> None:
        """A view is sought at this physical time, microseconds: reserve while there is time."""
        if self.mark < reading + RESERVE_US // 2:
            self._reserve(reading)

    def keep_ahead(self, number: int) -> None:
        """Reserve more in time, as numbers up to this one are in use."""
        if self.mark < number + RESERVE_US // 2:
            self._reserve(number)

    def _reserve(self, counter: int) -> None:
        if self.to_store is None:
            self.to_store = counter + RESERVE_US

    def stored(self, mark: int) -> None:
        """The disk holds this mark, file and folder synced."""
        self.mark = max(self.mark, mark)
        self.to_store = None
