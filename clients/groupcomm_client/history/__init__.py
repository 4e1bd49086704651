"""History: from any position on, without a gap, and live events then. See docs/history.md."""

from groupcomm.clocks.stamp import Position, format_position, parse_position
from groupcomm_client.history.cursor_client import Cursor
from groupcomm_client.history.given import EARLIEST, LATEST, CaughtUp, Compacted, Gap, Given
from groupcomm_client.history.subscription import Subscription

__all__ = [
    "EARLIEST",
    "LATEST",
    "CaughtUp",
    "Compacted",
    "Cursor",
    "Gap",
    "Given",
    "Position",
    "Subscription",
    "format_position",
    "parse_position",
]
