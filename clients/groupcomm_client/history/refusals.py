"""The refusal of an archive: the rules do not allow a program to read the history of a group."""

from typing import Final

import msgspec

from groupcomm.errors import AccessRefused

_TAG: Final = 40


class Refusal(msgspec.Struct, frozen=True, array_like=True, tag=_TAG):
    """The answer to a Find or a Read that the rules of the archive's daemon do not allow.

    Attributes:
        number: the number of the request.
        group: the group whose history is refused.
        principal: the owner of the session that has asked, as its daemon says.
        daemon: the daemon of the archive, whose rules these are.
    """

    number: int
    group: str
    principal: str
    daemon: str

    @property
    def error(self) -> AccessRefused:
        """Return the error for the program."""
        return AccessRefused(
            *("read-history", self.group, self.principal),
            f"{self.principal} may not read the history of {self.group!r}: no rule of daemon"
            f" {self.daemon} allows read-history; ask its operator for another rule ([[access]] in"
            " its configuration)",
        )


def is_refusal(data: bytes, head: bytes) -> bool:
    """Return whether the data of a message begin as a refusal does; cheaper than to decode it.

    Args:
        data: the data.
        head: the start of all messages between subscribers and archives.
    """
    return data.startswith(head) and data[len(head) + 1 : len(head) + 2] == bytes((_TAG,))
