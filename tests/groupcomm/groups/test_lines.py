"""The table of lines: who sends a line, what was delivered of it, and which table a view has."""

from collections.abc import Collection
from copy import deepcopy

import attrs
import pytest

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.roster import Roster, RosterEntry
from groupcomm.config.versions import LINES, SPOKEN, Versions
from groupcomm.config.view import DaemonId, Incarnation, View
from groupcomm.events import MemberId
from groupcomm.groups import lines as module
from groupcomm.groups.lines import Line, LineRules, Lines, decode_table_untrusted
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import Bundle, BundleKind, decode_body_untrusted, encode_body
from groupcomm.wire.messages import encode_fragment
from tests.groupcomm.looked_at import LookedAt
from tests.groupcomm.wire.payloads import encode_messages

ALL = "abc"
L, M = b"l" * 16, b"m" * 16


@attrs.define
class Known:
    """A session of the group table."""

    daemon: int
    id: MemberId


def member(number: int, daemon: str = "a") -> MemberId:
    return MemberId(f"#u{number}#{daemon}", number)


def view_of(counter: int, starts: dict[str, int], versions: Versions = SPOKEN) -> View:
    """A view of these daemons, each with the number of its start."""
    daemons = tuple(DaemonId(name, Incarnation(start, start)) for name, start in starts.items())
    rings = (tuple(range(len(daemons))),)
    return View(id=ViewId(counter, "a", 1), daemons=daemons, rings=rings, versions=versions)


def roster(names: str, number: int = 0) -> Roster:
    """Daemons with a vote each, after so many changes."""
    entries = tuple(RosterEntry(name=name, site="s") for name in names)
    return Roster(entries=entries, number=number)


THREE = roster(ALL)


def rules(view: View, by: Roster = THREE) -> LineRules:
    """Those of a view with this roster."""
    return LineRules(by.has_majority([daemon.name for daemon in view.daemons]), by)


def begin(
    view: View, parts: dict[str, Lines], known: Collection[Known] = (), by: Roster = THREE
) -> Lines:
    """The table that all daemons of a view have, of those that have come together: "ab"."""
    names = [daemon.name for daemon in view.daemons]
    announced = [
        ([names.index(name) for name in part], lines.announce()) for part, lines in parts.items()
    ]
    sessions = {each.id.name: each for each in known}
    tables: list[Lines] = []
    for own in parts.values():
        taken = deepcopy(own)
        taken.begin(view, rules(view, by), announced if len(announced) > 1 else [], sessions)
        tables.append(taken)
    assert len({table.announce() for table in tables}) == 1
    return tables[0]


def fresh() -> Lines:
    return begin(view_of(1, {"a": 1, "b": 1, "c": 1}), {"abc": Lines()})


def bundle(number: int, count: int = 1) -> Bundle:
    payload = encode_messages([(0, b"x")] * count)
    return decode_body_untrusted(
        encode_body(BundleKind.MESSAGES, ServiceLevel.FIFO, 0, number, ("g",), payload, 0, count)
    )


def fragment(number: int, index: int) -> Bundle:
    payload = encode_fragment(0, 4, b"xx")
    return decode_body_untrusted(
        encode_body(BundleKind.FRAGMENT, ServiceLevel.AGREED, 0, number, ("g",), payload, index, 2)
    )


def test_a_line_counts_whole_messages_of_its_holder_alone() -> None:
    lines = fresh()
    assert lines.claim(L, (0, 1), member(1)) is None
    lines.note((0, 1), bundle(3, count=4))
    lines.note((0, 2), bundle(90))
    lines.note((0, 1), fragment(9, 0))
    assert lines.known[L].last == 6
    lines.note((0, 1), fragment(9, 1))
    assert lines.known[L].last == 9


def test_the_next_session_goes_on_once_the_one_before_has_ended() -> None:
    lines = fresh()
    lines.claim(L, (0, 1), member(1))
    assert lines.claim(L, (1, 2), member(2, "b")) == member(1)
    lines.note((0, 1), bundle(5))  # what the holder had sent still counts
    assert lines.claim(L, (2, 3), member(3, "c")) == member(2, "b"), "it is ended, as it waits"
    assert lines.end((1, 2)) is None
    assert lines.end((0, 1)) == ((2, 3), member(3, "c"))
    assert lines.held[2, 3].last == 5
    assert lines.end((2, 3)) is None
    assert lines.known[L].holder is None


def test_a_line_is_given_up_by_its_holder_alone() -> None:
    lines = fresh()
    lines.claim(L, (0, 1), member(1))
    lines.give_up(L, (0, 2))
    assert L in lines.known
    lines.give_up(L, (0, 1))
    assert not lines.known
    assert not lines.held


