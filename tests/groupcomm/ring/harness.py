"""One daemon's ring with a context that notes its calls."""

from itertools import pairwise

from groupcomm.clocks.ring_clock import PhysicalClock, RingClock
from groupcomm.clocks.stamp import Stamp, ViewId
from groupcomm.config.core import CoreConfig, Timing
from groupcomm.config.versions import Versions
from groupcomm.config.view import RING, DaemonId, Incarnation, View
from groupcomm.engine.backlog import Backlog
from groupcomm.level import ServiceLevel
from groupcomm.link.routes import Routes
from groupcomm.order.deliverable import Deliverable
from groupcomm.order.local_line import LocalLine
from groupcomm.ring.counts import RingCounts
from groupcomm.ring.horizon_notices import HorizonNotices, NoticeSchedule
from groupcomm.ring.ring import Ring
from groupcomm.stream.packer import Causes, Packer
from groupcomm.stream.packet_size import PacketSize
from groupcomm.stream.stream import Gaps, Stream
from groupcomm.wire.bundle import BundleKind, decode_body_untrusted, encode_body
from groupcomm.wire.data import DataPacket, decode_data_untrusted
from groupcomm.wire.horizon import HorizonNotice, HorizonPacket
from groupcomm.wire.packet import PacketKind
from groupcomm.wire.token import (
    Token,
    decode_held_untrusted,
    decode_request_untrusted,
    decode_rest_untrusted,
    decode_token_untrusted,
)
from tests.groupcomm.wire.payloads import encode_messages


def make_view(*rings: tuple[int, ...], features: int = 0) -> View:
    """Rings in a chain, joined by links between their lowest daemons."""
    count = sum(len(ring) for ring in rings)
    daemons = tuple(DaemonId(f"d{index:02}", Incarnation(1, index)) for index in range(count))
    delay = 0.04 if len(rings) > 1 else 0.0
    links = tuple((near[0], far[0]) for near, far in pairwise(rings))
    return View(
        id=ViewId(1, "d00", 0),
        daemons=daemons,
        rings=rings,
        links=links,
        longest_delay_s=delay,
        versions=Versions(features=features),
    )


AT_ONCE = CoreConfig(timing=Timing(linger_s=0.0))
"""The token leaves as soon as there is anything to send."""


class UpTo:
    """Return the packets that a daemon holds."""

    least = 0


