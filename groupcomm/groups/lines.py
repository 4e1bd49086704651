"""Lines: which messages of a sender were delivered, whatever sessions it has had.

Pure. A line is what one sender sends over several sessions, one behind the other, under numbers
that only rise. The table of lines is a part of the group table: it changes by events of the agreed
order, so it is equal at equal positions. docs/exactly-once.md has the states and events of a line,
and why a table may be trusted in a new view.

Source: Kafka's idempotent producer (KIP-98) keeps numbers of producers at the leader of a
partition. Unlike there nothing is compared message by message: a session goes on with a line only
once the one before has ended in the agreed order, and is told the last number that was delivered.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Final, Protocol, TypeAlias

import attrs
import msgspec
from msgspec import Meta

from groupcomm.config.roster import Roster
from groupcomm.config.versions import CARRIED, LINES
from groupcomm.config.view import MAX_DAEMONS, View
from groupcomm.config.votes import MAX_VOTES, Policy, Share, Standing, Votes
from groupcomm.events import MemberId
from groupcomm.level import ServiceLevel
from groupcomm.names import MAX_NAME_BYTES
from groupcomm.wire.bundle import LINE_BYTES, Bundle, BundleKind
from groupcomm.wire.membership import Name, Number

MOST_LINES: Final = 4096
"""The most lines that a table has: with one more the one that has ended first is forgotten."""

MOST_ROSTERS: Final = 8
"""The rosters that a table keeps: with one more since lines went on last it is trusted no more."""

_MESSAGES: Final = int(BundleKind.MESSAGES)
_FRAGMENT: Final = int(BundleKind.FRAGMENT)
_UNRELIABLE: Final = int(ServiceLevel.UNRELIABLE)

Key: TypeAlias = tuple[int, int]
"""(index of a daemon in the view, connection number): a session."""

Start: TypeAlias = tuple[int, int]
"""(number, random id) of a start of a daemon."""


class Session(Protocol):
    """A session of the group table."""

    daemon: int
    id: MemberId


_Votes: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_VOTES)]
_Session: TypeAlias = tuple[Name, Number] | None
_Id: TypeAlias = Annotated[bytes, Meta(min_length=LINE_BYTES, max_length=LINE_BYTES)]
_Row: TypeAlias = tuple[_Id, Number, _Session, _Session]


class Voters(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Who could act by a roster, as tables of lines keep it.

    `number`: that of the roster. `expected`: the number of daemons of which more than half may act;
    0 if votes decide. `tie_breaker`: the daemon with which half of the votes may come to act; "" if
    none may. `held`: the votes of each daemon.
    """

    number: Number
    expected: Number
    tie_breaker: Annotated[str, Meta(max_length=MAX_NAME_BYTES)]
    held: Annotated[tuple[tuple[Name, _Votes], ...], Meta(max_length=MAX_DAEMONS)]

    @classmethod
    def of(cls, roster: Roster) -> "Voters":
        """Return those of a roster."""
        held = tuple((entry.name, entry.share.held) for entry in roster.entries)
        tie_breaker = roster.policy.tie_breaker if roster.settled else ""
        return cls(roster.number, roster.expected or 0, tie_breaker, held)

    def others_may_act(self, names: Collection[str]) -> bool:
        """Return whether the daemons besides these could act without them, or come to do so."""
        votes = Votes(
            shares={name: Share(votes=held, held=held) for name, held in self.held},
            policy=Policy(tie_breaker=self.tie_breaker),
            settled=bool(self.tie_breaker),
            expected=self.expected or None,
        )
        others = [name for name, _ in self.held if name not in names]
        return votes.standing(others) is not Standing.MINORITY


