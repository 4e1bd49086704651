"""What a program has asked for and cannot have: errors that name the argument."""

from groupcomm.config.core import MAX_MESSAGE_BYTES
from groupcomm.errors import LocalProtocolError
from groupcomm.level import LEVELS


def bad_argument(size: int, level: int, type_: int) -> LocalProtocolError:
    """What is wrong with a message of so many bytes, at this level, with this type."""
    if size > MAX_MESSAGE_BYTES:
        return LocalProtocolError(
            f"a message of {size} bytes; at most {MAX_MESSAGE_BYTES} are allowed: send several"
        )
    if not 0 <= type_ <= 65535:
        return LocalProtocolError(f"type {type_}; it must be 0 to 65535")
    if not 0 <= level < len(LEVELS):
        return LocalProtocolError(f"level {level} is none of the six")
    return LocalProtocolError(
        f"ordered=True at {LEVELS[level].name}: only AGREED and SAFE messages have an order"
        " to wait for"
    )
