"""Archives in the simulator compact, while daemons are parted and programs crash.

A subscription that takes compacted parts has the state of the line at its end; one that does not
gives the line, or a gap.
"""

from typing import Any

import pytest

from groupcomm.clocks.stamp import Position
from groupcomm.events import DaemonView, GroupView, MemberId, Message
from groupcomm_archive.archive import ReadStore
from groupcomm_archive.holdings import Holding
from groupcomm_archive.keys import LastOfKeys
from groupcomm_client.history.frames import Piece, encode_piece
from groupcomm_client.history.given import Compacted, Gap, Start
from groupcomm_client.history.places import place_of
from groupcomm_client.history.subscriber import Subscriber
from tests.groupcomm_client.history.lines import (
    GROUPS,
    PIECE,
    Keeping,
    Lines,
    Past,
    Reader,
    Reference,
    Store,
    gap_wait_of,
)
from tests.groupcomm_client.history.pieces import piece_of

ALL = "archive reader part mend mend daemon"
KEYS = 6


def key_of(message: Message) -> object:
    return int(message.data.partition(b".")[0]) % KEYS


def state(events: list[Any]) -> dict[object, object]:
    return {key_of(event): event.data for event in events if isinstance(event, Message)}


class CompactingStore(Store):
    """A store with a snapshot; `compact` is what `Compacting` does on a disk."""

    def __init__(self) -> None:
        super().__init__()
        self.part: tuple[Position, Position] | None = None
        self.stays: list[Any] = []
        self.count = 0

    def _place(self, event: Any) -> Position:
        place = place_of(event)
        assert place is not None
        return place

    def compact(self, horizon: Position, end: Position, fetched: list[Any]) -> None:
        """Make a snapshot of what is held up to a place, and of what was fetched behind it."""
        begin = next((first for first, last in self.intervals if first <= end <= last), end)
        state, first = LastOfKeys(key_of), begin
        if self.part is not None and self.part[1] >= begin:
            first = self.part[0]
            state.add(self.stays)
        state.add(event for event in self.events if begin < self._place(event) <= end)
        state.add(fetched)
        self.part, self.stays = (first, horizon), state.events()
        self.events = [event for event in self.events if self._place(event) > horizon]
        self.count += 1

    def read(self, action: ReadStore) -> Any:
        if not action.is_compacted:
            return super().read(action)
        assert self.part is not None
        assert self.part[1] == action.upto
        left = [event for event in self.stays if self._place(event) > action.after]
        found, upto = left, action.upto
        if len(left) > PIECE:
            upto = self._place(left[PIECE - 1])
            found = [event for event in left if self._place(event) <= upto]
        piece = piece_of(found, action.key[1], action.index, action.after, upto)
        values = {name: getattr(piece, name) for name in Piece.__struct_fields__}
        return encode_piece(Piece(**{**values, "horizon": action.upto}))


