"""Test vectors of sessions: the frames of both sides, one by one."""

import struct
from typing import Any, Final

from groupcomm.clocks.stamp import Position, Stamp, ViewId
from groupcomm.errors import BadDatagram, Code
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
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.session import daemon_frames as daemon
from groupcomm.session.differences import (
    Difference,
    decode_difference_untrusted,
    encode_difference,
    place_of,
)
from groupcomm.session.frames import (
    BUNDLE_BODY_OFFSET,
    CLIENT_FRAME_BYTES,
    DAEMON_FRAME_BYTES,
    Capability,
    FrameKind,
    FrameReader,
    decode_alive_untrusted,
    decode_hello_untrusted,
    decode_query_untrusted,
    encode_alive,
    encode_bundle_head,
    encode_bye,
    encode_hello,
    encode_query,
    whole_frame,
)
from groupcomm.wire.bundle import (
    SELF_DISCARD,
    BundleKind,
    body_payload,
    decode_body_untrusted,
    encode_body,
)
from groupcomm.wire.messages import (
    decode_fragment_untrusted,
    decode_messages_untrusted,
    encode_fragment,
    message_parts,
)
from tests.protocol.families import Example, Family, Fields

VIEW: Final = ViewId(7, "a", 0x1234)
ANN: Final = MemberId("#ann#a", 1001)
BOB: Final = MemberId("#bob#größe", 1002)
PLACE: Final = Position(VIEW, 1_700_000_000_000_000, 1, 2, 0)


def one_frame(raw: bytes, limit: int) -> bytes:
    """Return the only frame of some bytes, from its kind on; raise BadDatagram otherwise."""
    frames = list(FrameReader(limit).feed(raw))
    if len(frames) != 1 or len(frames[0]) + 4 != len(raw):
        raise BadDatagram("short", f"{len(raw)} bytes are not one frame")
    return frames[0]


# ---- frames of a client ----


def read_client(raw: bytes) -> tuple[Fields, bytes]:
    """Read a frame of a client; see Family."""
    frame = one_frame(raw, CLIENT_FRAME_BYTES)
    match frame[0]:
        case FrameKind.HELLO:
            version, capabilities, user, token = decode_hello_untrusted(frame)
            fields = {"version": version, "capabilities": capabilities, "user": user}
            return {"frame": "HELLO"} | fields | {"token": token}, encode_hello(
                user, capabilities, token
            )
        case FrameKind.BUNDLE:
            if frame[1] > 1:
                raise BadDatagram("bundle", "ordered")
            body, again = read_body(frame[BUNDLE_BODY_OFFSET:])
            head = encode_bundle_head(len(again), frame[1] == 1)
            return {"frame": "BUNDLE", "ordered": frame[1], "body": body}, head + again
        case FrameKind.QUERY:
            text = decode_query_untrusted(frame)
            return {"frame": "QUERY", "question": text}, encode_query(text)
        case FrameKind.CLIENT_ALIVE:
            fields, again = _alive(frame)
            return {"frame": "CLIENT_ALIVE"} | fields, again
        case FrameKind.BYE if len(frame) == 1:
            return {"frame": "BYE"}, encode_bye()
    raise BadDatagram("kind", f"no frame of a client: {frame[0]}")


def read_body(raw: bytes) -> tuple[Fields, bytes]:
    """Read a body with its payload; see Family."""
    bundle = decode_body_untrusted(raw)
    payload = bytes(body_payload(raw))
    fields: Fields = {
        "kind": BundleKind(bundle.kind).name,
        "level": LEVELS[bundle.level].name,
        "flags": bundle.flags,
        "message": bundle.message,
        "index": bundle.index,
        "count": bundle.count,
        "groups": list(bundle.groups),
    }
    again = payload
    if bundle.kind == BundleKind.MESSAGES:
        types, data = decode_messages_untrusted(payload, bundle.count)
        pairs = list(zip(types, data, strict=True))
        fields["messages"] = [{"type": type_, "data": each} for type_, each in pairs]
        again = messages(*pairs)
    elif bundle.kind == BundleKind.FRAGMENT:
        type_, length, part = decode_fragment_untrusted(payload)
        fields |= {"type": type_, "length": length, "part": part}
        again = encode_fragment(type_, length, part)
    else:
        fields["payload"] = payload
    numbers = (bundle.kind, bundle.level, bundle.flags, bundle.message, bundle.groups)
    return fields, encode_body(*numbers, again, bundle.index, bundle.count)


