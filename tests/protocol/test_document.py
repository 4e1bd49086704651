"""The tables of docs/protocol that are marked as checked have the values of the code."""

import re
from pathlib import Path
from typing import Any, Final

import attrs

from groupcomm.clocks.ring_clock import FARTHEST_AHEAD_US
from groupcomm.config import view
from groupcomm.config.core import PRESETS, CoreConfig, Timing, Windows
from groupcomm.config.versions import SPOKEN
from groupcomm.engine.admission import NAME_WAIT_S
from groupcomm.engine.sessions import RECORD_HEAD_BYTES
from groupcomm.errors import Code
from groupcomm.events import Cause
from groupcomm.groups.announcement import MAX_ANNOUNCEMENT_BYTES
from groupcomm.host.addresses import DEFAULT_PORT, TLS_PORT
from groupcomm.level import ServiceLevel
from groupcomm.membership import relays
from groupcomm.membership.gather import silence_s
from groupcomm.membership.pace import HOLD_S, HOLDS
from groupcomm.membership.proposal import LEAD_US
from groupcomm.names import MAX_NAME_BYTES
from groupcomm.security import layout, opening, plain
from groupcomm.security.access import Verb
from groupcomm.security.layout import CHANNEL_OF, Channel
from groupcomm.security.quotas import Bound
from groupcomm.session import frames
from groupcomm.session.daemon_session import SessionLimits
from groupcomm.session.frames import Capability, FrameKind
from groupcomm.session.outbox import MOST_REPLIES
from groupcomm.stream.packer import bundle_room
from groupcomm.stream.stream import MAX_AHEAD
from groupcomm.wire import control, horizon, joining, link, membership, messages, segments, token
from groupcomm.wire.bundle import MAX_GROUPS, BundleKind
from groupcomm.wire.membership import ControlKind
from groupcomm.wire.packet import PacketKind
from groupcommd.programs.connections import HELLO_S, LINGER_S

FOLDER: Final = Path(__file__).parents[2] / "docs" / "protocol"
MARK: Final = re.compile(r"^<!-- checked: ([a-z ]+) -->$")


def tables() -> dict[str, list[list[str]]]:
    """Return the rows of each marked table, without its head, by its mark."""
    found: dict[str, list[list[str]]] = {}
    for path in sorted(FOLDER.glob("*.md")):
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            mark = MARK.match(line)
            if mark:
                assert mark[1] not in found, f"{path.name}: {mark[1]} is marked twice"
                found[mark[1]] = rows(lines[number + 2 :])
    return found


def rows(lines: list[str]) -> list[list[str]]:
    """Return the cells of the table with which the lines begin, without its head."""
    table: list[list[str]] = []
    for line in lines:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table[2:]


TABLES: Final = tables()


def number(text: str) -> int:
    """Return a number as the tables write it, with its unit."""
    value, _, unit = text.replace(",", "").partition(" ")
    return int(value) * {"": 1, "bytes": 1, "KiB": 2**10, "MiB": 2**20, "s": 1}[unit]


def enumeration(values: Any) -> dict[int, str]:
    return {int(each): each.name for each in values}


def named(table: str) -> dict[int, str]:
    """Return the names in a table by their numbers: the first two columns."""
    return {int(row[0]): row[1] for row in TABLES[table]}


def test_frames() -> None:
    assert named("frames") == enumeration(FrameKind)
    for kind, _, sender, needs, _ in TABLES["frames"]:
        assert sender == ("client" if int(kind) < 16 else "daemon")
        assert needs == "" or needs in Capability.__members__ or needs == "REFUSALS"


def test_capabilities() -> None:
    found = {row[2]: int(row[1]) for row in TABLES["capabilities"]}
    assert found == {each.name: each.value for each in Capability}
    assert all(1 << int(row[0]) == int(row[1]) for row in TABLES["capabilities"])


def test_bounds() -> None:
    assert {key: int(number) for number, key, _ in TABLES["bounds"]} == {
        bound.key: bound.value for bound in Bound
    }


def test_codes() -> None:
    assert named("codes") == enumeration(Code)


def test_levels() -> None:
    assert named("levels") == enumeration(ServiceLevel)


def test_causes_of_views() -> None:
    assert named("causes of views") == {each.value: each.name for each in Cause}


def test_verbs() -> None:
    assert named("verbs") == {verb.value: verb.word for verb in Verb}


def test_kinds_of_bodies() -> None:
    assert named("kinds of bodies") == enumeration(BundleKind)


def test_packets_and_their_channels() -> None:
    assert named("packets") == enumeration(PacketKind)
    assert named("channels") == enumeration(Channel)
    found = {
        PacketKind[packet]: Channel(int(row[0]))
        for row in TABLES["channels"]
        for packet in row[2].split(", ")
    }
    assert found == {PacketKind(kind): channel for kind, channel in CHANNEL_OF.items()}


def test_control_messages() -> None:
    assert named("control messages") == enumeration(ControlKind)


