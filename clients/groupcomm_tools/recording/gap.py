"""A place in a log where something may be missing."""

import json
from typing import Any, Literal

import attrs

from groupcomm.events import MemberId

Cause = Literal["begin", "restart", "reconnect", "overrun"]


@attrs.frozen(kw_only=True)
class Gap:
    """What was delivered between the row before and the row behind may not be recorded.

    Attributes:
        cause: ``begin`` of the log, ``restart`` of the recorder, ``reconnect`` to a daemon, or
            ``overrun``: the disk did not keep up.
        member: the session that records from here on; None if it is the one before.
        groups: that it joins.
        details: what else is known.
    """

    cause: Cause
    member: MemberId | None = None
    groups: tuple[str, ...] | None = None
    details: dict[str, Any]

    @property
    def told(self) -> bytes:
        """The details as JSON."""
        return json.dumps(self.details, ensure_ascii=False).encode()
