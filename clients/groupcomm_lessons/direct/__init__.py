"""Peers that communicate over UDP without a daemon, for trying out ordering algorithms.

::

    async with (
        direct.open("ann", members=("ann", "bob"), bind="127.0.0.1:7001") as ann,
        direct.open("bob", members=("ann", "bob"), join="127.0.0.1:7001") as bob,
    ):
        ann.set_minimum_delay("bob", 0.5)
        await ann.multicast(b"late at bob")
        print(await bob.receive())

Their datagrams are not sealed: anybody who reaches a peer's port can pose as any peer.
docs/direct.md lists the guarantees.
"""

from groupcomm_lessons.algorithms.direct.events import Cause, MemberJoined, MemberLeft, NotDelivered
from groupcomm_lessons.algorithms.direct.settings import Timing
from groupcomm_lessons.algorithms.process import Message
from groupcomm_lessons.direct.opening import open
from groupcomm_lessons.direct.peer import DirectPeer, Event

__all__ = [
    "Cause",
    "DirectPeer",
    "Event",
    "MemberJoined",
    "MemberLeft",
    "Message",
    "NotDelivered",
    "Timing",
    "open",
]
