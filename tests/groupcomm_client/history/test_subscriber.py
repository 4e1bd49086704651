"""How a subscriber chooses an archive, reads from it, and joins live events."""

from collections.abc import Iterable

import pytest

from groupcomm.clocks.stamp import Position
from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Message, Undeliverable
from groupcomm.level import ServiceLevel
from groupcomm_client.events import Received
from groupcomm_client.history import given_queue
from groupcomm_client.history import subscriber as module
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
)
from groupcomm_client.history.given import CaughtUp, Gap, Start
from groupcomm_client.history.given_queue import EVENT_BYTES, QUEUE_BYTES
from groupcomm_client.history.live import MARK
from groupcomm_client.history.places import Line, just_before
from groupcomm_client.history.streams import (
    ChannelAction,
    CloseChannel,
    OpenChannel,
    PauseChannel,
    ResumeChannel,
)
from groupcomm_client.history.subscriber import Send, State, Subscriber
from tests.groupcomm_client.history.pieces import piece_of
from tests.groupcomm_client.history.test_live import ME, daemons, joined, message, place

ONE, TWO = MemberId("#one#a", 11), MemberId("#two#b", 12)
JOIN = place(5, 100)
LIVE_AFTER = just_before(JOIN)
LONG_MS = 3_600_000  # archives that are away are not waited for any more


class Game:
    """A subscriber, and what it has sent to archives."""

    def __init__(
        self,
        start: Start | Position,
        *,
        is_archive: bool = False,
        queue_bytes: int = QUEUE_BYTES,
        has_channels: bool = False,
        compacted: bool = False,
    ) -> None:
        self.now = 0.0
        self.channels: list[ChannelAction] = []
        self.subscriber = Subscriber(
            ME,
            ("g",),
            start,
            now=0.0,
            is_archive=is_archive,
            queue_bytes=queue_bytes,
            has_channels=has_channels,
            compacted=compacted,
        )
        self.feed(daemons(5), joined(JOIN))

    def is_in(self, state: State) -> bool:
        return self.subscriber.state is state

    def feed(self, *events: Received) -> None:
        for event in events:
            self.subscriber.handle(event, self.now)

    def hear(self, sender: MemberId, frame: Frame) -> None:
        self.feed(Message(sender, 1, (ME.name,), ServiceLevel.FIFO, 0, encode(frame), None))

    def pass_time(self, seconds: float) -> list[tuple[str, Frame]]:
        until = self.now + seconds
        while self.subscriber.deadline is not None and self.subscriber.deadline <= until:
            self.now = max(self.now, self.subscriber.deadline)
            self.subscriber.wake(self.now)
        self.now = until
        return self.sent()

    def sent(self) -> list[tuple[str, Frame]]:
        found = []
        for action in self.subscriber.pop_actions():
            if not isinstance(action, Send):
                self.channels.append(action)
                continue
            frame = decode_untrusted(action.data)
            if frame is not None:
                found.append((action.to, frame))
        return found

    def find(self) -> int:
        """Return the number of the Find that it sends now."""
        ((to, frame),) = [each for each in self.pass_time(0) if isinstance(each[1], Find)]
        assert to == ARCHIVES
        assert isinstance(frame, Find)
        return frame.number

    def offer(
        self,
        archive: MemberId,
        *intervals: tuple[Position, Position],
        live: bool = True,
        away_ms: int | None = LONG_MS,
    ) -> None:
        number = self.subscriber._numbers
        self.hear(archive, Offer(number, live, intervals, None, away_ms))

    def reading(self) -> tuple[str, Read]:
        """Return the only Read that it has sent, and to whom."""
        ((to, frame),) = [each for each in self.sent() if isinstance(each[1], Read)]
        assert isinstance(frame, Read)
        return to, frame

    def piece(self, archive: MemberId, read: Read, index: int, after: Position, *to: int) -> None:
        """Have an archive send messages with these times; the last is what they complete."""
        events = [message(place(5, time)) for time in to]
        self.hear(archive, piece_of(events, read.number, index, after, place(5, to[-1])))

    def taken(self) -> list[object]:
        found: list[object] = [*self.subscriber.waiting.pop()]
        self.subscriber.taken(self.now)
        return found


def times(events: Iterable[object]) -> list[int]:
    return [event.bundle.time for event in events if isinstance(event, Message) and event.bundle]


