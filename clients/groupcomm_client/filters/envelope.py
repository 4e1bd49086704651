"""The envelope of a filtered message, which names the filters that have to undo it.

::

    ff 47 46 01 | length | names, with commas | origin | data

The names are those of the filters that are to undo it, from the program down. The origin is 0 for
a program's message; a filter's own message has the place of that filter among the names, from 1.
No text in UTF-8 begins with ff, so no text looks like an envelope.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from groupcomm.errors import LocalProtocolError
from groupcomm_client.filters.roles import Filter

MAGIC: Final = b"\xffGF\x01"
NAMES_BYTES: Final = 255
NAME_LETTERS: Final = 64


class Opened(NamedTuple):
    """The content of an envelope.

    Attributes:
        prefix: all of it before the origin.
        names: the names of the filters.
        origin: 0 for a program's message, else the place of the filter that has sent it.
        data: the data for the filters to undo.
    """

    prefix: bytes
    names: tuple[str, ...]
    origin: int
    data: bytes


def prefix_of(filters: Iterable[Filter]) -> bytes:
    """Return the part before the origin; b"" if no filter has to be undone.

    Raises:
        LocalProtocolError: a name is invalid or occurs twice, or there are too many names.
    """
    filters = list(filters)
    for one in filters:
        if not (one.name.isascii() and one.name.replace("-", "").isalnum()) or (
            len(one.name) > NAME_LETTERS
        ):
            raise LocalProtocolError(
                f"the filter's name {one.name!r} is invalid: use 1 to {NAME_LETTERS} "
                "letters, digits and dashes"
            )
    names = [one.name for one in filters if one.on_wire]
    if len(set(names)) < len(names):
        raise LocalProtocolError(
            f"two filters have the same name in {', '.join(names)}: remove one of them"
        )
    text = ",".join(names).encode()
    if len(text) > NAMES_BYTES:
        raise LocalProtocolError(
            f"the names of {len(names)} filters have {len(text)} bytes; {NAMES_BYTES} are allowed"
        )
    return MAGIC + bytes((len(text),)) + text if names else b""


def open_envelope_untrusted(data: bytes) -> Opened | None:
    """Return the content of an envelope; None for a message without filters."""
    if not data.startswith(MAGIC) or len(data) < len(MAGIC) + 1:
        return None
    at = len(MAGIC) + 1
    end = at + data[at - 1]
    if end == at or end >= len(data):
        return None
    names = data[at:end]
    if not names.replace(b"-", b"").replace(b",", b"").isalnum():
        return None
    return Opened(data[:end], tuple(names.decode().split(",")), data[end], data[end + 1 :])
