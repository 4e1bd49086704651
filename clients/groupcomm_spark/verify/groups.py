"""Checks of the views of groups and of daemons: few rows, compared on the driver."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from groupcomm.names import daemon_of
from groupcomm_log.view_periods import FIRST, NEVER, Key
from groupcomm_spark.verify.comparing import Views
from groupcomm_spark.verify.periods import FOR_EVER, Change, LogPeriod, are_together
from groupcomm_spark.verify.verdict import DAEMONS_VIEW, GROUP_VIEW, VS_SET, Violation

BEGIN: Final[Key] = (0, 0, 0, 0)
"""Position of the group views with which a view of daemons begins."""


def check_groups(periods: Sequence[LogPeriod], views: Views) -> Iterator[Violation]:
    """Yield the violations of group views."""
    for period in periods:
        yield from _check_period(period)
    for peers in views.values():
        yield from _compare(peers)


# ---- groups of one log ----


def _check_period(period: LogPeriod) -> Iterator[Violation]:
    members: dict[str, tuple[str, ...]] = {}
    for change in period.changes:
        for name, why in _contradictions(period, change, members.get(change.group)):
            yield Violation(name, (period.log,), change.row, f"{_describe(change)}: {why}")
        members[change.group] = change.members
    if period.start == FIRST and period.next_view is not None:
        for group in sorted(period.joined):
            if group not in members:
                why = f"in view {period.view} {period.member} received no view of {group}"
                yield Violation(GROUP_VIEW, (period.log,), period.first, why)


def _contradictions(
    period: LogPeriod, change: Change, before: tuple[str, ...] | None
) -> Iterator[tuple[str, str]]:
    """Yield the names of the rules that a group view breaks, and why."""
    members, changed = change.members, change.changed
    joins, network = change.cause == "join", change.cause == "network"
    if before is not None and not network:
        wanted = [*before, *changed] if joins else [name for name in before if name not in changed]
        if list(members) != wanted:
            yield GROUP_VIEW, f"the view before had {' '.join(before)}"
    elif not network and any((name in members) is not joins for name in changed):
        yield GROUP_VIEW, "the changed session is" + (" not" if joins else " still") + " a member"
    if period.member and period.member not in members and period.member not in changed:
        yield GROUP_VIEW, f"{period.member} received it and is not a member"
    strangers = [name for name in members if daemon_of(name) not in (period.daemons or ())]
    if period.daemons is not None and strangers:
        yield GROUP_VIEW, f"the daemon of {' '.join(strangers)} is not in the view"
    if not period.member:
        return
    if network:
        if period.member not in change.vs_set or not set(change.vs_set) <= set(members):
            yield VS_SET, f"{period.member} comes along with members, itself among them"
        return
    came = [period.member] if joins and period.member in changed else _without(members, changed)
    if period.member in members and list(change.vs_set) != came:
        yield VS_SET, f"along came {' '.join(came)}"


def _without(members: tuple[str, ...], changed: tuple[str, ...]) -> list[str]:
    return [name for name in members if name not in changed]


# ---- groups of several logs ----


def _compare(peers: Sequence[LogPeriod]) -> Iterator[Violation]:
    for one, other in combinations(peers, 2):
        start, end = max(one.start, other.start), _end(one, other)
        if start == NEVER:
            continue
        mine, theirs = (
            {
                (each.key, each.group): each
                for each in period.changes
                if start <= each.key <= end and each.group in one.joined & other.joined
            }
            for period in (one, other)
        )
        for key in sorted({*mine, *theirs}):
            yield from _compare_changes(one, other, mine.get(key), theirs.get(key))


def _end(one: LogPeriod, other: LogPeriod) -> Key:
    """Return the position up to which both have everything that is agreed."""
    return NEVER if are_together(one, other) else min(one.regular_end, other.regular_end)


def _compare_changes(
    one: LogPeriod, other: LogPeriod, mine: Change | None, theirs: Change | None
) -> Iterator[Violation]:
    if mine is None or theirs is None:
        has, lacks, change = (one, other, mine) if mine is not None else (other, one, theirs)
        assert change is not None
        if change.key == BEGIN and lacks.next_view is None and lacks.regular_end <= BEGIN:
            return  # the period may have ended before the view was delivered
        why = f"{_describe(change)}: {lacks.log} lacks it"
        yield Violation(GROUP_VIEW, (has.log, lacks.log), change.row, why)
        return
    logs = one.log, other.log
    if (mine.members, mine.changed, mine.cause) != (theirs.members, theirs.changed, theirs.cause):
        why = f"{_describe(mine)}; in {other.log} row {theirs.row}: {_describe(theirs)}"
        yield Violation(GROUP_VIEW, logs, mine.row, why)
    elif (other.member in mine.vs_set or one.member in theirs.vs_set) and (
        mine.vs_set != theirs.vs_set
    ):
        why = (
            f"{_describe(mine)}, along came {' '.join(mine.vs_set)};"
            f" in {other.log} row {theirs.row}: {' '.join(theirs.vs_set)}"
        )
        yield Violation(VS_SET, logs, mine.row, why)


def _describe(change: Change) -> str:
    place = f"{change.view}/{'.'.join(map(str, change.key))}"
    changed = f"{change.cause} {' '.join(change.changed)}".rstrip()
    return f"{place} {change.group}: {changed}, members {' '.join(change.members)}"


# ---- views of daemons ----


def check_daemons(periods: Sequence[LogPeriod]) -> Iterator[Violation]:
    """Yield the violations of views of daemons."""
    first: dict[str, LogPeriod] = {}
    for period, before in zip(periods, [None, *periods[:-1]], strict=True):
        if period.view is None or period.daemons is None or period.is_behind_gap:
            continue
        told = f"view {period.view} of {' '.join(period.daemons)}"
        one = first.setdefault(period.view, period)
        if (one.daemons, one.majority) != (period.daemons, period.majority):
            why = f"{told} ({period.majority}); in {one.log} {' '.join(one.daemons or ())}"
            logs = period.log, one.log
            yield Violation(DAEMONS_VIEW, logs, period.first, f"{why} ({one.majority})")
        if period.member and daemon_of(period.member) not in period.daemons:
            why = f"{told}: the daemon of {period.member} is not in it"
            yield Violation(DAEMONS_VIEW, (period.log,), period.first, why)
        if before is not None and _follows(before, period) and not _is_above(period, before):
            why = f"{told}: the view before was {before.view}"
            yield Violation(DAEMONS_VIEW, (period.log,), period.first, why)
        if period.transition not in (FOR_EVER, period.first) and period.end <= period.transition:
            why = f"{told}: its regular part is over after its end"
            yield Violation(DAEMONS_VIEW, (period.log,), period.first, why)


def _follows(before: LogPeriod, period: LogPeriod) -> bool:
    same = (before.log, before.session) == (period.log, period.session)
    return same and before.view is not None


def _is_above(period: LogPeriod, before: LogPeriod) -> bool:
    return _order(period.view) > _order(before.view)


def _order(view: str | None) -> tuple[int, str, int]:
    """Return a key for the id of a view: ids compare by counter, daemon, incarnation."""
    counter, _, rest = (view or "").partition(".")
    daemon, _, incarnation = rest.rpartition(".")
    return int(counter or 0), daemon, int(incarnation or "0", 16)
