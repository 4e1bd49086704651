"""The desk tells causes to those that asked, and to nobody else."""

from typing import Any

from groupcomm.clocks.stamp import Stamp
from groupcomm.engine import ClientGone
from groupcomm.events import CausalContext, Event, MemberId, Message
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.session.frames import FrameKind
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.data import DataPacket, decode_data_untrusted
from tests.groupcomm.engine.clients import PLENTY, Clients
from tests.groupcomm.wire.packets import KEY, example_bundle

UNRELIABLE, RELIABLE, FIFO, CAUSAL, AGREED, SAFE = ServiceLevel


def causes_of(events: list[Event]) -> list[tuple[ServiceLevel, CausalContext | None]]:
    return [(event.level, event.causes) for event in events if isinstance(event, Message)]


class Room:
    """A group of one that asks to be told causes, and one that does not."""

    def __init__(self) -> None:
        self.clients = Clients()
        self.asking = self.clients.connect("asking", causes=True)
        self.other = self.clients.connect("other")
        for one in (self.asking, self.other):
            self.clients.sessions[one].join("g")
            self.clients.talk(one)
        self.clients.heard(self.asking)

    def send(self, *levels: ServiceLevel) -> None:
        """One client sends all of these at once."""
        for level in levels:
            self.clients.sessions[self.other].multicast("g", b"x", level=level)
        self.clients.step(self.clients.said(self.other))


def test_each_level_has_its_causes() -> None:
    room = Room()
    room.send(AGREED)
    ((_, before),) = causes_of(room.clients.heard(room.asking))
    assert before is not None
    room.send(*LEVELS)
    told = dict(causes_of(room.clients.heard(room.asking)))
    assert told[UNRELIABLE] is None
    packet = before.packet + 1
    assert told[RELIABLE] == told[FIFO] == CausalContext(packet, None, ())
    causal = told[CAUSAL]
    assert causal is not None
    assert causal.agreed is not None
    assert before.agreed is not None
    assert (causal.packet, causal.heard) == (packet, (packet - 1,))
    assert causal.agreed > before.agreed, "the message in between was delivered"
    assert told[AGREED] == causal, "they share a packet"
    assert told[SAFE] == CausalContext(packet + 1, causal.agreed, causal.heard)


def test_who_did_not_ask_learns_nothing_and_its_frames_are_as_ever() -> None:
    room = Room()
    room.clients.heard(room.other)
    room.send(*LEVELS)
    sessions = room.clients.core.sessions.by_connection
    asked, other = (b"".join(sessions[one].pop_output(PLENTY)) for one in (room.asking, room.other))
    reader = room.clients.sessions[room.other]
    assert {causes for _, causes in causes_of(reader.receive(other))} == {None}
    kinds = [[frame[0] for frame in _frames(output)] for output in (asked, other)]
    assert kinds[1] == [FrameKind.DELIVER] * 6
    assert kinds[0].count(FrameKind.CAUSES) == 5
    without = [frame for frame in _frames(asked) if frame[0] != FrameKind.CAUSES]
    assert without == _frames(other)
    for kind, following in zip(kinds[0], kinds[0][1:], strict=False):
        assert kind != FrameKind.CAUSES or following == FrameKind.DELIVER


def _frames(output: bytes) -> list[bytes]:
    found = []
    while output:
        end = 4 + int.from_bytes(output[:4], "big")
        found.append(output[4:end])
        output = output[end:]
    return found


def numbered(**causes: Any) -> Bundle:
    """A bundle in a packet of daemon 0."""
    packet = DataPacket(
        ring=0, number=7, time=8, daemon=0, previous=6, bundles=[example_bundle()], **causes
    )
    return decode_data_untrusted(packet.encode(KEY)).bundles[0]


def test_what_is_delivered_before_the_welcome_has_its_causes_too() -> None:
    clients = Clients()
    early = clients.start("early", causes=True)
    sessions = clients.core.sessions
    sessions.accept(clients.said(early))
    sessions.intake.serve(0.0)
    bundle = numbered(vector=(6,), agreed=Stamp(5, 0))
    sessions.deliver([early], bundle, MemberId("#bob#a", 1))
    assert clients.heard(early) == []
    clients.connect("other")
    told = causes_of(clients.heard(early))
    assert {causes for _, causes in told} == {CausalContext(7, Stamp(5, 0), (6,))}


def test_who_has_gone_is_forgotten() -> None:
    room = Room()
    told = room.clients.core.sessions.output.causes_frames
    assert told.wanted == {room.asking}
    room.clients.step(ClientGone(room.asking))
    assert told.wanted == set()
    room.send(CAUSAL)
    assert causes_of(room.clients.heard(room.other)) == [(CAUSAL, None)]
