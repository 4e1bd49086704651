"""The ring table says of each stream what the specification of locality says."""

from collections.abc import Iterator
from typing import Final

from hypothesis import example, given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import Position, Stamp, ViewId
from groupcomm.events import MemberId
from groupcomm.groups.ring_table import NOTHING, RingTable, Wait
from groupcomm.groups.table import GroupTable
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import Bundle, BundleKind
from groupcomm.wire.data import DataPacket
from tests.verification.specification.locality import Cluster, Content, Entry, Kind, entries_of

DAEMONS: Final = ["a", "c", "b"]
HOMES: Final = {"p": 0, "t": 0, "r": 1, "q": 2}
"""By session, the daemon; the first two are of the ring, and its sessions are p, r and t."""

AGREED: Final = ServiceLevel.AGREED
GROUPS: Final = ("g", "h", "k")
OWN: Final = st.sampled_from("prt")
NAMES: Final = ("g", "h", "k", "#p", "#r")

MESSAGES = st.builds(
    lambda names, session, safe: Content(Kind.MESSAGE, tuple(sorted(names)), session, safe),
    st.sets(st.sampled_from((*NAMES, "#q")), min_size=1, max_size=2),
    OWN,
    st.booleans(),
)
CHANGES = st.builds(
    lambda kind, group, session: Content(kind, (group,), session),
    st.sampled_from((Kind.JOIN, Kind.LEAVE)),
    st.sampled_from(GROUPS),
    OWN,
)
MARKS = st.builds(
    lambda kind, name: Content(kind, (name,)),
    st.sampled_from((Kind.WIDE, Kind.NARROW)),
    st.sampled_from(NAMES),
)
STREAMS = st.lists(st.one_of(MESSAGES, MESSAGES, CHANGES, MARKS), max_size=14)
MEMBERS = st.frozensets(st.tuples(st.sampled_from("prtq"), st.sampled_from(GROUPS)), max_size=6)


def real(name: str) -> str:
    return f"{name}#{DAEMONS[HOMES[name[1:]]]}" if name[0] == "#" else name


def table_of(members: frozenset[tuple[str, str]]) -> RingTable:
    table, found = GroupTable(0), RingTable((0, 1), DAEMONS)
    start = Position(ViewId(1, "a", 1), 0, 0, 0, 0)
    for number, (session, daemon) in enumerate(HOMES.items(), 1):
        member = table.connect(daemon, MemberId(real("#" + session), number))
        for _, group in sorted(pair for pair in members if pair[0] == session):
            table.join(member, group, start)
        found.add(member)
    return found


def packet_of(number: int, content: Content) -> DataPacket:
    kind = BundleKind.MESSAGES
    level = ServiceLevel.SAFE if content.safe else AGREED
    if content.kind is not Kind.MESSAGE:
        kind = BundleKind[content.kind.name]
    groups = tuple(map(real, content.names))
    privates = sum(group[0] == "#" for group in groups)
    bundle = Bundle(kind, level, 0, 1, 0, 1, groups, privates, b"", 14)
    bundle.session = [*HOMES].index(content.session) + 1
    return DataPacket(
        ring=0,
        number=number,
        time=10 * number,
        daemon=HOMES[content.session],
        previous=number - 1,
        bundles=[bundle],
        local_only=True,
        safe=content.safe,
    )


def follow(table: RingTable, stream: list[Content]) -> list[Wait | None]:
    found: list[Wait | None] = []
    for number, content in enumerate(stream, 1):
        if content.kind is Kind.WIDE:
            table.widen(real(content.names[0]))
        elif content.kind is Kind.NARROW:
            table.narrow(real(content.names[0]), Wait(Stamp(10 * number, 0)))
        if content.kind in (Kind.WIDE, Kind.NARROW):
            found.append(None)
        else:
            found.append(table.classify(packet_of(number, content)))
    return found


def safe_upto(number: int, entries: tuple[Entry, ...], stream: list[Content]) -> int:
    """Return the last SAFE packet among a local one, what it waits for, and so on."""
    own = number if stream[number - 1].safe else 0
    local = [n for n in entries[number - 1].waits if entries[n - 1].local]
    return max([own, *(safe_upto(n, entries, stream) for n in local)])


@given(members=MEMBERS, stream=STREAMS)
@example(
    members=frozenset({("p", "g"), ("r", "g"), ("r", "h")}),
    stream=[
        Content(Kind.WIDE, ("h",)),
        Content(Kind.MESSAGE, ("g",), "p"),
        Content(Kind.LEAVE, ("h",), "r"),
        Content(Kind.MESSAGE, ("g",), "p"),
    ],
)
@example(
    members=frozenset({("p", "g"), ("p", "h"), ("r", "h")}),
    stream=[
        Content(Kind.JOIN, ("k",), "t"),
        Content(Kind.MESSAGE, ("h",), "t", safe=True),
        Content(Kind.MESSAGE, ("g",), "r"),
    ],
)
def test_the_table_says_what_the_specification_says_and_waits_for_no_less(
    members: frozenset[tuple[str, str]], stream: list[Content]
) -> None:
    homes = tuple((session, DAEMONS[daemon]) for session, daemon in HOMES.items())
    entries = entries_of(Cluster((("a", "c"), ("b",)), homes, members), 0, tuple(stream))
    found = follow(table_of(members), stream)
    assert [wait is not None for wait in found] == [entry.local for entry in entries]
    last_global = 0
    for number, (wait, entry) in enumerate(zip(found, entries, strict=True), 1):
        if wait is None:
            last_global = number
            continue
        assert max(entry.after, default=0) * 10 <= wait.stamp.time <= last_global * 10
        done = wait.stamp.time // 10  # what is below a global packet is delivered before it
        assert safe_upto(number, entries, stream) <= max(wait.number, done)
        assert wait.number <= number


