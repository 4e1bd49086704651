"""Wrong ways to keep history, to read it, and to join it with live events."""

from collections.abc import Iterator
from typing import Any

from groupcomm.clocks.stamp import Position
from groupcomm.engine import view as view_module
from groupcomm.events import DaemonView, GroupView, MemberId, Message
from groupcomm_archive.agreement import Agreement
from groupcomm_archive.archive import Archive, ReadStore
from groupcomm_archive.compacting import Compacting
from groupcomm_archive.comparing import Claim
from groupcomm_archive.cursors import ArchivedCursors
from groupcomm_archive.digests import _Digesting
from groupcomm_archive.holdings import Holding
from groupcomm_archive.layout import Layout
from groupcomm_archive.rows import MessageRun, Part
from groupcomm_archive.snapshots import SnapshotFile
from groupcomm_client.history import live
from groupcomm_client.history.cursor_client import CursorClient
from groupcomm_client.history.cursors import CursorExchange
from groupcomm_client.history.frames import EncodedPiece, Piece
from groupcomm_client.history.live import LiveLine
from groupcomm_client.history.places import Line, Progress
from groupcomm_client.history.subscriber import State, Subscriber
from tests.verification.mutants.mutant import Mutant, Right, mutant

# ---- archives ----


@mutant((Holding, "begin_interval"))
def archive_joins_its_intervals(_right: Right) -> Right:
    """An archive says that it holds what it has missed between two intervals."""

    def begin_interval(self: Holding, first: Position) -> None:
        begin = self.intervals.pop()[0] if self.intervals else first
        self.intervals.append((begin, first))

    return begin_interval


@mutant((Holding, "removed"))
def archive_offers_what_it_has_removed(_right: Right) -> Right:
    """An archive goes on offering what retention has removed."""

    def removed(_self: Holding, _first: Position) -> None:
        """Nothing changes."""

    return removed


@mutant((Archive, "_next"))
def archive_reads_on_behind_a_gap(right: Right) -> Right:
    """A stream does not end with an interval of its archive, and goes on in the next one."""

    def next_(self: Archive, key: object, stream: object, now: float) -> None:
        for holding in self.holdings:
            first, last = holding.intervals[0][0], holding.intervals[-1][1]
            kept, holding.intervals = holding.intervals, [(first, last)]
            right(self, key, stream, now)
            holding.intervals = kept

    return next_


@mutant((Holding, "stored"))
def archive_answers_for_what_comes(right: Right) -> Right:
    """An archive says that it holds the next events of the line, before they are on its disk."""

    def stored(self: Holding, upto: Position) -> bool:
        return bool(right(self, upto._replace(time=upto.time + 50_000)))

    return stored


# ---- subscribers ----


@mutant((Progress, "is_new"))
def duplicates_at_the_joint(_right: Right) -> Right:
    """What history has given is given again as live events."""

    def is_new(_self: Progress, _event: Line, _place: Position) -> bool:
        return True

    return is_new


@mutant((Subscriber, "_skip_to"))
def gap_in_silence(_right: Right) -> Right:
    """A subscriber goes on behind a gap without telling of it."""

    def skip_to(self: Subscriber, place: Position) -> None:
        self._progress.complete(place)

    return skip_to


@mutant((Subscriber, "_join_if_complete"))
def live_before_history_is_read(right: Right) -> Right:
    """Live events are given as soon as they come, though history has not reached them."""

    def join_if_complete(self: Subscriber) -> None:
        start, after = self.live.complete_after, self._progress.after
        if start is not None and after is not None and self.state is State.READING:
            self._progress.complete(start)
        right(self)

    return join_if_complete


@mutant((Subscriber, "_on_piece"))
def lost_piece_unnoticed(right: Right) -> Right:
    """A piece is taken for the next one, wherever it begins."""

    def on_piece(self: Subscriber, piece: Piece, events: list[Line] | None, now: float) -> None:
        if self._progress.after is not None and piece.after > self._progress.after:
            self._progress.complete(piece.after)
        right(self, piece, events, now)

    return on_piece


@mutant((Subscriber, "_give"))
def first_event_of_a_piece_is_left_out(right: Right) -> Right:
    """A piece begins with what was given already, as if its start were one place earlier."""

    def give(self: Subscriber, events: list[Line]) -> None:
        if events and isinstance(events[0], Message) and self._progress.after is not None:
            events = events[1:]
        right(self, events)

    return give


# ---- the live line ----


@mutant((live, "continues"))
def any_view_continues_the_last_one(_right: Right) -> Right:
    """A queue is kept at a view, though a view of the line may have been between."""

    def continues(before: DaemonView, view: DaemonView) -> bool:
        return before.majority is not False and view.majority is not False

    return continues


@mutant((view_module, "is_unbroken"))
def every_view_is_unbroken(_right: Right) -> Right:
    """A daemon says that no other majority was between its views, whoever has come along."""

    def is_unbroken(*_: object) -> bool:
        return True

    return is_unbroken


@mutant((LiveLine, "_on_mark"))
def mark_proves_after_the_transition(right: Right) -> Right:
    """A mark that is delivered in the transitional part proves what came before it."""

    def on_mark(self: LiveLine, mark: Message) -> None:
        regular, self._regular = self._regular, True
        right(self, mark)
        self._regular = regular

    return on_mark


