"""A message of the greatest size is in the history, though its piece is larger than a message."""

from pathlib import Path

import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm.wire.messages import MAX_MESSAGE_BYTES
from groupcomm_archive.archive import Archive, ReadStore
from groupcomm_client.blocking import connect
from groupcomm_client.history import EARLIEST, CaughtUp
from groupcomm_client.history.frames import (
    EncodedPiece,
    Part,
    Piece,
    Read,
    decode_untrusted,
    encode,
    encode_piece,
)
from groupcomm_client.history.parts import PART_BYTES, PartReader, messages_of
from groupcomm_client.history.subscriber import Send
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.history.archives import ArchiveProcess
from tests.groupcomm_client.history.pieces import piece_of
from tests.groupcomm_client.history.test_live import place
from tests.groupcomm_client.history.test_subscriber import ONE, Game

PATIENCE_S = 60.0
ANN = MemberId("#ann#b", 2)


@pytest.fixture(scope="module")
def large() -> EncodedPiece:
    """A piece with the largest message that there may be."""
    data = b"x" * MAX_MESSAGE_BYTES
    position = Position(ViewId(5, "a", 7), 20, 0, 0, 0)
    event = Message(ANN, 1, ("g",), ServiceLevel.AGREED, 0, data, position)
    return encode_piece(piece_of([event], 3, 0, place(5, 10), place(5, 20)))


def parts_in(large: EncodedPiece) -> list[Part]:
    messages = messages_of(3, large.data)
    assert all(len(data) <= MAX_MESSAGE_BYTES for data in messages)
    parts = [decode_untrusted(data) for data in messages]
    return [part for part in parts if isinstance(part, Part)]


def test_a_large_piece_comes_in_parts_and_a_small_one_as_it_is(large: EncodedPiece) -> None:
    reader = PartReader()
    *before, last = parts_in(large)
    assert [reader.add(part) for part in before] == [None] * len(before)
    found = reader.add(last)
    assert isinstance(found, Piece)
    assert encode(found) == large.data
    assert messages_of(3, b"small") == [b"small"]


def test_what_is_no_whole_piece_is_forgotten(large: EncodedPiece) -> None:
    first, second, *_, last = parts_in(large)
    reader = PartReader()
    assert reader.add(first) is None
    assert reader.add(last) is None, "those between are missing"
    assert reader.add(last) is None
    small = Part(3, 0, True, encode_piece(piece_of([], 3, 0, place(5, 1), place(5, 2))).data)
    assert reader.add(first) is None
    assert isinstance(reader.add(small), Piece), "a piece begins anew"
    assert reader.add(Part(4, 0, True, small.data)) is None, "it is of another stream"
    assert reader.add(Part(3, 0, True, b"junk")) is None
    reader.add(first)
    index = 0
    while reader._bytes:
        index += 1
        assert index * PART_BYTES < 3 * MAX_MESSAGE_BYTES, "it has no bound"
        reader.add(Part(3, index, False, second.data))


def test_a_subscriber_gets_a_piece_in_parts() -> None:
    game = Game(place(5, 10))
    game.find()
    game.offer(ONE, (place(4, 0), place(5, 200)))
    _, read = game.reading()
    event = Message(ANN, 1, ("g",), ServiceLevel.AGREED, 0, b"large", place(5, 20))
    data = encode_piece(piece_of([event], read.number, 0, place(5, 10), place(5, 20))).data
    for index in range(len(data)):
        game.hear(ONE, Part(read.number, index, index == len(data) - 1, data[index : index + 1]))
    assert [each.data for each in game.taken() if isinstance(each, Message)] == [b"large"]


def test_an_archive_sends_no_message_that_is_too_large(large: EncodedPiece) -> None:
    archive = Archive(ONE, ("g",), [(place(5, 10), place(5, 20))])
    read = encode(Read(3, ("g",), place(5, 10), None, 1))
    archive.handle(Message(ANN, 1, (ONE.name,), ServiceLevel.FIFO, 0, read, None), 0.0)
    (action,) = archive.pop_actions()
    assert isinstance(action, ReadStore)
    archive.read(action.key, large, 0.0)
    sent = [each for each in archive.pop_actions() if isinstance(each, Send)]
    assert len(sent) > 1
    assert max(len(each.data) for each in sent) <= MAX_MESSAGE_BYTES


@pytest.mark.long
@pytest.mark.parametrize("listen", ["local", "none"])
def test_an_archive_serves_the_largest_messages(tmp_path: Path, listen: str) -> None:
    with (
        RunningCluster("a") as cluster,
        ArchiveProcess(
            cluster.address("a"), tmp_path / "log", ["g"], "--listen", listen
        ) as archive,
        connect(cluster.address("a")) as sender,
    ):
        archive.until_live()
        sizes = [1, MAX_MESSAGE_BYTES, 2]
        for size in sizes:
            sender.multicast_ordered("g", b"x" * size)
        with (
            connect(cluster.address("a")) as reader,
            reader.subscribe("g", start=EARLIEST) as reading,
        ):
            found = []
            while not isinstance(event := reading.receive(PATIENCE_S), CaughtUp):
                found += [len(event.data)] if isinstance(event, Message) else []
        assert found == sizes
        assert archive.end() == 0
