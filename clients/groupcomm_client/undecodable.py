"""The errors of msgspec for bytes that are not a value of the expected type."""

from typing import Final

import msgspec

UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The last error is for values nested thousands deep in unknown fields, which msgspec skips
recursively."""