def test_history_is_joined_with_live_events_at_the_own_join() -> None:
    game = Game(place(5, 10))
    game.find()
    game.offer(ONE, (place(4, 0), place(5, 200)))
    to, read = game.reading()
    assert (to, read.after) == (ONE.name, place(5, 10))
    game.feed(message(place(5, 110)), message(place(5, 120)), message(place(5, 130)))
    game.piece(ONE, read, 0, place(5, 10), 20, 30)
    assert game.subscriber.state is State.READING
    game.piece(ONE, read, 1, place(5, 30), 90, 110, 120)
    assert (ONE.name, Stop(read.number)) in game.sent()
    given = game.taken()
    assert times(given) == [20, 30, 90, 110, 120, 130]
    assert CaughtUp(position=place(5, 120)) in given
    game.feed(message(place(5, 140)))
    assert times(game.taken()) == [140]


def test_a_piece_that_does_not_follow_the_last_one_is_not_given() -> None:
    game = Game(place(5, 10))
    game.find()
    game.offer(ONE, (place(4, 0), place(5, 90)))
    _, read = game.reading()
    game.piece(ONE, read, 0, place(5, 10), 20, 30)
    game.piece(ONE, read, 2, place(5, 50), 60)  # a piece between was lost with a view
    assert game.is_in(State.FINDING)
    assert times(game.taken()) == [20, 30]


def test_latest_needs_no_archive() -> None:
    game = Game(Start.LATEST)
    assert game.pass_time(10) == []
    game.feed(message(place(5, 110)))
    assert times(game.taken()) == [110]


@pytest.mark.parametrize("intervals", [[(place(4, 0), place(5, 40))], []])
@pytest.mark.parametrize("live", [True, False])
def test_an_archive_that_is_behind_is_waited_for(
    live: bool, intervals: list[tuple[Position, Position]]
) -> None:
    game = Game(place(5, 50))
    game.find()
    game.offer(ONE, *intervals, live=live)
    (found,) = game.pass_time(module.RETRY_S)
    assert isinstance(found[1], Find)
    assert game.taken() == []
    game.offer(ONE, (place(4, 0), place(5, 60)))
    assert game.reading()[1].after == place(5, 50)


def test_the_archive_that_has_most_is_read_and_a_live_one_at_once() -> None:
    game = Game(place(5, 10))
    game.find()
    game.offer(ONE, (place(4, 0), place(5, 20)), live=False)
    game.offer(TWO, (place(4, 0), place(5, 30)), live=False)
    ((to, frame),) = game.pass_time(module.FIND_S)
    assert (to, type(frame)) == (TWO.name, Read)
    game = Game(place(5, 10))
    game.find()
    game.offer(ONE, (place(4, 0), place(5, 20)))
    assert game.reading()[0] == ONE.name


def test_a_gap_has_its_bounds_and_history_goes_on_behind_it() -> None:
    game = Game(place(3, 10))
    game.find()
    game.offer(ONE, (place(2, 0), place(2, 9)), (place(5, 20), place(5, 90)))
    game.offer(TWO, (place(5, 40), place(5, 90)))
    ((to, read),) = game.pass_time(module.FIND_S)
    assert isinstance(read, Read)
    assert (to, read.after) == (ONE.name, place(5, 20))
    assert game.taken() == [Gap(after=place(3, 10), upto=place(5, 20))]


def test_an_offer_that_comes_behind_the_next_question_counts() -> None:
    game = Game(place(5, 10))
    number = game.find()
    assert [type(frame) for _, frame in game.pass_time(module.RETRY_S)] == [Find]
    game.hear(ONE, Offer(number, True, ((place(4, 0), place(5, 200)),)))
    game.reading()
    game.pass_time(module.PIECE_S)
    game.hear(ONE, Offer(number, True, ((place(4, 0), place(5, 200)),)))
    assert game.sent() == [], "it has read since then, and not got what was offered"


def test_live_events_come_behind_a_gap_if_no_archive_has_earlier_ones() -> None:
    game = Game(place(3, 10))
    game.find()
    game.offer(ONE, (place(5, 150), place(5, 190)))
    game.pass_time(module.FIND_S)
    gap, caught_up = game.taken()[:2]
    assert gap == Gap(after=place(3, 10), upto=LIVE_AFTER)
    assert isinstance(caught_up, CaughtUp)
    assert game.subscriber.state is State.LIVE


