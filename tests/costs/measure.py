"""The cost of one message for all daemons together, counted in virtual time: the same everywhere.

Members at each daemon, programs that send at a steady rate. Steps, datagrams and bytes are those of
the simulated cluster; calls are those of Python functions within a core's step, as `sys.setprofile`
sees them, without the simulator's own.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import attrs

from groupcomm.engine import DaemonCore
from groupcomm.level import ServiceLevel
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import SECOND

MESSAGE_BYTES: Final = 100
SETTLE_S: Final = 0.5
"""The time of the load before the count begins."""

LEAST_MESSAGES: Final = 60
LEAST_S: Final = 0.3
"""The least counted time and number of messages, whichever takes longer."""

_STEP: Final = DaemonCore.step.__code__
_SIMULATOR: Final = str(Path("groupcomm", "sim"))
_ENTRIES: Final[frozenset[CodeType]] = frozenset(
    (_STEP, DaemonCore.deliver.__code__, DaemonCore.pop_output.__code__)
)
"""The methods of a core that a daemon calls at each step."""


@attrs.frozen
class Load:
    """The senders.

    Attributes:
        daemons: the number of daemons, in one site; each has a member.
        senders: the members that send, in turn.
        level: the level of all messages.
        rate: the messages a second of all senders together.
        groups: the groups of which each member is one.
        targets: the groups to which each message goes.
    """

    daemons: int
    senders: int
    level: ServiceLevel
    rate: int
    groups: int = 1
    targets: int = 1


@attrs.frozen
class Cost:
    """For each message, over all daemons.

    Attributes:
        steps: the steps of cores.
        idle: the steps among these that a timer began, without input.
        datagrams: the datagrams, counted for each receiver.
        bytes: the bytes of these, with seals.
        calls: the calls of Python functions in these steps.
    """

    steps: float
    idle: float
    datagrams: float
    bytes: float
    calls: float


class _Counts:
    """Return the counts so far."""

    def __init__(self) -> None:
        self.steps = self.idle = self.datagrams = self.bytes = self.calls = 0
        self._within = 0  # the number of entries that have not returned

    def observe(self, source: int, target: int, datagram: bytes, goes_on: bool) -> None:
        """Count a datagram; for `Network.observers`."""
        self.datagrams += 1
        self.bytes += len(datagram)

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """Count a call; for `sys.setprofile`."""
        if event == "call":
            code = frame.f_code
            if code in _ENTRIES:
                self._within += 1
                if code is _STEP:
                    self.steps += 1
                    come = frame.f_locals
                    self.idle += not (come["datagrams"] or come["inputs"])
            self.calls += self._within > 0 and _SIMULATOR not in code.co_filename
        elif event == "return" and frame.f_code in _ENTRIES:
            self._within -= 1

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count calls for the length of a block."""
        before = sys.getprofile()
        sys.setprofile(self.profile)
        try:
            yield
        finally:
            sys.setprofile(before)


def measure(load: Load) -> Cost:
    """Run a cluster under a load in virtual time; return the cost of a message."""
    cluster = Cluster(plain_settings(daemons=load.daemons))
    members = [cluster.connect(f"user{at}", at) for at in range(load.daemons)]
    cluster.run(0.1)
    groups = ["g", *(f"g{at}" for at in range(1, load.groups))]
    for member in members:
        for group in groups:
            member.join(group)
    interval = SECOND // load.rate
    sent = 0

    def send(_: object) -> None:
        nonlocal sent
        member = members[sent % load.senders]
        member.multicast(groups[: load.targets], bytes(MESSAGE_BYTES), level=load.level)
        sent += 1
        cluster.loop.at(cluster.loop.now + interval, send)

    cluster.loop.at(cluster.loop.now + interval, send)
    cluster.run(SETTLE_S)
    counts, before = _Counts(), sent
    cluster.network.observers.append(counts.observe)
    with counts.counting():
        cluster.run(max(LEAST_S, LEAST_MESSAGES / load.rate))
    count = sent - before
    return Cost(*(getattr(counts, name) / count for name in attrs.fields_dict(Cost)))