def messages(*pairs: tuple[int, bytes]) -> bytes:
    """Return the payload of whole messages."""
    return b"".join(message_parts([(type_, [data]) for type_, data in pairs]))


def bundle(body: bytes, *, ordered: bool = False) -> bytes:
    """Return the BUNDLE frame of a body."""
    return encode_bundle_head(len(body), ordered) + body


AGREED, SAFE, FIFO = ServiceLevel.AGREED, ServiceLevel.SAFE, ServiceLevel.FIFO
_JOIN: Final = encode_body(BundleKind.JOIN, AGREED, 0, 1, ("news",), b"")
_LINE: Final = encode_body(BundleKind.LINE, AGREED, 0, 2, (), bytes(range(16)))
_TWO: Final = encode_body(
    BundleKind.MESSAGES,
    FIFO,
    SELF_DISCARD,
    3,
    ("news", "#bob#größe"),
    messages((7, b"one"), (8, b"")),
    0,
    2,
)
_ONE: Final = encode_body(BundleKind.MESSAGES, SAFE, 0, 5, ("news",), messages((0, b"hello")))

CLIENT: Final = Family(
    file="session-client",
    about="Frames from a client to its daemon, with their lengths.",
    read=read_client,
    good=[
        Example("hello", "A client that asks for nothing.", encode_hello("ann")),
        Example(
            "hello with capabilities and a token",
            "All capabilities, and a token, which is sent only over TLS.",
            encode_hello("größe", sum(Capability), "secret"),
        ),
        Example("join", "The first request of a session.", bundle(_JOIN)),
        Example("line", "The session asks to go on with a line.", bundle(_LINE)),
        Example(
            "leave",
            "The session leaves the group.",
            bundle(encode_body(BundleKind.LEAVE, AGREED, 0, 2, ("news",), b"")),
        ),
        Example(
            "two messages",
            "Two messages share a bundle; the sender does not want them.",
            bundle(_TWO),
        ),
        Example(
            "a message whose position is asked for", "ORDERED follows.", bundle(_ONE, ordered=True)
        ),
        Example(
            "a fragment",
            "The second of three fragments of a message of 1,000 bytes.",
            bundle(
                encode_body(
                    BundleKind.FRAGMENT,
                    AGREED,
                    0,
                    6,
                    ("news",),
                    encode_fragment(9, 1000, bytes(400)),
                    1,
                    3,
                )
            ),
        ),
        Example("query", "A question about the members of a group.", encode_query("members news")),
        Example("bye", "The last frame of a client.", encode_bye()),
        Example(
            "client alive",
            "It ends a session whose daemon is silent for 3 s.",
            encode_alive(FrameKind.CLIENT_ALIVE, 3.0),
        ),
    ],
    bad=[
        Example("client alive without a time", "Four bytes.", whole_frame(b"\x05")),
        Example("a length of 0", "A frame has at least its kind.", bytes(4)),
        Example(
            "a length beyond the limit", "66,560 bytes are allowed.", struct.pack("!IB", 66_561, 2)
        ),
        Example(
            "an empty token",
            "A token is left out or not empty.",
            whole_frame(encode_hello("ann")[4:] + b"\0"),
        ),
        Example(
            "a name that is not UTF-8",
            "The user's name is ff.",
            whole_frame(encode_hello("a")[4:-1] + b"\xff"),
        ),
        Example(
            "hello without a name",
            "Nothing stands behind the capabilities.",
            whole_frame(encode_hello("")[4:-1]),
        ),
        Example(
            "bytes behind the name",
            "A token would have a length.",
            whole_frame(encode_hello("ann")[4:] + b"\5x"),
        ),
        Example("ordered is 2", "It is 0 or 1.", bundle(_ONE)[:5] + b"\2" + bundle(_ONE)[6:]),
        Example("a short body", "A body has a head of 21 bytes.", bundle(_JOIN[:20])),
        Example("an unknown kind of body", "Kinds are 0 to 11.", bundle(b"\x0c" + _ONE[1:])),
        Example("level 6", "Levels are 0 to 5.", bundle(_ONE[:1] + b"\6" + _ONE[2:])),
        Example("a join at SAFE", "Joins are AGREED.", bundle(_JOIN[:1] + b"\5" + _JOIN[2:])),
        Example("a line of 15 bytes", "Its id has 16.", bundle(_LINE[:-1])),
        Example("a join with a payload", "Joins have none.", bundle(_JOIN + b"x")),
        Example(
            "a join of a private name",
            "Only groups have members.",
            bundle(encode_body(BundleKind.JOIN, AGREED, 0, 1, ("#ann#a",), b"")),
        ),
        Example(
            "messages to nobody",
            "A message has at least one destination.",
            bundle(encode_body(BundleKind.MESSAGES, AGREED, 0, 1, (), messages((0, b"x")))),
        ),
        Example(
            "an index beyond the count",
            "The first fragment has the index 0.",
            bundle(
                encode_body(
                    BundleKind.FRAGMENT, AGREED, 0, 1, ("g",), encode_fragment(0, 9, b"x"), 3, 3
                )
            ),
        ),
        Example(
            "groups beyond the body",
            "The length of the groups is larger than what follows.",
            bundle(_JOIN[:19] + b"\xff\xff" + _JOIN[21:]),
        ),
        Example(
            "an invisible character",
            "U+200B has no place in a name.",
            bundle(encode_body(BundleKind.JOIN, AGREED, 0, 1, ("a\u200bb",), b"")),
        ),
    ],
)


