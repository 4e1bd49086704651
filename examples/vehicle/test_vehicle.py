"""The vehicle, run as a user runs it: real daemons, all programs."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from examples.common.stage import ROOT
from examples.vehicle.__main__ import main
from examples.vehicle.table import choose
from groupcomm.level import ServiceLevel


def vehicle(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "examples.vehicle", *options],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )


def figures(*options: str) -> dict[str, Any]:
    done = vehicle("--json", *options)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.long
def test_everybody_gets_its_kinds_and_a_newcomer_gets_the_map(tmp_path: Path) -> None:
    chart = tmp_path / "vehicle.html"
    found = figures("--seconds", "1", "--daemons", "2", "--chart", str(chart))
    kinds = found["kinds"]
    assert {name: kind["receivers"] for name, kind in kinds.items()} == {
        "vehicle_state": 15,
        "actuator_state": 3,
        "map_delta": 3,
        "map_piece": 3,
        "trajectory": 2,
    }
    for kind in kinds.values():
        assert kind["received"] > 0
        assert 0 <= kind["p50_ms"] <= kind["p99_ms"] <= kind["max_ms"]
        assert kind["received"] == kind["expected"] or kind["level"] == "UNRELIABLE"
        assert (
            sum(kind[part]["received"] for part in ("same_daemon", "other_daemon"))
            == (kind["received"])
        )
    assert (found["maps_equal"], found["maps_whole"], found["drained"]) == (True, 3, True)
    assert found["late_whole_ms"] > 0
    svg = chart.read_text().split("</head>\n<body>\n")[1].split("<pre>")[0]
    titles = [each.text for each in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert {"vehicle_state", "one-way delay (ms)", "length of the run (messages)"} <= set(titles)


@pytest.mark.long
def test_packed_messages_are_lost_together(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        *("--json", "--only", "actuator_state", "--level", "actuator_state=unreliable"),
        *("--pack", "5", "--daemons", "2", "--loss", "0.3", "--scale", "4", "--seconds", "1"),
    ]
    status = main(words)
    output, messages = capsys.readouterr()
    assert status == 0, messages
    packed = json.loads(output)["kinds"]["actuator_state"]
    assert packed["level"] == ServiceLevel.UNRELIABLE.name
    assert packed["loss"] > 0
    runs = {int(length): count for length, count in packed["loss_runs"].items()}
    cut_off = sum(count for length, count in runs.items() if length % 5)
    assert cut_off <= 2 * packed["receivers"]  # the first and the last burst may be cut off
    assert max(runs) >= 5


def test_what_cannot_be_run_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    for options, said in (
        (("--only", "speed"), "no kind is named 'speed'"),
        (("--level", "trajectory=best"), "write KIND=LEVEL"),
        (("--daemons", "0"), "--daemons is 0"),
        (("--cameras", "6"), "--cameras is 6"),
        (("--loss", "2"), "--loss is 2"),
        (("--image-receivers", "0"), "--image-receivers is 0; it must be 1 to 14"),
        (("--elevation-receivers", "-1"), "--elevation-receivers is -1"),
        (("--trajectory-bytes", "9", "8"), "--trajectory-bytes is 9 8"),
        (("--only", "elevation_map"), "needs --elevation-receivers"),
    ):
        assert main(options) == 2
        output, messages = capsys.readouterr()
        assert output == ""
        assert said in messages
        assert "Traceback" not in messages


def test_the_table_is_the_sources_with_its_doubts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--table"]) == 0
    rows = capsys.readouterr().out.splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [(name, size, receivers) for name, size, receivers, _ in cells] == [
        ("vehicle_state", "about 250 B at 40 Hz", "15"),
        ("actuator_state", "about 220 B at 30 Hz", "3?"),
        ("elevation_map", "4 MB at 10 Hz", "0"),
        ("map_delta", "4 MB at 10 Hz", "3"),
        ("trajectory", "??? at 5 Hz", "2"),
        ("image", "640 x 480 at 30 Hz", "5"),
    ]
    readme = (Path(__file__).parent / "README.md").read_text()
    assert all(row in readme for row in rows)


def test_each_row_is_sent_as_the_table_has_it() -> None:
    """Receivers, rate and bytes of each kind; a kind without receivers is not transmitted."""
    kinds = {kind.name: kind for kind in choose(cameras=5).kinds}
    assert {name: len(kind.receivers) for name, kind in kinds.items()} == {
        "vehicle_state": 15,
        "actuator_state": 3,
        "map_delta": 3,
        "map_piece": 3,
        "trajectory": 2,
        "image": 5,
    }
    assert len(kinds["image"].senders) == 5
    assert kinds["image"].most * kinds["image"].rate_hz == pytest.approx(20e6, rel=0.1)


def test_other_readings_are_options() -> None:
    reading = {
        "actuator_receivers": 8,
        "trajectory_bytes": [50, 60],
        "image_receivers": 14,
        "elevation_receivers": 2,
    }
    kinds = {kind.name: kind for kind in choose(cameras=1, reading=reading).kinds}
    assert len(set(kinds["actuator_state"].receivers)) == 8
    assert "actuators" not in kinds["actuator_state"].receivers
    assert (kinds["trajectory"].least, kinds["trajectory"].most) == (50, 60)
    assert len(kinds["image"].receivers) == 14
    assert kinds["elevation_map"].receivers == ("planner", "behaviour")
