"""What an archive answers, and what it sends of a stream."""

from typing import Any

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import MemberId, Message, Undeliverable
from groupcomm.level import ServiceLevel
from groupcomm_client.history.frames import (
    Find,
    Frame,
    More,
    Offer,
    Piece,
    Read,
    Stop,
    decode_untrusted,
    encode,
)
from groupcomm_client.history.subscriber import Send
from groupcomm_tools.archive import archive as module
from groupcomm_tools.archive.archive import Archive, ReadStore

ME, ANN = MemberId("#me#a", 1), MemberId("#ann#b", 2)


def place(time: int) -> Position:
    return Position(ViewId(5, "a", 7), time, 0, 0, 0)


class Game:
    """An archive with two intervals, and a store that has one event at each time."""

    def __init__(self) -> None:
        self.archive = Archive(ME, ("g", "h"), [(place(0), place(3)), (place(10), place(12))])
        self.now = 0.0
        self.reads: list[ReadStore] = []

    def hear(self, frame: Frame, sender: MemberId = ANN) -> list[Frame]:
        self.archive.handle(
            Message(sender, 1, (ME.name,), ServiceLevel.FIFO, 0, encode(frame), None), self.now
        )
        return self.sent()

    def sent(self) -> list[Frame]:
        """Return the frames for ANN; reads of the store are answered with one event each."""
        found: list[Frame] = []
        while actions := self.archive.pop_actions():
            for action in actions:
                if isinstance(action, Send):
                    assert action.to == ANN.name
                    frame: Any = decode_untrusted(action.data)
                    found.append(frame)
                    continue
                self.reads.append(action)
                after = action.after
                if action.since_us is not None:  # each event was received at its time
                    after = min(max(after, place(action.since_us - 1)), action.upto)
                upto = min(after._replace(time=after.time + 1), action.upto)
                end = upto == action.upto and not action.is_last
                piece = Piece(action.key[1], action.index, after, upto, end)
                self.archive.read(action.key, piece, self.now)
        return found


def times(frames: list[Frame]) -> list[tuple[int, int]]:
    return [(f.after.time, f.upto.time) for f in frames if isinstance(f, Piece)]


def test_an_offer_says_what_the_archive_holds() -> None:
    game = Game()
    game.archive.is_live = True
    intervals = ((place(0), place(3)), (place(10), place(12)))
    assert game.hear(Find(7, ("g",))) == [Offer(7, True, intervals)]
    assert game.hear(Find(7, ("g", "other"))) == [], "it does not record that group"
    assert game.hear(Find(7, ("g",)), ME) == []


def test_no_more_pieces_are_sent_than_were_granted() -> None:
    game = Game()
    assert times(game.hear(Read(1, ("g",), place(0), None, 2))) == [(0, 1), (1, 2)]
    assert times(game.hear(More(1, 3))) == [(2, 3)]


def test_a_stream_ends_where_its_interval_does() -> None:
    game = Game()
    pieces = game.hear(Read(1, ("g",), place(1), None, 9))
    assert times(pieces) == [(1, 2), (2, 3)]
    assert [f.is_end for f in pieces if isinstance(f, Piece)] == [False, True]
    assert game.archive.streams == {}
    (end,) = game.hear(Read(2, ("g",), place(3), None, 9))
    assert isinstance(end, Piece)
    assert (end.is_end, end.upto) == (True, place(3))


def test_a_stream_of_the_last_interval_goes_on_with_what_is_written() -> None:
    game = Game()
    assert times(game.hear(Read(1, ("g",), place(11), None, 9))) == [(11, 12)]
    game.archive.stored(place(13), 0.0)
    assert times(game.sent()) == [(12, 13)]
    game.archive.begin_interval(place(20))
    game.archive.stored(place(21), 0.0)
    (end,) = game.sent()
    assert isinstance(end, Piece)
    assert end.is_end


def test_the_first_event_of_all_and_a_time_are_passed_to_the_store() -> None:
    game = Game()
    game.hear(Read(1, ("g",), None, 2, 2))
    assert [(read.after, read.since_us) for read in game.reads] == [
        (place(0), 2),
        (place(2), None),
    ]


def test_a_time_is_looked_for_in_all_intervals() -> None:
    for since_us, pieces in ((3, (2, 3)), (4, (10, 11)), (11, (10, 11)), (12, (11, 12))):
        game = Game()
        assert times(game.hear(Read(1, ("g",), None, since_us, 1))) == [pieces]
    game = Game()
    assert times(game.hear(Read(1, ("g",), None, 99, 1))) == [(12, 12)], "live events are next"
    game = Game()
    game.archive.intervals[:0] = [(place(-2), place(-2))]  # behind it, retention removed all
    assert times(game.hear(Read(1, ("g",), None, 11, 1))) == [(10, 11)]
    assert times(game.hear(More(1, 2))) == [(11, 12)]


def test_streams_end_when_nobody_wants_them() -> None:
    game = Game()
    for number in (1, 2, 3):
        game.hear(Read(number, ("g",), place(0), None, 1))
    game.hear(Stop(1))
    assert {number for _, number in game.archive.streams} == {2, 3}
    game.archive.wake(module.IDLE_S - 1)
    assert len(game.archive.streams) == 2
    game.archive.wake(module.IDLE_S)
    assert game.archive.streams == {}
    game.hear(Read(4, ("g",), place(0), None, 1))
    game.archive.handle(Undeliverable(number=1, target=ANN.name, position=place(9)), 0.0)
    assert game.archive.streams == {}


def test_removed_events_are_offered_no_more() -> None:
    game = Game()
    game.archive.removed(place(2))
    assert game.archive.intervals == [(place(2), place(3)), (place(10), place(12))]
    assert game.hear(Read(1, ("g",), place(1), None, 1)) == []
    assert game.archive.streams == {}, "its subscriber looks for another archive"
    game.archive.removed(place(12))
    assert game.archive.intervals == [(place(12), place(12))]