def test_limits_of_sessions() -> None:
    limits = SessionLimits()
    assert {row[0]: number(row[1]) for row in TABLES["limits of sessions"]} == {
        "message": messages.MAX_MESSAGE_BYTES,
        "groups of a message": MAX_GROUPS,
        "frame before the WELCOME": frames.HELLO_FRAME_BYTES,
        "frame of a client": frames.CLIENT_FRAME_BYTES,
        "frame of a daemon": frames.DAEMON_FRAME_BYTES,
        "least bundle limit": frames.MIN_BUNDLE_LIMIT,
        "most that many names make of it": frames.MANY_NAMES_BYTES,
        "bundles without a number, of one session": limits.backlog_cap_bytes,
        "output that waits at the daemon, of one session": limits.unreliable_drop_bytes,
        "output that waits at the daemon, of one session, at most": limits.output_cap_bytes,
        "refusals that a client has not read": MOST_REPLIES,
        "time for the HELLO": HELLO_S,
        "time to read CLOSED": LINGER_S,
        "wait for a name that may be free soon": NAME_WAIT_S,
        "silence of a client with HEARTBEATS": limits.session_timeout_s,
    }


def test_sizes() -> None:
    assert {row[0]: number(row[1]) for row in TABLES["sizes"]} == {
        "version of datagrams": layout.VERSION,
        "version of sessions": frames.PROTOCOL_VERSION,
        "lowest version of packets": SPOKEN.lowest,
        "highest version of packets": SPOKEN.highest,
        "port of a daemon": DEFAULT_PORT,
        "port of TLS": TLS_PORT,
        "bytes of a name": MAX_NAME_BYTES,
        "groups of a bundle": MAX_GROUPS,
        "bytes of a message": messages.MAX_MESSAGE_BYTES,
        "bytes of a datagram": layout.MAX_DATAGRAM_BYTES,
        "bytes of a head of a datagram": layout.HEAD_BYTES,
        "version of segments": segments.SEGMENT_VERSION,
        "bytes of a head of a segment": segments.SEGMENT_HEAD_BYTES,
        "segments of a datagram": segments.MAX_SEGMENTS,
        "bytes of a packet that passes every path": view.SAFE_PACKET_BYTES,
        "daemons of a view": view.MAX_DAEMONS,
        "rings of a view": view.MAX_RINGS,
        "rings of a view without the feature `crowds`": view.PLAIN_RINGS,
        "daemons of a site": view.MOST_OF_SITE,
        "daemons that a token with columns names as waiting": token.MOST_WANTED,
        "notices in a HORIZON packet": horizon.MOST_NOTICES,
        "streams in a notice of this release": horizon.MOST_HELD,
        "parts of a control message": control.MAX_PARTS,
        "daemons of a cluster without relays": CoreConfig().many_daemons,
        "relays of a site": relays.RELAYS,
        "contacts up to which a daemon passes on around at once": relays.FEW_CONTACTS,
        "beacons of which a daemon that is no relay sends one to other sites outside its view": (
            relays.RARE
        ),
        "bytes of the packets of a RELAYED message of this release": relays.MOST_TOGETHER,
        "bytes of a RELAYED message, inflated": control.MOST_RELAYED,
        "requests in a token": token.MAX_REQUESTS,
        "ranges in an ACK": link.MAX_ACK_RANGES,
        "ranges in a RESEND": link.MAX_RESEND_RANGES,
        "fragments of a packet on a link": link.MAX_FRAGMENTS,
        "ranges of a holding in a JOIN": membership.MAX_HELD_RANGES,
        "notices of a holding in a JOIN": membership.MAX_NOTICES,
        "missing ranges of a ring in a COMMIT": membership.MAX_MISSING,
        "ranges in a JOIN, of all rings together": membership.MAX_HELD_IN_ALL,
        "notices in a JOIN, of all rings together": membership.MAX_NOTICES_IN_ALL,
        "bytes of a roster in a ROSTER message": membership.MAX_ROSTER_BYTES,
        "counters of a replay window": layout.WINDOW,
        "starts that suite 0 knows": plain.MAX_PEERS,
        "starts that suites 1 and 2 know": opening.MAX_PEERS,
        "packets beyond the held ones that are accepted": MAX_AHEAD,
        "bytes of an announcement": MAX_ANNOUNCEMENT_BYTES,
        "a clock ahead of the median that is not followed, microseconds": LEAD_US,
        "a time that is no time, microseconds ahead": FARTHEST_AHEAD_US,
        "bytes of a request for joining": joining.REQUEST_BYTES,
        "bytes of a record besides user, targets and body": RECORD_HEAD_BYTES,
    }
    assert bundle_room(1340) == 1340 - 124


def test_timings_of_each_preset() -> None:
    found = {row[0]: [float(cell) for cell in row[1:4]] for row in TABLES["timings"]}
    presets = [attrs.asdict(PRESETS[name]) for name in ("lan", "local", "wan")]
    assert found == {name: [preset[name] for preset in presets] for name in presets[0]}


def test_derived_timers() -> None:
    lan = Timing()
    assert HOLDS == 5
    assert {
        row[0]: round(number(row[2].replace(" ms", "")) / 1000, 6)
        for row in TABLES["derived timers"]
    } == {
        "answer wait": lan.answer_wait_s,
        "repeat": lan.repeat_s,
        "hold": HOLD_S,
        "silence": silence_s(lan, 1.0),
        "a repair counts as lost": lan.repair_again_s,
        "rest interval": lan.rest_interval_s,
    }


def test_windows() -> None:
    assert {row[0]: number(row[1]) for row in TABLES["windows"]} == attrs.asdict(Windows())
    assert CoreConfig().packet_limit == 1340


def test_every_checked_table_has_a_test() -> None:
    source = Path(__file__).read_text()
    missing = [name for name in TABLES if source.count(f'"{name}"') == 0]
    assert not missing, missing