class Daemon:
    """One daemon's ring with a context that notes its calls; `take` clears `sent`."""

    def __init__(self, view: View, me: int, config: CoreConfig | None = None) -> None:
        self.sent: list[tuple[int, bytes]] = []
        self.promises: list[tuple[int, int]] = []
        self.blocks = UpTo()
        self.safe: list[int] = []
        self.holds_packets = False
        self.ring_counts = RingCounts()
        self.frontiers: list[int] = []
        self.causes: Causes = ((0,) * len(view.rings), Stamp(0, 0))
        self.streams = [Stream(ring, 0) for ring in range(len(view.rings))]
        self.clock = RingClock(PhysicalClock(0.0, 0.0))
        self.backlog = Backlog()
        self.packet_size = size = PacketSize(view.packet_limit)
        self.packer = Packer(
            view, me, self.clock, source=self.backlog, size=size, base=0, unreliable_base=0
        )
        self.own = self.streams[view.ring_of[me]]
        self.line = LocalLine(0)
        on_risen = (lambda: None) if view.reports_deliverable else None
        self.deliverable = Deliverable(self.own, self.line, lambda _: True, on_risen)
        foreign = [stream for stream in self.streams if stream is not self.own]
        entered = Routes(view, me).entered
        self.gaps = [Gaps(s, delay_s=0.01, retry_s=0.1) for s in foreign if s.ring not in entered]
        notices = NoticeSchedule(Timing(), view.longest_delay_s, 0.0)
        self.ring = Ring(
            view,
            me,
            config or AT_ONCE,
            streams=self.streams,
            clock=self.clock,
            packer=self.packer,
            gaps=self.gaps,
            entered=entered,
            horizons=HorizonNotices(
                view, me, Timing(), clock=self.clock, context=self, notices=notices
            ),
            context=self,
            now=0.0,
        )

    @property
    def frontier(self) -> int:
        return self.blocks.least

    @frontier.setter
    def frontier(self, time: int) -> None:
        self.blocks.least = time

    def safe_waits(self, above: int, upto: int) -> bool:
        return any(above < time <= upto for time in self.safe)

    def originate(self, packet: DataPacket) -> None:
        packet.safe = any(bundle.level == ServiceLevel.SAFE for bundle in packet.bundles)
        if packet.number == self.own.held + 1:
            self.frontier = packet.time
        self.own.accept(packet)

    def publish(self, packet: DataPacket) -> None:
        self.sent.append((RING, packet.raw))

    def promise(self, value: int, upto: int) -> None:
        self.promises.append((value, upto))

    def ring_frontier(self, value: int) -> None:
        self.frontiers.append(value)

    def send_again(self, packet: DataPacket) -> None:
        self.sent.append((RING, packet.raw))

    def send(self, destination: int, packet: bytes) -> None:
        self.sent.append((destination, packet))

    def announce(self, notice: HorizonNotice) -> None:
        self.sent.append((RING, HorizonPacket(notices=[notice]).encode(bytes(16))))

    def submit(
        self, count: int = 1, size: int = 10, level: ServiceLevel = ServiceLevel.AGREED
    ) -> None:
        for _ in range(count):
            payload = encode_messages([(0, bytes(size))])
            body = encode_body(BundleKind.MESSAGES, level, 0, 1, ("g",), payload)
            bundle = decode_body_untrusted(body)
            bundle.address(1, "u", ())
            self.backlog.append(bundle)

    def step(self, now: float) -> list[tuple[int, bytes]]:
        self.ring.step(now)
        sent, self.sent = self.sent, []
        return sent

    def hear(self, packets: list[tuple[int, bytes]], now: float) -> None:
        """Receive what another has sent, as a core would hand it on."""
        for destination, packet in packets:
            kind = packet[0]
            if kind == PacketKind.DATA:
                data = decode_data_untrusted(packet)
                if self.own.accept(data):
                    self.ring.on_packet(data, now)
                    self.frontier = self.own.packets[self.own.held].time if self.own.held else 0
            elif kind == PacketKind.TOKEN:
                self.ring.on_token(decode_token_untrusted(packet), now)
            elif kind == PacketKind.REST:
                self.ring.on_rest(decode_rest_untrusted(packet), now)
            elif kind == PacketKind.HELD:
                self.ring.on_held(decode_held_untrusted(packet))
            elif kind == PacketKind.REQUEST:
                self.ring.on_request(decode_request_untrusted(packet))
            else:
                assert destination != RING


def kinds(sent: list[tuple[int, bytes]]) -> list[PacketKind]:
    return [PacketKind(packet[0]) for _, packet in sent]


def token_in(sent: list[tuple[int, bytes]]) -> Token:
    tokens = [packet for _, packet in sent if packet[0] == PacketKind.TOKEN]
    assert len(tokens) == 1
    return decode_token_untrusted(tokens[0])


def target_of_token(sent: list[tuple[int, bytes]]) -> int:
    return next(target for target, packet in sent if packet[0] == PacketKind.TOKEN)


def trio(config: CoreConfig | None = None) -> list[Daemon]:
    view = make_view((0, 1, 2))
    return [Daemon(view, me, config) for me in range(3)]


def resting_with_a() -> list[Daemon]:
    """Return three daemons of one ring; its token rests with the first, and all know that."""
    a, b, c = trio(CoreConfig())
    rest = a.step(0.0)
    for other in (b, c):
        other.hear(rest, 0.0)
        other.step(0.0)
    return [a, b, c]
