"""What msgspec raises for bytes that stand for no value of the type that is asked for."""

from typing import Final

import msgspec

UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The last is for values within values, thousands deep, where more fields than are known may be:
they are skipped one inside the other."""
