"""Reports of daemons to operators at other daemons, at a place in the agreed order.

Pure. The core carries the bytes of a report to all daemons of the view. Shells make and read them.
"""

from collections import deque
from typing import Final

from groupcomm.config.view import View
from groupcomm.engine.backlog import Submitter
from groupcomm.errors import LocalProtocolError
from groupcomm.wire.bundle import Bundle, body_payload, report_bundle

MAX_REPORT_BYTES: Final = 500
"""Fits the smallest packet that a configuration may ask for."""

MAX_WAITING: Final = 256
"""The reports that the shell has not read yet; of more, the oldest are dropped."""


class Reports:
    """The reports of all daemons of the view, those of this daemon included.

    Args:
        submitter: sends the reports of this daemon.

    Attributes:
        arrived: the reports that the shell has not got yet.
    """

    def __init__(self, submitter: Submitter) -> None:
        self._submitter = submitter
        self.arrived: deque[tuple[str, bytes]] = deque(maxlen=MAX_WAITING)

    def send(self, payload: bytes) -> None:
        """Report to all daemons of the view.

        Raises:
            LocalProtocolError: the report has more than MAX_REPORT_BYTES.
        """
        if len(payload) > MAX_REPORT_BYTES:
            raise LocalProtocolError(
                f"a report of {len(payload)} bytes; {MAX_REPORT_BYTES} are allowed"
            )
        self._submitter.submit(report_bundle(payload))

    def accept(self, view: View, daemon: int, bundle: Bundle) -> None:
        """Note a report at its place in the agreed order; `daemon` is its sender's index."""
        if daemon < len(view.daemons):
            payload = bytes(body_payload(bundle.body))
            self.arrived.append((view.daemons[daemon].name, payload))

    def pop(self) -> list[tuple[str, bytes]]:
        """Return the reports that have come since the last call, each with its sender's name."""
        found = list(self.arrived)
        self.arrived.clear()
        return found
