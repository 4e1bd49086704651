"""Checks of the views of groups, on the workers, and of those of daemons, on the driver."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupcomm.names import daemon_of
from groupcomm_log.schema import VIEW
from groupcomm_log.view_periods import FIRST, KEY, NEVER, GroupChange, Key
from groupcomm_spark.reading.options import LOG
from groupcomm_spark.verify.comparing import EXAMINED, Views, bound
from groupcomm_spark.verify.periods import (
    FOR_EVER,
    Events,
    LogPeriod,
    Row,
    are_together,
    in_periods,
    make_plan,
)
from groupcomm_spark.verify.sources import Source
from groupcomm_spark.verify.verdict import DAEMONS_VIEW, GROUP_VIEW, VS_SET, Verdict, Violation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BEGIN: Final[Key] = (0, 0, 0, 0)
"""Position of the group views with which a view of daemons begins."""


@dataclass(frozen=True)
class Change(GroupChange):
    """A group view, as one session received it in a row of its log."""

    row: int
    view: str


def _change(row: Row) -> Change:
    return Change(
        row=row["row"],
        view=row["view"],
        key=tuple(row[name] for name in KEY),
        group=row["group"],
        members=tuple(row["members"]),
        changed=tuple(row["changed"]),
        cause=row["cause"],
        vs_set=tuple(row["vs_set"]),
    )


def check_groups(logs: Source, events: Events, views: Views, verdict: Verdict) -> None:
    """Check group views: those that are missing, and those of which two logs differ."""
    for period in events.periods:
        if period.start == FIRST and period.next_view is not None:
            for group in sorted(period.joined.difference(period.seen)):
                why = f"in view {period.view} {period.member} received no view of {group}"
                verdict.add(Violation(GROUP_VIEW, (period.log,), period.first, why))
    peers = {view: of_view for view, of_view in views.items() if len(of_view) > 1}
    if peers:
        _compare(logs, events, peers, verdict)


# ---- groups of one log ----


class GroupViews:
    """The checks of group views of one log, which come in the order of their rows."""

    def __init__(self) -> None:
        self._period: LogPeriod | None = None
        self._members: dict[str, tuple[str, ...]] = {}  # of each group in this period

    def contradictions(self, period: LogPeriod, change: Change) -> Iterator[tuple[str, str]]:
        """Yield the names of the rules that the next view breaks, and why."""
        if period is not self._period:
            self._period, self._members = period, {}
        before = self._members.get(change.group)
        for name, why in _contradictions(period, change, before):
            yield name, f"{_describe(change)}: {why}"
        self._members[change.group] = change.members


_daemon_of: Final = lru_cache(maxsize=65_536)(daemon_of)


def changes_of(batch: pa.RecordBatch) -> Iterator[Change]:
    """Yield rows with `row`, `view`, the key, `group` and the lists of names."""
    keys = zip(*(batch[name].to_pylist() for name in KEY), strict=True)
    plain = (batch[name].to_pylist() for name in ("row", "view", "group", "cause"))
    lists = (_lists(batch[name]) for name in ("members", "changed", "vs_set"))
    for key, row, view, group, cause, members, changed, vs_set in zip(
        keys, *plain, *lists, strict=True
    ):
        yield Change(key, group, members, changed, cause, vs_set, row, view)


def _lists(column: pa.ListArray) -> Iterator[tuple[str, ...]]:
    """Yield lists of names, each name as one object however often it occurs."""
    values = column.flatten().dictionary_encode()
    names = np.array(values.dictionary.to_pylist(), object)[values.indices.to_numpy()]
    end = 0
    for size in pc.list_value_length(column).to_pylist():
        start, end = end, end + (size or 0)
        yield tuple(names[start:end].tolist())


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
    daemons = set(period.daemons or ())
    strangers = [name for name in members if _daemon_of(name) not in daemons]
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


def _compare(logs: Source, events: Events, peers: Views, verdict: Verdict) -> None:
    """Compare the logs at each position at which not all of them have the same."""
    if any(period.log in events.many for of_view in peers.values() for period in of_view):
        found = _differing(logs.frame, events.periods, peers)
        if len(found) == EXAMINED:
            verdict.notes.append(f"only the first {EXAMINED} group views that differ were compared")
        places = _places(found)
    else:
        places = _few(events, peers)
    for place in places:
        able = [period for period in peers[place.view] if place.group in period.joined]
        for one, other in combinations(able, 2):
            mine, theirs = place.changes.get(one.number), place.changes.get(other.number)
            is_for_both = max(one.start, other.start) <= place.key <= _end(one, other)
            if is_for_both and (mine is not None or theirs is not None):
                for violation in _compare_changes(one, other, mine, theirs):
                    verdict.add(violation)


@dataclass
class _Place:
    """A position, and what each period has there: its views of one group."""

    view: str
    key: Key
    group: str
    changes: dict[int, Change] = field(default_factory=dict)


def _few(events: Events, peers: Views) -> Iterator[_Place]:
    """Yield all positions of views that were read already."""
    places: dict[tuple[str, Key, str], _Place] = {}
    for batch in events.views:
        for number, change in zip(batch["period"].to_pylist(), changes_of(batch), strict=True):
            view = events.periods[number].view
            if view in peers:
                at = view, change.key, change.group
                places.setdefault(at, _Place(*at)).changes[number] = change
    for at in sorted(places):
        yield places[at]


def _places(found: pa.Table) -> Iterator[_Place]:
    """Yield the positions that Spark found."""
    for batch in found.to_batches(max_chunksize=_AT_ONCE):
        for row in batch.to_pylist():
            at = {"view": row["view"], "group": row["group"]}
            changes = {r["period"]: _change({**r, **at, **row["key"]}) for r in row["rows"]}
            yield _Place(**at, key=tuple(row["key"].values()), changes=changes)


_AT_ONCE: Final = 50
"""Positions with lists of names that are Python's objects at a time."""


