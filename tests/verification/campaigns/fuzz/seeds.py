"""Valid inputs for each target, so that a fuzzer starts after the first checks.

Where a target takes several kinds, there is one of each.
"""

import zlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import attrs
from msgspec import structs

from groupcomm.clocks.stamp import Position, Stamp, ViewId
from groupcomm.clocks.vector import VectorClock
from groupcomm.config.roster import (
    AddDaemon,
    Invitation,
    InviteDaemon,
    RemoveDaemon,
    Roster,
    RosterEntry,
)
from groupcomm.config.versions import PACKED, SPOKEN, Versions
from groupcomm.config.view import Incarnation
from groupcomm.config.votes import Policy, SetPolicy, SetVotes
from groupcomm.events import (
    CausalContext,
    Cause,
    DaemonStopping,
    DaemonView,
    GroupView,
    LineGranted,
    MemberId,
    Refused,
)
from groupcomm.groups.announcement import Announcement, Rows, encode_announcement
from groupcomm.groups.lines import Lines
from groupcomm.joining.messages import (
    JoinRequest,
    MoveRequest,
    Part,
    PartRequest,
    Ready,
    Wait,
    encode,
)
from groupcomm.joining.messages import Refused as AnswerRefused
from groupcomm.security.plain import PlainSealer
from groupcomm.session import daemon_frames, frames
from groupcomm.session.differences import Difference, encode_difference, place_of
from groupcomm.wire.bundle import encode_groups
from groupcomm.wire.columns import encode_column
from groupcomm.wire.control import ControlPacket, cut_message, deflate_packets
from groupcomm.wire.eviction import Eviction
from groupcomm.wire.hello import HELLO_BYTES, NO_WRAP, Hello, Introduction
from groupcomm.wire.keys import KeyReport
from groupcomm.wire.link import without_key
from groupcomm.wire.membership import (
    Ask,
    Beacon,
    Commit,
    ControlKind,
    ControlMessage,
    Holding,
    Join,
    Leave,
    Links,
    Past,
    Proposal,
    Relayed,
    Repair,
    RosterNotice,
    Seat,
    Settings,
    ShortBeacon,
    ShortCommit,
    ShortJoin,
    encode_message,
)
from groupcomm.wire.messages import encode_fragment
from groupcomm.wire.packet import PacketKind
from groupcomm.wire.roster import RosterStep, StepKind, encode_roster
from groupcomm.wire.segments import Cutter
from groupcomm_lessons.algorithms.buffering import Received
from groupcomm_lessons.algorithms.direct import datagrams as direct
from groupcomm_lessons.algorithms.process import Message
from groupcomm_lessons.algorithms.schiper_eggli_sandoz import SentStamp
from tests.groupcomm.groups.announced import sectioned, sections_of
from tests.groupcomm.joining.world import Host, Network, joiner, mover
from tests.groupcomm.wire.packets import CODECS, KEY, example_bundle
from tests.groupcomm.wire.payloads import encode_messages
from tests.verification.campaigns.fuzz.client_seeds import client_seeds
from tests.verification.campaigns.fuzz.history_seeds import history_seeds
from tests.verification.campaigns.fuzz.port_seeds import port_seeds
from tests.verification.campaigns.fuzz.spread_targets import spread_seeds

_MEMBER: Final = MemberId("#ann#d1", 2**31)
_VIEW: Final = ViewId(2**32, "d1", 2**63)
_DAEMONS: Final = DaemonView(id=_VIEW, daemons=("d1", "größe"), majority=True)
_POSITION: Final = Position(_VIEW, 2**50, 1, 2, 3)
_CAUSES: Final = CausalContext(2**33, Stamp(2**50, 1), (2**33 - 1, 0))


_ROSTER: Final = (
    Roster(
        entries=(
            RosterEntry(name="d1", site="north", addresses=("10.0.0.1:4803", "[::1]:4803")),
            RosterEntry(name="größe", site="south"),
        ),
        links=(("north", "south", 40_000),),
        expected=3,
    )
    .changed(AddDaemon(name="d2", site="north", addresses=("10.0.0.2:4803",)))
    .changed(RemoveDaemon("größe"), forced=True)
    .changed(
        InviteDaemon(
            invitation=Invitation(
                id=b"12345678",
                name="d3",
                site="north",
                proof=bytes(32),
                expires_s=2**33,
                holder=bytes(32),
            ),
            now_s=2**32,
        )
    )
)

_VOTING: Final = (
    attrs.evolve(_ROSTER, expected=None)
    .changed(SetVotes("d1", 16))
    .changed(SetPolicy(Policy(orderly=True, tie_breaker="d1")))
)