def test_without_an_offer_a_subscriber_asks_again_and_an_archive_goes_on_alone() -> None:
    game = Game(place(3, 10))
    assert len(game.pass_time(15)) == 5, "at 0, 1, 3, 7 and 15 s"
    assert game.taken() == []
    game = Game(place(3, 10), is_archive=True)
    game.pass_time(module.FIND_S)
    assert game.taken()[0] == Gap(after=place(3, 10), upto=LIVE_AFTER)


def test_an_archive_waits_for_the_offers_of_all_others() -> None:
    game = Game(place(3, 10), is_archive=True)
    others = GroupView(
        group=ARCHIVES,
        id=place(5, 99),
        members=(ME, ONE, TWO),
        cause=Cause.JOIN,
        changed=(ME,),
        vs_set=(),
        own=True,
    )
    game.feed(others)
    game.find()
    game.offer(ONE, (place(2, 0), place(2, 9)), live=False)
    game.pass_time(module.RETRY_S)
    assert game.subscriber.state is State.FINDING
    game.offer(ONE, (place(2, 0), place(2, 9)), live=False)
    game.offer(TWO, (place(2, 0), place(4, 0)), live=False)
    assert game.reading()[0] == TWO.name
    game = Game(place(3, 10), is_archive=True)
    game.feed(others)
    game.pass_time(module.ALONE_S + module.FIND_S)
    assert game.subscriber.state is State.LIVE


def test_it_says_since_when_no_archive_answers() -> None:
    game = Game(Start.LATEST)
    game.pass_time(5)
    assert game.subscriber.alone_since is None, "it needs none"
    game.feed(daemons(9))
    game.pass_time(2.5)
    assert game.subscriber.alone_since == 5
    game.feed(daemons(10, "a", majority=False))
    game.pass_time(20)
    assert game.subscriber.alone_since is not None
    assert game.subscriber.alone_since > 20, "without a majority it is not about archives"
    game.offer(ONE, (place(4, 0), place(5, 300)))
    assert game.subscriber.alone_since is None


def test_two_archives_that_are_not_live_do_not_wait_for_each_other() -> None:
    game = Game(place(3, 10), is_archive=True)
    game.find()
    game.offer(ONE, (place(2, 0), place(3, 10)), live=False)
    game.offer(TWO, (place(2, 0), place(3, 5)), live=False)
    game.pass_time(module.FIND_S)
    assert game.subscriber.state is State.LIVE


def test_the_start_of_history_is_where_the_first_interval_begins() -> None:
    game = Game(Start.EARLIEST)
    game.find()
    game.offer(ONE, (place(5, 20), place(5, 90)))
    game.offer(TWO, (place(5, 10), place(5, 90)))
    ((to, read),) = game.pass_time(module.FIND_S)
    assert isinstance(read, Read)
    assert (to, read.after) == (TWO.name, None)
    game.piece(TWO, read, 0, place(5, 10), 20)
    assert game.taken()[0] == Gap(after=None, upto=place(5, 10))
    assert game.subscriber.position == place(5, 20)


def lost(game: Game, read: Read) -> None:
    game.piece(ONE, read, 1, place(5, 30), 40)


def elsewhere(game: Game, read: Read) -> None:
    game.piece(ONE, read, 0, place(5, 11), 40)


def silent(game: Game, _: Read) -> None:
    game.pass_time(module.PIECE_S)


def gone(game: Game, _: Read) -> None:
    game.feed(Undeliverable(number=1, target=ONE.name, position=place(5, 101)))


def ends(game: Game, read: Read) -> None:
    game.hear(ONE, Piece(read.number, 0, place(5, 10), place(5, 10), is_end=True))


@pytest.mark.parametrize("what", [lost, elsewhere, silent, gone, ends], ids=lambda f: f.__name__)
def test_another_archive_is_looked_for(what: object) -> None:
    game = Game(place(5, 10))
    game.find()
    game.offer(ONE, (place(4, 0), place(5, 200)))
    _, read = game.reading()
    assert callable(what)
    what(game, read)
    game.pass_time(0)
    assert game.subscriber.state is State.FINDING
    assert times(game.taken()) == [], "nothing came twice, or with something missing before it"
    game.offer(TWO, (place(4, 0), place(5, 200)))
    assert game.reading()[0] == TWO.name


