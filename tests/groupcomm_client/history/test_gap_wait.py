"""Before a gap a subscriber waits for an archive that may have the events, and not longer."""

import inspect
from contextlib import ExitStack
from math import inf, nan
from pathlib import Path

import pytest

from groupcomm.errors import LocalProtocolError
from groupcomm.events import MemberId, Message
from groupcomm_client.blocking import BlockingConnection, connect
from groupcomm_client.connection import Connection
from groupcomm_client.history.blocking import BlockingSubscription
from groupcomm_client.history.frames import Find, Read
from groupcomm_client.history.gap_wait import GAP_WAIT_S, GapWait
from groupcomm_client.history.given import CaughtUp, Gap, Given
from groupcomm_client.history.given_queue import EVENT_BYTES
from groupcomm_client.history.subscriber import FIND_S, RETRY_S, State
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.history.archives import STEADY, ArchiveProcess
from tests.groupcomm_client.history.test_live import daemons, message, place
from tests.groupcomm_client.history.test_subscriber import (
    LIVE_AFTER,
    ONE,
    TWO,
    Game,
    times,
)
from tests.groupcomm_client.kinds import PATIENCE_S

AFTER = place(3, 10)
LATER = (place(5, 20), place(5, 90))  # what the archive holds that answers
ALL = (place(2, 0), place(5, 90))  # what the one holds that is away


def asked(game: Game, away_ms: int | None, archive: MemberId = ONE) -> None:
    """Answer the next question, and let the time pass in which others would."""
    find = [each for each in game.pass_time(RETRY_S) if isinstance(each[1], Find)]
    assert len(find) == 1
    game.offer(archive, LATER, away_ms=away_ms)
    game.pass_time(FIND_S)


def begun(away_ms: int | None) -> Game:
    """Return a subscriber that has just heard that the next events are not there."""
    game = Game(AFTER)
    game.find()
    game.offer(ONE, LATER, away_ms=away_ms)
    game.pass_time(FIND_S)
    return game


def test_an_archive_that_comes_back_is_read_and_there_is_no_gap() -> None:
    game = begun(away_ms=0)
    assert game.subscriber.waits_for_archive
    asked(game, away_ms=1500)
    assert game.taken() == []
    assert [type(frame) for _, frame in game.pass_time(RETRY_S)] == [Find]
    game.offer(TWO, ALL, live=False, away_ms=0)
    ((to, read),) = game.pass_time(FIND_S)
    assert isinstance(read, Read)
    assert (to, read.after) == (TWO.name, AFTER)
    assert not game.subscriber.waits_for_archive
    assert game.taken() == []


def test_nothing_is_waited_for_that_has_been_away_for_longer() -> None:
    game = begun(away_ms=int(GAP_WAIT_S * 1000))
    assert game.taken() == [Gap(after=AFTER, upto=LATER[0])]
    assert not game.subscriber.waits_for_archive


@pytest.mark.parametrize("away_ms", [None, 0])
def test_the_wait_ends_whatever_archives_say(away_ms: int | None) -> None:
    game = begun(away_ms)
    while game.now < GAP_WAIT_S:
        assert game.taken() == []
        asked(game, away_ms)
    asked(game, away_ms)
    assert game.taken() == [Gap(after=AFTER, upto=LATER[0])]


def test_the_archive_that_has_watched_for_longest_decides() -> None:
    game = Game(AFTER)
    game.find()
    game.offer(ONE, LATER, away_ms=100)  # it has just been started
    game.offer(TWO, LATER, away_ms=60_000)
    game.pass_time(FIND_S)
    assert game.taken() == [Gap(after=AFTER, upto=LATER[0])]


def test_an_archive_that_has_gone_since_is_waited_for() -> None:
    """What archives have answered to the question before counts no more."""
    wait = GapWait(30, now=0)
    wait.note_away(50_000, now=1)
    assert wait.is_over(now=1)
    wait.ask(now=2, is_on_line=True)
    wait.note_away(10, now=2)
    assert not wait.is_over(now=29)
    assert wait.is_over(now=30)


def test_without_a_majority_there_is_no_gap_and_the_wait_begins_when_there_is_one() -> None:
    game = begun(away_ms=0)
    game.feed(daemons(6, "a", majority=False))
    for _ in range(40):
        asked(game, away_ms=60_000)  # archives here have lost those of the other part long ago
        assert game.taken() == []
    game.feed(daemons(7))
    asked(game, away_ms=0)
    assert game.taken() == []
    asked(game, away_ms=60_000)
    assert [type(each) for each in game.taken()] == [Gap]


