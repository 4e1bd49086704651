"""Meeting: a peer's answers to greetings, and its reactions to answers.

Pure. ``now`` is in seconds.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from groupcomm_lessons.algorithms.direct.datagrams import (
    Address,
    Ask,
    Contact,
    Datagram,
    Hello,
    Known,
    Refused,
)
from groupcomm_lessons.algorithms.direct.greeting import Greeting, refusal
from groupcomm_lessons.algorithms.direct.group import Group
from groupcomm_lessons.algorithms.direct.others import Other, Others
from groupcomm_lessons.algorithms.direct.settings import MAX_MEMBERS
from groupcomm_lessons.algorithms.process import Name


class Own(NamedTuple):
    """The report of a peer about itself; see `datagrams.Hello`."""

    name: Name
    incarnation: int
    algorithm: str
    founders: tuple[Name, ...]


SendTo: TypeAlias = Callable[[Address, Datagram, Name | None], None]
"""Sends a datagram to an address, and to a peer if it is known."""


class Meeting:
    """The meeting of all founders, or the welcome of a latecomer; and then answers to
    latecomers."""

    def __init__(
        self, own: Own, others: Others, group: Group, greeting: Greeting, send: SendTo
    ) -> None:
        self._own = own
        self._others = others
        self._group = group
        self._greeting = greeting
        self._send = send

    @property
    def came_late(self) -> bool:
        """Return whether this peer is not a founder."""
        return not self._own.founders

    @property
    def missing(self) -> tuple[Name, ...]:
        """Return the founders that have not come yet."""
        return tuple(name for name in self._own.founders if not self._has_met(name))

    @property
    def is_complete(self) -> bool:
        """Return whether this peer is a founder, and all founders have met."""
        return not self.came_late and not self.missing

    def _has_met(self, name: Name) -> bool:
        return name == self._own.name or name in self._others or self._others.has_gone(name)

    # ---- greeting others ----

    def greet(self, now: float) -> None:
        """Greet the addresses that have not answered."""
        for address in self._greeting.due(now, late=self.came_late):
            self._send(address, Hello(*self._own, self._others.contacts), None)

    def end(self) -> None:
        """Greet no address any more."""
        self._greeting.end()

    @property
    def deadline(self) -> float | None:
        """Return the time at which to call `greet` again."""
        return self._greeting.deadline

    def on_known(self, known: Known, address: Address, now: float) -> None:
        """Process an answer: of a founder, or of the sponsor of this peer."""
        contact = Contact(known.sender, address, known.incarnation)
        if not self.came_late:
            self._greeting.answered(address)
            if known.sender in self._own.founders:
                self._meet(contact, known.known, now)
        elif not self._others.names:
            self._greeting.end()
            self._others.add(contact, now)

    def on_ask(self, ask: Ask, now: float) -> None:
        """Greet another peer instead."""
        if self.came_late and not self._others.names:
            self._greeting.go_to(ask.address, now)

    # ---- being greeted ----

    def on_hello(self, hello: Hello, address: Address, now: float, *, running: bool) -> None:
        """Answer a greeting, or stay silent and be greeted again.

        Args:
            hello: the greeting.
            address: the address of its sender.
            now: seconds.
            running: whether this peer can welcome latecomers.
        """
        contact = Contact(hello.sender, address, hello.incarnation)
        if other := self._others.get(hello.sender, hello.incarnation):
            self._answer_again(hello, other)
        elif hello.incarnation == self._own.incarnation:
            return  # the peer's own hello, to an address that it was told to greet
        elif reason := self._refusal(hello):
            self._send(address, Refused(self._own.name, hello.incarnation, reason), hello.sender)
        elif hello.founders:
            self._meet(contact, hello.known, now)
            self._answer(hello, address)
        elif running:
            self._accept_latecomer(hello, contact, now)

    def _refusal(self, hello: Hello) -> str | None:
        if self._has_met(hello.sender):
            return f"{hello.sender} is a member, or was one: come by another name"
        if len(self._others.names) + 2 > MAX_MEMBERS:
            return f"the group is full: {MAX_MEMBERS} members are the most"
        late = self._group.takes_latecomers
        return refusal(hello, self._own.algorithm, self._own.founders, late=late)

    def _answer(self, hello: Hello, address: Address) -> None:
        """Answer a founder; a latecomer learns of the others by its welcome."""
        known = self._others.contacts if hello.founders else ()
        self._send_known(Contact(hello.sender, address, hello.incarnation), known)

    def _send_known(self, to: Contact, known: tuple[Contact, ...]) -> None:
        answer = Known(self._own.name, self._own.incarnation, to.incarnation, known)
        self._send(to.address, answer, to.name)

    def remind(self, other: Other) -> None:
        """Remind a latecomer, which may not know that it is welcome, and drops packets until
        then."""
        if other.sponsor == self._own.name and not other.has_answered:
            self._send_known(other.contact, ())

    def _answer_again(self, hello: Hello, other: Other) -> None:
        """Answer a known peer again; a latecomer must get the answer from its sponsor."""
        if other.sponsor in ("", self._own.name):
            self._answer(hello, other.contact.address)
        elif sponsor := self._others.named(other.sponsor):
            ask = Ask(self._own.name, hello.incarnation, sponsor.contact.address)
            self._send(other.contact.address, ask, hello.sender)
        else:
            reason = (
                f"{other.sponsor}, the sponsor of {hello.sender}, is gone: come by another name"
            )
            refused = Refused(self._own.name, hello.incarnation, reason)
            self._send(other.contact.address, refused, hello.sender)

    def _accept_latecomer(self, hello: Hello, contact: Contact, now: float) -> None:
        sponsor = self._others.named(self._group.sponsor)
        if sponsor is not None:
            found = Ask(self._own.name, hello.incarnation, sponsor.contact.address)
            self._send(contact.address, found, hello.sender)
        else:
            self._group.welcome(contact, now)
            self._answer(hello, contact.address)

    def _meet(self, contact: Contact, known: Iterable[Contact], now: float) -> None:
        """Note a founder, which knows some others."""
        if not self._has_met(contact.name):
            self._others.add(contact, now)
            self._greeting.answered(contact.address)
        for each in known:
            if each.name in self.missing:
                self._greeting.add(each.address, now)
