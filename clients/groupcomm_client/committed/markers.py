"""The markers that a publisher sends around the rows of a batch, and the names of its sessions.

A publisher's session sends nothing but batches: a `Begin`, the rows, an `End`. Its user name begins
with USER, so that a receiver that joins in the middle of a batch does not take rows for other
messages.
"""

import secrets
from collections.abc import Mapping
from typing import Final

import msgspec

from groupcomm_client.undecodable import UNDECODABLE

TYPE: Final = 65_535
"""The type of markers; no row has it."""

USER: Final = "sink."
"""The start of the user names of publishers."""

_NAME: Final = f"#{USER}"


class Begin(msgspec.Struct, frozen=True, tag_field="marker", tag="begin"):
    """The marker before a batch: the sender's next messages are its rows.

    Attributes:
        query: the identity of the query, kept over its restarts.
        batch: the number of the batch, which rises along the query.
    """

    query: str
    batch: int


class End(msgspec.Struct, frozen=True, tag_field="marker", tag="end"):
    """The marker after all rows of a batch.

    Attributes:
        query, batch: the query and the number of the batch, as in the Begin.
        rows: the number of rows for each destination.
        after: for each destination, the last batch before this one that had rows for it.
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
