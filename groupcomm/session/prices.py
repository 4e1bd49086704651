"""Prices: what each frame of a client costs its daemon, and its principal's quota.

Every kind of frame has a price, and a step does a bounded amount of work for clients
(engine/intake.py).
A unit of work is about what it takes to accept a small bundle, 6 microseconds; the other prices are
what was measured, or what a frame makes other daemons do, in that unit.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from groupcomm.session.frames import FrameKind
from groupcomm.wire.bundle import Bundle, BundleKind


class Price(NamedTuple):
    """What a frame costs.

    Attributes:
        work: units of work.
        wasted: of these, what no other program wants: who has no rights has no other work done.
        messages: that it counts for in `messages_per_s`.
        joins: that it counts for in `joins_per_s`.
        size: its bytes, for `bytes_per_s`.
    """

    work: int
    messages: int = 0
    joins: int = 0
    size: int = 0
    wasted: int = 0


FRAME_PRICES: Final[Mapping[FrameKind, Price]] = {
    FrameKind.HELLO: Price(16, messages=1, wasted=16),  # a CONNECT is ordered, for all daemons
    FrameKind.BYE: Price(16, messages=1, wasted=16),  # so is a DISCONNECT
    FrameKind.QUERY: Price(16, messages=1, wasted=16),  # an answer has to be put together
}
"""Of frames that hold no bundle."""

BUNDLE_PRICES: Final[Mapping[BundleKind, Price]] = {
    BundleKind.MESSAGES: Price(1, messages=1),  # for each message
    BundleKind.FRAGMENT: Price(1, messages=1),  # for the first of its message
    BundleKind.JOIN: Price(8, messages=1, joins=1),  # all members are told
    BundleKind.LEAVE: Price(8, messages=1),
}
"""Of bundles, by what they hold; a daemon takes no other kinds from clients."""

REFUSED_WORK: Final = 4
"""What it takes to find out that something is not allowed, and to say so."""

GROUPS_A_UNIT: Final = 16
"""So many destinations are looked up with one unit of work."""

WRONG: Final = Price(16, messages=1, wasted=16)
"""Of a frame that breaks the protocol: its session ends, with a DISCONNECT."""

_MESSAGES: Final = int(BundleKind.MESSAGES)
_FRAME_HEAD_BYTES: Final = 4
_BY_KIND: Final = {int(kind): price for kind, price in FRAME_PRICES.items()}
_BY_BUNDLE: Final = {int(kind): price for kind, price in BUNDLE_PRICES.items()}


def price_of_frame(frame: bytes) -> Price:
    """Return the price of a frame that holds no bundle."""
    return _BY_KIND[frame[0]]._replace(size=len(frame) + _FRAME_HEAD_BYTES)


def price_of_refusal(bundle: Bundle, price: Price) -> Price:
    """Return what a bundle costs, by its price, if all that is done is to refuse it."""
    work = REFUSED_WORK + len(bundle.groups) // GROUPS_A_UNIT
    return price._replace(work=work, wasted=work)


def price_of_bundle(bundle: Bundle, frame: bytes) -> Price:
    """Return the price of a frame with this bundle."""
    work, messages, joins, _, _ = _BY_BUNDLE[bundle.kind]
    if bundle.kind == _MESSAGES:
        messages = bundle.count
    elif bundle.index:
        messages = 0
    work += len(bundle.groups) // GROUPS_A_UNIT
    return Price(work, messages, joins, len(frame) + _FRAME_HEAD_BYTES)
