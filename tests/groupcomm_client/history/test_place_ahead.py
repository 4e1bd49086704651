"""A place ahead of the line is one of another line: whoever begins or goes on there is told."""

import pytest
from msgspec import structs

from groupcomm.clocks.stamp import Position
from groupcomm.events import Transition
from groupcomm_client.events import Reconnected
from groupcomm_client.history.cursors import PutCursor
from groupcomm_client.history.frames import Offer
from groupcomm_client.history.given import CaughtUp, Gap, Start
from groupcomm_client.history.places import just_before
from groupcomm_client.history.subscriber import State
from tests.groupcomm_archive.test_cursors import alone, entry, sent
from tests.groupcomm_archive.test_cursors import at as place_at
from tests.groupcomm_archive.test_cursors import message as request
from tests.groupcomm_client.history.test_live import ME, daemons, joined, mark, message, place
from tests.groupcomm_client.history.test_resumption import NEXT, RECONNECTED, at, begun
from tests.groupcomm_client.history.test_resumption import daemons as view_of
from tests.groupcomm_client.history.test_resumption import message as message_at
from tests.groupcomm_client.history.test_resumption import view as joined_at
from tests.groupcomm_client.history.test_subscriber import (
    JOIN,
    LIVE_AFTER,
    LONG_MS,
    ONE,
    Game,
    times,
)

FAR = (place(9, 10), place(5, 500), place(6, 0))


def marked(game: Game, time: int = 110) -> None:
    """Have the mark come back that it sends."""
    game.pass_time(0.1)
    assert game.subscriber.live.has_mark_in_flight
    game.feed(mark(place(5, time)))


@pytest.mark.parametrize("start", FAR)
@pytest.mark.parametrize("is_archive", [True, False])
@pytest.mark.parametrize("offers", [True, False])
def test_a_start_ahead_of_the_line_is_told(start: Position, is_archive: bool, offers: bool) -> None:
    game = Game(start, is_archive=is_archive)
    if offers:
        game.find()
        game.offer(ONE, (place(4, 0), place(5, 90)))
    game.feed(message(place(5, 101)))
    assert (game.taken(), game.is_in(State.FINDING)) == ([], True), "it is not sure yet"
    marked(game)
    assert game.subscriber.ahead_of == place(5, 110)
    game.feed(message(place(5, 120)), message(place(10, 1)))
    assert game.pass_time(100) == []
    assert game.taken() == []
    assert (game.subscriber.deadline, game.subscriber.position) == (None, start)


@pytest.mark.parametrize("is_archive", [True, False])
def test_a_daemon_that_is_cut_off_is_behind_the_line_and_is_waited_for(is_archive: bool) -> None:
    """It does not know yet that the others have had a view without it: no mark comes back there."""
    game = Game(place(6, 50), is_archive=is_archive)
    game.pass_time(1)
    game.feed(message(place(5, 110)))
    game.feed(Transition(daemons(5).id, ("a",)), mark(place(5, 111)))
    game.feed(daemons(7))
    assert game.subscriber.ahead_of is None
    game.pass_time(0)
    game.offer(ONE, (place(4, 0), place(6, 60)))
    assert game.reading()[1].after == place(6, 50)


def test_the_line_may_come_to_the_place_before_the_mark_comes_back() -> None:
    game = Game(place(5, 105))
    game.pass_time(0.1)
    game.feed(message(place(5, 104)), message(place(5, 105)), message(place(5, 106)))
    marked(game)
    assert game.subscriber.ahead_of is None
    caught_up, *given = game.taken()
    assert (caught_up, times(given)) == (CaughtUp(position=place(5, 105)), [106])


def test_a_place_behind_the_own_join_needs_no_mark() -> None:
    for start in (place(5, 99), LIVE_AFTER, Start.EARLIEST, Start.LATEST):
        game = Game(start)
        game.pass_time(3)
        assert not game.subscriber.live.has_mark_in_flight


@pytest.mark.parametrize("start", [Start.LATEST, place(5, 20)])
def test_a_subscription_is_told_if_the_next_session_has_another_line(
    start: Start | Position,
) -> None:
    """The state of all daemons was made anew while it was away."""
    game = Game(start)
    game.find() if start is not Start.LATEST else None
    game.offer(ONE, (place(4, 0), place(5, 105)))
    game.feed(message(place(5, 110)))
    if start is not Start.LATEST:
        game.piece(ONE, game.reading()[1], 0, place(5, 20), 99, 100)
    assert game.is_in(State.LIVE)
    game.taken()
    game.feed(Reconnected(member=ME, why="x", last=None, in_doubt=0))
    game.feed(daemons(1), joined(place(1, 10)), message(place(1, 20)))
    game.pass_time(0.1)
    game.feed(mark(place(1, 30)))
    assert game.subscriber.ahead_of == place(1, 30)
    assert game.taken() == []


def test_a_connection_that_resumes_goes_on_behind_a_gap() -> None:
    resumed = begun()
    assert resumed.give(RECONNECTED, view_of(1), joined_at(at(10, 1), me=NEXT)) == [RECONNECTED]
    assert resumed.give(message_at(at(11, 1))) == []
    resumed.wake()  # its mark is sent
    line = just_before(at(10, 1))
    gap, caught_up, *given = resumed.give(
        structs.replace(mark(at(20, 1)), sender=NEXT, groups=(NEXT.name,))
    )
    assert (gap, caught_up) == (Gap(after=at(20), upto=line), CaughtUp(position=line))
    assert "is ahead of the history, which goes on behind 1.a.7/" in str(gap)
    assert given == [joined_at(at(10, 1), me=NEXT), message_at(at(11, 1))]
    assert resumed.give(message_at(at(30, 1))) == [message_at(at(30, 1))]
    resumed.give(joined_at(at(40, 1), "h", me=NEXT))
    assert resumed.give(message_at(at(41, 1), "h")) == [message_at(at(41, 1), "h")]


def test_no_cursor_gets_a_place_ahead_of_its_own_request() -> None:
    """All archives decide that alike, as the request has one place in the order."""
    archive = alone()
    archive.handle(request(PutCursor(5, entry(10)), place=place_at(11)))
    assert sent(archive)[-1][1].refusal == ""
    for time in (12, 1_000):
        archive.handle(request(PutCursor(6, entry(time)), place=place_at(11)))
        ((_, answer),) = sent(archive)
        assert "is ahead of the history: a cursor must be at a place that has come" in (
            answer.refusal
        )
        assert answer.entry == entry(10)
    view = daemons(3)
    archive.handle(Transition(view.id, ("a",)))
    archive.handle(request(PutCursor(7, entry(12)), place=place_at(11)))
    assert sent(archive) == [], "this daemon may be behind: the program asks again"
    archive.handle(view)
    archive.handle(request(PutCursor(7, entry(12)), place=place_at(13)))
    assert sent(archive)[-1][1].entry == entry(12)


def test_an_offer_that_reaches_the_place_is_read_at_once() -> None:
    game = Game(place(5, 105))
    number = game.find()
    game.hear(ONE, Offer(number, True, ((place(4, 0), place(5, 105)),), None, LONG_MS))
    assert game.reading()[1].after == place(5, 105)
    marked(game)
    assert place(5, 105) > JOIN
    assert game.is_in(State.LIVE)