class LineTable(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A table of lines as one daemon announces it, for all that have come along with it.

    `direct`: whether lines went on in the last view of these daemons, so that they come from there
    directly. `rosters` are `Lines.since`. For the others see `Lines`.
    """

    stamp: Number
    direct: bool
    table: Annotated[bytes, Meta(max_length=16)]
    forgotten: Number
    rosters: Annotated[tuple[Voters, ...], Meta(max_length=MOST_ROSTERS)]
    vouchers: Annotated[tuple[tuple[Number, Number], ...], Meta(max_length=MAX_DAEMONS)]
    rows: Annotated[tuple[_Row, ...], Meta(max_length=MOST_LINES)]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(LineTable).decode


@attrs.frozen
class LineRules:
    """What decides whether lines may go on in a view; all its daemons have the same.

    Attributes:
        majority: whether the daemons of the view may act for all; None if that is unknown.
        roster: the roster of the view. What a daemon knows of later or earlier ones by itself does
            not count here, as others may not know it; see `Lines.since`.
    """

    majority: bool | None = None
    roster: Roster | None = None

    def is_majority(self, names: Collection[str]) -> bool:
        """Return whether these daemons are a majority by themselves, in the roster of the view."""
        return self.roster is not None and bool(self.roster.has_majority(names))


NO_LINES: Final = LineRules()
"""No line may go on, as nobody knows what is a majority."""


class Line:
    """One line.

    Attributes:
        id: its id.
        last: the number of its last delivered message; 0 before the first.
        holder: the session that sends it; None if that has ended.
        next: the session that goes on with it once the holder has ended.
        next_key: the key of that session in this view.
    """

    __slots__ = ("holder", "id", "last", "next", "next_key")

    def __init__(self, line_id: bytes, last: int = 0) -> None:
        self.id, self.last = line_id, last
        self.holder: MemberId | None = None
        self.next: MemberId | None = None
        self.next_key: Key | None = None


class Lines:
    """The table of lines.

    Attributes:
        known: the lines by their ids; those without a session in the order in which they ended.
        held: the lines that sessions send, by session. Each delivery looks here.
        why_not: why no line may go on in this view; "" if they may.
        stamp: the counter of the last view in which lines went on; 0 before the first.
        table: the key of the view in which this table began; another one knows nothing of it.
        forgotten: the number of lines that were forgotten as there were too many.
        vouchers: the starts of daemons that have been in a view in which lines went on.
        since: the rosters of the views from then on, as far as they have begun here. By any of
            them others may have acted meanwhile.
    """

    __slots__ = (
        "_ended",
        "_waiting",
        "forgotten",
        "held",
        "known",
        "since",
        "stamp",
        "table",
        "vouchers",
        "why_not",
    )

    def __init__(self) -> None:
        self._clear("no view has begun")

    def _clear(self, why_not: str) -> None:
        self.known: dict[bytes, Line] = {}
        self.held: dict[Key, Line] = {}
        self._waiting: dict[Key, Line] = {}
        self._ended = OrderedDict[bytes, None]()  # those without a session, the first first
        self.why_not = why_not
        self.stamp = self.forgotten = 0
        self.table = b""
        self.vouchers: frozenset[Start] = frozenset()
        self.since: tuple[Voters, ...] = ()

    # ---- events of the order ----

    def note(self, key: Key, bundle: Bundle) -> None:
        """Note that a bundle of a session was delivered."""
        line = self.held.get(key)
        if line is None or bundle.level == _UNRELIABLE:
            return
        if bundle.kind == _MESSAGES:
            line.last = max(line.last, bundle.message + bundle.count - 1)
        elif bundle.index == bundle.count - 1:
            line.last = max(line.last, bundle.message)

    def claim(self, line_id: bytes, key: Key, member: MemberId) -> MemberId | None:
        """Let a session go on with a line; return the session that has to end first, if any.

        That is the session itself if there are too many lines that are in use.
        """
        line = self.known.get(line_id)
        if line is None:
            if len(self.known) >= MOST_LINES and not self._forget_one():
                return member
            line = self.known[line_id] = Line(line_id)
        if line.holder is None or line.holder == member:
            self._ended.pop(line_id, None)
            line.holder = member
            self.held[key] = line
            return None
        ends = line.next or line.holder
        if line.next_key is not None:
            del self._waiting[line.next_key]
        line.next, line.next_key = member, key
        self._waiting[key] = line
        return ends

    def give_up(self, line_id: bytes, key: Key) -> None:
        """Forget a line, as the session that holds it needs it no more."""
        line = self.held.get(key)
        if line is not None and line.id == line_id and line.next is None:
            del self.known[line_id], self.held[key]

    def end(self, key: Key) -> tuple[Key, MemberId] | None:
        """Note that a session has ended; return the one that goes on with its line, if any."""
        waited = self._waiting.pop(key, None)
        if waited is not None:
            waited.next = waited.next_key = None
        line = self.held.pop(key, None)
        return None if line is None else self._pass_on(line)

    def _pass_on(self, line: Line) -> tuple[Key, MemberId] | None:
        key, line.holder = line.next_key, line.next
        line.next = line.next_key = None
        if line.holder is None or key is None:
            self.known[line.id] = self.known.pop(line.id)
            self._ended[line.id] = None
            return None
        del self._waiting[key]
        self.held[key] = line
        return key, line.holder

    def _forget_one(self) -> bool:
        """Forget the line that has ended first; return whether there is one."""
        if not self._ended:
            return False
        line_id, _ = self._ended.popitem(last=False)
        del self.known[line_id]
        self.forgotten += 1
        return True

    def waits(self, key: Key) -> bool:
        """Return whether a session goes on with a line once another one has ended."""
        return key in self._waiting

    # ---- the beginning of a view ----

    def announce(self) -> bytes:
        """Return the table as it is announced to daemons that come from elsewhere."""
        rows = tuple((i, e.last, _row_of(e.holder), _row_of(e.next)) for i, e in self.known.items())
        vouchers = tuple(sorted(self.vouchers))
        head = (self.stamp, not self.why_not, self.table, self.forgotten, self.since)
        return _encode(LineTable(*head, vouchers, rows))

    def begin(
        self,
        view: View,
        rules: LineRules,
        parts: Iterable[tuple[Collection[int], bytes]],
        sessions: Mapping[str, Session],
    ) -> None:
        """Begin a view: all its daemons compute the same table.

        Args:
            view: the view.
            rules: what decides whether lines go on in it.
            parts: daemons that have come together, by their indices, and the table that the first
                of them has announced. None if all have come together.
            sessions: the sessions of the view, by private name.
        """
        if view.versions.features & (LINES | CARRIED) != LINES | CARRIED:
            self._clear("a daemon of the cluster is of an earlier release, and keeps no such table")
            return
        names = [daemon.name for daemon in view.daemons]
        starts = [(daemon.number, daemon.incarnation.random_id) for daemon in view.daemons]
        found = [(daemons, decode_table_untrusted(raw)) for daemons, raw in parts]
        if found:
            vouchers = {starts[i] for daemons, table in found if table for i in daemons}
            named = {start for _, table in found if table for start in table.vouchers}
            leading = (t for own, t in found if rules.is_majority({names[i] for i in own}))
            self._adopt([table for _, table in found if table], next(leading, None))
            self.vouchers = frozenset(vouchers & named)
        elif not self.table:
            self.vouchers = frozenset()
        self.vouchers &= frozenset(starts)
        self.why_not = _why_not(rules.majority)
        self._note_roster(rules.roster)
        if not self.why_not:
            vouch = [n for n, start in zip(names, starts, strict=True) if start in self.vouchers]
            if not self.table or any(each.others_may_act(vouch) for each in self.since):
                self.known, self.forgotten, self.table = {}, 0, view.key
            self.stamp, self.vouchers = view.id.counter, frozenset(starts)
            self.since = self.since[-1:]
        self._find(sessions)

    def _note_roster(self, roster: Roster | None) -> None:
        """Note the roster of the view that begins; with too many the table is trusted no more."""
        if roster is None:
            return
        voters = Voters.of(roster)
        self.since = (*(each for each in self.since if each != voters), voters)
        if len(self.since) > MOST_ROSTERS:
            self.known, self.forgotten, self.table, self.since = {}, 0, b"", (voters,)

    def _adopt(self, tables: list[LineTable], leading: LineTable | None) -> None:
        """Take over the latest table; of several that are equally late that of those who come from
        there directly; of several such ones `leading`, that of a majority, or what they have in
        common."""
        self.stamp = max((each.stamp for each in tables), default=0)
        latest = [each for each in tables if each.stamp == self.stamp]
        latest = [each for each in latest if each.direct] or latest
        self.known, self.table, self.forgotten, self.since = {}, b"", 0, ()
        if not latest:
            return
        self.since = _since(latest, tables)
        first = leading if leading in latest else latest[0]
        self.table = first.table
        self.forgotten = max(each.forgotten for each in latest)
        others = [{row[0]: row for row in each.rows} for each in latest if each is not first]
        for row in first.rows:
            rows = [each.get(row[0]) for each in others]
            if first is leading:
                line = Line(row[0], row[1])
            elif None in rows:
                continue
            else:
                line = Line(row[0], min(each[1] for each in (row, *rows) if each))
            if all(each == row for each in rows):
                line.holder, line.next = map(_session, row[2:])
            self.known[row[0]] = line

    def _find(self, sessions: Mapping[str, Session]) -> None:
        """Find the sessions of lines among those of the view; the others have ended."""
        self.held, self._waiting = {}, {}
        self._ended = OrderedDict((i, None) for i, each in self.known.items() if not each.holder)
        for line in list(self.known.values()):
            holder = _found(line.holder, sessions)
            line.next_key = _found(line.next, sessions)
            if line.next_key is None:
                line.next = None
            else:
                self._waiting[line.next_key] = line
            if holder is not None:
                self.held[holder] = line
            elif line.holder is not None:
                self._pass_on(line)


def _since(latest: list[LineTable], tables: list[LineTable]) -> tuple[Voters, ...]:
    """Return the rosters by which others may have acted since the latest tables."""
    first = min((each.number for table in latest for each in table.rosters), default=0)
    every = {each for table in tables for each in table.rosters if each.number >= first}
    return tuple(sorted(every, key=_encode))


def _row_of(member: MemberId | None) -> tuple[str, int] | None:
    return None if member is None else (member.name, member.connection)


def _session(row: tuple[str, int] | None) -> MemberId | None:
    return None if row is None else MemberId(*row)


def _found(member: MemberId | None, sessions: Mapping[str, Session]) -> Key | None:
    """Return the session of a view that a table names; None if it has ended."""
    found = None if member is None else sessions.get(member.name)
    if found is None or found.id != member:
        return None
    return found.daemon, found.id.connection


def _why_not(majority: bool | None) -> str:
    """Return why no line may go on among daemons with this majority; "" if they may."""
    if majority:
        return ""
    if majority is None:
        return "it is not known whether the daemons that hear each other are a majority"
    return "the daemons that hear each other are no majority"


def decode_table_untrusted(raw: bytes) -> LineTable | None:
    """Return an announced table; None if there is none, or it breaks its layout."""
    try:
        found = _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    ids = {row[0] for row in found.rows}
    sessions = [each for row in found.rows for each in row[2:] if each is not None]
    alike = len(ids) < len(found.rows) or len(set(sessions)) < len(sessions)
    return None if alike else found