class Compactor(Keeping):
    """An archive that compacts what it holds now and then."""

    store: CompactingStore

    def begin(self, me: MemberId) -> None:
        super().begin(me)
        of: Any = {"now": self.now, "stable": True, "is_archive": True, "compacted": True}
        intervals = self.store.intervals
        start = intervals[-1][1] if intervals else Start.EARLIEST
        self.subscriber = Subscriber(me, GROUPS, start, **of)
        self.fetching: Compacted | None = None
        self.fetched: list[Any] = []
        self._holding.compacted = self.store.part

    @property
    def _holding(self) -> Holding:
        assert self.archive is not None
        return self.archive.holdings[0]

    def drain(self) -> None:
        subscriber = self.subscriber
        assert subscriber is not None
        assert self.archive is not None
        position = subscriber.position
        given = subscriber.waiting.pop()
        for each in given:
            if isinstance(each, Compacted):
                self.fetching = Compacted(after=(self.fetching or each).after, upto=each.upto)
            elif self.fetching is not None and isinstance(each, Message | GroupView | DaemonView):
                place = place_of(each)
                if place is not None and place > self.fetching.upto:
                    self._adopt()
                    subscriber.waiting.append(each)
                elif place is not None:
                    self.fetched.append(each)
            else:
                subscriber.waiting.append(each)
        if self.fetching is not None and position is not None and position >= self.fetching.upto:
            self._adopt()
        if self.fetching is None:
            super().drain()
            self._note_compacted()
        else:
            assert not any(isinstance(each, Message) for each in subscriber.waiting)
            subscriber.taken(self.now)
            self.send(subscriber.pop_actions())

    def _adopt(self) -> None:
        assert self.fetching is not None
        assert self.subscriber is not None
        after, upto = self.fetching.after, self.fetching.upto
        self.store.compact(upto, after, self.fetched)
        self.fetching, self.fetched = None, []
        known = after if self.store.intervals else None
        self.subscriber.waiting.append(Gap(after=known, upto=upto))

    def compact(self) -> None:
        """Compact up to a place in the last interval."""
        assert self.archive is not None
        if self.fetching is not None or not self.store.events or not self.archive.intervals:
            return
        first, last = self.archive.intervals[-1]
        places = [place for event in self.store.events if (place := place_of(event)) is not None]
        within = [place for place in places if first < place <= last]
        if not within:
            return
        horizon = self.lines.rng.choice(within)
        self.store.compact(horizon, horizon, [])
        self._note_compacted()

    def _note_compacted(self) -> None:
        """What the snapshot stands for is held as such only: its events were removed."""
        self._holding.compacted = self.store.part
        if self.store.part is not None:
            assert self.archive is not None
            self.archive.removed(self.store.part[1])
            self.store.intervals = list(self.archive.intervals)


class CompactedReader(Reader):
    def begin(self, me: MemberId) -> None:
        super().begin(me)
        start = self.past.progress.after or self.past.start
        of: Any = {"now": self.now, "stable": True, "compacted": True}
        of["gap_wait_s"] = gap_wait_of(me)
        self.subscriber = Subscriber(me, GROUPS, start, **of)


class CompactingLines(Lines):
    """Archives that compact, a subscription that is whole, and ones that are compacted."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.stores = [CompactingStore() for _ in self.stores]

    def _restart(self, share: float) -> None:
        up = self.cluster.up()
        for place, keeping in enumerate(self.keeping):
            daemon = place % len(self.cluster.daemons)
            if (keeping is None or keeping.is_over) and self.rng.random() < share and daemon in up:
                self.keeping[place] = Compactor(self, daemon, self.stores[place])
        for place, reader in enumerate(self.readers):
            if (reader is None or reader.is_over) and self.rng.random() < share and up:
                kind = CompactedReader if place else Reader
                self.readers[place] = kind(self, self.rng.choice(up), self.pasts[place])

    def tick(self) -> None:
        super().tick()
        for keeping in self.keeping:
            if keeping is not None and not keeping.is_over and self.rng.random() < 0.01:
                assert isinstance(keeping, Compactor)
                if keeping.archive is not None:
                    keeping.compact()


def compacted(seed: int) -> tuple[int, int]:
    """Run a seed; return the numbers of compactions, and of states that were compared."""
    lines = CompactingLines(seed)
    whole = lines.subscribe(Start.EARLIEST)
    lines.subscribe(Start.EARLIEST)
    lines.run(3.0, 2.0, ALL)
    late = lines.subscribe(Start.EARLIEST)
    lines.run(3.0, 2.0, ALL)
    for _ in range(2 * KEYS):  # each key once more, as a gap may have taken the last one
        lines.run(0.05, 0.0, ALL, sends=1.0)
    lines.rest()
    reference = Reference(observer.deliveries for observer in lines.observers)
    reference.check(whole)
    states = 0
    for past in (lines.pasts[1], late):
        assert isinstance(past, Past)
        if not past.gaps and not whole.gaps:
            states += 1
            assert state(past.events) == state(whole.events)
        places = [place for event in past.events if (place := place_of(event)) is not None]
        assert places == sorted(places)
    assert all(isinstance(store, CompactingStore) for store in lines.stores)
    return sum(getattr(store, "count", 0) for store in lines.stores), states


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.long) for s in (2, 3))])
def test_compaction_loses_no_last_message(seed: int) -> None:
    compactions, _ = compacted(seed)
    assert compactions > 5


@pytest.mark.long
def test_many_seeds() -> None:
    assert sum(compacted(seed)[1] for seed in range(100, 180)) > 10