@mutant((LiveLine, "is_on_line"))
def minority_is_on_the_line(_right: Right) -> property:
    """Events of a part without a majority are given, too."""
    return property(lambda self: self._view is not None)


@mutant((LiveLine, "_drop"))
def overfull_queue_leaves_no_hole(right: Right) -> Right:
    """A queue that was dropped because it was too long counts as if it had all behind it."""

    def drop(self: LiveLine, complete_after: Position | None) -> bool:
        right(self, complete_after)
        return self._bytes > 0

    return drop


@mutant((LiveLine, "_on_group_view"))
def complete_before_all_groups_are_joined(right: Right) -> Right:
    """A member of some of the groups counts as one that gets all events of the line."""

    def on_group_view(self: LiveLine, view: GroupView) -> bool:
        groups, self._groups = self._groups, frozenset((view.group,))
        joined, self._joined = self._joined, self._joined & self._groups
        dropped = bool(right(self, view))
        self._groups, self._joined = groups, joined | self._joined
        return dropped

    return on_group_view


# ---- cursors ----


@mutant((ArchivedCursors, "_answer"))
def cursor_answered_before_it_is_on_disk(_right: Right) -> Right:
    """An archive says that it holds a cursor while it still writes it."""

    def answer(self: ArchivedCursors, sender: object, frame: object) -> None:
        self._answers.append((0, sender.name, frame))  # type: ignore[attr-defined,arg-type]

    return answer


@mutant((CursorClient, "_is_held"))
def cursor_of_one_archive(_right: Right) -> Right:
    """An acknowledgement counts once one archive holds it, whatever the others hold."""

    def is_held(self: CursorClient, _waited_for: object) -> bool:
        return any(map(self._has_target, self._held))

    return is_held


@mutant((ArchivedCursors, "_on_exchange"))
def cursors_of_others_are_not_taken_over(right: Right) -> Right:
    """Archives that meet tell each other their cursors, and each keeps its own."""

    def on_exchange(self: ArchivedCursors, exchange: CursorExchange) -> None:
        right(self, CursorExchange(exchange.view, exchange.part, ()))

    return on_exchange


# ---- digests ----


@mutant((_Digesting, "add_run"))
def digest_leaves_out_the_level(right: Right) -> Right:
    """A digest is the same whatever the level of a message is."""

    def add_run(self: _Digesting, run: MessageRun) -> None:
        right(self, run._replace(level=0))

    return add_run


@mutant((_Digesting, "add_run"))
def digest_leaves_out_the_sender(right: Right) -> Right:
    """A digest is the same whoever has sent a message."""

    def add_run(self: _Digesting, run: MessageRun) -> None:
        right(self, run._replace(sender=MemberId("#anybody#a", 0)))

    return add_run


@mutant((Agreement, "_compare"))
def difference_is_taken_over_in_silence(right: Right) -> Right:
    """An archive that differs from another one takes that one for right, and tells nobody."""

    def compare(self: Agreement, peer: object, group: str, known: Any, claim: Claim) -> None:
        right(self, peer, group, known, claim)
        self._differences.clear()
        known.same |= known.differing.keys()
        known.differing.clear()

    return compare


# ---- compaction ----


@mutant((Compacting, "_until"))
def last_message_goes_for_one_of_another_group(right: Right) -> Right:
    """The last message of a key goes when a message of another group has the key later."""

    def until(self: Compacting, after: Position, end: Position) -> Iterator[Part]:
        own = self._groups
        for batch in self._store._batches(after):
            for groups in batch["groups"].to_pylist():
                self._groups = tuple({*self._groups, *(groups or ())})
        yield from right(self, after, end)
        self._groups = own

    return until


@mutant((Layout, "_key_of"))
def key_of_one_group_counts_for_another(_right: Right) -> Right:
    """All groups are compacted by the key of the first one that is."""

    def key_of(self: Layout, _group: str) -> str | None:
        return self.compact[0][1] if self.compact else None

    return key_of


@mutant((SnapshotFile, "read"))
def stream_goes_on_in_the_next_snapshot(_right: Right) -> Right:
    """A stream of a snapshot that was replaced goes on in the new one, as if it were the same."""

    def read(self: SnapshotFile, action: ReadStore) -> EncodedPiece:
        return self._pieces.read(action)

    return read


BUGS: tuple[Mutant, ...] = (
    archive_joins_its_intervals,
    archive_offers_what_it_has_removed,
    archive_reads_on_behind_a_gap,
    archive_answers_for_what_comes,
    duplicates_at_the_joint,
    gap_in_silence,
    live_before_history_is_read,
    lost_piece_unnoticed,
    first_event_of_a_piece_is_left_out,
    any_view_continues_the_last_one,
    every_view_is_unbroken,
    mark_proves_after_the_transition,
    minority_is_on_the_line,
    overfull_queue_leaves_no_hole,
    complete_before_all_groups_are_joined,
)

CURSOR_BUGS: tuple[Mutant, ...] = (
    cursor_answered_before_it_is_on_disk,
    cursor_of_one_archive,
    cursors_of_others_are_not_taken_over,
)

DIGEST_BUGS: tuple[Mutant, ...] = (
    digest_leaves_out_the_level,
    digest_leaves_out_the_sender,
    difference_is_taken_over_in_silence,
)

COMPACTION_BUGS: tuple[Mutant, ...] = (
    last_message_goes_for_one_of_another_group,
    key_of_one_group_counts_for_another,
    stream_goes_on_in_the_next_snapshot,
)
