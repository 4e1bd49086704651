"""`groupcomm history export`: messages of a log as JSON and as CSV, whole and as they were."""

import csv
import json
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import pytest

from groupcomm.clocks.stamp import Position, ViewId, format_position
from groupcomm.events import MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_archive.store import LogStore
from groupcomm_client.history.given import Gap
from groupcomm_tools.exported import Exported, csv_writer, json_writer
from tests.groupcomm_tools.shell import tell

ANN, BOB = MemberId("#ann#a", 2**63), MemberId("#größe#b", 2)
START = datetime(2026, 1, 31, 12, tzinfo=UTC)
VIEW = ViewId(7, "alfa.example", 2**64 - 1)
DATA = (b"", b"text", "größe \u2028\u202e".encode(), b'a,"b"\r\n\0\x1b[2J', b"\xff\0\n", b" ")


def messages(count: int) -> list[Message]:
    rng = Random(1)
    return [
        Message(
            rng.choice((ANN, BOB)),
            number,
            rng.choice((("g",), ("h",), ("g", "h"))),
            rng.choice((ServiceLevel.AGREED, ServiceLevel.SAFE)),
            rng.choice((0, 7, 65535)),
            DATA[number % len(DATA)],
            Position(VIEW, number, 0, 0, 0),
            0,
        )
        for number in range(count)
    ]


SENT = messages(60)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in which each message was received a second after the one before, with a gap."""
    folder = tmp_path_factory.mktemp("log") / "log"
    log = LogStore(folder)
    fifo = Message(ANN, 1, ("g",), ServiceLevel.FIFO, 0, b"not of the line", SENT[0].bundle)
    gap = Gap(after=None, upto=Position(VIEW, 29, 2, 0, 0))
    for number, message in enumerate(SENT):
        at = START + timedelta(seconds=number)
        events: list[Message | Gap] = [fifo, message] if number != 30 else [gap, message]
        log.append([(int(at.timestamp() * 1_000_000), events)])
    log.close()
    return folder


def export(store: Path, *words: str) -> list[dict[str, Any]]:
    """Run an export; return its objects."""
    status, output, _ = tell("history", "export", "--store", str(store), *words)
    assert status == 0
    return [json.loads(line) for line in output.split("\n")[:-1]]


def data_of(row: dict[str, Any]) -> bytes:
    if "data_base64" in row:
        return b64decode(row["data_base64"])
    text: str = row["data"]
    return text.encode()


def expected(message: Message) -> dict[str, Any]:
    assert message.position is not None
    return {
        "position": format_position(message.position),
        "time": (START + timedelta(seconds=message.number)).isoformat(timespec="microseconds"),
        "groups": [*message.groups],
        "sender": message.sender.name,
        "type": message.type,
        "level": message.level.name,
    }


def test_lines_of_json_have_all_messages(store: Path) -> None:
    found = export(store)
    assert [data_of(row) for row in found] == [message.data for message in SENT]
    for row, message in zip(found, SENT, strict=True):
        assert {key: row[key] for key in row if not key.startswith("data")} == expected(message)
        assert ("data_base64" in row) == (b"\xff" in message.data)
    assert all("data" not in row for row in export(store, "--base64"))


def test_csv_can_be_read_again(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    words = ("history", "export", "--store", str(store), "-o", str(path), "--json")
    status, output, messages = tell(*words)
    assert status == 0
    end = json.loads(output)
    assert (end["messages"], end["gaps"], end["last"]) == (60, 1, expected(SENT[-1])["position"])
    assert messages.startswith("gap: missed")
    assert [each.name for each in tmp_path.iterdir()] == ["all.csv"]
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row, message in zip(rows, SENT, strict=True):
        wanted = {key: str(value) for key, value in expected(message).items()}
        wanted["groups"] = " ".join(message.groups)
        assert {key: row[key] for key in wanted} == wanted
        data = b64decode(row["data"]) if row["encoding"] == "base64" else row["data"].encode()
        assert data == message.data


def test_a_part_is_named_by_groups_positions_and_times(store: Path) -> None:
    def numbers(*words: str) -> list[int]:
        return [int(row["position"].split("/")[1].split(".")[0]) for row in export(store, *words)]

    assert numbers("h") == [m.number for m in SENT if "h" in m.groups]
    assert numbers("x") == []
    after, upto = (expected(SENT[number])["position"] for number in (9, 40))
    assert numbers("--start", after, "--until", upto) == [*range(10, 41)]
    since, before = ((START + timedelta(seconds=at)).isoformat() for at in (9, 40))
    assert numbers("--start", f"@{since}", "--until", f"@{before}") == [*range(9, 40)]


def test_a_file_is_whole_or_not_there(store: Path, tmp_path: Path) -> None:
    broken = tmp_path / "log"
    broken.mkdir()
    path = tmp_path / "all.jsonl"
    assert tell("history", "export", "--store", str(broken), "-o", str(path))[0] == 1
    assert [each.name for each in tmp_path.iterdir()] == ["log"]
    for sealed in store.glob("*.parquet"):
        content = bytearray(sealed.read_bytes())
        content[len(content) // 2] ^= 1
        (broken / sealed.name).write_bytes(content)
    status, _, messages = tell("history", "export", "--store", str(broken), "-o", str(path))
    assert (status, "damaged" in messages) == (1, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "name a group"),
        (("g", "--start", "latest"), "no history"),
        (("g", "--start", "soon"), "--start soon"),
        (("g", "--json"), "--json needs -o"),
        (("#g"), "starts with '#'"),
    ],
)
def test_wrong_usage_names_the_remedy(words: tuple[str, ...], why: str) -> None:
    status, output, messages = tell("history", "export", *words)
    assert (status, output) == (2, "")
    assert why in messages


def test_a_message_of_an_archive_has_no_time() -> None:
    output = StringIO()
    message = Exported("1.a.0/0.0.0.0", None, ("g",), "#ann#a", 0, "AGREED", b"x")
    json_writer(output, only_base64=False)(message)
    assert "time" not in json.loads(output.getvalue())
    csv_writer(output, only_base64=False)(message)
    assert output.getvalue().splitlines()[-1] == "1.a.0/0.0.0.0,,g,#ann#a,0,AGREED,x,text"
