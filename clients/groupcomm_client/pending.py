"""What a session has asked for and has no answer to yet, though perhaps nobody waits any more."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import attrs

from groupcomm.errors import AccessRefused, OrderUnknown, SessionEnded
from groupcomm.events import Answer, GroupView, Ordered, Refused

_Value = TypeVar("_Value")


class Pending(Generic[_Value]):
    """An answer that is waited for.

    Attributes:
        value: None until it has come.
        refused: why it will never come.
    """

    __slots__ = ("refused", "value")

    def __init__(self) -> None:
        self.value: _Value | None = None
        self.refused: Refused | None = None

    def has_come(self) -> bool:
        """Whether it is there, or will never be."""
        return self.value is not None or self.refused is not None

    @property
    def come(self) -> _Value:
        """It, which must be there.

        Raises:
            AccessRefused: what was asked for is not allowed.
        """
        if self.refused is not None:
            raise access_refused(self.refused)
        assert self.value is not None
        return self.value


@attrs.frozen(eq=False)
class _Change:
    """A join or a leave that is waited for; `number` is the request's."""

    number: int
    join: bool
    pending: Pending[GroupView] = attrs.field(factory=Pending)


def access_refused(event: Refused) -> AccessRefused:
    """The error of who waits for what was refused."""
    return AccessRefused(event.verb, event.group, event.principal, str(event))


class Requests:
    """The requests of one session, each with the answer that it will get."""

    def __init__(self) -> None:
        self._orders: dict[int, Pending[Ordered]] = {}
        self._answers: deque[Pending[bytes]] = deque()
        self._changes: dict[str, deque[_Change]] = {}
        self._tickets: dict[int, int] = {}  # and the numbers of those that were sent already
        self._last_ticket = 0

    def change(self, group: str, number: int, *, join: bool) -> Pending[GroupView]:
        """A join or a leave; those of one group are answered in their order."""
        asked = _Change(number, join)
        self._changes.setdefault(group, deque()).append(asked)
        return asked.pending

    def question(self) -> Pending[bytes]:
        """A question to the daemon; all are answered in their order."""
        pending = Pending[bytes]()
        self._answers.append(pending)
        return pending

    @contextmanager
    def order_of(self, number: int) -> Iterator[Pending[Ordered]]:
        """The place of a message that was sent as ordered, for as long as it is waited for.

        Raises:
            OrderUnknown: the session has ended while the block waited.
        """
        number = self._tickets.pop(number, 0) or number
        self._orders[number] = pending = Pending[Ordered]()
        try:
            yield pending
        except SessionEnded as error:
            text = f"the order of a message is unknown: {error}"
            raise OrderUnknown(error.code, text) from None
        finally:
            if self._orders.pop(number, None) is None:  # it was a ticket
                numbers = [n for n, other in list(self._orders.items()) if other is pending]
                for sent in numbers:  # one by one, for other threads use them as well
                    self._orders.pop(sent, None)

    def ticket(self) -> int:
        """What stands for the number of a message that has none yet, see `order_of`; below 0."""
        self._last_ticket -= 1
        self._tickets[self._last_ticket] = 0
        return self._last_ticket

    def sent_as(self, ticket: int, number: int) -> None:
        """The message of a ticket has its number."""
        if ticket in self._orders:
            self._orders[number] = self._orders.pop(ticket)
        elif ticket in self._tickets:  # else nobody waits any more
            self._tickets[ticket] = number

    # ---- answers ----

    def ordered(self, event: Ordered) -> None:
        """The place of a message has come."""
        if event.number in self._orders:  # else nobody waits any more
            self._orders[event.number].value = event

    def answered(self, event: Answer) -> None:
        """The answer to the oldest question has come."""
        if self._answers:
            self._answers.popleft().value = event.data

    def refused(self, event: Refused) -> None:
        """What was asked for is not allowed."""
        for number in range(event.number, event.number + event.count):
            if number in self._orders:
                self._orders[number].refused = event
        for asked in self._changes.get(event.group, ()):
            if asked.number == event.number:
                asked.pending.refused = event
                self._changes[event.group].remove(asked)
                break

    def changed(self, view: GroupView, *, joined: bool) -> int:
        """The session's own join or leave was carried out: the request's number, 0 if unknown.

        A leave that the daemon's rules have brought is no answer to a join behind it.
        """
        waiting = self._changes.get(view.group)
        if not waiting or waiting[0].join != joined:
            return 0
        asked = waiting.popleft()
        asked.pending.value = view
        if not waiting:
            del self._changes[view.group]
        return asked.number