def test_messages_of_one_group_wait_for_nothing_while_another_one_is_busy() -> None:
    members = frozenset({("p", "g"), ("r", "h"), ("q", "h")})
    busy = Content(Kind.MESSAGE, ("h",), "r")
    quiet = Content(Kind.MESSAGE, ("g",), "t")
    assert follow(table_of(members), [busy, quiet, busy, quiet]) == [None, NOTHING, None, NOTHING]


def test_what_follows_a_causal_message_waits_for_what_that_waits_for() -> None:
    table = table_of(frozenset({("p", "g")}))
    causal = packet_of(1, Content(Kind.MESSAGE, ("k",), "t"))
    causal.bundles[0].level = ServiceLevel.CAUSAL
    causal.agreed, causal.vector = Stamp(7, 1), (0, 0)
    assert table.classify(causal) is None
    message = packet_of(2, Content(Kind.MESSAGE, ("g",), "t"))
    assert table.classify(message) == Wait(Stamp(7, 1))


def test_what_follows_a_causal_message_waits_for_the_safe_ones_that_that_may_have_followed() -> (
    None
):
    table = table_of(frozenset({("p", "g"), ("r", "h")}))
    for number in (1, 3):
        safe = packet_of(number, Content(Kind.MESSAGE, ("h",), "r", safe=True))
        assert table.classify(safe) == Wait(number=number)
    for number, upto, expected in ((4, 1, 1), (6, 2, 2), (8, 7, 3)):
        causal = packet_of(number, Content(Kind.MESSAGE, ("k",), "t"))
        causal.bundles[0].level = ServiceLevel.CAUSAL
        causal.agreed, causal.vector = Stamp(0, 0), (upto, 0)
        assert table.classify(causal) is None
        message = packet_of(number + 1, Content(Kind.MESSAGE, ("g",), "t"))
        assert table.classify(message) == Wait(number=expected)


def test_a_safe_packet_that_goes_to_other_rings_is_global_though_nobody_there_gets_it() -> None:
    """They could not know that its own ring may deliver it alone, when the view ends."""
    table = table_of(frozenset({("p", "g")}))
    for safe, expected in ((True, None), (False, Wait(Stamp(10, 0)))):
        message = packet_of(1 if safe else 2, Content(Kind.MESSAGE, ("g",), "p", safe))
        message.local_only = False
        assert table.classify(message) == expected


def test_a_session_that_ends_leaves_nothing_behind() -> None:
    table = table_of(frozenset({("p", "g"), ("p", "h")}))
    before = {
        slot: len(getattr(table, slot)) for slot in ("_sessions", "_open", "_sent", "_shared")
    }
    bundle = Bundle(BundleKind.CONNECT, AGREED, 0, 1, 0, 1, (), 0, b"", 14, session=9, user="n")
    ends = Bundle(BundleKind.DISCONNECT, AGREED, 0, 1, 0, 1, (), 0, b"", 14, session=9, user="n")
    joins = Bundle(BundleKind.JOIN, AGREED, 0, 1, 0, 1, ("new",), 0, b"", 14, session=9, user="n")
    for number, each in enumerate((bundle, joins, ends), 1):
        packet = packet_of(number, Content(Kind.MESSAGE, ("g",), "p"))
        packet.bundles = [each]
        assert table.classify(packet) is None
    assert before == {slot: len(getattr(table, slot)) for slot in before}
    assert all("new" not in getattr(table, slot) for slot in ("_members", "_touched", "_marks"))
    assert "#n#a" not in table._marks


def test_a_session_that_a_liar_connects_twice_changes_nothing() -> None:
    table = table_of(frozenset({("p", "g")}))
    for kind in (BundleKind.CONNECT, BundleKind.DISCONNECT):
        packet = packet_of(1, Content(Kind.MESSAGE, ("g",), "p"))
        packet.bundles = [Bundle(kind, AGREED, 0, 1, 0, 1, (), 0, b"", 14, session=1, user="p")]
        assert table.classify(packet) is None
    table.widen("g")
    table.narrow("g")
    assert "g" not in table._members


class Crowd(set[tuple[int, int]]):
    """Members that nobody may look at one by one."""

    def __iter__(self) -> Iterator[tuple[int, int]]:
        raise AssertionError("each member costs something")


def test_messages_and_joins_cost_no_look_at_the_members_of_a_crowd() -> None:
    table = table_of(frozenset({("p", "g"), ("p", "h"), ("r", "g")}))
    table._members["g"] = Crowd(table._members["g"])
    message, joins = Content(Kind.MESSAGE, ("g",), "p"), Content(Kind.JOIN, ("g",), "t")
    leaves = Content(Kind.LEAVE, ("g",), "r")
    found = follow(table, [message, joins, message, leaves, message])
    assert found == [NOTHING, None, Wait(Stamp(20, 0)), None, Wait(Stamp(40, 0))]
