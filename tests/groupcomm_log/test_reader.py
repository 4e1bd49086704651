"""Reading a log: from anywhere, while it is written, sealed or damaged."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm_log.check import check_log, is_recorded
from groupcomm_log.errors import Damage, LogDamaged, LogError, LogRemoved
from groupcomm_log.reader import LogReader, find_start, parse_start
from groupcomm_log.schema import GAP, MESSAGE, VIEW, Offset, rows_of
from groupcomm_log.writer import Limits, LogWriter
from tests.groupcomm_log.make import QuickDisk, append, contents, crash, open_log


def make(folder: Path, *batches: list[bytes], sealed: int = 0) -> LogWriter:
    """A log of one epoch, of which the first batches are sealed, each in a file."""
    writer = open_log(folder, disk=QuickDisk())
    for at, batch in enumerate(batches):
        append(writer, *batch)
        if at < sealed:
            writer._roll()
    writer.tend()
    return writer


@given(sealed=st.integers(0, 3), start=st.integers(0, 7), stop=st.integers(0, 7))
def test_rows_are_read_from_one_to_another(
    tmp_path_factory: pytest.TempPathFactory, sealed: int, start: int, stop: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    make(folder, [b"0", b"1", b"2"], [b"3"], [b"4", b"5"], sealed=sealed).close()
    found = [
        row
        for batch in LogReader(folder).batches(Offset(1, start), Offset(1, stop), ["row"])
        for row in batch["row"].to_pylist()
    ]
    assert found == [*range(start, min(stop, 6))]


def test_a_reader_sees_what_was_acknowledged_at_once(tmp_path: Path) -> None:
    writer = make(tmp_path)
    reader = LogReader(tmp_path)
    assert reader.begin() == reader.end() == Offset(0, 0)
    seen = 0
    for number in range(6):
        append(writer, b"%d" % number, b"x")
        assert reader.end() == Offset(1, 2 * (number + 1))
        batches = reader.batches(Offset(1, seen))
        assert sum(batch.num_rows for batch in batches) == 2
        seen += 2
        if number == 3:
            writer._roll()
            writer.tend()
    assert reader.begin() == Offset(1, 0)
    writer.close()
    assert reader.end() == Offset(1, 12)


def test_a_live_file_that_is_sealed_while_it_is_read_is_read_once(tmp_path: Path) -> None:
    writer = make(tmp_path, [b"0"], [b"1"], [b"2"], sealed=1)
    batches = LogReader(tmp_path).batches(columns=["row"])
    assert next(batches)["row"].to_pylist() == [0]
    writer._roll()
    writer.tend()
    append(writer, b"3")
    assert [row for batch in batches for row in batch["row"].to_pylist()] == [1, 2, 3]
    writer.close()


def test_a_file_that_retention_removes_while_it_is_read_is_reported(tmp_path: Path) -> None:
    writer = make(tmp_path, [b"0"], [b"1"], [b"2"], sealed=3)
    writer._limits = Limits(keep_bytes=1)
    batches = LogReader(tmp_path).batches(columns=["row"])
    assert next(batches)["row"].to_pylist() == [0]
    writer.tend()
    with pytest.raises(LogRemoved, match="rows 1 to 1 were removed before they were read"):
        next(batches)
    assert contents(tmp_path, "row") == [(2,)]
    writer.close()
    found = check_log(tmp_path)
    assert found.is_whole
    assert found.first == Offset(1, 2)


def test_a_folder_without_a_log_is_reported(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none", Path(__file__)):
        with pytest.raises(LogError, match="there is no log; groupcomm record writes one"):
            LogReader(folder).end()


# ---- damage ----


@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_in_a_sealed_file_is_found_and_costs_that_file(
    tmp_path_factory: pytest.TempPathFactory, where: float, bit: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    make(folder, [b"0", b"1"], [b"2", b"3"], [b"4"], sealed=2).close()
    path = LogReader(folder).segments()[1].path
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 1 << bit
    path.write_bytes(content)
    with pytest.raises(LogDamaged, match=path.name):
        contents(folder)
    found = check_log(folder)
    assert [(each.path, each.rows) for each in found.damage] == [(path, (2, 3))]
    assert (found.rows, found.missing, found.is_whole) == (3, [], False)
    damage: list[Damage] = []
    rows = [b["row"].to_pylist() for b in LogReader(folder, damage.append).batches()]
    assert (rows, damage) == ([[0, 1], [4]], found.damage)


def test_a_sealed_file_that_is_gone_is_missed(tmp_path: Path) -> None:
    make(tmp_path, [b"0"], [b"1"], [b"2"], sealed=3).close()
    LogReader(tmp_path).segments()[1].path.unlink()
    found = check_log(tmp_path)
    assert (found.missing, found.is_whole) == ([(1, 1)], False)


def test_damage_in_a_live_file_is_found_by_readers_and_marked_when_it_is_sealed(
    tmp_path: Path,
) -> None:
    writer = make(tmp_path, [b"0"], [b"1", b"2"], [b"3"])
    (live,) = tmp_path.glob("_live-*")
    content = bytearray(live.read_bytes())
    content[len(content) // 2] ^= 1
    live.write_bytes(content)
    with pytest.raises(LogDamaged, match="which held rows 1 to 2: the checksum is wrong"):
        contents(tmp_path)
    crash(writer)
    open_log(tmp_path).close()
    assert contents(tmp_path, "row", "kind", "cause") == [
        (0, MESSAGE, None),
        (1, GAP, "damage"),
        (3, MESSAGE, None),
    ]
    found = check_log(tmp_path)
    assert (found.missing, found.gaps[0]["rows"]) == ([], [1, 2])
    assert found.put_aside == [f"_damaged-{live.name.lstrip('_')}"]


def test_a_torn_end_is_no_damage_while_it_is_written(tmp_path: Path) -> None:
    writer = make(tmp_path, [b"0"])
    (live,) = tmp_path.glob("_live-*")
    with live.open("ab") as file:
        file.write(b"\xff\xff\xff\xfftorn")
    assert is_recorded(tmp_path)
    assert check_log(tmp_path).is_whole
    assert contents(tmp_path) == [(1, 0, b"0")]
    crash(writer)
    assert not is_recorded(tmp_path)
    (damage,) = check_log(tmp_path).damage
    assert (damage.path, damage.size, damage.torn) == (live, 8, True)


# ---- where to start ----


def mixed(folder: Path) -> LogReader:
    """Two epochs, with a view between messages; received 1 s apart from 2026 on."""
    begin = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    row = 0
    for kinds in ([MESSAGE, VIEW, MESSAGE], [GAP, MESSAGE, MESSAGE]):
        writer = open_log(folder, disk=QuickDisk())
        for kind in kinds:
            received = datetime.fromtimestamp(begin + row, UTC)
            writer.append(rows_of([{"kind": kind, "received": received}]))
            row += 1
        crash(writer)
    return LogReader(folder)


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("begin", 0),
        ("-0", 6),
        ("-1", 5),
        ("-3", 2),
        ("-4", 0),
        ("-100", 0),
        ("row:0", 0),
        ("row:4", 4),
        ("row:99", 6),
        ("row:2:0", 3),
        ("row:1:2", 2),
        ("@2026-01-01T00:00:01.5", 2),
        ("@2026-01-01T02:00:04+02:00", 4),
        ("@1767225602", 2),
        ("@2025-01-01", 0),
        ("@2027-01-01", 6),
    ],
)
def test_a_start_finds_its_row(tmp_path: Path, text: str, row: int) -> None:
    reader = mixed(tmp_path)
    batches = reader.batches(find_start(reader, parse_start(text)), columns=["row"])
    assert [row for batch in batches for row in batch["row"].to_pylist()] == [*range(row, 6)]


@pytest.mark.parametrize(
    "text", ["end", "-", "-1.5", "row:", "row:-1", "row:1:2:3", "@", "@noon", "@1e400", "5"]
)
def test_a_meaningless_start_is_reported(text: str) -> None:
    with pytest.raises(LogError, match="it must be begin, -100"):
        parse_start(text)


def test_a_log_of_a_later_format_is_neither_read_nor_written(tmp_path: Path) -> None:
    make(tmp_path, [b"0"]).close()
    manifest = tmp_path / "_log.json"
    manifest.write_text('{"format": 2, "kept_from": 0}')
    for use in (lambda: LogReader(tmp_path).begin(), lambda: open_log(tmp_path)):
        with pytest.raises(LogError, match="has format 2, and this release reads and writes"):
            use()
    assert manifest.read_text() == '{"format": 2, "kept_from": 0}'
    manifest.write_text("damaged")
    assert LogReader(tmp_path).end() == Offset(1, 1)
