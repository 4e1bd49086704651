"""What users give to coordination: checked at their call, as it is wrapped into a message."""

from typing import Final

from groupcomm.errors import LocalProtocolError
from groupcomm.wire.messages import MAX_MESSAGE_BYTES

HEAD_BYTES: Final = 1024
"""More than a command or a request adds to its data."""

MAX_DATA_BYTES: Final = MAX_MESSAGE_BYTES - HEAD_BYTES
"""The most bytes of a command or of a request."""

MOST_TEXT: Final = 1000
"""The most characters of an error's text that others are told."""


def check_data(what: str, data: object, most: int = MAX_DATA_BYTES) -> None:
    """Raise LocalProtocolError if data are no bytes, or too many.

    Args:
        what: the data, for the error.
        data: what a user gave.
        most: the limit.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise LocalProtocolError(f"{what} is of type {type(data).__name__}; it must be bytes")
    size = memoryview(data).nbytes
    if size > most:
        raise LocalProtocolError(
            f"{what} has {size} bytes; at most {most} are allowed: send it in parts"
        )


def clean(text: object) -> str:
    """Return a text that others can be told: not too long, and without half characters."""
    return str(text)[:MOST_TEXT].encode(errors="replace").decode()


def text_of(error: BaseException) -> str:
    """Return what an error of a user's function says, for others, whatever it is."""
    name = type(error).__name__
    try:
        return clean(f"{name}: {error}")
    except Exception:  # the error has no text that can be made
        return clean(name)
