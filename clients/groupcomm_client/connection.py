"""A program's connection to its daemon; the same for trio, asyncio and threads."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from types import UnionType
from typing import TYPE_CHECKING, TypeVar

from groupcomm.events import Message
from groupcomm_client.basic_connection import BasicConnection, Destinations
from groupcomm_client.without_views import check_views

if TYPE_CHECKING:
    from groupcomm_client.coordination.working import Worker
    from groupcomm_client.history.keeping import KeptSender
    from groupcomm_client.history.subscription import Begin, Subscription
    from groupcomm_client.typed import Typed

T = TypeVar("T")

__all__ = ["Connection", "Destinations"]


class Connection(BasicConnection):
    """A connection; made by `connect`.

    Attributes:
        loop: the event loop of its program.
    """

    def work(
        self,
        group: str,
        *,
        name: str,
        at_once: int = 16,
        deadline_s: float | None = 60.0,
        tries: int = 5,
        key: Callable[[Message], bytes | None] | None = None,
    ) -> "AbstractAsyncContextManager[Worker]":
        """Be a worker of a set for the length of a block; see `coordination.work`."""
        from groupcomm_client.coordination.working import work  # noqa: PLC0415 - few use it

        return work(
            self,
            group,
            name=name,
            at_once=at_once,
            deadline_s=deadline_s,
            tries=tries,
            key=key,
        )

    def subscribe(
        self,
        groups: str | Sequence[str],
        *,
        start: "Begin",
        stable: bool = False,
        compacted: bool = False,
        gap_wait_s: float = 30.0,
        queue_bytes: int = 32 * 1024 * 1024,
    ) -> "AbstractAsyncContextManager[Subscription]":
        """Subscribe to groups for the length of a block: history first, live events then.

        The connection is for the subscription alone: nothing else may receive from it.

        Args:
            groups: a group, or several; the connection joins them.
            start: EARLIEST; LATEST; a `Position`, to go on behind it; a datetime; or a `Cursor` or
                its name, see `Subscription.acknowledge`. All but LATEST need an archive of the
                groups, see docs/history.md.
            stable: whether an event comes only once all daemons of its view hold it.
            compacted: whether the last message of each key is enough of what archives have
                compacted; `Compacted` says for which part. For one group.
            gap_wait_s: before a `Gap` every archive that could fill it must have been away for so
                many seconds, so that one that is restarted is waited for; 0 for no wait.
                `Subscription.waits_for_archive` says that it waits.
            queue_bytes: the memory of live events that may wait here for the program; those beyond
                it come from an archive. History is read ahead up to an eighth of it.

        Raises:
            LocalProtocolError: a name is invalid, or the session has joined the group already;
                there is no group, or there are several with `compacted`; `gap_wait_s` is no time,
                `queue_bytes` no count; no archive knows the cursor.
            AccessRefused: the rules of the daemon do not allow it.
            SessionEnded: the session is over.
        """
        check_views(self.protocol, "a subscription")
        from groupcomm_client.history.subscription import subscribe  # noqa: PLC0415 - few need it

        return subscribe(
            *(self, groups, start),
            stable=stable,
            compacted=compacted,
            gap_wait_s=gap_wait_s,
            queue_bytes=queue_bytes,
        )

    def keeping(self) -> "AbstractAsyncContextManager[KeptSender]":
        """Send messages that archives keep, for the length of a block; see `KeptSender.multicast`.

        The connection is for that alone: nothing else may receive from it.
        """
        from groupcomm_client.history.keeping import keeping  # noqa: PLC0415 - few use it

        return keeping(self)

    def typed(self, model: type[T] | UnionType) -> "Typed[T]":
        """Return calls that send and receive values of a type as messages; see typed.py.

        Args:
            model: a msgspec struct, an attrs class or a dataclass, or a union of tagged structs.

        Raises:
            LocalProtocolError: the type has no form in JSON.
        """
        from groupcomm_client.typed import Typed  # noqa: PLC0415 - few use it

        return Typed(self, model)
