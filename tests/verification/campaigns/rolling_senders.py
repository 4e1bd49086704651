"""Senders whose messages come exactly once, in a rolling upgrade from a release without lines.

Each asks daemons of both releases in turn, all the time. While there is one of the earlier release
it is told so; once there is none it sends, and behind a way back it may be in doubt. Then another
one begins, with a name of its own.
"""

from pathlib import Path
from typing import Final

import attrs
import trio

from groupcomm.level import ServiceLevel
from groupcomm_client import CannotConnect, ConnectOptions, InDoubt, SessionEnded, connect
from tests.verification.campaigns.programs import until

ENOUGH: Final = 20
"""The messages that each sends at least while all daemons have lines."""

ASK_S: Final = 2.0
"""The time for which each asks before it says why no daemon lets it send."""


@attrs.define
class OnceSender:
    """One sender.

    Attributes:
        sent: the number of messages of each name that it has had, the last one at the end.
        doubts: why it was in doubt.
        told: why no daemon let it send.
    """

    user: str
    sent: list[int] = attrs.field(factory=lambda: [0])
    doubts: list[str] = attrs.field(factory=list)
    told: set[str] = attrs.field(factory=set)

    @property
    def count(self) -> int:
        """Return the number of all its messages."""
        return sum(self.sent)

    async def run(self, addresses: str, group: str, traces: Path, rate: float) -> None:
        """Send, whenever it may, until it is cancelled."""
        options = ConnectOptions(trace=traces, timeout_s=ASK_S)
        while True:
            name = f"{self.user}x{len(self.sent)}"
            try:
                async with connect(
                    addresses, user=name, reconnect=True, exactly_once=True, options=options
                ) as connection:
                    while True:
                        data = f"{name} AGREED {self.sent[-1]}".encode()
                        await connection.multicast(group, data, level=ServiceLevel.AGREED)
                        self.sent[-1] += 1
                        await trio.sleep(1 / rate)
            except InDoubt as error:
                self.doubts.append(str(error))
                self.sent.append(0)
            except (CannotConnect, SessionEnded) as error:
                self.told.add(str(error))
                await trio.sleep(0.1)

    async def until_it_sends(self) -> None:
        """Wait until it has sent some more messages.

        Raises:
            DidNotHappen: it has not.
        """
        enough = self.count + ENOUGH
        await until(f"{self.user} sends", lambda: self.count >= enough)