def test_what_others_send_is_no_piece() -> None:
    game = Game(place(5, 10))
    game.find()
    game.offer(ONE, (place(4, 0), place(5, 200)))
    _, read = game.reading()
    game.piece(TWO, read, 0, place(5, 10), 20)
    game.hear(ONE, piece_of([message(place(5, 20))], 99, 0, place(5, 10), place(5, 20)))
    assert game.taken() == []
    assert game.subscriber.state is State.READING


def test_no_more_is_granted_while_the_program_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_queue, "READ_AHEAD", 2)
    game = Game(place(5, 10))
    game.find()
    game.offer(ONE, (place(4, 0), place(5, 200)))
    _, read = game.reading()
    after = place(5, 10)
    for index in range(module.WINDOW):
        game.piece(ONE, read, index, after, 11 + index)
        after = place(5, 11 + index)
    granted = [frame.granted for _, frame in game.sent() if isinstance(frame, More)]
    assert granted == [module.WINDOW + 2]
    game.taken()
    assert [frame for _, frame in game.sent()] == [More(read.number, 2 * module.WINDOW)]


def test_a_slow_program_gets_live_events_from_an_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_queue, "MOST_WAITING", 3)
    monkeypatch.setattr(given_queue, "READ_AHEAD", 2)
    game = Game(Start.LATEST, queue_bytes=3 * (EVENT_BYTES + 1))
    game.feed(*(message(place(5, time)) for time in range(101, 110)))
    assert game.subscriber.state is State.FINDING
    assert game.pass_time(3) == [], "the program has enough to do"
    before = times(game.taken())
    assert before == [101, 102]
    game.find()
    game.offer(ONE, (place(4, 0), place(5, 300)))
    _, read = game.reading()
    assert read.after == place(5, 102)
    game.piece(ONE, read, 0, place(5, 102), *range(103, 110))
    game.feed(message(place(5, 110)))
    assert times(game.taken() + game.taken()) == list(range(103, 111))


def test_a_slow_program_needs_no_archive_if_its_live_events_are_still_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(given_queue, "MOST_WAITING", 3)
    game = Game(Start.LATEST)
    game.feed(*(message(place(5, time)) for time in range(101, 110)))
    assert len(game.subscriber.waiting) < 6
    assert times(game.taken() + game.taken()) == list(range(101, 110))


def test_a_slow_program_gets_large_live_events_from_an_archive() -> None:
    one = EVENT_BYTES + 1
    game = Game(Start.LATEST, queue_bytes=16 * one)
    game.feed(*(message(place(5, time)) for time in range(101, 160)))
    assert game.subscriber.state is State.FINDING
    assert times(game.taken()) == list(range(101, 116))
    game.find()
    game.offer(ONE, (place(4, 0), place(5, 300)))
    _, read = game.reading()
    assert read.after == place(5, 115)
    for index in range(module.WINDOW):
        game.piece(ONE, read, index, place(5, 115 + index), 116 + index)
    granted = [frame.granted for _, frame in game.sent() if isinstance(frame, More)]
    assert granted == [module.WINDOW + 2], "three events are more than an eighth"
    assert times(game.taken()) == list(range(116, 116 + module.WINDOW))


def test_a_view_that_continues_nothing_is_caught_up_with() -> None:
    game = Game(Start.LATEST)
    game.feed(message(place(5, 110)), daemons(9))
    assert times(game.taken()) == [110]
    game.find()
    game.feed(message(place(9, 10)))
    game.offer(ONE, (place(4, 0), place(9, 1)))
    _, read = game.reading()
    assert read.after == place(5, 110)
    rest: list[Line] = [message(place(5, 115)), daemons(9)]
    game.hear(ONE, piece_of(rest, read.number, 0, place(5, 110), place(9, 1)))
    given = game.taken()
    assert times(given) == [115, 10]
    assert sum(isinstance(each, DaemonView) for each in given) == 1


def test_history_does_not_begin_before_an_archive_has_written_something() -> None:
    game = Game(Start.EARLIEST)
    game.find()
    game.offer(ONE)
    game.pass_time(module.RETRY_S)
    assert game.taken() == []
    game.offer(ONE, (place(5, 20), place(5, 90)))
    assert isinstance(game.pass_time(module.FIND_S)[0][1], Read)


def test_messages_before_a_view_that_continues_nothing_are_given_first() -> None:
    game = Game(Start.LATEST)
    game.subscriber.handle_all([message(place(5, 110)), message(place(5, 111)), daemons(9)], 0.0)
    assert times(game.taken()) == [110, 111]
    assert game.subscriber.state is State.FINDING


