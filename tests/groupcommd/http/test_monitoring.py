"""The page of metrics, the alerts and the dashboard: they name what there is, and nothing else."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from groupcommd.http.metrics import METRICS
from tests.documentation.links import anchors_of

ROOT: Final = Path(__file__).parents[3]
EXAMPLES: Final = ROOT / "examples" / "monitoring"

SUFFIXES: Final = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}
COMMANDS: Final = ROOT / "clients" / "groupcomm_tools" / "commands"
OF_COMMANDS: Final = {
    name
    for file in ("archive_status.py", "work.py")
    for name in re.findall(r'"(groupcomm_[a-z_]+)"', (COMMANDS / file).read_text())
}
"""The metrics of archives and workers, which commands print."""
NAMES: Final = OF_COMMANDS | {
    metric.name + suffix for metric in METRICS for suffix in SUFFIXES.get(metric.kind, ("",))
}
OWN: Final = frozenset(("up", "time"))  # names of Prometheus itself
LABELS: Final = {label for metric in METRICS for label in metric.labels} | {"instance", "job", "le"}


def alerts() -> Iterator[str]:
    """Yield the expressions of the alerts."""
    text = (EXAMPLES / "alerts.yml").read_text()
    yield from re.findall(r"^ +expr: (.*)$", text, re.MULTILINE)


def queries() -> Iterator[str]:
    """Yield the expressions of the dashboard."""
    for panel in json.loads((EXAMPLES / "dashboard.json").read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def names(expression: str) -> set[str]:
    """Return the metrics that an expression names."""
    without_texts = re.sub(r'"[^"]*"', "", expression)
    return set(re.findall(r"\b(?:groupcomm|process)_[a-z_]+|\bup\b", without_texts)) - OWN


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_metrics_keep_the_conventions(metric: Any) -> None:
    assert re.fullmatch(r"(groupcomm|process)_[a-z0-9_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.help[0].isupper() or metric.help[0].isdigit()
    assert metric.help.endswith(".")
    assert not re.search(r"_(ms|us|kb|mb|minutes|percent)(_|$)", metric.name)


def test_no_metric_has_two_rows() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)


@pytest.mark.parametrize("expression", [*alerts(), *queries()])
def test_alerts_and_the_dashboard_name_metrics_that_there_are(expression: str) -> None:
    assert names(expression) <= NAMES, names(expression) - NAMES
    used = re.findall(r"(\w+)(?:=|!=|=~)\"", expression)
    for inside in re.findall(r"by \(([^)]*)\)", expression):
        used += inside.replace(" ", "").split(",")
    assert set(used) <= LABELS


def test_there_are_alerts_and_panels() -> None:
    assert len(list(alerts())) >= 12
    assert len(list(queries())) >= 15
    named = set().union(*map(names, alerts()))
    assert named >= {"groupcomm_majority", "groupcomm_archives", "groupcomm_work_waiting"}


def test_prometheus_accepts_the_alerts(capsys: pytest.CaptureFixture[str]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        with capsys.disabled():
            print("promtool (Debian: prometheus) is not there: alerts.yml is checked by names only")
        return
    for words in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run(
            [promtool, *words], check=False, capture_output=True, text=True, cwd=EXAMPLES
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_leads_to_a_part_of_the_pages() -> None:
    text = (EXAMPLES / "alerts.yml").read_text()
    assert set(re.findall(r"severity: (\w+)", text)) == {"critical", "warning"}
    places = re.findall(r'runbook_url: "([^#]+)#([^"]+)"', text)
    assert len(places) == len(list(alerts()))
    for page_, anchor in places:
        assert anchor in anchors_of(ROOT / page_), anchor
