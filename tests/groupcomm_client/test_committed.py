"""The rule behind exactly once: publishers that die, come twice and are late; no I/O."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.errors import ConfigError
from groupcomm.events import MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_archive.columns import EventBatch, to_rows
from groupcomm_client.committed import Batch, CommittedStream, Incomplete, Missed
from groupcomm_client.committed.log import CommittedLog
from groupcomm_client.committed.markers import TYPE, Begin, End, Marker, encode_marker
from groupcomm_client.committed.publications import MAX_OPEN
from groupcomm_client.committed.receiving import Given
from groupcomm_log.reader import LogReader
from groupcomm_log.writer import LogWriter
from tests.groupcomm_log.make import QuickDisk

GROUP = "g"
QUERY = "q"

Rows = Sequence[tuple[tuple[str, ...], bytes]]
"""Destinations and data."""


@attrs.define
class Publisher:
    """One session that publishes batches."""

    name: str = "a"
    number: int = 0

    def message(self, groups: Iterable[str], type: int, data: bytes) -> Message:
        self.number += 1
        sender = MemberId(f"#sink.{self.name}#d", 1)
        groups = tuple(groups)
        return Message(sender, self.number, groups, ServiceLevel.AGREED, type, data, None)

    def marker(self, groups: Iterable[str], marker: Marker) -> Message:
        return self.message(groups, TYPE, encode_marker(marker))

    def publish(
        self, batch: int, rows: Rows, after: dict[str, int] | None = None, query: str = QUERY
    ) -> list[Message]:
        counts: dict[str, int] = {}
        for groups, _ in rows:
            for group in groups:
                counts[group] = counts.get(group, 0) + 1
        return [
            self.marker(counts, Begin(query, batch)),
            *(self.message(groups, 7, data) for groups, data in rows),
            self.marker(counts, End(query, batch, counts, after or {})),
        ]


def rows_of(*data: bytes, group: str = GROUP) -> Rows:
    return [((group,), each) for each in data]


def feed(stream: CommittedStream, messages: Iterable[Message]) -> list[Given]:
    return [given for message in messages if (given := stream.accept(message)) is not None]


def data_of(batch: Given) -> list[bytes]:
    assert isinstance(batch, Batch)
    return [row.message.data for row in batch.rows]


def test_a_batch_is_given_once_it_is_whole_with_ids() -> None:
    stream, (*rows, end) = CommittedStream([GROUP]), Publisher().publish(4, rows_of(b"x", b"y"))
    assert feed(stream, rows) == []
    found = stream.accept(end)
    assert isinstance(found, Batch)
    ids = [(row.query, row.batch, row.index, row.message.data) for row in found.rows]
    assert ids == [(QUERY, 4, 0, b"x"), (QUERY, 4, 1, b"y")]
    assert found.missed == ()


def test_messages_of_others_pass_as_they_come() -> None:
    stream, publisher = CommittedStream([GROUP]), Publisher()
    begin, row, end = publisher.publish(0, rows_of(b"x"))
    plain = Message(MemberId("#ann#d", 3), 9, (GROUP,), ServiceLevel.FIFO, TYPE, b"hello", None)
    assert feed(stream, [begin, plain, row, plain]) == [plain, plain]
    assert data_of(feed(stream, [end])[0]) == [b"x"]


def test_a_batch_that_comes_again_is_not_given_again() -> None:
    stream = CommittedStream([GROUP])
    assert len(feed(stream, Publisher("a").publish(3, rows_of(b"x")))) == 1
    assert feed(stream, Publisher("b").publish(3, rows_of(b"x"))) == []
    assert feed(stream, Publisher("c").publish(2, rows_of(b"w"))) == []
    assert len(feed(stream, Publisher("b").publish(3, rows_of(b"x"), query="other"))) == 1


def test_of_two_publishers_the_first_to_end_is_taken() -> None:
    zombie = Publisher("old").publish(1, rows_of(b"x", b"y"))
    newer = Publisher("new").publish(1, rows_of(b"x", b"y"))
    stream = CommittedStream([GROUP])
    (found,) = feed(stream, [*zombie[:2], *newer[:3], zombie[2], newer[3], zombie[3]])
    assert data_of(found) == [b"x", b"y"]
    assert isinstance(found, Batch)
    assert {row.message.sender.name for row in found.rows} == {"#sink.new#d"}


def test_a_publisher_that_died_in_the_middle_leaves_nothing() -> None:
    stream = CommittedStream([GROUP])
    assert feed(stream, Publisher("old").publish(1, rows_of(b"x", b"y"))[:2]) == []
    (found,) = feed(stream, Publisher("new").publish(1, rows_of(b"x", b"y")))
    assert data_of(found) == [b"x", b"y"]
    assert stream._publications.open == []


def test_publishers_that_died_are_bounded() -> None:
    stream = CommittedStream([GROUP])
    for number in range(3 * MAX_OPEN):
        feed(stream, Publisher(f"p{number}").publish(1, rows_of(b"x"))[:2])
    assert len(stream._publications.open) == MAX_OPEN
    assert len(feed(stream, Publisher("last").publish(1, rows_of(b"x")))) == 1


def test_who_joins_in_the_middle_is_notified_and_takes_it_when_it_comes_again() -> None:
    stream, batch = CommittedStream([GROUP]), rows_of(b"x", b"y")
    (told,) = feed(stream, Publisher("a").publish(1, batch)[2:])
    assert told == Incomplete(query=QUERY, number=1, got={GROUP: 0}, wanted={GROUP: 2})
    (found,) = feed(stream, Publisher("b").publish(1, batch))
    assert data_of(found) == [b"x", b"y"]


def test_a_row_that_did_not_come_makes_a_batch_incomplete() -> None:
    """Behave as after a partition between publisher and receiver."""
    stream = CommittedStream([GROUP])
    begin, _, row, end = Publisher().publish(1, rows_of(b"x", b"y"))
    (told,) = feed(stream, [begin, row, end])
    assert told == Incomplete(query=QUERY, number=1, got={GROUP: 1}, wanted={GROUP: 2})


def test_an_end_does_not_fit_another_begin() -> None:
    stream, publisher = CommittedStream([GROUP]), Publisher()
    first = publisher.publish(1, rows_of(b"x"))
    second = publisher.publish(2, rows_of(b"x"))
    (told,) = feed(stream, [*first[:2], second[2]])
    assert isinstance(told, Incomplete)


def test_whole_batches_that_did_not_come_are_reported_once() -> None:
    stream = CommittedStream([GROUP, "other"])
    feed(stream, Publisher().publish(3, rows_of(b"x"), after={GROUP: 1}))
    (found,) = feed(stream, Publisher().publish(7, rows_of(b"x"), after={GROUP: 5}))
    assert isinstance(found, Batch)
    assert found.missed == (Missed(group=GROUP, behind=3, last=5),)
    (found,) = feed(stream, Publisher().publish(8, rows_of(b"x"), after={GROUP: 7}))
    assert isinstance(found, Batch)
    assert found.missed == ()


def test_a_member_of_some_groups_gets_their_rows_with_the_same_ids() -> None:
    rows: Rows = [
        (("a",), b"0"),
        (("a", "b"), b"1"),
        (("b",), b"2"),
        (("c",), b"3"),
        (("b",), b"4"),
    ]
    messages = Publisher().publish(0, rows)
    stream = CommittedStream(["b"])
    (found,) = feed(stream, [m for m in messages if "b" in m.groups])
    assert isinstance(found, Batch)
    assert [(row.index, row.message.data) for row in found.rows] == [
        (1, b"1"),
        (2, b"2"),
        (4, b"4"),
    ]


def test_a_receiver_goes_on_behind_its_state() -> None:
    first = CommittedStream([GROUP])
    feed(first, Publisher().publish(5, rows_of(b"x")))
    saved = json.loads(json.dumps(first.state))
    second = CommittedStream([GROUP], saved)
    assert feed(second, Publisher("b").publish(5, rows_of(b"x"))) == []
    (found,) = feed(second, Publisher("b").publish(9, rows_of(b"y"), after={GROUP: 8}))
    assert isinstance(found, Batch)
    assert found.missed == (Missed(group=GROUP, behind=5, last=8),)


@pytest.mark.parametrize("state", [{"q": 3}, [1], {"q": {"batch": "x"}}])
def test_what_is_no_state_is_refused(state: object) -> None:
    with pytest.raises(ConfigError, match=r"pass the value of its attribute state"):
        CommittedStream([GROUP], state)


def test_what_a_publisher_says_that_nobody_understands_is_a_row() -> None:
    stream, publisher = CommittedStream([GROUP]), Publisher()
    strange = publisher.message([GROUP], TYPE, b'{"marker": "pause"}')
    assert feed(stream, [strange]) == []


# ---- any interleaving ----


def play(random: Random) -> tuple[list[Message], dict[int, Rows]]:
    """What one group is delivered from drivers that follow each other, and the batches.

    A driver begins with the batch that the one before had in hand, or with the one before that
    if that was not noted to be published. The one before is dead, or sends on what it had in hand.
    """
    batches = {
        number: rows_of(*(f"{number}.{at}".encode() for at in range(random.randint(1, 3))))
        for number in range(random.randint(1, 5))
    }
    sent: list[Message] = []
    zombies: list[list[Message]] = []
    lives = number = 0
    driver = Publisher("p0")
    waiting = driver.publish(number, batches[number])
    while number < len(batches):
        chance = random.random()
        if chance < 0.15:
            if random.random() < 0.5 and len(zombies) < MAX_OPEN - 1:
                zombies.append(waiting)
            lives, number = lives + 1, max(0, number - random.randint(0, 1))
            driver = Publisher(f"p{lives}")
            waiting = driver.publish(number, batches[number])
        elif zombies and chance < 0.5:
            zombie = random.choice(zombies)
            sent.append(zombie.pop(0))
            zombies = [each for each in zombies if each]
        else:
            sent.append(waiting.pop(0))
            if not waiting:
                number += 1
                waiting = driver.publish(number, batches.get(number, ()))
    return sent + [message for zombie in zombies for message in zombie], batches


def ends_in(messages: Iterable[Message]) -> set[int]:
    markers = [json.loads(message.data) for message in messages if message.type == TYPE]
    return {marker["batch"] for marker in markers if marker["marker"] == "end"}


@given(seed=st.integers(0, 2**32))
def test_each_batch_comes_once_whole_and_in_order(seed: int) -> None:
    messages, batches = play(Random(seed))
    found = feed(CommittedStream([GROUP]), messages)
    whole = [each for each in found if isinstance(each, Batch)]
    assert [each.number for each in whole] == [*batches]
    for each, rows in zip(whole, batches.values(), strict=True):
        assert data_of(each) == [data for _, data in rows]


@given(
    seed=st.integers(0, 2**32),
    joined=st.integers(0, 15),
    lost=st.sets(st.integers(0, 40), max_size=3),
)
def test_what_did_not_come_is_reported_and_nothing_comes_twice(
    seed: int, joined: int, lost: set[int]
) -> None:
    messages, batches = play(Random(seed))
    seen = [m for at, m in enumerate(messages) if at >= joined and at not in lost]
    found = feed(CommittedStream([GROUP]), seen)
    whole = [each for each in found if isinstance(each, Batch)]
    numbers = [each.number for each in whole]
    assert numbers == sorted(set(numbers))
    for each in whole:
        assert data_of(each) == [data for _, data in batches[each.number]]
        assert [row.index for row in each.rows] == [*range(len(each.rows))]
    told = {*numbers, *(each.number for each in found if isinstance(each, Incomplete))}
    ends = ends_in(seen)
    assert told <= ends
    assert all(number < numbers[-1] for number in ends - told), "later ones came before its end"


@given(seed=st.integers(0, 2**32), stops=st.lists(st.integers(0, 30), max_size=4))
def test_a_receiver_that_saves_its_state_with_its_batches_has_each_once(
    seed: int, stops: list[int]
) -> None:
    """It is delivered everything anew each time, as one that reads a log."""
    messages, batches = play(Random(seed))
    saved, kept = None, []
    for stop in [*sorted(stops), len(messages)]:
        stream = CommittedStream([GROUP], saved)
        for message in messages[:stop]:
            if isinstance(found := stream.accept(message), Batch):
                kept.append(found.number)
                saved = json.loads(json.dumps(stream.state))
    assert kept == [*batches]


# ---- logs ----


def record(folder: Path, messages: Sequence[Message], *, sizes: Sequence[int]) -> LogWriter:
    writer = LogWriter(folder, disk=QuickDisk())
    left = list(messages)
    for size in [*sizes, len(left)]:
        if left[:size]:
            writer.append(to_rows([EventBatch(1, left[:size])]))
            left = left[size:]
    return writer


def test_a_log_gives_its_batches_once_while_it_grows_and_over_restarts(tmp_path: Path) -> None:
    plain = Message(MemberId("#ann#d", 3), 9, (GROUP,), ServiceLevel.FIFO, 0, b"hello", None)
    batches = [Publisher(name).publish(at, rows_of(b"x", b"y")) for at, name in enumerate("abc")]
    again = Publisher("z").publish(1, rows_of(b"x", b"y"))
    messages = [*batches[0], plain, *batches[1][:2], *again, *batches[1][2:], *batches[2]]
    found = defaultdict[int, list[int]](list)
    for cut in range(len(messages)):
        folder = tmp_path / str(cut)
        writer = record(folder, messages[:cut], sizes=[2, 3])
        log = CommittedLog(LogReader(folder), [GROUP], columns=["data"]) if cut else None
        for batch in log.read() if log is not None else ():
            found[cut].append(batch.number)
        writer.append(to_rows([EventBatch(1, messages[cut:])]))
        state = json.loads(json.dumps(log.state)) if log is not None else None
        second = CommittedLog(LogReader(folder), [GROUP], state, columns=["data"])
        for each in second.read():
            assert isinstance(each, Batch)
            assert [row.message["data"] for row in each.rows] == [b"x", b"y"]
            found[cut].append(each.number)
        assert [*second.read()] == []
        writer.close()
    assert set(map(tuple, found.values())) == {(0, 1, 2)}


def test_what_is_no_state_of_a_log_is_refused(tmp_path: Path) -> None:
    record(tmp_path, Publisher().publish(0, rows_of(b"x")), sizes=[]).close()
    with pytest.raises(ConfigError, match="no queries and offset"):
        CommittedLog(LogReader(tmp_path), [GROUP], {"offset": [1, 2]})