def test_a_gap_before_live_events_waits_too() -> None:
    game = Game(AFTER)
    game.find()
    game.offer(ONE, (place(5, 150), place(5, 190)), away_ms=0)
    game.pass_time(FIND_S)
    assert game.is_in(State.FINDING)
    assert game.subscriber.waits_for_archive
    game.pass_time(RETRY_S)
    game.offer(ONE, (place(5, 150), place(5, 190)))
    game.pass_time(FIND_S)
    gap, caught_up = game.taken()[:2]
    assert gap == Gap(after=AFTER, upto=LIVE_AFTER)
    assert isinstance(caught_up, CaughtUp)


def test_live_events_stay_within_their_bound_and_are_read_later() -> None:
    bound = 50 * EVENT_BYTES
    game = Game(AFTER, queue_bytes=bound)
    game.find()
    game.offer(ONE, LATER, away_ms=0)
    game.pass_time(FIND_S)
    for time in range(110, 410):
        game.feed(message(place(5, time)))
        assert game.subscriber.live._bytes <= bound
    assert game.taken() == []
    game.pass_time(RETRY_S)
    game.offer(ONE, (place(5, 20), place(5, 900)))
    ((_, read),) = game.pass_time(FIND_S)
    assert isinstance(read, Read)
    assert game.taken() == [Gap(after=AFTER, upto=place(5, 20))]
    game.piece(ONE, read, 0, place(5, 20), *range(110, 410))
    assert times(game.taken()) == [*range(110, 410)], "what was dropped comes from the archive"
    game.feed(message(place(5, 410)))
    assert times(game.taken()) == [410]


def test_no_wait_is_a_choice() -> None:
    assert GapWait(0, now=5).is_over(now=5)


def test_the_default_is_one_fact() -> None:
    for of in (Connection, BlockingConnection):
        default = inspect.signature(of.subscribe).parameters["gap_wait_s"].default
        assert default == GAP_WAIT_S


@pytest.mark.long
def test_the_only_archive_that_has_the_messages_is_started_again(tmp_path: Path) -> None:
    """A newcomer answers meanwhile, which has never met it; without a wait there is a gap."""
    with RunningCluster("ab", settings=STEADY) as cluster, ExitStack() as stack:
        sender = stack.enter_context(connect(cluster.address("a")))
        whole = archive_at(cluster, tmp_path / "whole", stack)
        first = sender.multicast_ordered("orders", b"first").position
        sender.multicast_many("orders", [b"%d" % n for n in range(3000)])
        sender.multicast_ordered("orders", b"last")
        with connect(cluster.address("a")) as early, early.subscribe("orders", start=first) as held:
            until_last(held)  # the archive has it
        whole.kill()
        archive_at(cluster, tmp_path / "newcomer", stack)
        reader = stack.enter_context(connect(cluster.address("b")))
        with reader.subscribe("orders", start=first, gap_wait_s=0) as reading:
            assert isinstance(reading.receive(PATIENCE_S), Gap)
        reader = stack.enter_context(connect(cluster.address("b")))
        for seconds in (-1, nan, inf):
            with (
                pytest.raises(LocalProtocolError, match="gap_wait_s is"),
                reader.subscribe("orders", start=first, gap_wait_s=seconds),
            ):
                pass
        with reader.subscribe("orders", start=first, gap_wait_s=3600) as reading:
            while not reading.waits_for_archive:
                with pytest.raises(TimeoutError):
                    reading.receive(0.05)
            archive_at(cluster, tmp_path / "whole", stack)
            found = until_last(reading)
            assert not reading.waits_for_archive
        assert not [event for event in found if isinstance(event, Gap)]
        data = [event.data for event in found if isinstance(event, Message)]
        assert data[:3001] == [*(b"%d" % n for n in range(3000)), b"last"]


def until_last(reading: BlockingSubscription) -> list[Given]:
    found: list[Given] = []
    while not any(getattr(event, "data", b"") == b"last" for event in found):
        found += reading.receive_batch(PATIENCE_S)
    return found


def archive_at(cluster: RunningCluster, store: Path, stack: ExitStack) -> ArchiveProcess:
    """Start an archive at daemon b, and wait until it is live."""
    archive = stack.enter_context(ArchiveProcess(cluster.address("b"), store, ["orders"]))
    archive.until_live()
    return archive
