"""The whole proof, stage by stage."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from groupcomm_spark.logs import LOG
from groupcomm_spark.verify.cells import WHOLE, Views, by_view, complete, cut_cells
from groupcomm_spark.verify.comparing import compare_cells
from groupcomm_spark.verify.doubles import check_doubles
from groupcomm_spark.verify.evidence import tell_broken
from groupcomm_spark.verify.groups import check_daemons, check_groups
from groupcomm_spark.verify.joining import join
from groupcomm_spark.verify.receivers import examine_rows, make_plan
from groupcomm_spark.verify.stays import Stay, cut_stays, read_events, read_lost_rows
from groupcomm_spark.verify.verdict import ROW_NUMBERS, Verdict, Violation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST: Final = 20
"""So many violations of one name are told of the same logs; all are counted."""

Stage = Callable[[str], AbstractContextManager[None]]
"""Is entered for each stage of the work, with what it does."""

Lost = Mapping[str, Sequence[tuple[int, int]]]


def quiet(_: str) -> AbstractContextManager[None]:
    """A stage of which nobody is told."""
    return nullcontext()


class History:
    """Logs, and what their few rows that are no messages tell.

    Attributes:
        logs: see `groupcomm_spark.logs.read_logs`; all columns have to be there.
        events: rows that are no messages.
        stays: of all logs; see `stays`.
        views: who is to be compared with whom.
    """

    def __init__(self, logs: "DataFrame", lost: Lost | None = None) -> None:
        """Read the events.

        Args:
            logs: all of them, in one frame. Rows may stand in any order, and are looked at fastest
                in that of the files.
            lost: per log, first and last of rows that are known to be missing.
        """
        self.logs = logs
        self.events: list[dict[str, Any]] = read_events(logs)
        self.lost = read_lost_rows(logs, self.events)
        for log, ranges in (lost or {}).items():
            self.lost.setdefault(log, []).extend(ranges)
        self.stays: list[Stay] = cut_stays(self.events, lost)
        complete(logs, self.stays)
        self.views: Views = by_view(self.stays)

    @property
    def codes(self) -> dict[str, int]:
        """What stands for the name of each log."""
        return {row[LOG]: row["log_code"] for row in self.events}


def verify(
    logs: "DataFrame", *, lost: Lost | None = None, most: int = MOST, stage: Stage = quiet
) -> Verdict:
    """Prove FIFO, causal, agreed and safe delivery and virtual synchrony over logs.

    Args:
        logs: of many receivers, as `read_logs` gives them.
        lost: per log, first and last of rows that are known to be missing.
        most: so many violations of one name are told of the same logs.
        stage: see Stage.

    Returns:
        what was found; docs/spark.md has the names of violations.
    """
    verdict = Verdict()
    with stage("views"):
        history = History(logs, lost)
        verdict.logs = sorted(history.codes)
        check_views(history, verdict)
    with stage("receivers"):
        check_receivers(history, verdict, most)
    with stage("doubles"):
        check_doubles(logs, history.stays, verdict, most)
    with stage("comparing"):
        compare(history, verdict, most)
    verdict.violations.sort(key=lambda each: (each.name, each.logs, each.row or 0))
    return verdict


def compare_agreed(logs: "DataFrame", *, most: int = MOST) -> Verdict:
    """Only: have all logs the same AGREED and SAFE messages at the same positions?

    That positions rise in each log is looked at by `check_receivers`.
    """
    verdict = Verdict()
    history = History(logs)
    verdict.logs = sorted(history.codes)
    compare(history, verdict, most, only_agreed=True)
    return verdict


def check_views(history: History, verdict: Verdict) -> None:
    """Views of groups and daemons: of each log, and of each two that were members together."""
    found: Iterable[Violation]
    for found in (check_daemons(history.stays), check_groups(history.stays, history.views)):
        for violation in found:
            verdict.add(violation)


def check_receivers(history: History, verdict: Verdict, most: int = MOST) -> None:
    """The order of each log by itself: FIFO, causal, agreed; views of messages; row numbers."""
    codes = history.codes
    names = {code: log for log, code in codes.items()}
    joined = join(examine_rows(history.logs, make_plan(history.stays, codes)))
    verdict.rows = joined.rows
    verdict.causal_checked = joined.causal_checked
    verdict.causal_unknown = joined.causal_unknown
    tell_broken(history.logs, joined.broken, names, verdict, most)
    for code, doubled in joined.doubled.items():
        for first, last in doubled:
            why = f"rows {first} to {last} are there twice"
            verdict.add(Violation(ROW_NUMBERS, (names[code],), first, why))
    for code, holes in joined.holes.items():
        told = history.lost.get(names[code], [])
        for first, last in holes:
            if not any(begin <= first and last <= end for begin, end in told):
                why = f"rows {first} to {last} are not there, and no gap tells of it"
                verdict.add(Violation(ROW_NUMBERS, (names[code],), first, why))


def compare(
    history: History, verdict: Verdict, most: int = MOST, *, only_agreed: bool = False
) -> None:
    """Hold logs against each other: agreed order, SAFE, and what was promised in whole views."""
    cells = cut_cells(history.views)
    if only_agreed:
        cells = [cell for cell in cells if cell.number != WHOLE]
    if cells:
        compare_cells(history.logs, history.stays, cells, verdict, most)
