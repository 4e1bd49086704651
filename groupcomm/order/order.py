"""The order: from received packets to deliveries, by the six levels.

Pure and without time. Every packet is accepted once. RELIABLE and FIFO bundles are released at once
where their level allows it; `drain` releases those that wait for causes or for the agreed order.
Work is per bundle, O(log n) in the queue of agreed packets.

Sources: Birman, Schiper, Stephenson, "Lightweight Causal and Atomic Group Multicast", TOCS 1991,
for deliverability by a vector of counts (here of streams, not of processes); the agreed queue
follows bus1's rule that no packet is delivered past a block.
"""

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

from groupcomm.clocks.stamp import Stamp
from groupcomm.level import ServiceLevel
from groupcomm.order.admission import Admission
from groupcomm.order.chain import NOTHING_AGREED, Chain
from groupcomm.order.deliverable import Deliverable
from groupcomm.order.horizons import Blocks, Frontiers
from groupcomm.order.local_line import LocalLine
from groupcomm.stream.packer import Causes
from groupcomm.stream.stream import Stream
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.data import DataPacket

_RELIABLE = ServiceLevel.RELIABLE
_FIFO = ServiceLevel.FIFO
_CAUSAL = ServiceLevel.CAUSAL
_AGREED = ServiceLevel.AGREED
_SAFE = ServiceLevel.SAFE


def always() -> bool:
    """Return True: a call delivers all that it can."""
    return True


