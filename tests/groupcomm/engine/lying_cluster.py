"""A cluster in which one daemon can be made to say anything, and packets that could be true.

Each builder takes the lying fields by name.
"""

from typing import Any

from groupcomm.config.view import Incarnation
from groupcomm.engine import DaemonCore, ProtocolNews
from groupcomm.engine.view import ViewState
from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm.names import daemon_number
from groupcomm.ring.states import TokenState as RingState
from groupcomm.wire.bundle import Bundle, BundleKind, decode_body_untrusted, encode_body
from groupcomm.wire.control import cut_message
from groupcomm.wire.data import DataPacket, UnreliablePacket
from groupcomm.wire.horizon import HorizonNotice, horizon_packet
from groupcomm.wire.link import ResendRequest
from groupcomm.wire.membership import (
    Beacon,
    ControlMessage,
    Join,
    Proposal,
    encode_message,
)
from groupcomm.wire.packet import PacketKind
from groupcomm.wire.token import HeldNotice, RestNotice, Row, Token, TokenRequest
from tests.groupcomm.engine.cluster import Cluster, Program
from tests.groupcomm.membership.stage import OTHER_VIEW
from tests.groupcomm.wire.payloads import encode_messages

END = 2**64 - 1
CHECKSUM_BYTES = 4
X = bytes((PacketKind.DATA,)) + bytes(16) + b"x"
"""Return a packet that a link could carry."""


class LyingCluster:
    """A cluster with one program at each daemon, all of them members of a group, and at rest.

    Attributes:
        victim: the daemon that is lied to; it has not got the token, if `away`.
        liar: a member of its ring.
    """

    def __init__(self, *sites: str, away: bool = True) -> None:
        self.cluster = Cluster(*sites)
        names = "".join(sites)
        self.cluster.start(names)
        self.cluster.run(2.0)
        self.programs: list[Program] = []
        for name in names:
            program = self.cluster.connect(name, f"user-{name}")
            program.session.join("g")
            self.programs.append(program)
        for program in self.programs:
            program.session.multicast(["g"], b"before", level=ServiceLevel.SAFE)
        self.cluster.run(1.0)
        resting = [n for n in sites[0] if self.ring_state(n) is RingState.RESTING]
        others = [n for n in sites[0] if n not in resting]
        self.victim = others[0] if away else resting[0]
        self.liar = [n for n in sites[0] if n != self.victim][-1]

    def ring_state(self, name: str) -> RingState:
        return view_state_of(self.cluster.cores[name]).ring.state

    @property
    def core(self) -> DaemonCore:
        return self.cluster.cores[self.victim]

    @property
    def view_state(self) -> ViewState:
        return view_state_of(self.core)

    def index(self, name: str) -> int:
        return [daemon.name for daemon in self.view_state.view.daemons].index(name)

    def told(self) -> list[str]:
        """Return the victim's news about daemons that break the protocol."""
        return self.cluster.shells[self.victim].lines(ProtocolNews)

    @property
    def me(self) -> int:
        """The victim's index in the view."""
        return self.index(self.victim)

    @property
    def you(self) -> int:
        """The liar's."""
        return self.index(self.liar)

    def tell(self, packet: bytes, liar: str | None = None) -> None:
        """The liar sends a packet; nobody answers for it."""
        gate = self.cluster.cores[liar or self.liar]._protection
        self.cluster.step(self.victim, [gate.seal(self.victim, packet)], [])

    def tell_both(self, packet: bytes) -> None:
        """The liar sends a packet to the two others."""
        for name in "abc".replace(self.liar, ""):
            gate = self.cluster.cores[self.liar]._protection
            self.cluster.step(name, [gate.seal(name, packet)], [])

    def control(self, message: ControlMessage) -> bytes:
        """Send a control message of the liar."""
        return self.cut(*encode_message(message))

    def cut(
        self,
        kind: int,
        body: bytes,
        *,
        sequence: int | None = None,
        name: str | None = None,
        start: Incarnation | None = None,
    ) -> bytes:
        """The liar's next message, or one that it pretends to pass on."""
        flood = self.cluster.cores[self.liar].membership.flood
        flood.sequence += 1
        origin = name or self.liar
        (raw,) = cut_message(
            daemon_number(origin),
            start or Incarnation(1, ord(origin)),
            flood.sequence if sequence is None else sequence,
            kind,
            body,
            60_000,
        )
        return raw

    def assert_all_goes_on(self) -> None:
        """All members get what each of them sends, in one order, in the view that there was."""
        keys = {view_state_of(core).key for core in self.cluster.cores.values()}
        for program in self.programs:
            program.events.clear()
            program.session.multicast(["g"], b"after", level=ServiceLevel.SAFE)
        self.cluster.run(2.0)
        got = [
            [event.sender for event in program.events if isinstance(event, Message)]
            for program in self.programs
        ]
        assert len(got[0]) == len(self.programs)
        assert all(one == got[0] for one in got)
        assert {view_state_of(core).key for core in self.cluster.cores.values()} == keys


def view_state_of(core: DaemonCore) -> ViewState:
    assert core.view_state is not None
    return core.view_state


# ---- packets that could be true, except for their lies ----


