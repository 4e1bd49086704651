"""The stream of pieces that a subscriber reads, and what it wants of the channel of it."""

from typing import TypeAlias

import attrs

from groupcomm.events import MemberId
from groupcomm_client.history.frames import Channel


@attrs.frozen
class OpenChannel:
    """An action: read the pieces of a stream by this channel; an earlier one is over."""

    channel: Channel


@attrs.frozen
class PauseChannel:
    """An action: read no more pieces for the present, so that the archive does not send any."""


@attrs.frozen
class ResumeChannel:
    """An action: go on reading."""


@attrs.frozen
class CloseChannel:
    """An action: close the channel."""


ChannelAction: TypeAlias = OpenChannel | PauseChannel | ResumeChannel | CloseChannel


@attrs.frozen
class Stream:
    """The stream that is read.

    Attributes:
        archive: where it comes from.
        number: its number.
        granted: the number of pieces that may come through the daemons.
        by_channel: whether a channel was asked for.
        has_channel: whether there is one.
        is_paused: whether nothing is read from it, as the program has enough to do.
        next_piece: the number of pieces that have come.
    """

    archive: MemberId
    number: int
    granted: int
    by_channel: bool
    has_channel: bool = False
    is_paused: bool = False
    next_piece: int = 0

    @property
    def expects_piece(self) -> bool:
        """Return whether the archive is to send another piece."""
        return not self.is_paused if self.has_channel else self.next_piece < self.granted

    @property
    def name(self) -> tuple[MemberId, int]:
        """Return what names it: its archive and its number."""
        return self.archive, self.number
