"""Whom a daemon does not read is known as such everywhere, and is read again.

Programs of two daemons send as fast as their sockets accept it, and little may wait for a number.
"""

import attrs

from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import SECOND

LOAD_S = 0.03
LOOK_US = 200
BURST = 3


class Load:
    """Programs under load, looked at all the time.

    Attributes:
        held_back: how often a program was seen that was not read as too much had no number.
    """

    def __init__(self) -> None:
        settings = attrs.evolve(plain_settings(daemons=3), unit_us=20, backlog_cap_bytes=4_000)
        self.cluster = Cluster(settings)
        self.senders = [self.cluster.connect(user, at) for at, user in enumerate(("ann", "bob"))]
        self.cluster.run(0.1)
        self.held_back = 0
        self._until = self.cluster.loop.now + int(LOAD_S * SECOND)
        for sender in self.senders:
            self._act(sender)

    def _act(self, sender: SimulatedClient) -> None:
        if sender._session.pending_bytes == 0 and self.cluster.loop.now < self._until:
            for _ in range(BURST):
                sender.multicast(["g"], bytes(1000))
        self._check_unread(sender.daemon)
        self.cluster.loop.at(self.cluster.loop.now + LOOK_US, lambda _: self._act(sender))

    def _check_unread(self, daemon: int) -> None:
        process = self.cluster.daemons[daemon].process
        assert process is not None
        sessions = process.core.sessions
        for number in sessions._reading.held_back:
            session = sessions.by_connection[number]
            assert not session.reading, "it looks as if all that it has sent had been read"
            if not session.has_input:
                assert session.backlog_bytes > 0
                assert sessions.backlog.size > 0, "nothing that gets a number has it read again"
                self.held_back += 1


def test_who_is_not_read_has_something_that_waits_and_is_read_again() -> None:
    """A name was refused for ever whose holder had said goodbye and was not read (seed 656)."""
    load = Load()
    load.cluster.run(LOAD_S)
    assert load.held_back > 10
    load.cluster.run(0.1)
    assert [sender._session.pending_bytes for sender in load.senders] == [0, 0]