def _differing(logs: "DataFrame", periods: Sequence[LogPeriod], peers: Views) -> pa.Table:
    """Return the positions of a group at which its members' logs differ, with their rows."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

    spark = logs.sparkSession
    rows = logs.filter(f.col("kind") == VIEW).select(
        *(LOG, "row", *KEY, f.col("groups")[0].alias("group")),
        *("members", "changed", "cause", "vs_set"),
    )
    members = [
        (view, period.number, group, period.member, bound(period.start), bound(upto))
        for view, of_view in peers.items()
        for period, upto in zip(of_view, map(partial(_last, of_view), of_view), strict=True)
        for group in sorted(period.joined)
    ]
    key = f"struct<{', '.join(f'{name}: bigint' for name in KEY)}>"
    schema = f"view string, period bigint, group string, member string, start {key}, upto {key}"
    table = f.broadcast(spark.createDataFrame(members, schema))
    spans = table.groupBy("view", "group").agg(
        f.collect_list(f.struct("start", "upto")).alias("spans")
    )
    shown = f.struct(
        *("period", "row", "member", "members", "changed", "cause", "vs_set"),
        f.xxhash64("members", "changed", "cause").alias("hash"),
        f.xxhash64("vs_set").alias("vs_hash"),
    )
    return (
        in_periods(rows, make_plan(periods))
        .withColumn("key", f.struct(*KEY))
        .join(table, ["period", "group"])
        .filter("start <= key and key <= upto")
        .groupBy("view", "group", "key")
        .agg(f.collect_list(shown).alias("rows"))
        .join(f.broadcast(spans), ["view", "group"])
        .filter(_DIFFER)
        .orderBy("view", "key", "group")
        .select("view", "group", "key", "rows")
        .limit(EXAMINED)
        .toArrow()
    )


_DIFFER: Final = """
    size(rows) != size(filter(spans, span -> span.start <= key and key <= span.upto))
    or size(array_distinct(rows.hash)) > 1
    or exists(rows, one -> exists(rows, other ->
        array_contains(one.vs_set, other.member) and one.vs_hash != other.vs_hash))
"""


def _last(peers: Sequence[LogPeriod], one: LogPeriod) -> Key:
    """Return the position up to which a period can be compared with any other one."""
    are_others = any(other is not one and are_together(one, other) for other in peers)
    return NEVER if are_others else one.regular_end


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
