"""What a publisher sends around the rows of a batch, and how its session is known.

A publisher's session sends nothing but batches: a `Begin`, the rows, an `End`. Its user name begins
with USER, so that a receiver which came in the middle of a batch does not take rows for messages
of anybody else.
"""

import secrets
from collections.abc import Mapping
from typing import Final

import msgspec

from groupcomm_client.undecodable import UNDECODABLE

TYPE: Final = 65_535
"""The type of markers; no row has it."""

USER: Final = "sink."
"""With this the user names of publishers begin."""

_NAME: Final = f"#{USER}"


class Begin(msgspec.Struct, frozen=True, tag_field="marker", tag="begin"):
    """The sender's next messages are the rows of a batch.

    Attributes:
        query: the identity of the query, kept over its restarts.
        batch: rises along the query.
    """

    query: str
    batch: int


class End(msgspec.Struct, frozen=True, tag_field="marker", tag="end"):
    """These were all of them.

    Attributes:
        query, batch: as in the Begin.
        rows: of each destination, so many were sent to it.
        after: of each destination the batch before this one that had rows for it.
    """

    query: str
    batch: int
    rows: Mapping[str, int]
    after: Mapping[str, int]


Marker = Begin | End

_decoder: Final[msgspec.json.Decoder[Marker]] = msgspec.json.Decoder(Marker)


def encode_marker(marker: Marker) -> bytes:
    """Return the data of a message of type TYPE."""
    return msgspec.json.encode(marker)


def decode_marker_untrusted(type_: int, data: bytes) -> Marker | None:
    """Return the marker in a publisher's message; None if it is a row, or unknown."""
    if type_ != TYPE:
        return None
    try:
        return _decoder.decode(data)
    except UNDECODABLE:
        return None


def publisher_user() -> str:
    """Return a user name for a new session of a publisher."""
    return f"{USER}{secrets.token_hex(6)}"


def is_publisher(name: str) -> bool:
    """Return whether a private name is that of a publisher's session."""
    return name.startswith(_NAME)
