"""A chain: the filters of a connection, one after the other."""

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final, Protocol

import msgspec

from groupcomm.errors import LocalProtocolError
from groupcomm.events import GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm.trace.steps import StepTrace
from groupcomm_client.filters.envelope import Opened, prefix_of
from groupcomm_client.filters.newcomers import newcomers
from groupcomm_client.filters.roles import (
    CannotUndo,
    Filter,
    FilterMessage,
    FilterOutgoing,
    Manager,
    Newcomer,
    Outgoing,
    Stamped,
    SystemEvent,
)

_log = logging.getLogger("groupcomm_client")


class Ends(Protocol):
    """The ends of a chain: the session below and the program above.

    Attributes:
        now: seconds, of a clock that never falls.
        steps: records what the filters do.
    """

    now: float
    steps: StepTrace

    @property
    def member(self) -> MemberId:
        """Return the session's identity."""

    @property
    def groups(self) -> Mapping[str, GroupView]:
        """Return the latest views of its groups."""

    def send_below(self, message: Outgoing, data: bytes) -> int:
        """Pass a message with these data to the session; return its number."""

    def give(self, message: Message) -> None:
        """Pass a message to the program."""

    def give_up(self, message: Message, why: str) -> None:
        """Pass an `Unfiltered` to the program."""

    def is_current(self, chain: "Chain") -> bool:
        """Return whether messages can be sent through this chain."""


class Step:
    """The place of one filter in a chain; see `groupcomm_client.filters.roles.Path`.

    Attributes:
        filter: the filter.
        origin: its place among those on the wire, from 1; 0 if it is not among them.
    """

    __slots__ = ("_above", "_below", "_chain", "_ends", "filter", "origin")

    def __init__(self, chain: "Chain", ends: Ends, filter_: Filter, origin: int) -> None:
        self._chain = chain
        self._ends = ends
        self._above: Step | None = None
        self._below: Step | None = None
        self.filter: Final = filter_
        self.origin: Final = origin

    def put_on(self, below: "Step") -> None:
        """Stand above another place."""
        self._below = below
        below._above = self

    # ---- calls by the filter ----

    @property
    def now(self) -> float:
        """See `Path`."""
        return self._ends.now

    @property
    def member(self) -> MemberId:
        """See `Path`."""
        return self._ends.member

    @property
    def groups(self) -> Mapping[str, GroupView]:
        """See `Path`."""
        return self._ends.groups

    @property
    def steps(self) -> StepTrace:
        """See `Path`."""
        return self._ends.steps

    def record_to(self, steps: StepTrace) -> None:
        """See `Path`."""
        self._ends.steps = steps

    def stamp_of(self, message: Message | Outgoing) -> Stamped | None:
        """See `Path`."""
        above = self._above
        return None if above is None else above.filter.manager.stamp_of(message, above)

    def send_on(self, message: Outgoing) -> None:
        """See `Path`."""
        if self._below is None:
            self._chain.send_out(message)
        else:
            self._below.send(message)

    def receive_on(self, message: Message) -> None:
        """See `Path`."""
        if self._above is None:
            self._chain.give(message)
        else:
            self._above.receive(message)

    def multicast(self, group: str, data: bytes, level: ServiceLevel) -> None:
        """See `Path`."""
        if not self.origin:
            raise LocalProtocolError(
                f"the filter {self.filter.name} sends a message of its own: make it "
                "on_wire=True, so that its other members can tell this message from a "
                "program's"
            )
        if self._ends.is_current(self._chain):
            self.send_on(
                FilterOutgoing(
                    groups=(group,), data=data, level=level, self_discard=True, origin=self.origin
                )
            )

    def give_up(self, message: Message, why: str) -> None:
        """See `Path`."""
        self._ends.give_up(message, f"filter {self.filter.name}: {why}")

    # ---- calls to the filter ----

    def send(self, message: Outgoing) -> None:
        """Pass an outgoing message to the filter."""
        if isinstance(message, FilterOutgoing):
            self.filter.send.process_system(message, self)
        else:
            self.filter.send.process(message, self)

    def receive(self, message: Message) -> None:
        """Pass an incoming message to the filter; if it cannot undo it, to the program
        unchanged."""
        try:
            if not isinstance(message, FilterMessage):
                self.filter.receive.process(message, self)
            elif message.origin == self.origin:
                self.filter.manager.received(message, self)
            else:
                self.filter.receive.process_system(message, self)
        except CannotUndo as error:
            self.give_up(message, str(error))
        except Exception as error:  # an error of the filter must not affect later messages
            self.give_up(message, f"it has failed with {error!r}")