# ---- frames of a daemon ----


def read_daemon(raw: bytes) -> tuple[Fields, bytes]:
    """Read a frame of a daemon; positions are of VIEW; see Family."""
    frame = one_frame(raw, DAEMON_FRAME_BYTES)
    reader = _READERS.get(frame[0])
    if reader is None:
        raise BadDatagram("kind", f"no frame of a daemon: {frame[0]}")
    fields, again = reader(frame)
    return {"frame": FrameKind(frame[0]).name} | fields, again


def _welcome(frame: bytes) -> tuple[Fields, bytes]:
    found = daemon.decode_welcome_untrusted(frame)
    fields = _member(found.member) | {"bundle_limit": found.bundle_limit}
    knows = {"readers": found.readers, "lines": found.lines, "pauses": found.pauses}
    fields |= knows
    again = daemon.encode_welcome(found.member, found.bundle_limit, **knows)
    return fields, again


def _line(frame: bytes) -> tuple[Fields, bytes]:
    found = daemon.decode_line_untrusted(frame)
    fields = {"number": found.last, "table": found.table, "forgotten": found.forgotten}
    return fields, daemon.encode_line(found)


def _view_id(frame: bytes) -> tuple[Fields, bytes]:
    found = daemon.decode_view_id_untrusted(frame)
    fields = {"counter": found.id.counter, "random_id": found.id.incarnation}
    return fields | {
        "majority": found.majority,
        "by_votes": found.by_votes,
        "unbroken": found.unbroken,
        "daemons": found.daemons,
    }, daemon.encode_view_id(found)


def _deliver(frame: bytes) -> tuple[Fields, bytes]:
    sender, parts, body = daemon.decode_delivery_untrusted(frame)
    told, again = read_body(bytes(body))
    fields = {"sender": _member(sender), "place": parts, "body": told}
    return fields, b"".join(daemon.encode_delivery(sender.name, sender.connection, parts, again))


def _view(frame: bytes) -> tuple[Fields, bytes]:
    found = daemon.decode_view_untrusted(frame, VIEW)
    lists = {"members": found.members, "changed": found.changed, "together": found.vs_set}
    fields: Fields = {"position": found.id[1:], "cause": found.cause.name, "own": found.own}
    fields["group"] = found.group
    fields |= {name: [_member(each) for each in members] for name, members in lists.items()}
    return fields, daemon.encode_view(found)


def _difference(frame: bytes) -> tuple[Fields, bytes]:
    found = decode_difference_untrusted(frame, VIEW)
    fields: Fields = {"position": found.id[1:], "before": found.before, "size": found.size}
    fields |= {"cause": found.cause.name, "group": found.group, "went": found.went}
    return fields | {"members": list(map(_member, found.members))}, encode_difference(found)


def _ordered(frame: bytes) -> tuple[Fields, bytes]:
    found = daemon.decode_ordered_untrusted(frame, VIEW)
    fields = {"number": found.number, "position": found.position[1:]}
    again = daemon.encode_ordered(found.number, found.position, found.transitional)
    return fields | {"transitional": found.transitional}, again