def test_a_message_to_a_group_is_given_whatever_it_looks_like() -> None:
    game = Game(Start.LATEST)
    odd = [encode(Find(1, ("g",))), MARK, b"\xffGH"]
    game.feed(*(message(place(5, 110 + n), data=data) for n, data in enumerate(odd)))
    game.subscriber.handle_all(
        [message(place(5, 120 + n), data=data) for n, data in enumerate(odd)], 0.0
    )
    assert [each.data for each in game.taken() if isinstance(each, Message)] == odd + odd


def test_a_slow_archive_gets_more_time_each_time() -> None:
    game = Game(place(5, 10))
    for seconds in (1, 2, 4):
        game.find()
        game.offer(ONE, (place(4, 0), place(5, 200)))
        _, read = game.reading()
        game.pass_time(seconds - 0.01)
        assert game.is_in(State.READING)
        game.now += 0.01
        game.subscriber.wake(game.now)
        assert game.is_in(State.FINDING)
    game.find()
    game.offer(ONE, (place(4, 0), place(5, 200)))
    _, read = game.reading()
    game.pass_time(7)
    game.piece(ONE, read, 0, place(5, 10), 20)
    game.pass_time(0.9)
    assert game.is_in(State.READING)
    game.pass_time(0.2)
    assert game.is_in(State.FINDING), "it has come in time, so the next one has to"


def test_a_view_that_was_given_is_not_given_again_behind_a_gap() -> None:
    game = Game(Start.LATEST)
    view = joined(place(5, 110))
    game.feed(message(place(5, 105)), view, daemons(9))
    assert view in game.taken()
    game.find()
    game.offer(ONE, (just_before(view.id), place(9, 1)))
    ((_, read),) = game.pass_time(module.FIND_S)
    assert isinstance(read, Read)
    events: list[Line] = [view, message(place(5, 111)), daemons(9)]
    game.hear(ONE, piece_of(events, read.number, 0, just_before(view.id), place(9, 1)))
    given = game.taken()
    assert not [each for each in given if isinstance(each, GroupView)]
    assert times(given) == [111]


# ---- channels ----


def reading_by_channel(start: Position) -> tuple[Game, Read, Channel]:
    """Return a subscriber to which ONE has offered a channel."""
    game = Game(start, has_channels=True)
    game.find()
    game.offer(ONE, (place(4, 0), place(5, 200)))
    _, read = game.reading()
    assert read.by_channel
    channel = Channel(read.number, b"i" * 16, b"k" * 32, ("@here",))
    game.hear(TWO, channel)
    assert game.sent() == []
    assert game.channels == [], "it reads from another archive"
    game.hear(ONE, channel)
    assert game.sent() == []
    assert game.channels == [OpenChannel(channel)]
    return game, read, channel


def by_channel(game: Game, number: int, index: int, after: Position, *to: int) -> None:
    events: list[Line] = [message(place(5, time)) for time in to]
    piece = piece_of(events, number, index, after, place(5, to[-1]))
    game.subscriber.handle_piece(piece, events, game.now)


def test_pieces_come_by_a_channel_which_closes_at_the_join() -> None:
    game, read, _ = reading_by_channel(place(5, 10))
    by_channel(game, read.number, 0, place(5, 10), 20, 30)
    by_channel(game, read.number + 1, 1, place(5, 30), 35)
    by_channel(game, read.number, 1, place(5, 30), 40)
    assert game.sent() == [], "it grants nothing: it takes what it likes"
    assert times(game.taken()) == [20, 30, 40]
    by_channel(game, read.number, 2, place(5, 40), 110)
    assert game.is_in(State.LIVE)
    assert (ONE.name, Stop(read.number)) in game.sent()
    assert game.channels[1:] == [CloseChannel()]


def test_nothing_is_taken_from_a_channel_while_the_program_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(given_queue, "READ_AHEAD", 2)
    game, read, _ = reading_by_channel(place(5, 10))
    by_channel(game, read.number, 0, place(5, 10), 11, 12, 13)
    assert game.sent() == []
    assert game.channels[1:] == [PauseChannel()]
    by_channel(game, read.number, 1, place(5, 13), 14)
    assert game.pass_time(10 * module.PIECE_S) == [], "it expects no piece"
    assert times(game.taken()) == [11, 12, 13, 14]
    assert game.sent() == []
    assert game.channels[2:] == [ResumeChannel()]
    assert not game.pass_time(0.9 * module.PIECE_S)
    assert game.pass_time(0.2 * module.PIECE_S), "now it expects one again"


