"""What an archive answers, and what it sends of a stream."""

from typing import Any

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, GroupView, MemberId, Message, Undeliverable
from groupcomm.level import ServiceLevel
from groupcomm_archive import archive as module
from groupcomm_archive.archive import Archive, EndChannel, Listening, ReadStore, SendPiece
from groupcomm_client.history.frames import (
    ARCHIVES,
    Channel,
    Find,
    Frame,
    More,
    Offer,
    Piece,
    Read,
    Stop,
    decode_untrusted,
    encode,
    encode_piece,
)
from groupcomm_client.history.subscriber import Send

ME, ANN = MemberId("#me#a", 1), MemberId("#ann#b", 2)


def place(time: int) -> Position:
    return Position(ViewId(5, "a", 7), time, 0, 0, 0)


class Game:
    """An archive with two intervals, and a store that has one event at each time."""

    def __init__(self, listening: Listening | None = None) -> None:
        intervals = [(place(0), place(3)), (place(10), place(12))]
        self.archive = Archive(ME, ("g", "h"), intervals, listening)
        self.by_channel: list[SendPiece | EndChannel] = []
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
                if not isinstance(action, ReadStore):
                    self.by_channel.append(action)
                    continue
                self.reads.append(action)
                after = action.after
                if action.since_us is not None:  # each event was received at its time
                    after = min(max(after, place(action.since_us - 1)), action.upto)
                upto = min(after._replace(time=after.time + 1), action.upto)
                end = upto == action.upto and not action.is_last
                piece = Piece(action.key[1], action.index, after, upto, end)
                self.archive.read(action.key, encode_piece(piece), self.now)
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


# ---- channels ----

LISTENING = Listening(("@here", "10.0.0.1:1"), lambda count: b"r" * count)


def opened(game: Game, granted: int) -> Channel:
    """Read by a channel, and return it."""
    (channel,) = game.hear(Read(1, ("g",), place(0), None, granted, by_channel=True))
    assert isinstance(channel, Channel)
    return channel


def test_pieces_wait_for_a_channel_and_go_by_it() -> None:
    game = Game(LISTENING)
    channel = opened(game, 3)
    assert channel == Channel(1, b"r" * 16, b"r" * 32, LISTENING.addresses)
    assert game.reads == []
    assert game.archive.secret_of(channel.id) == channel.key
    assert game.archive.connected(channel.id, 0.0) == (ANN, 1)
    assert game.archive.secret_of(channel.id) is None, "nobody else can connect to it"
    assert game.sent() == []
    assert len(game.by_channel) == module.MOST_UNSENT, "they wait in memory"
    game.archive.piece_sent((ANN, 1), 0.0)
    assert game.sent() == []
    pieces = [decode_untrusted(each.data) for each in game.by_channel if type(each) is SendPiece]
    assert times([piece for piece in pieces if piece]) == [(0, 1), (1, 2), (2, 3)]
    assert game.by_channel[-1] == EndChannel((ANN, 1)), "the interval has ended"
    assert game.archive.streams == {}


def test_a_stream_has_no_channel_unless_both_sides_can() -> None:
    assert times(Game().hear(Read(1, ("g",), place(0), None, 1, by_channel=True))) == [(0, 1)]
    assert times(Game(LISTENING).hear(Read(1, ("g",), place(0), None, 1))) == [(0, 1)]


def test_a_channel_ends_with_its_stream() -> None:
    for end in ("stop", "broken", "again"):
        game = Game(LISTENING)
        channel = opened(game, 1)
        game.archive.connected(channel.id, 0.0)
        if end == "stop":
            game.hear(Stop(1))
        elif end == "broken":
            game.archive.disconnected((ANN, 1))
        else:
            opened(game, 1)
        game.sent()
        assert game.by_channel[-1] == EndChannel((ANN, 1))
        assert bool(game.archive.streams) is (end == "again")


def test_a_channel_to_which_nobody_connects_is_forgotten() -> None:
    game = Game(LISTENING)
    channel = opened(game, 4)
    game.archive.wake(module.IDLE_S - 1)
    assert game.archive.secret_of(channel.id) is not None
    game.archive.wake(module.IDLE_S)
    assert game.archive.secret_of(channel.id) is None
    assert game.archive.streams == {}
    assert game.archive.secret_of(b"x" * 16) is None


def test_an_offer_says_for_how_long_others_have_been_away() -> None:
    """It counts from the last one that left, and from its own start without one."""

    def away(now: float, *members: MemberId) -> int | None:
        game.now = now
        if members:
            view = GroupView(
                group=ARCHIVES,
                id=place(20),
                members=members,
                cause=Cause.JOIN,
                changed=(),
                vs_set=(),
                own=False,
            )
            game.archive.handle(view, now)
        (offer,) = game.hear(Find(7, ("g",)))
        assert isinstance(offer, Offer)
        return offer.away_ms

    one, two = MemberId("#one#a", 2), MemberId("#two#b", 3)
    game = Game()
    assert away(1) is None
    assert away(2, ME, one) == 0
    assert away(5) == 3000
    assert away(6, ME, one, two) == 4000
    assert away(7, ME, two) == 0
    assert away(8, ME, one, two) == 1000
    assert away(8.5, ME, MemberId("#one#a", 4), two) == 0
