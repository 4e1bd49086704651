"""`groupcomm log`: rows as text and JSON, and the report of damage."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from groupcomm.errors import ConfigError
from groupcomm_log.reader import LogReader
from groupcomm_log.schema import DAEMONS, GAP, MESSAGE, SCHEMA, TRANSITION, VIEW, rows_of
from groupcomm_tools.cli import main
from groupcomm_tools.recording.row_text import FIELDS, RowFormat
from tests.groupcomm_log.make import open_log

RECEIVED = datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC)
PLACE: dict[str, Any] = {"view": "7.a.ff", "stamp": 5, "ring": 0, "bundle": 1, "message": 2}
SENT: dict[str, Any] = {
    "sender": "#ann#a/1",
    "number": 9,
    "groups": ["g", "h"],
    "level": "SAFE",
    "type": 3,
}

ROWS: list[dict[str, Any]] = [
    {"kind": GAP, "cause": "begin", "sender": "#rec#a/2", "groups": ["g"], "data": b"{}"},
    {"kind": DAEMONS, "view": "7.a.ff", "members": ["a", "b"]},
    {
        "kind": VIEW,
        **{**PLACE, "groups": ["g"], "cause": "join", "changed": ["#rec#a/2"]},
        **{"members": ["#ann#a/1", "#rec#a/2"], "vs_set": ["#rec#a/2"]},
    },
    {"kind": MESSAGE, **PLACE, **SENT, "data": "grüße".encode()},
    {"kind": MESSAGE, **SENT, "level": "UNRELIABLE", "data": b"\xff\n"},
    {"kind": TRANSITION, "view": "7.a.ff"},
]


@pytest.fixture
def log(tmp_path: Path) -> str:
    folder = tmp_path / "log"
    writer = open_log(folder)
    writer.append(rows_of([{"received": RECEIVED, **row} for row in ROWS]))
    writer.close()
    return str(folder)


def cat(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["log", "cat", *words]) == 0
    return capsys.readouterr().out


def test_rows_are_sentences_for_people(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    time = "2026-01-31T12:00:00.000005+00:00"
    assert cat(capsys, log).splitlines() == [
        f"0 {time} gap: begin {{}}",
        f"1 {time} daemons: a b",
        f"2 {time} group g: join #rec#a/2 - members #ann#a/1 #rec#a/2 - came along #rec#a/2",
        f"3 {time} SAFE       #ann#a/1 grüße",
        f"4 {time} UNRELIABLE #ann#a/1 \\xff\\n",
        f"5 {time} transition: until the next view, others may lack the messages that follow",
    ]


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("{row}|{epoch}|{number:>4}|{type:03d}", "3|1|   9|003"),
        ("{sender:<10}|{groups}|{level}", "#ann#a/1  |g h|SAFE"),
        ("{data} {data_hex}", "grüße 6772c3bcc39f65"),
        ("{place}", "7.a.ff/5.0.1.2"),
        ("{time}", "2026-01-31T12:00:00.000005+00:00"),
        ("{members}|{cause:>5}|", "||"),
        ("{{{row}}}", "{3}"),
        (r"a\tb\nc", "a\tb\nc"),
    ],
)
def test_a_format_string_has_fields(
    log: str, capsys: pytest.CaptureFixture[str], text: str, printed: str
) -> None:
    assert cat(capsys, log, "--from", "row:3", "--count", "1", "--format", text) == f"{printed}\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{nothing}", "has no field 'nothing'; there are epoch, row, kind"),
        ("{row.real}", "has no field 'row.real'"),
        ("{groups[0]}", r"has no field 'groups\[0\]'"),
        ("{}", "has no field ''"),
        ("{0}", "has no field '0'"),
        ("{row", "expected '}'"),
        ("{row!x}", "conversion"),
    ],
)
def test_a_wrong_format_string_is_reported(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        RowFormat(text)


def test_every_field_of_every_row_has_a_text(log: str) -> None:
    text = RowFormat(" ".join(f"{{{name}}}" for name in FIELDS))
    for batch in LogReader(Path(log)).batches():
        for row in batch.to_pylist():
            assert str(row["row"]) in text.of(row)


def test_rows_are_json_without_what_is_null(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.loads(line) for line in cat(capsys, log, "--json").splitlines()]
    assert [line["row"] for line in lines] == [0, 1, 2, 3, 4, 5]
    assert lines[3] == {
        **{"epoch": 1, "row": 3, "kind": "message", "received": "2026-01-31T12:00:00.000005+00:00"},
        **{**PLACE, **SENT, "data": "grüße"},
    }
    assert lines[4]["data_hex"] == "ff0a"
    assert set(lines[2]) <= set(SCHEMA.names)


def test_the_last_messages_alone(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--from", "-2", "--messages", "--format", "{row}"]
    assert cat(capsys, log, *words) == "3\n4\n"


def test_what_is_wrong_with_a_log_is_reported(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "check", log]) == 0
    told = "1 files, 6 rows (0 to 5), 2 messages, 1 gaps marked, 0 faults\n"
    assert capsys.readouterr().out == told
    (path,) = Path(log).glob("*.parquet")
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    assert main(["log", "check", log]) == 1
    assert f"{path}: " in capsys.readouterr().err
    assert main(["log", "check", log, "--json"]) == 1
    (wrong,) = json.loads(capsys.readouterr().out)["wrong"]
    assert "which held rows 0 to 5: the checksum is not that of its name" in wrong
    assert main(["log", "cat", log]) == 1
    assert "damaged" in capsys.readouterr().err
    assert main(["log", "diff", log, log]) == 1


def test_a_log_is_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("groupcomm_log.compaction.WAIT_S", 0)
    writer = open_log(tmp_path)
    for _ in range(3):
        writer.append(rows_of(ROWS))
        writer._roll()
        writer.tend()
    writer.close()
    assert main(["log", "compact", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "3 files became 1, 18 rows were written anew\n"
    assert main(["log", "compact", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"before": 1, "after": 1, "rows": 0}
    assert main(["log", "check", str(tmp_path)]) == 0


@pytest.mark.parametrize("words", [["cat"], ["check"], ["compact"], ["diff", "."]])
def test_a_folder_without_a_log_is_reported(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", *words, str(tmp_path)]) == 1
    assert "there is no log; groupcomm record writes one" in capsys.readouterr().err


def test_a_meaningless_start_is_reported(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "cat", log, "--from", "noon"]) == 2
    assert "--from noon: it must be begin, -100" in capsys.readouterr().err
