"""Batches among the events of a session. No I/O: events in, what is to be given out."""

from collections.abc import Iterable
from typing import Any

from groupcomm.events import Message
from groupcomm_client.committed.markers import is_publisher
from groupcomm_client.committed.publications import Batch, Incomplete, Publications
from groupcomm_client.events import Received

Given = Received | Batch[Message] | Incomplete
"""Batches in place of the messages of publishers; all else as it comes."""


class CommittedStream:
    """Holds the rows of a batch back until it is whole.

    Args:
        groups: of which the receiver is a member.
        state: as `state` gave it; None to begin anew.

    Raises:
        ConfigError: that is no state.
    """

    def __init__(self, groups: Iterable[str], state: Any = None) -> None:
        self._publications: Publications[Message] = Publications(groups, state)

    @property
    def state(self) -> dict[str, Any]:
        """What has been given, for JSON."""
        return self._publications.state

    def accept(self, event: Received) -> Given | None:
        """Take the next event; None: nothing is to be given now."""
        if not isinstance(event, Message) or not is_publisher(event.sender.name):
            return event
        return self._publications.accept(
            event.sender, event.number, event.groups, event.type, event.data, event
        )