def _undeliverable(frame: bytes) -> tuple[Fields, bytes]:
    found = daemon.decode_undeliverable_untrusted(frame, VIEW)
    fields = {"number": found.number, "position": found.position[1:], "target": found.target}
    return fields, daemon.encode_undeliverable(found.number, found.target, found.position)


def _abort(frame: bytes) -> tuple[Fields, bytes]:
    sender, number = daemon.decode_abort_untrusted(frame)
    return {"sender": _member(sender), "number": number}, daemon.encode_abort(sender, number)


def _closed(frame: bytes) -> tuple[Fields, bytes]:
    found = daemon.decode_closed_untrusted(frame)
    return {"code": found.code, "reason": found.reason}, daemon.encode_closed(
        found.code, found.reason
    )


def _transition(frame: bytes) -> tuple[Fields, bytes]:
    if len(frame) != 1:
        raise BadDatagram("kind", "a TRANSITION frame with fields")
    return {}, daemon.encode_transition()


def _answer(frame: bytes) -> tuple[Fields, bytes]:
    return {"data": frame[1:]}, daemon.encode_answer(frame[1:])


def _causes(frame: bytes) -> tuple[Fields, bytes]:
    found = daemon.decode_causes_untrusted(frame)
    return {"packet": found.packet, "A": found.agreed, "V": found.heard}, daemon.encode_causes(
        found
    )


def _refused(frame: bytes) -> tuple[Fields, bytes]:
    found = daemon.decode_refused_untrusted(frame)
    fields: Fields = {"number": found.number, "count": found.count, "verb": found.verb}
    fields |= {"level": found.level.name, "bound": found.bound, "group": found.group}
    return fields | {"principal": found.principal}, daemon.encode_refused(found)


def _principal(frame: bytes) -> tuple[Fields, bytes]:
    found = daemon.decode_principal_untrusted(frame)
    return {"principal": found}, daemon.encode_principal(found)


def _origins(frame: bytes) -> tuple[Fields, bytes]:
    found = daemon.decode_origins_untrusted(frame)
    return {"daemons": found}, daemon.encode_origins(found)


def _stopping(frame: bytes) -> tuple[Fields, bytes]:
    found = daemon.decode_stopping_untrusted(frame)
    milliseconds = round(1000 * found.within_s)
    fields = {"milliseconds": milliseconds, "addresses": found.addresses}
    return fields, daemon.encode_stopping(found)


def _alive(frame: bytes) -> tuple[Fields, bytes]:
    wait_s = decode_alive_untrusted(frame)
    return {"milliseconds": round(1000 * wait_s)}, encode_alive(FrameKind(frame[0]), wait_s)


def _accepted(frame: bytes) -> tuple[Fields, bytes]:
    number = daemon.decode_accepted_untrusted(frame)
    return {"number": number}, daemon.encode_accepted(number)


def _member(member: MemberId) -> Fields:
    return {"name": member.name, "connection": member.connection}


_READERS: Final[dict[int, Any]] = {
    FrameKind.WELCOME: _welcome,
    FrameKind.VIEWID: _view_id,
    FrameKind.DELIVER: _deliver,
    FrameKind.VIEW: _view,
    FrameKind.ORDERED: _ordered,
    FrameKind.UNDELIVERABLE: _undeliverable,
    FrameKind.ABORT: _abort,
    FrameKind.CLOSED: _closed,
    FrameKind.TRANSITION: _transition,
    FrameKind.ANSWER: _answer,
    FrameKind.CAUSES: _causes,
    FrameKind.REFUSED: _refused,
    FrameKind.PRINCIPAL: _principal,
    FrameKind.ORIGINS: _origins,
    FrameKind.STOPPING: _stopping,
    FrameKind.DAEMON_ALIVE: _alive,
    FrameKind.ACCEPTED: _accepted,
    FrameKind.DIFFERENCE: _difference,
    FrameKind.LINE: _line,
}

_GROUP_VIEW: Final = daemon.encode_view(
    GroupView(
        group="news",
        id=PLACE,
        members=(ANN, BOB),
        cause=Cause.JOIN,
        changed=(BOB,),
        vs_set=(ANN,),
        own=False,
    )
)
_DIFFERENCE: Final = encode_difference(
    Difference(
        group="news",
        id=PLACE,
        before=place_of(PLACE._replace(bundle=1)),
        cause=Cause.JOIN,
        size=3,
        members=(BOB,),
    )
)
_DELIVERY: Final = b"".join(daemon.encode_delivery(ANN.name, 1001, PLACE[1:4], _ONE))
_VIEW_ID: Final = daemon.encode_view_id(DaemonView(id=VIEW, daemons=("a", "größe"), majority=True))
_CAUSES: Final = daemon.encode_causes(CausalContext(9, Stamp(1_700_000_000_000_000, 0), (4, 0)))