class Chain:
    """Filters in a row, from the program down to the session.

    Attributes:
        filters: the filters in this order.
        prefix: the prefix of the envelopes of their messages; empty if nothing has to be undone.
    """

    def __init__(self, filters: Sequence[Filter], ends: Ends) -> None:
        """Put filters in a row.

        Raises:
            LocalProtocolError: a name is invalid, or occurs twice.
        """
        self.filters = tuple(filters)
        self.prefix = prefix_of(filters)
        self._ends = ends
        self._steps = self._row(self.filters)
        # A message that has passed no filters still passes the local ones, which change nothing.
        self._plain = self._row([one for one in self.filters if not one.on_wire])
        self._on_sent = [s for s in self._steps if _overrides(s.filter.manager, "sent")]
        self._on_delivered = [s for s in self._steps if _overrides(s.filter.manager, "delivered")]

    def _row(self, filters: Sequence[Filter]) -> list[Step]:
        places = {id(one): at for at, one in enumerate(filter(_on_wire, self.filters), 1)}
        steps = [Step(self, self._ends, one, places.get(id(one), 0)) for one in filters]
        for above, below in pairwise(steps):
            above.put_on(below)
        return steps

    # ---- out ----

    def send(self, message: Outgoing) -> None:
        """Send a program's message through the filters."""
        if self._steps:
            self._steps[0].send(message)
        else:
            self.send_out(message)

    def send_out(self, message: Outgoing) -> None:
        """Pass a message that has passed the filters to the session."""
        data = message.data
        if self.prefix:
            origin = message.origin if isinstance(message, FilterOutgoing) else 0
            data = b"%b%c%b" % (self.prefix, origin, data)
        number = self._ends.send_below(message, data)
        for step in self._on_sent:
            _notify(step, lambda manager, step: manager.sent(message, number, step))

    # ---- in ----

    def receive(self, message: Message, opened: Opened) -> None:
        """Undo the work of a chain of the same filters on a message."""
        if opened.origin:
            fields = msgspec.structs.asdict(message) | {"data": opened.data}
            message = FilterMessage(**fields, origin=opened.origin)
        else:
            message = with_data(message, opened.data)
        self._steps[-1].receive(message)

    def receive_plain(self, message: Message) -> None:
        """Process the message of a program without filters."""
        if self._plain:
            self._plain[-1].receive(message)
        else:
            self.give(message)

    def give(self, message: Message) -> None:
        """Pass a message that has passed the filters to the program."""
        if isinstance(message, FilterMessage):
            self._ends.give_up(
                message, f"no filter has the place {message.origin}, which the message names"
            )
            return
        for step in self._on_delivered:
            _notify(step, lambda manager, step: manager.delivered(message, step))
        self._ends.give(message)

    # ---- managers, from the session up ----

    def start(self) -> None:
        """Start all filters, as the session begins; raise the error of one of them."""
        for step in self._steps[::-1]:
            step.filter.manager.start(step)

    def each(self, do: Callable[[Manager, Step], None], *, but: Sequence[Filter] = ()) -> None:
        """Call a function with the manager of each filter, from the session up, but of some."""
        passed = {id(one) for one in but}
        for step in self._steps[::-1]:
            if id(step.filter) not in passed:
                _notify(step, do)

    def notified(self, event: SystemEvent) -> None:
        """Notify the managers of an event that is no message, and that the program receives."""
        self.each(lambda manager, step: manager.notified(event, step))
        if isinstance(event, GroupView):
            for newcomer in newcomers(event):
                self._announce(newcomer)

    def _announce(self, newcomer: Newcomer) -> None:
        self.each(lambda manager, step: manager.joined(newcomer, step))

    @property
    def deadline(self) -> float | None:
        """Return the time at which the first manager is to be woken."""
        times = [one.manager.deadline for one in self.filters]
        return min((time for time in times if time is not None), default=None)

    def wake(self) -> None:
        """Wake the managers whose deadlines have passed."""

        def wake(manager: Manager, step: Step) -> None:
            due = manager.deadline
            if due is not None and due <= step.now:
                try:
                    manager.wake(step)
                except Exception:
                    if manager.deadline == due:
                        manager.deadline = None  # or it would fail again at once, without end
                    raise

        self.each(wake)


def _notify(step: Step, call: Callable[[Manager, Step], None]) -> None:
    """Call the manager of a filter; its error is logged, and affects no event or message."""
    try:
        call(step.filter.manager, step)
    except Exception:
        _log.exception("the manager of the filter %s has failed", step.filter.name)


def with_data(message: Message, data: bytes) -> Message:
    """Return the same message with other data; faster than `msgspec.structs.replace`."""
    return Message(
        message.sender,
        message.number,
        message.groups,
        message.level,
        message.type,
        data,
        message.bundle,
        message.index,
        message.causes,
    )


def _on_wire(filter_: Filter) -> bool:
    return filter_.on_wire


def _overrides(manager: Manager, name: str) -> bool:
    return getattr(type(manager), name) is not getattr(Manager, name)
