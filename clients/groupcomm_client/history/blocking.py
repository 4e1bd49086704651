"""Subscriptions for programs that use threads."""

from typing import Self

from groupcomm.clocks.stamp import Position
from groupcomm.errors import Code, SessionEnded
from groupcomm_client.history.given import Given
from groupcomm_client.history.subscription import Subscription
from groupcomm_client.thread_loop import run


class BlockingSubscription:
    """Events of groups, from any position on; made by `BlockingConnection.subscribe`.

    Attributes:
        awaited: the subscription whose calls are awaited.
    """

    def __init__(self, awaited: Subscription) -> None:
        """Take over a subscription that has begun."""
        self.awaited = awaited

    @property
    def position(self) -> Position | None:
        """Return the last position of which everything was received; see `Subscription`."""
        return self.awaited.position

    @property
    def is_live(self) -> bool:
        """Return whether history was joined with live events."""
        return self.awaited.is_live

    @property
    def waits_for_archive(self) -> bool:
        """Return whether a gap is next, unless an archive comes back; see `Subscription`."""
        return self.awaited.waits_for_archive

    @property
    def misses_archive(self) -> bool:
        """Return whether an archive is needed, and none has answered; see `Subscription`."""
        return self.awaited.misses_archive

    @property
    def acknowledged(self) -> Position | None:
        """Return the highest place of the cursor that archives are known to hold."""
        return self.awaited.acknowledged

    def acknowledge(self, position: Position | None = None, *, wait: bool = False) -> None:
        """Have the archives hold a place of the cursor; see `Subscription.acknowledge`."""
        run(self.awaited.acknowledge(position, wait=wait))

    def receive(self, timeout_s: float | None = None) -> Given:
        """Return the next event; see `Subscription.receive`."""
        return run(self.awaited.receive(timeout_s))

    def receive_batch(self, timeout_s: float | None = None) -> list[Given]:
        """Return all events that have come, at least one; see `Subscription.receive`."""
        return run(self.awaited.receive_batch(timeout_s))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Given:
        try:
            return self.receive()
        except SessionEnded as error:
            if error.code == Code.OK:
                raise StopIteration from None
            raise
