"""The loop over real daemons, real programs and a real relay; small."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from examples.control.__main__ import main
from examples.control.pole import STOP

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    "names", [["SAFE"], pytest.param(["UNRELIABLE", "SAFE"], marks=pytest.mark.long)], ids=",".join
)
def test_the_loop_closes_at_a_weak_and_at_a_strong_level(
    names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chart = tmp_path / "control.svg"
    words = [
        *("--levels", ",".join(names).lower(), "--losses", "0.1", "--delays-ms", "5"),
        *("--seconds", "0.4", "--json", "--chart", str(chart)),
    ]
    status = main(words)
    output, messages = capsys.readouterr()
    assert status == 0, messages
    loops = json.loads(output)
    assert [found["level"] for found in loops] == names
    for found in loops:
        assert 0 < found["rms_mrad"] <= STOP * 1000
        # Three ways of 5 ms lie between a measurement and its effect.
        assert 15 <= found["age_p50_ms"] <= found["age_p95_ms"]
    root = ET.fromstring(chart.read_text())
    assert len(root.findall(f".//{SVG}polyline")) == len(names)
    titles = [each.text for each in root.iter(f"{SVG}title")]
    assert titles == [f"{found['level']}: 10, {found['rms_mrad']:g}" for found in loops]


def test_what_cannot_be_run_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    for options, said in (
        (("--levels", "best"), "no level is named 'best'"),
        (("--losses", "2"), "--losses is 2"),
        (("--delays-ms", "x"), "--delays-ms is 'x'"),
        (("--seconds", "0"), "--seconds is 0"),
    ):
        assert main(options) == 2
        output, messages = capsys.readouterr()
        assert output == ""
        assert said in messages
        assert "Traceback" not in messages