_DIFFERENCE: Final = Difference(
    group="größe",
    id=_POSITION,
    before=place_of(_POSITION),
    cause=Cause.NETWORK,
    size=3,
    went=("d3", "größe"),
    members=(_MEMBER, MemberId("#bob#d2", 7)),
)


_PACKETS: Final = [
    *cut_message(9, Incarnation(3, 2**63), 1, *encode_message(Leave()), 1200),
    *cut_message(9, Incarnation(3, 2**63), 2, ControlKind.COMMIT, bytes(80), 100),
]
"""A message in one part and one in several, which travel together."""


def _group_view() -> bytes:
    view = GroupView(
        group="größe",
        id=_POSITION,
        members=(_MEMBER, MemberId("#bob#d2", 7)),
        cause=Cause.JOIN,
        changed=(_MEMBER,),
        vs_set=(),
        own=True,
    )
    return daemon_frames.encode_view(view)


def _frames() -> dict[str, bytes]:
    """Whole frames, from their length on."""
    body = example_bundle().body
    return {
        "hello": frames.encode_hello("ann"),
        "welcome": daemon_frames.encode_welcome(_MEMBER, 1000),
        "view_id": daemon_frames.encode_view_id(_DAEMONS),
        "delivery": b"".join(daemon_frames.encode_delivery("#ann#d1", 2**31, (2**50, 1, 2), body)),
        "ordered": daemon_frames.encode_ordered(7, _POSITION, True),
        "transition": daemon_frames.encode_transition(),
        "undeliverable": daemon_frames.encode_undeliverable(7, "#bob#d2", _POSITION),
        "abort": daemon_frames.encode_abort(_MEMBER, 7),
        "closed": daemon_frames.encode_closed(-8, "too slow"),
    }


def _wire() -> Iterator[tuple[str, bytes]]:
    for codec in CODECS:
        name = codec.kind.name.lower()
        if codec.kind is PacketKind.LINK:  # one codec of tests decodes the contents of link packets
            module = "link"
        else:
            module = codec.decode.__module__.rpartition(".")[2]
        yield f"wire.{module}.{name}", codec.example.encode(KEY)
    record = b"".join(example_bundle().record())
    report = KeyReport(active=1, wish=2, retires=None, prints=((1, bytes(8)), (2, b"12345678")))
    yield "wire.keys.key_report", report.encode()
    for step in (
        RosterStep(kind=StepKind.PROPOSE, base=bytes(8), roster=b"12345678", forced=True),
        RosterStep(kind=StepKind.STORED, base=b"12345678", roster=bytes(8), ballot=2**63),
    ):
        yield "wire.roster.step", step.encode()
    yield "wire.roster.roster", encode_roster(_ROSTER)
    yield "wire.roster.roster", encode_roster(_VOTING)
    yield from _joining()
    yield "wire.packet.peek", bytes(20)
    yield "wire.columns.column", b"\3" + encode_column([2**40, 0, 2**40 + 2**14 - 2])
    yield "wire.segments.accept", b"\0" + Cutter().cut(bytes((1,)) + bytes(100), 60)
    yield "wire.link.with_key", without_key(CODECS[0].example.encode(KEY))
    yield "wire.bundle.body", bytes(example_bundle().body)
    yield "wire.bundle.bundles", b"\0\2" + record + record
    yield "wire.bundle.user", b"ann"
    yield "wire.bundle.groups", encode_groups(("g", "#ann#d1"))
    yield "wire.messages.messages", b"\0\0\0\2" + encode_messages([(1, b"ab"), (2, b"")])
    yield "wire.messages.fragment", encode_fragment(1, 9, b"part")


def _joining() -> Iterator[tuple[str, bytes]]:
    """Yield a whole conversation, and the messages in it."""
    host = Host()
    network = Network(host)
    network.run(joiner(host.invite("b")), mover("a", "10.0.0.7:4803"))
    for data in (*(data for _, data in network.sent), *network.answers):
        yield "wire.joining.joining", data
    for request in (
        JoinRequest("größe", ("10.0.0.9:4803",)),
        MoveRequest("b", ("10.0.0.9:1",), bytes(64)),
        PartRequest(2),
    ):
        yield "joining.messages.request", encode(request)
        yield "joining.host", encode(request)
    for answer in (Wait("why"), AnswerRefused("größe"), Ready(9000), Part(b"part")):
        yield "joining.messages.answer", encode(answer)
        yield "joining.host", encode(answer)
    yield "joining.messages.package", host.package()


