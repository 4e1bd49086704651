"""The requests of a session that have no answer yet."""

import json
from collections import deque
from typing import Any, Generic, TypeVar

import attrs

from groupcomm.errors import AccessRefused
from groupcomm.events import Answer, GroupView, Ordered, Refused

_Value = TypeVar("_Value")


class Pending(Generic[_Value]):
    """A request whose answer is awaited.

    Attributes:
        value: the answer; None until it has arrived.
        refused: the reason why it will never arrive.
    """

    __slots__ = ("refused", "value")

    def __init__(self) -> None:
        self.value: _Value | None = None
        self.refused: Refused | None = None

    def is_there(self) -> bool:
        """Return whether the answer has arrived, or never will."""
        return self.value is not None or self.refused is not None

    def result(self) -> _Value:
        """Return the answer; `is_there` must be true.

        Raises:
            AccessRefused: the request is not allowed.
        """
        if self.refused is not None:
            raise access_refused(self.refused)
        assert self.value is not None
        return self.value


class PendingOrder(Pending[Ordered]):
    """A message whose place in the order is awaited.

    Attributes:
        number: the number of the message; a ticket, below 0, while filters or keys hold the
            message.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@attrs.frozen(eq=False)
class _Change:
    """A join or a leave that is awaited; `number` is the number of the request."""

    number: int
    join: bool
    pending: Pending[GroupView] = attrs.field(factory=Pending)


def access_refused(event: Refused) -> AccessRefused:
    """Return the error for a caller whose request was refused."""
    return AccessRefused(event.verb, event.group, event.principal, str(event))


class Requests:
    """The requests of one session that have no answer yet."""

    def __init__(self) -> None:
        self._orders: dict[int, PendingOrder] = {}
        self._answers: deque[Pending[bytes]] = deque()
        self._changes: dict[str, deque[_Change]] = {}
        self._last_ticket = 0

    @property
    def is_empty(self) -> bool:
        """Return whether no answer is awaited."""
        waiting = any(not order.is_there() for order in self._orders.values())
        return not (waiting or self._answers or self._changes)

    def change(self, group: str, number: int, *, join: bool) -> Pending[GroupView]:
        """Add a join or a leave; those of one group are answered in their order."""
        change = _Change(number, join)
        self._changes.setdefault(group, deque()).append(change)
        return change.pending

    def question(self) -> Pending[bytes]:
        """Add a question to the daemon; questions are answered in their order."""
        pending = Pending[bytes]()
        self._answers.append(pending)
        return pending

    def expect_order(self, number: int) -> PendingOrder:
        """Expect the place of a message, by its number or its ticket, until `forget_order`."""
        order = self._orders[number] = PendingOrder(number)
        return order

    def order(self, number: int) -> PendingOrder | None:
        """Return the awaited place of a message; None if nobody awaits it."""
        return self._orders.get(number)

    def forget_order(self, order: PendingOrder) -> None:
        """Stop waiting for the place of a message."""
        self._orders.pop(order.number, None)

    def next_ticket(self) -> int:
        """Return a ticket, below 0, for a message that has no number yet."""
        self._last_ticket -= 1
        return self._last_ticket

    def sent_as(self, ticket: int, number: int) -> None:
        """Note the number of the message that a ticket stands for."""
        order = self._orders.pop(ticket, None)
        if order is not None:  # otherwise no caller waits any more
            order.number = number
            self._orders[number] = order

    # ---- answers ----

    def ordered(self, event: Ordered) -> None:
        """Accept the place of a message."""
        if event.number in self._orders:  # otherwise no caller waits any more
            self._orders[event.number].value = event

    def answered(self, event: Answer) -> None:
        """Accept the answer to the oldest question."""
        if self._answers:
            self._answers.popleft().value = event.data

    def refused(self, event: Refused) -> None:
        """Note that a request is not allowed."""
        for number in range(event.number, event.number + event.count):
            if number in self._orders:
                self._orders[number].refused = event
        for change in self._changes.get(event.group, ()):
            if change.number == event.number:
                change.pending.refused = event
                self._changes[event.group].remove(change)
                if not self._changes[event.group]:
                    del self._changes[event.group]
                break

    def changed(self, view: GroupView, *, joined: bool) -> int:
        """Note that a join or leave of the session itself was carried out.

        A leave that the daemon's rules have caused does not answer a later join.

        Returns:
            The number of the request; 0 if it is unknown.
        """
        waiting = self._changes.get(view.group)
        if not waiting or waiting[0].join != joined:
            return 0
        change = waiting.popleft()
        change.pending.value = view
        if not waiting:
            del self._changes[view.group]
        return change.number


def read_answer(data: bytes) -> dict[str, Any]:
    """Return the answer of a daemon to a question.

    Raises:
        AccessRefused: the daemon's rules do not allow the question.
    """
    found: dict[str, Any] = json.loads(data)
    if "refused" in found and "error" in found:
        raise AccessRefused(**found["refused"], text=found["error"])
    return found
