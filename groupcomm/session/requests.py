"""Requests of a client: one for each of its frames, with their numbering and prices.

Every kind of frame has a price, for its principal's quota, and a step does a bounded amount of work
for clients (engine/intake.py). A unit of work is about the work to accept a small bundle, 6
microseconds; the other prices were measured, or count the work that a frame causes at other
daemons, in that unit.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec

from groupcomm.errors import Code, SessionError
from groupcomm.session.frames import FrameKind
from groupcomm.wire.bundle import Bundle, BundleKind


class Hello:
    """A request to be admitted as `user`; answer with `welcome` or `close`.

    Attributes:
        user: the user's name.
        wishes: the bits of `Capability` that it wants or understands.
    """

    __slots__ = ("user", "wishes")

    def __init__(self, user: str, wishes: int) -> None:
        self.user = user
        self.wishes = wishes


NO_WISHES: Final = Hello("", 0)
"""What a client asks for before its HELLO has come."""


class Submit(msgspec.Struct, eq=False):
    """A bundle of the client: messages, a fragment, a join, a leave or a line.

    Attributes:
        bundle: the bundle, with its session and user set; each target is 0 until the core fills
            it in, which does not change the size.
        ordered: whether to return its position in an ORDERED frame.
    """

    bundle: Bundle
    ordered: bool


class Bye:
    """An orderly leave; nothing follows. Answer with ``close(Code.OK, ...)``."""

    __slots__ = ()


class Alive:
    """A heartbeat of the client, which its session has noted; there is nothing to answer."""

    __slots__ = ()


class Query:
    """A question about the daemon; answer with `encode_answer`, in the order of the questions."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


Request: TypeAlias = Hello | Submit | Query | Alive | Bye


_MESSAGES: Final = int(BundleKind.MESSAGES)
_FRAGMENT: Final = int(BundleKind.FRAGMENT)


class Numbering:
    """Checks the messages of one session: no gaps in numbers, and fragments one after the other.

    Behind a LINE there may be gaps in numbers, which are those of the line then.
    """

    __slots__ = ("_fragment", "_has_line", "_last")

    def __init__(self) -> None:
        self._last = -1  # number of the last message; the first one may have any number but 0
        self._has_line = False
        self._fragment: Bundle | None = None  # the last fragment, unless it has ended its message

    def check(self, bundle: Bundle) -> None:
        """Accept the next bundle of the session.

        Raises:
            SessionError: it is not the bundle that must follow.
        """
        before = self._fragment
        if bundle.kind == _FRAGMENT and bundle.index:
            if before is None or not _continues(before, bundle):
                raise SessionError(
                    Code.ILLEGAL_MESSAGE,
                    f"fragment {bundle.index} of message {bundle.message} is out of its turn",
                )
        else:
            expected = bundle.message if self._last < 0 else self._last + 1
            if self._has_line:
                expected = max(expected, bundle.message)
            if before is not None or bundle.message != expected or expected == 0:
                text = f"message {bundle.message} follows {self._last}"
                if before is not None:
                    text += ", of which fragments are missing"
                raise SessionError(Code.ILLEGAL_MESSAGE, text)
            more = bundle.count - 1 if bundle.kind == _MESSAGES else 0
            self._last = bundle.message + more
        ends = bundle.kind != _FRAGMENT or bundle.index == bundle.count - 1
        self._fragment = None if ends else bundle
        if bundle.kind == BundleKind.LINE and not bundle.flags:
            self._has_line = True

    @property
    def last_complete(self) -> int:
        """Return the number of the last message of which all bundles have come; 0 before."""
        return max(0, self._last - (self._fragment is not None))


def _continues(before: Bundle, bundle: Bundle) -> bool:
    """Return whether a fragment is the next of the same message."""
    return (
        bundle.index == before.index + 1
        and bundle.message == before.message
        and bundle.count == before.count
        and bundle.level == before.level
        and bundle.flags == before.flags
        and bundle.groups == before.groups
    )


class Price(NamedTuple):
    """The price of a frame.

    Attributes:
        work: units of work.
        wasted: the part of the work that no other program wants; a client without rights causes
            no other work.
        messages: its charge on `messages_per_s`.
        joins: its charge on `joins_per_s`.
        size: its bytes, charged on `bytes_per_s`.
    """

    work: int
    messages: int = 0
    joins: int = 0
    size: int = 0
    wasted: int = 0