DAEMON: Final = Family(
    file="session-daemon",
    about="Frames from a daemon to its client, with their lengths.",
    read=read_daemon,
    good=[
        Example("welcome", "The client is admitted.", daemon.encode_welcome(ANN, 1199)),
        Example("viewid", "A view of two daemons, which are a majority.", _VIEW_ID),
        Example(
            "viewid of unknown majority",
            "A daemon that is alone, and does not know how many there are.",
            daemon.encode_view_id(DaemonView(id=VIEW, daemons=("a",), majority=None)),
        ),
        Example(
            "viewid of a majority by votes",
            "A majority of votes that differ, for a client that asked for VOTES.",
            daemon.encode_view_id(
                DaemonView(id=VIEW, daemons=("a",), majority=True, by_votes=True)
            ),
        ),
        Example(
            "viewid without another majority since the last one",
            "Those that have come together are a majority, for a client that asked for UNBROKEN.",
            daemon.encode_view_id(
                DaemonView(id=VIEW, daemons=("a",), majority=True, unbroken=True)
            ),
        ),
        Example("deliver", "One SAFE message.", _DELIVERY),
        Example(
            "deliver without a position",
            "An UNRELIABLE message.",
            b"".join(
                daemon.encode_delivery(
                    BOB.name,
                    1002,
                    None,
                    encode_body(BundleKind.MESSAGES, 0, 0, 4, ("news",), messages((1, b"x"))),
                )
            ),
        ),
        Example("view", "A member has joined, as the others see it.", _GROUP_VIEW),
        Example(
            "view of a session that has left",
            "Its last one of this group.",
            daemon.encode_view(
                GroupView(
                    group="news",
                    id=PLACE,
                    members=(BOB,),
                    cause=Cause.LEAVE,
                    changed=(ANN,),
                    vs_set=(),
                    own=True,
                )
            ),
        ),
        Example(
            "view in a new view of the daemons",
            "Nobody has joined or left by a request.",
            daemon.encode_view(
                GroupView(
                    group="news",
                    id=Position(VIEW, 0, 0, 0, 0),
                    members=(ANN,),
                    cause=Cause.NETWORK,
                    changed=(),
                    vs_set=(ANN,),
                    own=False,
                )
            ),
        ),
        Example("ordered", "Message 5 has its place.", daemon.encode_ordered(5, PLACE)),
        Example(
            "ordered, transitional", "The view ended before.", daemon.encode_ordered(6, PLACE, True)
        ),
        Example(
            "undeliverable", "The target has gone.", daemon.encode_undeliverable(7, BOB.name, PLACE)
        ),
        Example("abort", "Message 6 will not be completed.", daemon.encode_abort(ANN, 6)),
        Example("closed", "An orderly end.", daemon.encode_closed(0, "the session has ended")),
        Example(
            "closed with an error",
            "The name is taken.",
            daemon.encode_closed(Code.REJECT_NOT_UNIQUE, "no"),
        ),
        Example("transition", "The regular part of the view is over.", daemon.encode_transition()),
        Example("answer", "JSON.", daemon.encode_answer(b'{"members": []}')),
        Example("causes", "Of a CAUSAL message, in a view of two rings.", _CAUSES),
        Example(
            "causes below CAUSAL",
            "Only the packet is told.",
            daemon.encode_causes(CausalContext(9, None, ())),
        ),
        Example(
            "refused",
            "A message is not allowed.",
            daemon.encode_refused(
                Refused(
                    number=4, count=2, verb="send", group="news", principal="unix:ann", level=FIFO
                )
            ),
        ),
        Example(
            "refused at a bound",
            "A session joins more groups than it may.",
            daemon.encode_refused(
                Refused(
                    number=5,
                    count=1,
                    verb="join",
                    group="news",
                    principal="unix:ann",
                    bound="session_groups",
                )
            ),
        ),
        Example("principal", "The owner of the next senders.", daemon.encode_principal("unix:ann")),
        Example(
            "origins",
            "Three daemons, two of which came together.",
            daemon.encode_origins({"a": 0, "b": 1, "c": 0}),
        ),
        Example(
            "stopping",
            "Within 1.5 s.",
            daemon.encode_stopping(DaemonStopping(within_s=1.5, addresses=("tls://h:4804",))),
        ),
        Example(
            "daemon alive",
            "It ends a session that is silent for 10 s.",
            encode_alive(FrameKind.DAEMON_ALIVE, 10.0),
        ),
        Example(
            "accepted", "Messages up to 7 survive the daemon's crash.", daemon.encode_accepted(7)
        ),
        Example(
            "line",
            "The session goes on with its line behind message 7.",
            daemon.encode_line(LineGranted(last=7, table=bytes(range(16)), forgotten=0)),
        ),
        Example("difference", "A third member has joined.", _DIFFERENCE),
        Example(
            "difference in a new view of the daemons",
            "The members at one daemon went, and those of another have come.",
            encode_difference(
                Difference(
                    group="news",
                    id=Position(VIEW, 0, 0, 0, 0),
                    before=place_of(PLACE),
                    cause=Cause.NETWORK,
                    size=2,
                    went=("b",),
                    members=(BOB,),
                )
            ),
        ),
    ],
    bad=[
        Example("an unknown kind", "No frame has the kind 99.", whole_frame(b"\x63")),
        Example("a frame of a client", "A daemon sends no BYE.", encode_bye()),
        Example(
            "welcome of version 2",
            "There is version 1 only.",
            whole_frame(b"\x10\2" + daemon.encode_welcome(ANN, 1199)[6:]),
        ),
        Example("a bundle limit of 299", "300 is the least.", daemon.encode_welcome(ANN, 299)),
        Example(
            "a view of no daemons",
            "The first of them is a part of the id.",
            whole_frame(_VIEW_ID[4:22] + b"\0\0"),
        ),
        Example("majority is 5", "0 to 4.", whole_frame(_VIEW_ID[4:21] + b"\5" + _VIEW_ID[22:])),
        Example(
            "a sender without a name",
            "Each session has one.",
            whole_frame(_DELIVERY[4:26] + b"\0" + _DELIVERY[34:]),
        ),
        Example(
            "a position that is neither there nor missing",
            "0 or 1.",
            whole_frame(_DELIVERY[4:5] + b"\2" + _DELIVERY[6:]),
        ),
        Example(
            "a position with a message without one",
            "Without a position its fields are 0.",
            whole_frame(_DELIVERY[4:5] + b"\0" + _DELIVERY[6:]),
        ),
        Example(
            "bytes behind a view",
            "The third list ends the frame.",
            whole_frame(_GROUP_VIEW[4:] + b"x"),
        ),
        Example(
            "a view of cause 4",
            "0 to 3.",
            whole_frame(_GROUP_VIEW[4:21] + b"\4" + _GROUP_VIEW[22:]),
        ),
        Example(
            "ordered with a flag of 2",
            "0 or 1.",
            whole_frame(daemon.encode_ordered(5, PLACE)[4:-1] + b"\2"),
        ),
        Example("transition with a field", "It has none.", whole_frame(b"\x18\0")),
        Example("a code that is cut", "Four bytes.", whole_frame(b"\x17\0\0\0")),
        Example("causes with a ring too few", "Two were announced.", whole_frame(_CAUSES[4:-8])),
        Example(
            "a count of 0",
            "Nothing was refused.",
            whole_frame(b"\x1b" + bytes(8) + bytes(4) + b"\1\4\0\1g\0"),
        ),
        Example("a daemon twice", "Each has one number.", whole_frame(b"\x1d\0\2\1a\0\0\1a\0\1")),
        Example("alive without a time", "Four bytes.", whole_frame(b"\x1f")),
        Example("line with a byte too much", "32 bytes.", whole_frame(b"\x23" + bytes(33))),
        Example("accepted with a byte too much", "Eight bytes.", whole_frame(b"\x20" + bytes(9))),
        Example(
            "a difference with two new members",
            "Only NETWORK has others than one.",
            whole_frame(_DIFFERENCE[4:-18] + b"\0\0\0\2" + 2 * (bytes(8) + b"\1x")),
        ),
        Example("an address too few", "Two were announced.", whole_frame(b"\x1e\0\0\0\1\0\2\1h")),
    ],
)