def test_of_too_many_the_one_that_ended_first_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LINES", 2)
    lines = fresh()
    for number, name in enumerate((L, M)):
        lines.claim(name, (0, number), member(number))
    assert lines.claim(b"n" * 16, (0, 5), member(5)) == member(5), "all are in use"
    lines.end((0, 1))
    lines.end((0, 0))
    assert lines.claim(b"n" * 16, (0, 5), member(5)) is None
    assert (set(lines.known), lines.forgotten) == ({L, b"n" * 16}, 1)


def test_no_session_costs_a_look_at_all_lines() -> None:
    lines = fresh()
    lines.known = known = LookedAt[bytes, Line]()
    for number in range(3 * module.MOST_LINES):
        line_id = number.to_bytes(16, "big")
        lines.claim(line_id, (0, number), member(number))
        lines.claim(line_id, (1, number), member(number, "b"))
        lines.end((0, number))
        lines.end((1, number))
    assert (len(lines.known), lines.forgotten) == (module.MOST_LINES, 2 * module.MOST_LINES)
    assert known.looks == 0


def test_a_view_looks_at_all_lines_but_once() -> None:
    lines = fresh()
    for number in range(module.MOST_LINES):
        lines.claim(number.to_bytes(16, "big"), (number % 2, number), member(number))
    lines.known = known = LookedAt(lines.known)
    known.looks = 0
    stay = {member(n).name: Known(0, member(n)) for n in range(0, module.MOST_LINES, 2)}
    view = view_of(2, {"a": 1, "c": 1})
    lines.begin(view, rules(view), [], stay)
    assert len(lines.held) == module.MOST_LINES // 2
    assert known.looks <= 2, "for those that have ended, and for the sessions of all"


def test_a_line_goes_on_in_a_view_of_those_that_come_along() -> None:
    lines = fresh()
    lines.claim(L, (0, 1), member(1))
    lines.note((0, 1), bundle(5))
    going = Known(0, member(1))
    view = view_of(2, {"a": 1, "b": 1})
    after = begin(view, {"ab": lines}, [going])
    assert (after.why_not, after.stamp, after.held[0, 1].last) == ("", 2, 5)
    alone = begin(view, {"ab": lines})
    assert alone.known[L].holder is None, "its session has ended"


def test_without_a_majority_no_line_goes_on_and_the_table_stays() -> None:
    lines = fresh()
    lines.claim(L, (0, 1), member(1))
    lines.note((0, 1), bundle(5))
    after = begin(view_of(2, {"a": 1}), {"a": lines})
    assert "no majority" in after.why_not
    assert (after.stamp, after.table, after.known[L].last) == (1, lines.table, 5)


def test_the_table_of_the_latest_majority_counts() -> None:
    early, late = fresh(), fresh()
    early.claim(L, (0, 1), member(1))
    early.note((0, 1), bundle(9))  # cut off: nobody else has these
    late.claim(L, (0, 1), member(1))
    late.note((0, 1), bundle(4))
    late = begin(view_of(2, {"b": 1, "c": 1}), {"bc": late})
    back = begin(view_of(3, {"a": 1, "b": 1, "c": 1}), {"a": early, "bc": late})
    assert (back.known[L].last, back.table) == (4, early.table)


def parted(*lasts: int) -> list[Lines]:
    """Tables of daemons that were in one view, with the line up to a number each."""
    tables = [fresh() for _ in lasts]
    for lines, last in zip(tables, lasts, strict=True):
        lines.claim(L, (0, 1), member(1))
        lines.note((0, 1), bundle(last))
    return tables


def test_of_equally_late_tables_counts_what_they_have_in_common() -> None:
    one, other, third = parted(9, 4, 7)
    one.claim(M, (0, 2), member(2))
    view = view_of(3, {"a": 1, "b": 1, "c": 1})
    known = [Known(0, member(1)), Known(0, member(2))]
    both = begin(view, {"a": one, "b": other, "c": third}, known)
    assert (set(both.known), both.known[L].last) == ({L}, 4)
    assert both.known[L].holder is None, "its daemon has delivered what others have not"


def test_of_equally_late_tables_counts_that_of_a_majority() -> None:
    """Its daemons have parted from nobody that could go on without them."""
    known = [Known(0, member(1)), Known(0, member(2))]
    for majority, minority in ((9, 4), (4, 9)):
        lines, alone = parted(majority, minority)
        lines.claim(M, (0, 2), member(2))
        for parts in ({"ab": lines, "c": alone}, {"a": alone, "bc": lines}):
            both = begin(view_of(3, {"a": 1, "b": 1, "c": 1}), parts, known)
            assert (set(both.known), both.known[L].last) == ({L, M}, majority)
            assert both.known[L].holder is None, "its daemon may have delivered something else"


