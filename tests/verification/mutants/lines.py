"""Wrong ways to keep lines: which messages of a sender were delivered, and who goes on with it."""

from typing import Any

import attrs
import msgspec

from groupcomm.config.roster import Roster
from groupcomm.config.versions import SPOKEN
from groupcomm.config.view import View
from groupcomm.engine.lines import LocalLines, Stage
from groupcomm.engine.sessions import LocalSessions
from groupcomm.events import LineGranted, MemberId
from groupcomm.groups import lines as module
from groupcomm.groups.lines import Key, Lines, Voters
from groupcomm.groups.table import GroupTable
from groupcomm.session.daemon_session import DaemonSession
from groupcomm.wire.bundle import Bundle
from groupcomm_client.line import Line, Sent
from tests.verification.mutants.mutant import Right, mutant

# ---- the table ----


@mutant((Lines, "claim"))
def line_is_granted_at_once(right: Right) -> Right:
    """A session goes on with a line before the end of the session before is in the order."""

    def claim(self: Lines, line_id: bytes, key: Key, member: MemberId) -> MemberId | None:
        ends: MemberId | None = right(self, line_id, key, member)
        line = self._waiting.pop(key, None)
        if line is None:
            return ends
        self.held = {each: other for each, other in self.held.items() if other is not line}
        line.holder, line.next, line.next_key = member, None, None
        self.held[key] = line
        return None

    return claim


@mutant((Lines, "begin"))
def last_number_is_forgotten_at_a_view(right: Right) -> Right:
    """A view begins with the lines of the one before, and without their last numbers."""

    def begin(self: Lines, *args: Any) -> None:
        right(self, *args)
        for line in self.known.values():
            line.last = 0

    return begin


@mutant((Lines, "note"))
def fragment_counts_as_a_message(right: Right) -> Right:
    """A large message counts as delivered with its first fragment."""

    def note(self: Lines, key: Key, bundle: Bundle) -> None:
        right(self, key, bundle)
        line = self.held.get(key)
        if line is not None and bundle.kind == 1:
            line.last = max(line.last, bundle.message)

    return note


@mutant((Lines, "_adopt"))
def tables_are_not_merged(right: Right) -> Right:
    """Where parts meet the table of the first daemon counts, however old it is."""

    def adopt(self: Lines, tables: list[Any], _leading: object) -> None:
        right(self, tables[:1], None)

    return adopt


@mutant((Lines, "_adopt"))
def most_that_anybody_has_counts(right: Right) -> Right:
    """Of several tables of one view the highest numbers count, whoever has delivered so much."""

    def adopt(self: Lines, tables: list[Any], leading: Any) -> None:
        right(self, tables, leading)
        for row in (row for table in tables if table.stamp == self.stamp for row in table.rows):
            if row[0] in self.known:
                self.known[row[0]].last = max(self.known[row[0]].last, row[1])

    return adopt


@mutant((Lines, "_adopt"))
def majority_does_not_lead(right: Right) -> Right:
    """Of several tables of one view what they have in common counts, though one is a majority's."""

    def adopt(self: Lines, tables: list[Any], _leading: object) -> None:
        right(self, tables, None)

    return adopt


@mutant((Lines, "_adopt"))
def who_had_no_majority_counts_as_much(right: Right) -> Right:
    """Of several tables of one view those of a minority count as much as of who stayed."""

    def adopt(self: Lines, tables: list[Any], _leading: object) -> None:
        alike = [msgspec.structs.replace(each, direct=False) for each in tables]
        right(self, alike, None)

    return adopt


@mutant((module, "_why_not"))
def minority_goes_on_with_lines(_right: Right) -> Right:
    """Lines go on without a majority, too."""

    def why_not(_majority: bool | None) -> str:
        return ""

    return why_not


@mutant((Voters, "others_may_act"))
def any_table_is_trusted(_right: Right) -> Right:
    """A table is trusted although the others could have gone on without its daemons."""

    def others_may_act(_self: Voters, _names: object) -> bool:
        return False

    return others_may_act


@mutant((Lines, "_note_roster"))
def rosters_without_lines_do_not_count(right: Right) -> Right:
    """A table forgets the rosters of views in which lines did not go on."""

    def note_roster(self: Lines, roster: Roster | None) -> None:
        since = self.since
        right(self, roster)
        if self.why_not:
            self.since = since

    return note_roster


# ---- the daemon of a session ----


