"""Tokens with room for few numbers: what they leave out at a visit comes later, and nothing stays.

The token of a large ring among many rings has no room for all that its daemons say. Here small
ones have so little.
"""

from typing import Final

import attrs

from groupcomm.config.core import CounterStarts
from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm.security.layout import HEAD_BYTES
from groupcomm.sim.settings import SMALL_WINDOWS, plain_settings
from groupcomm.wire.packet import PacketKind
from groupcomm.wire.token import Token, decode_token_untrusted
from tests.groupcomm.sim.checked_cluster import CheckedCluster, with_few_notices

SITES, EACH, DELAY_S = 6, 2, 0.01
TOKEN_BYTES: Final = 100
MESSAGES: Final = 10
LARGE: Final = CounterStarts(stream=2**40)
_CHECKSUM: Final = 4


class Run:
    """A cluster in which each daemon has a member that sends SAFE messages to all."""

    def __init__(self) -> None:
        plain = plain_settings(daemons=[EACH] * SITES, delay_s=DELAY_S)
        small = attrs.evolve(plain, token_bytes=TOKEN_BYTES, starts=LARGE, windows=SMALL_WINDOWS)
        self.checked = CheckedCluster(with_few_notices(small))
        self.tokens: list[tuple[Token, int]] = []
        self.checked.cluster.network.observers.append(self._observe)
        self.clients = self.checked.connect(SITES * EACH)
        self.checked.join("g", self.clients)

    def _observe(self, _source: int, _target: int, datagram: bytes, _goes_on: bool) -> None:
        packet = datagram[HEAD_BYTES:-_CHECKSUM]
        if packet[0] == PacketKind.TOKEN:
            self.tokens.append((decode_token_untrusted(packet), len(packet)))

    def send(self) -> None:
        for number in range(MESSAGES):
            for client in self.clients:
                client.multicast(["g"], b"%d" % number, level=ServiceLevel.SAFE)
            self.checked.cluster.run(0.02)
        self.checked.cluster.run(1.0)


def test_what_has_no_room_comes_at_a_later_visit() -> None:
    run = Run()
    run.send()
    for client in run.clients:
        got = [event for event in client.events if isinstance(event, Message)]
        assert len(got) == MESSAGES * SITES * EACH
    assert max(size for _, size in run.tokens) <= 159 + 12 * EACH
    told = [token.far.told for token, _ in run.tokens if token.far is not None]
    assert len(told) == len(run.tokens)
    assert min(told) < SITES - 1, "tokens that have room for all"
    for host in run.checked.cluster.daemons:
        assert host.process is not None
        state = host.process.core.view_state
        assert state is not None
        assert not any(stream.packets for stream in state.streams), "all know that all have all"
    run.checked.finish()


def test_a_sender_to_rings_that_say_nothing_else_hears_that_they_have_all() -> None:
    """Their tokens rest, and had no room to tell what they hold of it: so they go round again."""
    run = Run()
    for number in range(200):
        run.clients[0].multicast(["g"], bytes(900) + b"%d" % number, level=ServiceLevel.FIFO)
    run.checked.cluster.run(0.25)  # 0.12 s; it was 0.34 until all is forgotten
    for client in run.clients:
        assert sum(isinstance(event, Message) for event in client.events) == 200
    run.checked.finish()