def test_of_equally_late_tables_counts_that_of_those_who_come_directly() -> None:
    """They were in no view without a majority: what they have delivered is on the line."""
    direct, other = fresh(), fresh()
    for lines, last in ((direct, 9), (other, 4)):
        lines.claim(L, (0, 1), member(1))
        lines.note((0, 1), bundle(last))
    minor = begin(view_of(2, {"c": 1}), {"c": other})
    view = view_of(3, {"a": 1, "b": 1, "c": 1})
    after = begin(view, {"ab": direct, "c": minor}, [Known(0, member(1))])
    assert (after.known[L].last, after.known[L].holder) == (9, member(1))


def test_a_daemon_that_was_started_anew_loses_nothing_alone() -> None:
    lines = fresh()
    lines.claim(L, (0, 1), member(1))
    lines.note((0, 1), bundle(9))
    without = begin(view_of(2, {"b": 1, "c": 1}), {"bc": lines})
    back = begin(view_of(3, {"a": 2, "b": 1, "c": 1}), {"a": Lines(), "bc": without})
    assert (back.table, back.known[L].last) == (lines.table, 9)


def test_a_table_that_a_majority_may_have_gone_beyond_is_not_trusted() -> None:
    lines = fresh()
    lines.claim(L, (0, 1), member(1))
    alone = begin(view_of(2, {"a": 1}), {"a": lines})
    back = begin(view_of(5, {"a": 1, "b": 2}), {"a": alone, "b": Lines()})
    assert (back.table != lines.table, back.known) == (True, {})
    assert not back.why_not


def test_what_others_may_have_done_by_a_roster_in_between_counts() -> None:
    """With e, whom all have added, c and d may act without a and b, and take d out again."""
    for between, counts in ((roster("abcd"), False), (roster("abcde", 1), True)):
        lines = begin(view_of(1, dict.fromkeys("abcd", 1)), {"abcd": Lines()}, by=roster("abcd"))
        alone = begin(view_of(2, {"a": 1, "b": 1}), {"ab": lines}, by=between)
        parts = {"ab": alone, "c": Lines()}
        back = begin(view_of(5, {"a": 1, "b": 1, "c": 2}), parts, by=roster("abce", 2))
        assert (back.table != lines.table) == counts


def test_an_earlier_roster_of_a_daemon_that_was_away_does_not_count() -> None:
    """b was alone while d and e were taken out; c, d and e have not acted since by the first."""
    first = begin(view_of(1, dict.fromkeys("abcde", 1)), {"abcde": Lines()}, by=roster("abcde"))
    alone = begin(view_of(2, {"b": 1}), {"b": first}, by=roster("abcde"))
    lines = begin(view_of(3, {"a": 1, "c": 1}), {"ac": first}, by=roster("abc", 2))
    back = begin(view_of(4, {"a": 1, "b": 1}), {"a": lines, "b": alone}, by=roster("abc", 2))
    assert back.table == lines.table


def test_beyond_too_many_rosters_no_table_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = fresh()
    monkeypatch.setattr(module, "MOST_ROSTERS", 2)
    one = begin(view_of(2, {"a": 1}), {"a": lines}, by=roster(ALL, 1))
    assert one.table == lines.table
    two = begin(view_of(3, {"a": 1}), {"a": one}, by=roster(ALL, 2))
    assert (two.table, two.known) == (b"", {})


def test_who_has_only_heard_of_a_table_does_not_vouch_for_it() -> None:
    """The start of b before was in a later view with c; its new one has an old table from a."""
    lines = fresh()
    minor = begin(view_of(4, {"a": 1}), {"a": lines})
    heard = Lines()
    heard.begin(
        view_of(5, {"a": 1, "b": 2}),
        LineRules(majority=False),
        [((0,), minor.announce()), ((1,), b"")],
        {},
    )
    back = begin(view_of(6, {"a": 1, "b": 2}), {"ab": heard})
    assert back.table != lines.table


def test_daemons_of_an_earlier_release_keep_no_table() -> None:
    lines = fresh()
    lines.claim(L, (0, 1), member(1))
    old = Versions(highest=SPOKEN.highest, features=SPOKEN.features & ~LINES)
    mixed = begin(view_of(2, {"a": 1, "b": 1, "c": 1}, old), {"abc": lines})
    assert "earlier release" in mixed.why_not
    assert not mixed.known
    after = begin(view_of(3, {"a": 1, "b": 1, "c": 1}), {"abc": mixed})
    assert after.table != lines.table


def test_a_table_that_names_something_twice_counts_as_none() -> None:
    lines = fresh()
    lines.claim(L, (0, 1), member(1))
    lines.claim(M, (0, 1), member(1))
    assert decode_table_untrusted(lines.announce()) is None
    assert decode_table_untrusted(b"") is None