class Order:
    """The deliveries of one daemon in one view.

    Attributes:
        blocks: the counted horizons.
        frontiers: for each ring, the time up to which every daemon can deliver.
        done: stamp of the last agreed packet delivered here (A of the next numbered packet).
        local: the local line; None if all packets are global.
        deliverable: what the own ring can deliver.
        hurried: stamps, rising, of packets that are waited for as for SAFE without being SAFE.
        hurries_staying: whether messages may wait for the frontiers of SAFE packets that stay in
            their ring: behind these, in other rings.
        admission: the checks of packets that come in.
    """

    __slots__ = (
        "_agreed",
        "_alone",
        "_chains",
        "_early_local",
        "_followed",
        "_gated",
        "_highest",
        "_low",
        "_on_release",
        "_own",
        "_safe",
        "_staying",
        "_streams",
        "admission",
        "blocks",
        "deliverable",
        "done",
        "frontiers",
        "hurried",
        "hurries_staying",
        "local",
    )

    def __init__(
        self,
        streams: list[Stream],
        daemons: int,
        *,
        clock: int,
        on_release: Callable[[Bundle], None],
        counted: Callable[[int, int, int], None],
    ) -> None:
        rings = len(streams)
        self.blocks = Blocks(rings, clock, counted)
        self.frontiers = Frontiers(rings, clock)
        self.done = NOTHING_AGREED
        self._streams = streams
        self._on_release = on_release
        self._chains = [Chain(daemon, streams[0].held) for daemon in range(daemons)]
        self._agreed: list[tuple[int, int, DataPacket]] = []  # a heap by stamp
        self._safe: list[int] = []  # stamps of SAFE packets above all frontiers, rising
        self._staying: list[int] = []  # those of them that stay in their ring
        self.hurried: list[int] = []
        self.hurries_staying = True
        self._highest = [stream.held for stream in streams]  # V of the next numbered packet
        self._low: list[list[int]] = [[] for _ in streams]  # heaps: packets with pending bundles
        self._gated: dict[int, Chain] = {}  # chains with a packet in their gate
        self.local: LocalLine | None = None
        self.deliverable = Deliverable(streams[0], LocalLine(0), self._has_streams)
        self._own = streams[0]  # of the local line
        self._alone: list[DataPacket] = []
        self._early_local = 0  # local packets in the heap that are delivered
        self._followed = NOTHING_AGREED  # the highest A of local packets that are delivered
        self.admission = Admission(streams, self._chains, self.blocks)

    def begin_local(
        self, ring: int, alone: list[DataPacket], on_risen: Callable[[], None] | None = None
    ) -> None:
        """Let a ring, the own one, deliver packets ahead of the global line; see `follow`.

        Args:
            ring: the ring.
            alone: each of these packets is appended once all of it is released.
            on_risen: is called when the ring can deliver more; None if SAFE packets are global.
        """
        self._own, self._alone = self._streams[ring], alone
        self.local = LocalLine(self._own.held)
        self.deliverable = Deliverable(self._own, self.local, self._has_streams, on_risen)

    def follow(self, packet: DataPacket, wait: Stamp | None, number: int = 0) -> None:
        """Note whether the next packet of the own stream is local; see LocalLine."""
        assert self.local is not None
        self.local.follow(packet, wait, number)

    # ---- packets that arrive ----

    def accept(self, packet: DataPacket, held_before: int) -> None:
        """Accept a packet that its stream has just accepted; `held_before` is the stream's,
        then."""
        ring = packet.ring
        stream = self._streams[ring]
        if stream.early or stream.held > held_before + 1:
            assert_stamps_rise(stream, packet)  # a packet next to others; else its block is below
        if packet.number > held_before and packet.time <= self.blocks.values[ring]:
            assert_promise_kept(packet, self.blocks.values[ring])
        top: int = _RELIABLE
        for bundle in packet.bundles:
            level = bundle.level
            if level == _RELIABLE:
                self._release(bundle)
            else:
                packet.causal |= level == _CAUSAL
                top = max(top, level)
        if top >= _AGREED:
            packet.in_agreed_order = True
            packet.safe = top == _SAFE
            heappush(self._agreed, (packet.time, ring, packet))
            if packet.safe:
                insort(self._staying if packet.stays else self._safe, packet.time)
        chain = self._chains[packet.daemon]
        if packet.previous != chain.last:
            chain.early[packet.previous] = packet
        else:
            self._extend(chain, packet)
            while chain.early and chain.last in chain.early:
                self._extend(chain, chain.early.pop(chain.last))
        if stream.held > held_before:
            self.blocks.stream_advanced(ring, stream.held, stream.packets[stream.held].time)

    def _extend(self, chain: Chain, packet: DataPacket) -> None:
        """Put the next packet into its daemon's chain."""
        chain.last = packet.number
        if packet.vector is not None:
            chain.vector, chain.agreed, chain.full = packet.vector, packet.agreed, packet.number
        elif packet.reference:
            chain.resolve_causes(packet)
        if packet.causal:
            self._gate(chain, packet)
        queues = chain.queues
        for bundle in packet.bundles:
            level = bundle.level
            if level < _FIFO:
                continue
            queue = queues.get(bundle.session)
            if (level == _FIFO and (queue is None or not bundle.session)) or (
                level == _CAUSAL and queue is None and packet.ready
            ):
                self._release(bundle)  # also a daemon's own that is behind an agreed one of it
                continue
            if queue is None:
                queue = queues[bundle.session] = deque()
            queue.append(bundle)
            if level < _AGREED:
                packet.pending += 1
        if packet.pending:
            heappush(self._low[packet.ring], packet.number)

    def _gate(self, chain: Chain, packet: DataPacket) -> None:
        packet.ready = not chain.gate and self._has_causes(packet)
        if not packet.ready:
            chain.gate.append(packet)
            self._gated[chain.daemon] = chain

    # ---- bundles that are released ----

    def drain(self, may_go_on: Callable[[], bool] = always) -> bool:
        """Release every bundle that can be: lower levels to a fixed point before each agreed
        packet.

        Args:
            may_go_on: returns, after each agreed bundle, whether others may follow now.

        Returns:
            Whether all were released. If not, the next call continues where this one stopped.
        """
        while True:
            if self._gated:
                self._open_gates()
            if self.local is not None and (local := self._next_local(self.local)) is not None:
                if not self._release_agreed(local, may_go_on):
                    return False
                local.done = True
                self._alone.append(local)
                self._early_local += 1
                if local.agreed is not None and local.agreed > self._followed:
                    self._followed = local.agreed
                continue
            if self._early_local and self._pass_delivered():
                continue  # gates and local packets may have waited for it
            packet = self._next_agreed() if self._agreed else None
            if packet is None:
                break
            if not self._deliver_agreed(packet, may_go_on):
                return False
        if self._safe or self._staying or self.hurried:
            self._forget_waits()
        return True

    def _forget_waits(self) -> None:
        """Forget the SAFE and hurried packets that all frontiers have passed."""
        for waiting in (self._safe, self._staying, self.hurried):
            if waiting:
                del waiting[: bisect_right(waiting, self.frontiers.least)]

    def _pass_delivered(self) -> bool:
        """Remove the lowest agreed packet if its ring has delivered it alone and its place is
        certain; return whether."""
        time, ring, packet = self._agreed[0]
        if not packet.done or time > self.blocks.least:
            return False
        heappop(self._agreed)
        self._early_local -= 1
        self.done = Stamp(time, ring)
        return True

    def _next_agreed(self) -> DataPacket | None:
        """Return the lowest agreed packet, if it may be delivered; there is one."""
        time, _, packet = self._agreed[0]
        if time > self.blocks.least:
            return None
        if packet.safe and time > self.frontiers.least:
            own = packet.local_only and packet.ring == self._own.ring
            return packet if own and packet.number <= self.deliverable.ring else None
        return packet

    def _next_local(self, line: LocalLine) -> DataPacket | None:
        """Return the next packet of the local line, if all that comes before it is delivered."""
        packet = line.next(self.done, self.deliverable.ring)
        if packet is None or (packet.causal and not packet.ready):
            return None
        if packet.vector is not None and not self._has_streams(packet.vector):
            return None
        queues = self._chains[packet.daemon].queues
        for bundle in packet.bundles:
            if bundle.level >= _AGREED and not bundle.released:
                head = queues[bundle.session][0]
                if head.packet is not packet or head.level < _AGREED:
                    return None
        return packet

    def _deliver_agreed(self, packet: DataPacket, may_go_on: Callable[[], bool]) -> bool:
        """Release the agreed bundles of the lowest packet; return whether more may be released."""
        if (packet.time, packet.ring) <= self.done or packet.time > self.blocks.least:
            assert_in_order(packet, self.done, self.blocks.least)
        if self._gated:
            self._forgo_impossible(packet)
        self._check_causes(packet)
        if not self._release_agreed(packet, may_go_on):
            return False
        heappop(self._agreed)
        packet.done = packet.wait is not None
        self.done = Stamp(packet.time, packet.ring)
        return True

    def _release_agreed(self, packet: DataPacket, may_go_on: Callable[[], bool]) -> bool:
        """Release the agreed bundles of a packet that are left; return whether all were."""
        chain = self._chains[packet.daemon]
        for bundle in packet.bundles:
            if bundle.level >= _AGREED and not bundle.released:
                if not may_go_on():
                    return False
                queue = chain.queues[bundle.session]
                head = queue.popleft()
                assert head is bundle, "an agreed bundle overtakes its session"
                self._release(bundle)
                if queue:
                    self._serve(chain, bundle.session, queue)
                else:
                    del chain.queues[bundle.session]
        return True

    def _forgo_impossible(self, packet: DataPacket) -> None:
        """Give up the causes of packets that still wait below the next agreed packet, and its own.

        All packets with lower stamps are here, and those whose causes exist were released. So these
        causes do not exist: a daemon has lied. The same holds of packets with the same time, since
        causes have lower stamps than what they cause.
        """
        for chain in list(self._gated.values()):
            while chain.gate and chain.gate[0].time <= packet.time:
                self._forgo_causes(chain.gate[0])
                self._open_gates()

    def _check_causes(self, packet: DataPacket) -> None:
        """Give up causes of the next agreed packet that do not exist; others were delivered."""
        vector = packet.vector
        for stream, low in zip(self._streams, self._low, strict=True):
            if vector is not None and stream.held < vector[stream.ring]:
                self._forgo_causes(packet)
            if low and (lowest := self._lowest_pending(stream.ring)):
                assert_causes_delivered(packet, stream, lowest)

    def _forgo_causes(self, packet: DataPacket) -> None:
        packet.vector = packet.agreed = None
        packet.reference = 0

    def _serve(self, chain: Chain, session: int, queue: deque[Bundle]) -> None:
        """Release the bundles at the head of a session's queue that wait for nothing."""
        while queue:
            head = queue[0]
            packet: DataPacket = head.packet
            if head.level != _FIFO and not (head.level == _CAUSAL and packet.ready):
                return
            queue.popleft()
            packet.pending -= 1
            self._release(head)
        del chain.queues[session]

    def _open_gates(self) -> None:
        """Release CAUSAL bundles with delivered causes; each may enable others."""
        opened = True
        while opened:
            opened = False
            for chain in list(self._gated.values()):
                while chain.gate and self._has_causes(chain.gate[0]):
                    opened = True
                    self._pass_gate(chain, chain.gate.popleft())
                if not chain.gate:
                    del self._gated[chain.daemon]

    def _pass_gate(self, chain: Chain, packet: DataPacket) -> None:
        packet.ready = True
        for bundle in packet.bundles:
            if bundle.level == _CAUSAL:
                queue = chain.queues.get(bundle.session)
                if queue:
                    self._serve(chain, bundle.session, queue)

    def _has_causes(self, packet: DataPacket) -> bool:
        """Return whether V and A of a packet are delivered here (docs/design.md: CAUSAL)."""
        if packet.vector is None or packet.agreed is None:
            return True  # the daemons have given up causes of this packet
        if packet.agreed > self.done:
            return False
        line, own = self.local, packet.vector[self._own.ring]
        if line is not None and not line.is_delivered(own, self.done, self.deliverable.ring):
            return False
        return self._has_streams(packet.vector)

    def _has_streams(self, vector: tuple[int, ...]) -> bool:
        """Return whether all packets up to V are here, and what is below AGREED is delivered."""
        for ring, number in enumerate(vector):
            if self._streams[ring].held < number:
                return False
            lowest = self._lowest_pending(ring)
            if lowest and lowest <= number:
                return False
        return True

    def _lowest_pending(self, ring: int) -> int:
        """Return the first packet of a stream with an undelivered FIFO or CAUSAL bundle; or 0."""
        low = self._low[ring]
        packets = self._streams[ring].packets
        while low:
            packet = packets.get(low[0])
            if packet is not None and packet.pending:
                return low[0]
            heappop(low)
        return 0

    def _release(self, bundle: Bundle) -> None:
        bundle.released = True
        packet: DataPacket = bundle.packet
        if packet.number > self._highest[packet.ring]:
            self._highest[packet.ring] = packet.number
        self._on_release(bundle)

    # ---- after the view has ended ----

    def classify(self, packet: DataPacket) -> None:
        """Note the levels of a packet that came when nothing was accepted any more."""
        top = max(bundle.level for bundle in packet.bundles)
        packet.in_agreed_order = top >= _AGREED
        packet.safe = top == _SAFE

    def resolve(self, packet: DataPacket) -> None:
        """Fill in V and A of a packet whose chain is held up to it."""
        if packet.vector is None and packet.reference:
            full = self._streams[packet.ring].packets.get(packet.reference)
            source = full if full is not None else self._chains[packet.daemon]
            packet.vector, packet.agreed = source.vector, source.agreed

    # ---- questions of other parts ----

    @property
    def causes(self) -> Causes:
        """Return V and A of a packet numbered now.

        What a local packet has followed at its daemon may not be delivered here.
        """
        return tuple(self._highest), max(self.done, self._followed)

    @property
    def chain_ends(self) -> list[int]:
        """Return per daemon the last packet up to which all of its packets were received."""
        return [chain.last for chain in self._chains]

    @property
    def waiting(self) -> int:
        """Return the number of agreed packets that are not delivered."""
        return len(self._agreed) - self._early_local

    @property
    def progress(self) -> int:
        """Return the time up to which the agreed order is delivered here."""
        least = self.blocks.least
        return min(least, self._agreed[0][0] - 1) if self._agreed else least

    def hurry(self, time: int) -> None:
        """Wait until every daemon holds all up to this time, as for SAFE."""
        insort(self.hurried, time)

    def safe_waits(self, above: int, upto: int) -> bool:
        """Return whether a SAFE or hurried packet waits, stamped above `above` and up to `upto`."""
        for waiting in (self._safe, self._staying, self.hurried):
            if waiting and (waiting is not self._staying or self.hurries_staying):
                index = bisect_right(waiting, above)
                if index < len(waiting) and waiting[index] <= upto:
                    return True
        return False