def _messages() -> Iterator[ControlMessage]:
    """Yield each kind of control message; joins of a first start and from a view of two rings."""
    holding = Holding(3, ((5, 9), (11, 11)), ((4, 2**40),), 2**40)
    heard = ((7, 8), (9, 2**63))
    join = Join(
        attempt=4,
        name="d1",
        digests=KEY,
        heard=heard,
        reading=2**50,
        clock=2**50,
        counter=2**50,
        mark=2**51,
        past=None,
        spoken=(1, 3, 5, 2**40),
    )
    seats = tuple(Seat(number, 3, 2**63, 4, bytes((3 - number,))) for number in (1, 2))
    yield Beacon(2**50, KEY, heard, KEY, 2**50, 2**51, 9, (1, 1, 0))
    yield join
    yield structs.replace(join, past=Past(KEY, (holding, Holding(0, (), (), 0)), (0, 2)))
    yield Commit(4, Proposal(seats), False, False, (((5, 9), (11, 11)), ()))
    yield Commit(4, Proposal(seats), True, True, ())
    yield ShortCommit(4, KEY, False, True, (((5, 9), (11, 11)), ()))
    yield ShortJoin(b"\7", KEY, structs.replace(join, heard=()))
    yield ShortBeacon(b"\7\1", KEY, Beacon(2**50, KEY, (), KEY, 2**50, 2**51, 9, (1, 1, 0)))
    yield Ask(2)
    yield Repair(KEY, CODECS[0].example.encode(KEY))
    yield Leave()
    yield Links(KEY, ((0, 2), (2, 4)))
    yield RosterNotice("d1", True, encode_roster(_ROSTER))
    yield Settings("d1", KEY, (("timing.linger_s", ("0.001",)),), (("sites.s.multicast", ()),))
    yield Relayed(deflate_packets(_PACKETS))


def _membership() -> Iterator[tuple[str, bytes]]:
    for message in _messages():
        kind, body = encode_message(message)
        yield "wire.membership.message", bytes((kind,)) + body
        packet = ControlPacket(
            origin=2**63,
            incarnation=Incarnation(3, 2**63),
            sequence=2**40,
            kind=kind,
            part=0,
            parts=1,
            payload=body,
        )
        yield "wire.control.control", packet.encode()
    for packets in (_PACKETS, _PACKETS[:1], []):
        yield "wire.control.inflate_packets", deflate_packets(packets)
    stored = b"".join(len(each).to_bytes(2) + each for each in _PACKETS)
    yield "wire.control.inflate_packets", zlib.compress(stored, 0, -zlib.MAX_WBITS)
    yield "membership.flood", b"\2" + bytes((3, 4, 5, 2, 40, 1, 2, 3)) * 2 + bytes(range(200))
    sessions, groups = ((1, "ann"), (2, "größe")), (("g", (2, 1)),)
    rows = Rows(sessions, groups, ((1, "unix:ann"), (2, "token:größe")), (("h", (1,)),))
    for each in (Rows(), Rows(sessions, groups), rows):
        for versions in (Versions(), Versions(highest=PACKED), SPOKEN):
            head = sectioned(Announcement(KEY, ((7, 8),), 9), each, versions)
            body = encode_announcement(head, each, versions, 20)
            yield "groups.announcement.announcement", body + b"\0\7"
        for section in sections_of(each):
            yield "groups.announcement.rows", section
    lines = Lines()
    for number, name in enumerate((b"a" * 16, b"b" * 16)):
        for session in range(2):
            lines.claim(name, (0, 2 * number + session), MemberId(f"#u{session}#d", number))
    yield "groups.lines.table", lines.announce()


