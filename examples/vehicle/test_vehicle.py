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


def test_packed_messages_are_lost_together() -> None:
    packed = figures(
        *("--only", "actuator_state", "--level", "actuator_state=unreliable", "--pack", "5"),
        *("--daemons", "2", "--loss", "0.3", "--scale", "4", "--seconds", "1"),
    )["kinds"]["actuator_state"]
    assert packed["level"] == ServiceLevel.UNRELIABLE.name
    assert packed["loss"] > 0
    runs = {int(length): count for length, count in packed["loss_runs"].items()}
    cut_off = sum(count for length, count in runs.items() if length % 5)
    assert cut_off <= 2 * packed["receivers"]  # only at the ends of the time that counts
    assert max(runs) >= 5


def test_what_cannot_be_run_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for options, said in (
        (("--only", "speed"), "no kind is named 'speed'"),
        (("--level", "trajectory=best"), "write KIND=LEVEL"),
        (("--daemons", "0"), "--daemons is 0"),
        (("--cameras", "6"), "--cameras is 6"),
        (("--loss", "2"), "--loss is 2"),
    ):
        assert main(options) == 2
        output, messages = capsys.readouterr()
        assert output == ""
        assert said in messages
        assert "Traceback" not in messages