def token(lying: LyingCluster, **lies: Any) -> bytes:
    view_state = lying.view_state
    held = [stream.held for stream in view_state.streams]
    members = view_state.view.rings[0]
    right: dict[str, Any] = {
        "ring": 0,
        "hop": view_state.ring.monitor.hop + 1,
        "last": view_state.streams[0].known,
        "last_sender": lying.you,
        "clock": view_state.clock.value,
        "burst": 0,
        "rows": [Row(frontier=0, sent=0, held=held) for _ in members],
        "requests": [],
        "wanted": [],
    }
    return Token(**{**right, **lies}).encode(view_state.key)


def rows(lying: LyingCluster, index: int, **lies: Any) -> list[Row]:
    held = [stream.held for stream in lying.view_state.streams]
    found = [Row(frontier=0, sent=0, held=list(held)) for _ in lying.view_state.view.rings[0]]
    for name, value in lies.items():
        setattr(found[index], name, value)
    return found


def none_held(lying: LyingCluster) -> list[Row]:
    members = lying.view_state.view.rings[0]
    return [Row(frontier=0, sent=0, held=[0]) for _ in members]


def rest(lying: LyingCluster, **lies: Any) -> bytes:
    view_state = lying.view_state
    right: dict[str, Any] = {
        "ring": 0,
        "hop": view_state.ring.monitor.hop,
        "holder": lying.you,
        "last": view_state.streams[0].held,
        "horizon": view_state.clock.value,
        "frontiers": [0] * len(view_state.view.rings[0]),
    }
    return RestNotice(**{**right, **lies}).encode(view_state.key)


def request(lying: LyingCluster, **lies: Any) -> bytes:
    right: dict[str, Any] = {
        "ring": 0,
        "daemon": lying.you,
        "hop": lying.view_state.ring.monitor.hop,
    }
    return TokenRequest(**{**right, **lies}).encode(lying.view_state.key)


def held_notice(lying: LyingCluster, **lies: Any) -> bytes:
    view_state = lying.view_state
    right: dict[str, Any] = {
        "ring": 0,
        "daemon": lying.you,
        "held": view_state.streams[0].held,
        "frontier": view_state.blocks.least,
    }
    return HeldNotice(**{**right, **lies}).encode(view_state.key)


def horizon(lying: LyingCluster, **lies: Any) -> bytes:
    view_state = lying.view_state
    right: dict[str, Any] = {
        "ring": 0,
        "horizon": view_state.clock.value,
        "upto": view_state.streams[0].held,
        "frontier": 0,
        "unsettled": False,
        "held": [],
    }
    return horizon_packet(view_state.key, [HorizonNotice(**{**right, **lies}).encode()])


def resend(lying: LyingCluster, **lies: Any) -> bytes:
    right: dict[str, Any] = {"ring": 0, "asker": lying.you, "ranges": [(1, 1)]}
    return ResendRequest(**{**right, **lies}).encode(lying.view_state.key)


def bundle(level: ServiceLevel = ServiceLevel.AGREED, user: str = "u") -> Bundle:
    payload = encode_messages([(0, b"lie")])
    body = encode_body(BundleKind.MESSAGES, level, 0, 1, ("nobody",), payload)
    made = decode_body_untrusted(body)
    made.address(END // 2, user, ())
    return made


def data(lying: LyingCluster, ahead: int = 1, **lies: Any) -> bytes:
    """The liar's next packet, or one further ahead."""
    view_state, you = lying.view_state, lying.you
    right: dict[str, Any] = {
        "ring": 0,
        "number": view_state.streams[0].held + ahead,
        "time": view_state.clock.value + ahead,
        "daemon": you,
        "previous": view_state.delivery.order.chain_ends[you],
        "bundles": [bundle()],
    }
    return DataPacket(**{**right, **lies}).encode(view_state.key)


def unreliable(lying: LyingCluster, **lies: Any) -> bytes:
    right: dict[str, Any] = {
        "daemon": lying.you,
        "counter": 2**20,
        "bundles": [bundle(ServiceLevel.UNRELIABLE)],
    }
    return UnreliablePacket(**{**right, **lies}).encode(lying.view_state.key)


def held(lying: LyingCluster) -> int:
    return lying.view_state.streams[0].held


def now(lying: LyingCluster) -> int:
    return lying.view_state.clock.value


def join(lying: LyingCluster, **lies: Any) -> Join:
    right: dict[str, Any] = {
        "attempt": 9,
        "name": lying.liar,
        "digests": lying.core.membership.comparison.digests,
        "heard": (),
        "reading": 1,
        "clock": 0,
        "counter": 1,
        "mark": 2**40,
        "past": None,
        "spoken": (1, 1, 0),
    }
    return Join(**{**right, **lies})


def beacon(lying: LyingCluster, used: int) -> Beacon:
    digests = lying.core.membership.comparison.digests
    return Beacon(1, OTHER_VIEW, (), digests, used, used, 0, (1, 1, 0))


def others_of(lying: LyingCluster) -> Proposal:
    """The proposal of the present view, without the liar."""
    agreement = lying.core.membership._agreement
    assert agreement is not None
    number = daemon_number(lying.liar)
    return Proposal(tuple(seat for seat in agreement.proposal.seats if seat.number != number))