def _rest() -> Iterator[tuple[str, bytes]]:
    sealer = PlainSealer(cluster=0, sender=1, incarnation=Incarnation(1, 2))
    yield "security.plain.open", sealer.seal(b"packet")
    yield "security.plain.sealed", bytes(22) + b"\1packet"
    yield "security.opening.open", b"\x2d\1packet"
    yield "engine.protection.open", b"\0\5body"
    yield "security.secret_sealing.open", b"\x2d\1packet"
    introduction = Introduction(
        hello=Hello(start=Incarnation(1, 2), asks=3),
        view=bytes(16),
        pair=1,
        public=bytes(range(32)),
        has=1,
    )
    yield "wire.hello.introduction", introduction.encode() + bytes(64)
    for removed in (False, True):
        evicted = Eviction(
            start=Incarnation(1, 2), public=bytes(range(32)), roster=7, removed=removed
        )
        yield "wire.eviction.eviction", evicted.encode() + bytes(64)
    for wrap in (NO_WRAP, b"w" * 88):
        said = attrs.evolve(introduction, wrap=wrap).encode()
        yield "core.identity_gate.signed", said[HELLO_BYTES:]
    to_client = _frames()
    transition = to_client.pop("transition")
    hello = to_client.pop("hello")
    yield "session.frames.hello", hello[4:]
    yield "session.frames.hello", frames.encode_hello("ann", 2**32 - 1)[4:]
    yield "session.frames.hello", frames.encode_hello("ann", 0, "sensor-7:secret")[4:]
    yield "session.frames.query", frames.encode_query("members zürich")[4:]
    yield "session.frames.alive", frames.encode_alive(frames.FrameKind.CLIENT_ALIVE, 10.0)[4:]
    yield "session.daemon_frames.accepted", daemon_frames.encode_accepted(2**40)[4:]
    for name, frame in to_client.items():
        yield f"session.daemon_frames.{name}", frame[4:]
    yield "session.daemon_frames.view", _group_view()[4:]
    yield "session.differences.difference", encode_difference(_DIFFERENCE)[4:]
    causes = daemon_frames.encode_causes(_CAUSES)
    for context in (_CAUSES, CausalContext(7, None, ())):
        yield "session.daemon_frames.causes", daemon_frames.encode_causes(context)[4:]
    principal = daemon_frames.encode_principal("unix:größe")
    yield "session.daemon_frames.principal", principal[4:]
    notice = DaemonStopping(within_s=1.5, addresses=("tls://10.0.0.2:4804", "tls://größe:1"))
    granted = LineGranted(last=2**40, table=b"t" * 16, forgotten=3)
    yield "session.daemon_frames.line", daemon_frames.encode_line(granted)[4:]
    yield "session.daemon_frames.stopping", daemon_frames.encode_stopping(notice)[4:]
    for refused in (
        Refused(number=7, count=3, verb="send", group="größe", principal="cert:ann"),
        Refused(number=0, count=1, verb="join", group="g", principal="", bound="groups"),
    ):
        yield "session.daemon_frames.refused", daemon_frames.encode_refused(refused)[4:]
    yield "session.frame_reader", b"\x05" + hello + frames.encode_bye()
    told = [frame for name, frame in to_client.items() if name != "closed"]
    yield (
        "session.client",
        b"".join([principal, causes, *told, _group_view(), transition, to_client["closed"]]),
    )
    body = example_bundle().body
    bundle = frames.encode_bundle_head(len(body), ordered=False) + body
    yield "session.daemon", bundle + frames.encode_bye()


def _direct() -> Iterator[tuple[str, bytes]]:
    contact = direct.Contact("bob", "127.0.0.1:7001", 2**63)
    hello = direct.Hello("größe", 2**64 - 1, "Vector", ("ann", "bob"), (contact,))
    part = direct.Part("ann", 1, 2, 300, 1, 2, 1, b"data")
    datagrams: list[direct.Datagram] = [
        *(hello, direct.Known("ann", 1, 2, (contact,)), direct.Ask("ann", 1, "127.0.0.1:1")),
        *(direct.Refused("ann", 1, "full"), part, direct.Ack("ann", 1, 2, 3, (5, 6))),
        direct.Gone("ann", 1),
    ]
    for datagram in datagrams:
        yield "lessons.algorithms.direct.datagrams.datagram", direct.encode_datagram(datagram)
    clock = VectorClock(("ann", "bob"))
    message = Message("ann", 1, ("ann", "bob"), b"hi")
    bye = direct.Bye("bob", 7, ("ann",))
    joined = direct.Joined(contact, "", bye)
    payloads: list[direct.Payload] = [
        direct.Carried(message, SentStamp(clock, {"bob": clock})),
        direct.Carried(None, (1, [-1, None], {("ann", 1): ("bob",)})),
        direct.Welcoming(clock, (Received(message, clock),), ("cid",), (joined,)),
        *(joined, bye, direct.Done("bob")),
    ]
    for payload in payloads:
        for name in ("datagrams.payload", "values.value"):
            yield f"lessons.algorithms.direct.{name}", direct.encode_payload(payload)


def _by_target() -> dict[str, list[bytes]]:
    seeds = defaultdict(list)
    for name, raw in (
        *_wire(),
        *_membership(),
        *_rest(),
        *_direct(),
        *client_seeds(),
        *history_seeds(),
        *port_seeds(),
        *spread_seeds(),
    ):
        seeds[name].append(raw)
    return dict(seeds)


SEEDS: Final = _by_target()