def test_a_channel_that_breaks_later_is_followed_by_another_one() -> None:
    game, read, channel = reading_by_channel(place(5, 10))
    by_channel(game, read.number, 0, place(5, 10), 20)
    game.subscriber.handle_failure(channel.number, game.now)
    again = Read(read.number + 1, ("g",), place(5, 20), None, module.WINDOW, by_channel=True)
    assert game.sent() == [(ONE.name, Stop(read.number)), (ONE.name, again)]


def test_behind_a_channel_that_cannot_be_opened_the_subscriber_reads_through_the_daemons() -> None:
    game, read, channel = reading_by_channel(place(5, 10))
    game.subscriber.handle_failure(channel.number + 1, game.now)
    assert game.sent() == [], "that was another channel"
    game.subscriber.handle_failure(channel.number, game.now)
    sent = game.sent()
    again = Read(read.number + 1, ("g",), place(5, 10), None, module.WINDOW)
    assert sent == [(ONE.name, Stop(read.number)), (ONE.name, again)]
    assert game.channels[1:] == [CloseChannel()]
    game.hear(ONE, Channel(again.number, b"i" * 16, b"k" * 32, ("@here",)))
    assert game.channels[2:] == [], "it has not asked for one"
    game.piece(ONE, again, 0, place(5, 10), 30)
    assert times(game.taken()) == [30]
    game.subscriber._find(game.now)
    game.pass_time(module.UNREACHABLE_S)
    game.offer(ONE, (place(4, 0), place(5, 200)))
    assert game.reading()[1].by_channel, "later it is tried again"


def test_a_channel_without_a_piece_is_not_asked_for_again() -> None:
    game, _, _ = reading_by_channel(place(5, 10))
    game.pass_time(module.PIECE_S)
    game.offer(ONE, (place(4, 0), place(5, 200)))
    _, read = game.reading()
    assert not read.by_channel
    assert game.channels[1:] == [CloseChannel()]


def test_live_messages_are_dropped_while_much_is_to_be_read() -> None:
    game = Game(place(5, 10))
    game.find()
    game.offer(ONE, (place(4, 0), place(5, 200)))
    _, read = game.reading()
    batch: list[Received] = [message(place(5, 110)), message(place(5, 120))]
    game.subscriber.handle_all(batch, game.now)
    assert game.subscriber.live.complete_after == place(5, 120), "an archive will have it"
    game.piece(ONE, read, 0, place(5, 10), 20)
    game.subscriber.handle_all([message(place(5, 130))], game.now)
    game.piece(ONE, read, 1, place(5, 20), 110, 120)
    assert game.is_in(State.READING)
    game.subscriber.handle_all([message(place(5, 140))], game.now)
    assert game.subscriber.live.complete_after == place(5, 130), "it is near, and keeps them"
    game.piece(ONE, read, 2, place(5, 120), 130)
    assert game.is_in(State.LIVE)
    assert times(game.taken()) == [20, 110, 120, 130, 140]


def test_an_archive_keeps_live_messages_while_it_reads() -> None:
    game = Game(place(5, 10), is_archive=True)
    game.find()
    game.offer(ONE, (place(4, 0), place(5, 200)))
    game.reading()
    game.subscriber.handle_all([message(place(5, 110))], game.now)
    assert game.subscriber.live.complete_after == LIVE_AFTER


def test_a_subscriber_that_waits_for_a_channel_asks_for_one_again() -> None:
    game = Game(place(5, 10), has_channels=True)
    game.find()
    game.offer(ONE, (place(4, 0), place(5, 200)))
    game.reading()
    game.pass_time(module.PIECE_S)
    game.offer(ONE, (place(4, 0), place(5, 200)))
    assert game.reading()[1].by_channel, "the archive or a daemon was busy"


def test_a_channel_ends_when_its_archive_is_gone() -> None:
    game, _, _ = reading_by_channel(place(5, 10))
    game.feed(Undeliverable(number=1, target=ONE.name, position=place(5, 1)))
    assert game.is_in(State.FINDING)
    game.sent()
    assert game.channels[1:] == [CloseChannel()]
