"""What the three forms of the mutex have in common: a queue of requests that all members keep."""

from typing import Protocol

import attrs

from groupcomm.events import MemberId
from groupcomm.level import ServiceLevel
from groupcomm_client.events import Received


@attrs.frozen
class Send:
    """A message of the form.

    Attributes:
        data: of the message.
        level: of the message.
        to: one member; None for the whole group.
    """

    data: bytes
    level: ServiceLevel
    to: MemberId | None = None


class Form(Protocol):
    """One member's side of a mutex, as a state machine: events in, messages out.

    A member has one request at a time: `request`, then it `holds` at some time, then `release`.
    """

    @property
    def holds(self) -> bool:
        """Whether the request of this member is granted."""

    @property
    def queue(self) -> tuple[MemberId, ...]:
        """Who has asked, as far as this member knows, in the order of the grants."""

    def request(self) -> list[Send]:
        """Ask for the resource."""

    def release(self) -> list[Send]:
        """Give it back, or ask no longer."""

    def handle(self, event: Received) -> list[Send]:
        """Take one event of the connection."""