FRAME_PRICES: Final[Mapping[FrameKind, Price]] = {
    FrameKind.HELLO: Price(16, messages=1, wasted=16),  # all daemons order a CONNECT
    FrameKind.BYE: Price(16, messages=1, wasted=16),  # all daemons order a DISCONNECT
    FrameKind.QUERY: Price(16, messages=1, wasted=16),  # the daemon has to make an answer
    FrameKind.CLIENT_ALIVE: Price(1, messages=1, wasted=1),  # a few in a minute are due
}
"""The prices of frames without a bundle."""

JOIN_WORK: Final = 8
"""The work of a join, besides that for the members of the group."""

BUNDLE_PRICES: Final[Mapping[BundleKind, Price]] = {
    BundleKind.MESSAGES: Price(1, messages=1),  # for each message
    BundleKind.FRAGMENT: Price(1, messages=1),  # for the first fragment of a message
    BundleKind.JOIN: Price(JOIN_WORK, messages=1, joins=1),  # all members are notified
    BundleKind.LEAVE: Price(JOIN_WORK, messages=1),
    BundleKind.LINE: Price(JOIN_WORK, messages=1, wasted=JOIN_WORK),  # without any rights
}
"""The prices of bundles by their kind; a daemon accepts no other kinds from clients."""

REFUSED_WORK: Final = 4
"""The work to find out that a request is not allowed, and to refuse it."""

GROUPS_A_UNIT: Final = 16
"""The number of destinations that are looked up with one unit of work."""

RECEIVERS_A_UNIT: Final = 2
"""The number of sessions that get a frame for one unit of work, of all daemons together."""

MEMBERS_A_UNIT: Final = 8
"""The number of members of a group for one unit of work of a join or a leave: they share what they
are told, and get it with others (engine/held_changes.py)."""

VIOLATION: Final = Price(16, messages=1, wasted=16)
"""The price of a frame that breaks the protocol: its session ends, with a DISCONNECT."""

GROUPS_A_TRANSLATED_UNIT: Final = 16
"""The number of destinations of another protocol that are translated with one unit of work."""

BYTES_A_TRANSLATED_UNIT: Final = 4096
"""The bytes of its messages that are read and copied with one unit of work."""

TRANSLATED_WORK: Final = 1
"""The work to translate a message of another protocol, besides its destinations and its bytes."""

NOTHING: Final = Price(0)
"""The price of no work."""

_FRAME_HEAD_BYTES: Final = 4
_BY_KIND: Final = {int(kind): price for kind, price in FRAME_PRICES.items()}
_BY_BUNDLE: Final = {int(kind): price for kind, price in BUNDLE_PRICES.items()}


def price_of_frame(frame: bytes) -> Price:
    """Return the price of a frame without a bundle."""
    return _BY_KIND[frame[0]]._replace(size=len(frame) + _FRAME_HEAD_BYTES)


def price_of_refusal(bundle: Bundle, price: Price) -> Price:
    """Return the price of a bundle that is refused; `price` is its price otherwise."""
    work = REFUSED_WORK + len(bundle.groups) // GROUPS_A_UNIT
    return price._replace(work=work, wasted=work)


def price_of_translation(groups: int, size: int, *, is_void: bool) -> Price:
    """Return the price to read a message of another protocol; its frames have their own prices.

    Args:
        groups: the number of its destinations.
        size: its bytes.
        is_void: whether it asks for nothing, so that no frame follows.
    """
    work = TRANSLATED_WORK + groups // GROUPS_A_TRANSLATED_UNIT + size // BYTES_A_TRANSLATED_UNIT
    return Price(work, messages=1, size=size, wasted=work) if is_void else Price(work)


def total(one: Price, other: Price) -> Price:
    """Return the price of both."""
    return Price(*map(sum, zip(one, other, strict=True)))


def price_of_bundle(bundle: Bundle, frame: bytes) -> Price:
    """Return the price of a frame with this bundle."""
    work, messages, joins, _, _ = _BY_BUNDLE[bundle.kind]
    if bundle.kind == _MESSAGES:
        messages = bundle.count
    elif bundle.index:
        messages = 0
    work += len(bundle.groups) // GROUPS_A_UNIT
    return Price(work, messages, joins, len(frame) + _FRAME_HEAD_BYTES)