@mutant((LocalLines, "grant"))
def granted_before_all_hold_it(right: Right) -> Right:
    """A session is told its line's last number before all daemons hold what that follows from."""

    def grant(self: LocalLines, connection: int, time: int) -> None:
        right(self, connection, time)
        self.tell_held(time)

    return grant


@mutant((LocalLines, "_tell_one"))
def next_session_overtakes_the_one_before(right: Right) -> Right:
    """What a session sends below AGREED does not wait for the end of the session before."""

    def tell_one(self: LocalLines, connection: int, *, in_view: bool) -> None:
        right(self, connection, in_view=False)

    return tell_one


@mutant((LocalLines, "_goes_on"))
def sessions_go_on_though_their_line_does_not(_right: Right) -> Right:
    """A session that does not have its line in the new view goes on sending."""

    def goes_on(_self: LocalLines, _connection: int, _stage: Stage) -> bool:
        return True

    return goes_on


@mutant((LocalLines, "begin"))
def what_a_lost_session_has_submitted_is_sent(right: Right) -> Right:
    """A session ends as its line does not go on; what it has submitted is sent all the same."""

    def begin(self: LocalLines, table: GroupTable) -> set[int]:
        right(self, table)
        return set()

    return begin


@mutant((LocalSessions, "end"))
def accepted_though_the_line_may_be_elsewhere(right: Right) -> Right:
    """What a view has ended with is accepted before the next one says whether the line goes on."""

    def end(self: LocalSessions) -> None:
        right(self)
        self.acceptance.postponed = frozenset()

    return end


# ---- the sender ----


@mutant((Line, "begin"))
def sender_begins_behind_what_has_no_answer(right: Right) -> Right:
    """A session goes on with new messages, and not at the first one without an answer."""

    def begin(self: Line, granted: LineGranted) -> list[Sent]:
        right(self, granted)
        self.answer(self.last)
        return []

    return begin


@mutant((Line, "begin"))
def sender_repeats_what_was_delivered(right: Right) -> Right:
    """A session sends all again that had no answer, also what was delivered."""

    def begin(self: Line, granted: LineGranted) -> list[Sent]:
        kept = list(self.kept)
        right(self, granted)
        return kept

    return begin


@mutant((Line, "begin"))
def sender_trusts_any_table(right: Right) -> Right:
    """A sender goes on with a table that knows nothing of its line."""

    def begin(self: Line, granted: LineGranted) -> list[Sent]:
        self._table = None
        return list(right(self, granted))

    return begin


# ---- daemons of an earlier release ----


@mutant((Lines, "begin"))
def lines_go_on_beside_earlier_releases(right: Right) -> Right:
    """Lines go on in a view with a daemon of an earlier release."""

    def begin(self: Lines, view: View, *args: Any) -> None:
        right(self, attrs.evolve(view, versions=SPOKEN), *args)

    return begin


@mutant((Lines, "_clear"))
def table_outlives_earlier_releases(right: Right) -> Right:
    """A table of lines is kept through views in which other daemons cannot announce theirs."""

    def clear(self: Lines, why_not: str) -> None:
        if hasattr(self, "known"):
            self.held, self._waiting, self.why_not = {}, {}, why_not
        else:
            right(self, why_not)

    return clear


@mutant((LocalLines, "allows"))
def anybody_may_give_up_a_line(right: Right) -> Right:
    """A session gives up a line that it has not, in any view."""

    def allows(self: LocalLines, session: DaemonSession, *, gives_up: bool) -> bool:
        return gives_up or bool(right(self, session, gives_up=gives_up))

    return allows


BUGS = (
    line_is_granted_at_once,
    last_number_is_forgotten_at_a_view,
    fragment_counts_as_a_message,
    tables_are_not_merged,
    most_that_anybody_has_counts,
    majority_does_not_lead,
    who_had_no_majority_counts_as_much,
    minority_goes_on_with_lines,
    any_table_is_trusted,
    rosters_without_lines_do_not_count,
    granted_before_all_hold_it,
    next_session_overtakes_the_one_before,
    sessions_go_on_though_their_line_does_not,
    what_a_lost_session_has_submitted_is_sent,
    accepted_though_the_line_may_be_elsewhere,
    sender_begins_behind_what_has_no_answer,
    sender_repeats_what_was_delivered,
    sender_trusts_any_table,
)

UPGRADE_BUGS = (
    lines_go_on_beside_earlier_releases,
    table_outlives_earlier_releases,
    anybody_may_give_up_a_line,
)
