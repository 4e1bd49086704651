"""The filters of one connection: the chain in use, earlier chains, and the next one.

Without I/O. Outgoing messages pass the chain in use. An incoming message names the filters that
have to undo it (`envelope`), so it passes the chain that has them: the one in use or an earlier
one, which is kept for this purpose. Filters that undo nothing process every incoming message.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from groupcomm.errors import LocalProtocolError
from groupcomm.events import DaemonView, GroupView, MemberId, Message
from groupcomm.trace.steps import SILENT
from groupcomm_client.events import Unfiltered
from groupcomm_client.filters.chain import Chain
from groupcomm_client.filters.envelope import open_envelope_untrusted
from groupcomm_client.filters.factories import Factory, make_filters
from groupcomm_client.filters.roles import Filter, Outgoing, SystemEvent

CHAINS: Final = 64
"""The most different chains that one connection may have had."""


class Session(Protocol):
    """The session below, and the program above: `ClientProtocol` is both."""

    @property
    def member(self) -> MemberId:
        """Return its identity."""

    @property
    def groups(self) -> Mapping[str, GroupView]:
        """Return the latest views of its groups."""

    @property
    def is_open(self) -> bool:
        """Return whether neither side has said goodbye."""

    def send_below(self, message: Outgoing, data: bytes) -> int:
        """Send a message with these data; return its number."""

    def give(self, event: Message | Unfiltered) -> None:
        """Queue an event for the program."""


class Filtering:
    """The filters of a connection.

    Attributes:
        now: seconds of the clock, as of the last call.
        steps: records what the filters do.
    """

    def __init__(
        self, session: Session, filters: Sequence[Factory], clock: Callable[[], float]
    ) -> None:
        """Make filters; they are in use once the session has its identity, see `start`.

        Raises:
            LocalProtocolError: a bad name, or one twice.
            ConfigError: one is no factory of a filter.
        """
        self._session = session
        self._clock = clock
        self.now = clock()
        self.steps = SILENT
        self._current = Chain(make_filters(filters), self)
        self._chains = {self._current.prefix: self._current}
        self._next: Sequence[Filter] | None = None

    # ---- the ends of the chains ----

    @property
    def member(self) -> MemberId:
        """Return the session's identity."""
        return self._session.member

    @property
    def groups(self) -> Mapping[str, GroupView]:
        """Return the latest views of its groups."""
        return self._session.groups

    def send_below(self, message: Outgoing, data: bytes) -> int:
        """Pass a message with these data to the session; return its number."""
        return self._session.send_below(message, data)

    def give(self, message: Message) -> None:
        """Pass a message to the program."""
        self._session.give(message)

    def give_up(self, message: Message, why: str) -> None:
        """Pass an `Unfiltered` to the program."""
        self._session.give(Unfiltered(message=message, why=why))

    def is_current(self, chain: Chain) -> bool:
        """Return whether messages can be sent through this chain."""
        return chain is self._current and self._session.is_open

    # ---- messages ----

    def send(self, message: Outgoing) -> None:
        """Send a message of the program, which may be sent."""
        self.now = self._clock()
        self._current.send(message)

    def receive(self, message: Message) -> None:
        """Process an incoming message."""
        self.now = self._clock()
        opened = open_envelope_untrusted(message.data)
        if opened is None:
            self._current.receive_plain(message)
            return
        chain = self._chains.get(opened.prefix)
        if chain is not None:
            chain.receive(message, opened)
            return
        have = {one.name for chain in self._chains.values() for one in chain.filters}
        missing = tuple(name for name in opened.names if name not in have)
        text = ", ".join(opened.names)
        why = (
            f"its sender uses the filters {text}, and this connection has never had exactly these:"
        )
        why += " open it with the same filters, in this order, or call set_filters"
        self._session.give(Unfiltered(message=message, why=why, missing=missing))

    # ---- other events ----

    def start(self) -> None:
        """Start the filters: the session has its identity."""
        self.now = self._clock()
        self._current.start()

    def notified(self, event: SystemEvent) -> None:
        """Notify the filters of an event for the program; a view puts waiting filters into use."""
        self.now = self._clock()
        for chain in list(self._chains.values()):
            chain.notified(event)
        if self._next is not None and isinstance(event, GroupView | DaemonView):
            self._change()

    def change(self, filters: Sequence[Factory]) -> None:
        """Use other filters from the next view on.

        Raises:
            LocalProtocolError: a name is invalid or occurs twice, or there were too many changes.
            ConfigError: one is no factory of a filter.
        """
        made = make_filters(filters)
        chain = Chain(made, self)
        if chain.prefix not in self._chains and len(self._chains) == CHAINS:
            raise LocalProtocolError(
                f"this connection has had {CHAINS} different chains of filters, the most "
                "it may have: open another connection"
            )
        self._next = made

    def _change(self) -> None:
        assert self._next is not None
        old, made = self._current, self._next
        self._next = None
        old.each(
            lambda manager, step: manager.finish(step),
            but=[one for one in old.filters if one.on_wire],
        )
        new = Chain(made, self)
        kept = self._chains.get(new.prefix)
        if kept is not None:
            # Other members may still send through these filters, so their state must stay right.
            state = {one.name: one for one in kept.filters if one.on_wire}
            new = Chain([state.get(one.name, one) if one.on_wire else one for one in made], self)
        self._current = self._chains[new.prefix] = new
        self.steps = SILENT
        staying = [one for one in old.filters if one.on_wire or one in new.filters]
        old.each(lambda manager, _: manager.end(), but=staying)
        new.each(lambda manager, step: manager.start(step), but=old.filters)

    # ---- time ----

    @property
    def deadline(self) -> float | None:
        """Return the time at which `wake` is to be called."""
        times = [chain.deadline for chain in self._chains.values()]
        return min((time for time in times if time is not None), default=None)

    @property
    def wake_in_s(self) -> float:
        """Return the seconds until then, at least 0; infinity without a deadline."""
        deadline = self.deadline
        return math.inf if deadline is None else max(0.0, deadline - self._clock())

    def wake(self) -> None:
        """Do the work that is due."""
        self.now = self._clock()
        for chain in list(self._chains.values()):
            chain.wake()

    # ---- the end ----

    def finish(self) -> None:
        """Pass on messages that wait only for a time: the session ends."""
        self.now = self._clock()
        for chain in self._chains.values():
            chain.each(lambda manager, step: manager.finish(step))

    def end(self) -> None:
        """End all filters: the connection is over."""
        for chain in self._chains.values():
            chain.each(lambda manager, _: manager.end())
