"""Numbering: how a client has to number its messages, and to order their fragments."""

from typing import Final

from groupcomm.errors import SessionError
from groupcomm.session.codes import Code
from groupcomm.wire.bundle import Bundle, BundleKind

_MESSAGES: Final = int(BundleKind.MESSAGES)
_FRAGMENT: Final = int(BundleKind.FRAGMENT)


class Numbering:
    """The messages of one session: numbers have no gaps, fragments of one follow each other."""

    __slots__ = ("_fragment", "_last")

    def __init__(self) -> None:
        self._last = -1  # number of the last message taken; the first may have any but 0
        self._fragment: Bundle | None = None  # the last one taken, unless it ended its message

    @property
    def unfinished(self) -> int:
        """Number of the message in fragments whose last has not come; 0 if there is none."""
        return 0 if self._fragment is None else self._fragment.message

    def check(self, bundle: Bundle) -> None:
        """Take the next bundle of the session.

        Raises:
            SessionError: another one had to come.
        """
        before = self._fragment
        if bundle.kind == _FRAGMENT and bundle.index:
            if before is None or not _continues(before, bundle):
                raise SessionError(
                    Code.ILLEGAL_MESSAGE,
                    f"fragment {bundle.index} of message {bundle.message} out of turn",
                )
        else:
            expected = bundle.message if self._last < 0 else self._last + 1
            if before is not None or bundle.message != expected or expected == 0:
                raise SessionError(
                    Code.ILLEGAL_MESSAGE,
                    f"message {bundle.message} follows {self._last}, unfinished {self.unfinished}",
                )
            more = bundle.count - 1 if bundle.kind == _MESSAGES else 0
            self._last = bundle.message + more
        ends = bundle.kind != _FRAGMENT or bundle.index == bundle.count - 1
        self._fragment = None if ends else bundle


def _continues(before: Bundle, bundle: Bundle) -> bool:
    """Return whether a fragment is the next of the same message."""
    return (
        bundle.index == before.index + 1
        and bundle.message == before.message
        and bundle.count == before.count
        and bundle.level == before.level
        and bundle.flags == before.flags
        and bundle.groups == before.groups
    )
