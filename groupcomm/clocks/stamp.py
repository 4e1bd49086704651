"""Stamps and positions: the keys of the agreed order.

A stamp is (time, ring): the value of a ring's Lamport clock (Lamport 1978) and the ring, which
breaks ties. It orders packets within one view. A position adds the view in front and the place
within the packet behind, and so is unique for ever.
"""

from typing import NamedTuple


class Stamp(NamedTuple):
    """The agreed order of packets in one view.

    Attributes:
        time: microseconds, 0 to 2**64 - 1; about physical time, but it follows every stamp seen.
        ring: index of the ring in the view.
    """

    time: int
    ring: int


class ViewId(NamedTuple):
    """Identity of a view; ids rise along every daemon's history.

    Attributes:
        counter: 0 to 2**64 - 1.
        daemon: name of the view's lowest daemon.
        incarnation: that daemon's random 64-bit incarnation id.
    """

    counter: int
    daemon: str
    incarnation: int

    def __str__(self) -> str:
        return f"{self.counter}.{self.daemon}.{self.incarnation:x}"


class Position(NamedTuple):
    """The key of one message, unique for ever; positions sort in the agreed order.

    Attributes:
        view: the view it was ordered in.
        time: its packet's stamp.
        ring: its packet's ring.
        bundle: index in the packet, from 0.
        message: index in the bundle, from 0.
    """

    view: ViewId
    time: int
    ring: int
    bundle: int
    message: int


def parse_view(text: str) -> ViewId:
    """Return the id of a view of daemons, from its text; raise ValueError if it is none."""
    counter, _, rest = text.partition(".")
    daemon, _, incarnation = rest.rpartition(".")
    return ViewId(int(counter), daemon, int(incarnation, 16))


def format_position(position: Position) -> str:
    """Return a position as text, to be stored or printed; equal positions give equal texts."""
    view, time, ring, bundle, message = position
    return f"{view}/{time}.{ring}.{bundle}.{message}"


def parse_position(text: str) -> Position:
    """Return the position that `format_position` made a text of; raise ValueError for others."""
    view, _, rest = text.rpartition("/")
    try:
        time, ring, bundle, message = map(int, rest.split("."))
        return Position(parse_view(view), time, ring, bundle, message)
    except ValueError:
        raise ValueError(
            f"{text!r} is no position; format_position makes texts like 7.a.ff/12.0.3.0"
        ) from None