# ---- invariants, always on: an AssertionError here is a bug of groupcomm, never of an input ----

# A comparison costs less than a call: where all is well, most of these are not even called.


def assert_stamps_rise(stream: Stream, packet: DataPacket) -> None:
    """Raise AssertionError unless the stamps of a stream strictly rise."""
    before = stream.packets.get(packet.number - 1)
    after = stream.packets.get(packet.number + 1)
    assert before is None or before.time < packet.time, f"stamp falls at packet {packet.number}"
    assert after is None or packet.time < after.time, f"stamp falls after packet {packet.number}"


def assert_promise_kept(packet: DataPacket, block: int) -> None:
    """Raise AssertionError if a ring originates at or below a horizon that counts here."""
    assert packet.time > block, (
        f"packet {packet.number} of ring {packet.ring} is stamped {packet.time},"
        f" at or below the horizon {block} of its ring"
    )


def assert_in_order(packet: DataPacket, done: tuple[int, int], least_block: int) -> None:
    """Raise AssertionError unless agreed packets go out by rising stamp, none beyond a block."""
    assert (packet.time, packet.ring) > done, f"stamp {packet.time} is delivered after {done}"
    assert packet.time <= least_block, f"stamp {packet.time} is beyond the block {least_block}"


def assert_causes_delivered(packet: DataPacket, stream: Stream, lowest_pending: int) -> None:
    """Raise AssertionError if something of a lower stamp, of any level, is not delivered."""
    pending = stream.packets.get(lowest_pending)
    assert pending is None or pending.time >= packet.time, (
        f"packet {lowest_pending} of ring {stream.ring} is undelivered below stamp {packet.time}"
    )
