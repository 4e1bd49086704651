"""Telemetry: windows count messages, alarms report abnormal ones, and reach a group."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from groupcomm.errors import ConfigError
from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm_client.blocking import connect
from groupcomm_log.schema import GAP, MESSAGE
from groupcomm_log.writer import LogWriter
from groupcomm_spark.logs import read
from groupcomm_spark.telemetry.alarms import (
    Flow,
    MessageKind,
    MessageKinds,
    Window,
    check_window,
    read_kinds,
)
from groupcomm_spark.telemetry.windows import COLUMNS, to_window, windows_of
from groupcomm_tools.cli import main
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_spark.test_logs import make_log

VEHICLE = Path(__file__).parents[2] / "examples" / "vehicle" / "telemetry.toml"
PATIENCE_S = 20
LAST = b"that is all"
BEGIN_S = 1_800_000_000
START = datetime.fromtimestamp(BEGIN_S, UTC)
ANN = "#ann#alfa/1"

KINDS = """\
number_at = 0
made_at = 4
watermark_s = 1

[kinds.state]
type = 1
rate_hz = 10
missing = 0.15
late_s = 0.05
late = 0.2

[kinds.map]
type = 2
rate_hz = 1
bytes_per_s = 100
"""


def row(made_s: float, number: int, *, kind: int = 1, age_s: float = 0.01, size: int = 12) -> Any:
    """Return a message that was made this long after the beginning."""
    made_ns = round((BEGIN_S + made_s) * 1e9)
    data = number.to_bytes(4, "big") + made_ns.to_bytes(8, "big") + bytes(size - 12)
    received = round((BEGIN_S + made_s + age_s) * 1e6)
    message = {"kind": MESSAGE, "sender": ANN, "number": 1000 + number, "level": "FIFO"}
    return {**message, "type": kind, "data": data, "received": received, "groups": ["g"]}


def traffic(seconds: int) -> list[Any]:
    """In second 2 a message is missing, in 3 one of ten and then three are late, ..."""
    rows = [{"kind": GAP, "received": BEGIN_S * 10**6}]
    for tenth in range(10 * seconds):
        second = tenth // 10
        if tenth not in {25, 26}:
            age_s = 0.2 if tenth in {31, 32, 33} else 0.01
            rows.append(row(tenth / 10, tenth, age_s=age_s))
        if tenth % 10 == 5 and second != 4:  # second 4: the map is silent; 5: too large
            size = 101 if second == 5 else 50
            rows.append(row(tenth / 10, second, kind=2, size=size))
    rows.append(row(seconds / 2, 7, kind=9))  # a message of an unknown kind
    rows.append({**row(0.5, 8), "data": b"short"})
    return rows


@pytest.fixture
def kinds_file(tmp_path: Path) -> Path:
    path = tmp_path / "kinds.toml"
    path.write_text(KINDS)
    return path


WANTED = [
    [("state", 10, 0, 0), ("map", 1, 0, 0)],
    [("state", 10, 0, 0), ("map", 1, 0, 0)],
    [("state", 8, 2, 0), ("map", 1, 0, 0)],
    [("state", 10, 0, 3), ("map", 1, 0, 0)],
    [("state", 10, 0, 0)],
    [("state", 10, 0, 0), ("map", 1, 0, 0)],
]
ALARMS = [[], [], ["missing"], ["late"], ["silent"], ["bandwidth"]]


@pytest.mark.long  # the stream is read as in test_stream_source.py, and the windows are Spark's
def test_windows_count_what_came_by_when_it_was_made(
    spark: SparkSession, tmp_path: Path, kinds_file: Path
) -> None:
    make_log(tmp_path / "log", traffic(6), sealed=20).close()
    kinds = read_kinds(kinds_file)
    rows = windows_of(read(spark, tmp_path / "log", columns=COLUMNS), kinds).orderBy("start")
    windows = [to_window(each) for each in rows.toArrow().to_pylist()]
    assert [window.start for window in windows] == [START + timedelta(seconds=n) for n in range(6)]
    for window, wanted, alarms in zip(windows, WANTED, ALARMS, strict=True):
        flows = {flow.kind: flow for flow in window.flows}
        assert [(kind, *flows[kind][2:3], *flows[kind][4:6]) for kind, *_ in wanted] == wanted
        assert window.covered_s == pytest.approx(0.9)
        assert [alarm.alarm for alarm in check_window(window, kinds)] == alarms
    state, large = windows[3].flows[1], windows[5].flows[0]
    assert (state.sender, state.bytes) == (ANN, 120)
    assert state.worst_s == pytest.approx(0.2)
    assert (large.kind, large.bytes) == ("map", 101)


@pytest.mark.long
def test_alarms_of_a_stream_reach_a_group_once(
    spark: SparkSession,
    tmp_path: Path,
    kinds_file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert spark is not None
    log = tmp_path / "log"
    writer = make_log(log, traffic(9), sealed=20)
    with RunningCluster(1) as cluster:
        address = cluster.address("a")
        words = ["spark", "telemetry", str(log), "--kinds", str(kinds_file), "--available-now"]
        words += ["--json", "--to", "alarms", "--address", address]
        words += ["--checkpoint", str(tmp_path / "checkpoint")]
        with connect(address) as listener:
            listener.join("alarms")
            for _ in range(2):  # the second run has nothing new
                assert main(words) == 0, capsys.readouterr().err
            told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            heard: list[Message] = []
            while True:
                event = listener.receive(PATIENCE_S)
                if isinstance(event, Message) and event.data.startswith(b'{"alarm"'):
                    heard.append(event)
                    if len(heard) == sum(map(len, ALARMS)):
                        listener.multicast("alarms", LAST)
                if isinstance(event, Message) and event.data == LAST:
                    break
    writer.close()
    found = [[alarm["alarm"] for alarm in each["alarms"]] for each in told]
    assert found[: len(ALARMS)] == ALARMS
    assert [json.loads(message.data)["alarm"] for message in heard] == [
        *("missing", "late", "silent", "bandwidth")
    ]
    assert {message.level for message in heard} == {ServiceLevel.AGREED}


# ---- alarms ----


def window(*flows: Flow, covered_s: float = 1.0) -> Window:
    return Window(START, START + timedelta(seconds=1), covered_s, flows)


def flow(count: int, *, missing: int = 0, late: int = 0, sender: str = ANN) -> Flow:
    return Flow("state", sender, count, 20 * count, missing, late, 0.5)


KIND = MessageKind(type=1, rate_hz=10, missing=0.1, late_s=0.1, late=0.1, bytes_per_s=300)


@pytest.mark.parametrize(
    ("flows", "alarms"),
    [
        ([], ["silent"]),
        ([flow(7)], ["rate"]),
        ([flow(8)], []),
        ([flow(5), flow(4, sender="#bob#alfa/2")], []),  # the rate is that of all senders
        ([flow(9, missing=1)], []),
        ([flow(9, missing=2)], ["missing"]),
        ([flow(10, late=1)], []),
        ([flow(10, late=2)], ["late"]),
        ([flow(15)], []),
        ([flow(16)], ["bandwidth"]),
        ([flow(7, missing=3, late=1)], ["rate", "missing", "late"]),
    ],
)
def test_alarms_go_beyond_the_limits(flows: Sequence[Flow], alarms: list[str]) -> None:
    found = check_window(window(*flows), MessageKinds(kinds={"state": KIND}))
    assert [alarm.alarm for alarm in found] == alarms
    assert all(alarm.text.startswith("state: ") for alarm in found)


def test_where_a_recording_begins_nothing_is_missing() -> None:
    assert check_window(window(flow(3), covered_s=0.3), MessageKinds(kinds={"state": KIND})) == []


def test_without_a_limit_nothing_is_alarming() -> None:
    kinds = MessageKinds(kinds={"state": MessageKind(type=1)})
    assert check_window(window(flow(1, missing=90, late=1)), kinds) == []


# ---- the file ----


def test_the_vehicle_has_its_kinds() -> None:
    kinds = read_kinds(VEHICLE)
    assert {kind.type for kind in kinds.kinds.values()} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "missing required field `kinds`"),
        ("[kinds]", r"there are no kinds: write \[kinds.NAME\]"),
        ("[kinds.a]\ntype = 1\nrate = 3", "unknown field `rate`"),
        ("[kinds.a]\ntype = 'x'", "Expected `int`, got `str`"),
        ("[kinds.a]\ntype = 65536", "type of a is 65536; it must be 0 to 65535"),
        ("[kinds.a]\ntype = 1\n[kinds.b]\ntype = 1", "b and a have the same type 1"),
        ("[kinds.a]\ntype = 1\nlate = 2", "late of a is 2; a share is 0 to 1"),
        ("made_at = -1\n[kinds.a]\ntype = 1", "made_at is -1; bytes count from 0"),
        ("window_s = 0\n[kinds.a]\ntype = 1", "window_s is 0; it must be 0.01"),
        ("window_s = \n", "Invalid value"),
    ],
)
def test_what_is_wrong_in_the_file_is_reported(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "kinds.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=why):
        read_kinds(path)


def test_a_file_that_is_not_there_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "telemetry", ".", "--kinds", "nothing.toml"]) == 2
    assert "nothing.toml" in capsys.readouterr().err


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("why", "tries"), [("Python worker failed to connect back.", 2), ("no such thing", 1)]
)
def test_a_python_process_of_spark_that_starts_slowly_is_tried_again(
    kinds_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    why: str,
    tries: int,
) -> None:
    log = tmp_path / "log"
    LogWriter(log).close()
    tried: list[int] = []

    def watch(*_: Any) -> None:
        tried.append(len(tried))
        if len(tried) == 1:
            raise RuntimeError(why)

    monkeypatch.setattr("groupcomm_spark.commands.telemetry._watch_once", watch)
    assert main(["spark", "telemetry", str(log), "--kinds", str(kinds_file)]) == (tries == 1)
    assert len(tried) == tries
    told = "did not start within 10 s; again" if tries == 2 else "no such thing"
    assert told in capsys.readouterr().err
