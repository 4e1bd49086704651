"""A subscriber that takes compacted parts is told of each; one that does not gets none."""

from groupcomm.clocks.stamp import Position
from groupcomm.events import MemberId
from groupcomm_client.history.frames import Interval, Offer, Piece, Read
from groupcomm_client.history.given import Compacted, Gap, Start
from groupcomm_client.history.subscriber import State
from tests.groupcomm_client.history.test_live import place
from tests.groupcomm_client.history.test_subscriber import LONG_MS, ONE, TWO, Game

FIRST, HORIZON, END = place(4, 0), place(4, 50), place(5, 90)
WHOLE: Interval = (place(4, 40), END)


def offer(game: Game, archive: MemberId, whole: Interval, compacted: Interval | None) -> None:
    game.hear(archive, Offer(game.subscriber._numbers, True, (whole,), compacted, LONG_MS))


def request(game: Game) -> Read:
    ((_, read),) = [each for each in game.pass_time(0.6) if isinstance(each[1], Read)]
    assert isinstance(read, Read)
    return read


def compacted_piece(number: int, index: int, after: Position, upto: Position) -> Piece:
    return Piece(number, index, after, upto, is_end=False, horizon=HORIZON)


def test_from_the_beginning_the_compacted_part_comes_first() -> None:
    game = Game(Start.EARLIEST, compacted=True)
    game.find()
    offer(game, ONE, WHOLE, (FIRST, HORIZON))
    read = request(game)
    assert (read.after, read.compacted) == (None, True)
    game.hear(ONE, compacted_piece(read.number, 0, FIRST, place(4, 20)))
    game.hear(ONE, compacted_piece(read.number, 1, place(4, 20), HORIZON))
    game.hear(ONE, Piece(read.number, 2, HORIZON, END, is_end=False))
    told = list(game.subscriber.waiting)
    assert told == [Gap(after=None, upto=FIRST), Compacted(after=FIRST, upto=HORIZON)]
    assert game.subscriber.position == END


def test_a_place_before_the_horizon_is_read_as_compacted_without_a_gap() -> None:
    game = Game(place(4, 20), compacted=True)
    game.find()
    offer(game, ONE, WHOLE, (FIRST, HORIZON))
    read = request(game)
    assert (read.after, read.compacted) == (place(4, 20), True)
    assert list(game.subscriber.waiting) == []


def test_what_an_archive_has_as_a_whole_is_read_from_that_one() -> None:
    game = Game(place(4, 20), compacted=True)
    game.find()
    offer(game, ONE, WHOLE, (FIRST, HORIZON))
    offer(game, TWO, (FIRST, END), None)
    read = request(game)
    assert not read.compacted
    assert game.is_in(State.READING)


def test_without_the_option_there_is_a_gap() -> None:
    game = Game(place(4, 20))
    game.find()
    offer(game, ONE, WHOLE, (FIRST, HORIZON))
    read = request(game)
    assert (read.after, read.compacted) == (WHOLE[0], False)
    assert list(game.subscriber.waiting) == [Gap(after=place(4, 20), upto=WHOLE[0])]


def test_a_place_before_the_compacted_part_has_a_gap_up_to_it() -> None:
    game = Game(place(3, 20), compacted=True)
    game.find()
    offer(game, ONE, WHOLE, (FIRST, HORIZON))
    read = request(game)
    assert (read.after, read.compacted) == (FIRST, True)
    assert list(game.subscriber.waiting) == [Gap(after=place(3, 20), upto=FIRST)]


def test_a_snapshot_that_was_replaced_meanwhile_is_told_again() -> None:
    game = Game(Start.EARLIEST, compacted=True)
    game.find()
    offer(game, ONE, WHOLE, (FIRST, HORIZON))
    read = request(game)
    game.hear(ONE, compacted_piece(read.number, 0, FIRST, place(4, 20)))
    later = place(4, 70)
    game.hear(ONE, Piece(read.number, 1, place(4, 20), later, is_end=False, horizon=later))
    told = [each for each in game.subscriber.waiting if isinstance(each, Compacted)]
    assert told == [
        Compacted(after=FIRST, upto=HORIZON),
        Compacted(after=place(4, 20), upto=later),
    ]
