"""The recipes of CONTRIBUTING: the files that they name are those that an example is named by."""

import json
import re
from pathlib import Path
from typing import Final

import attrs

from docs.extensions.reference import expand
from groupcomm.metrics import metric
from groupcomm.ring.counts import RingCounts
from groupcomm_tools.top.frame import figures_of, shown
from groupcommd.http.metrics import METRICS, _of_fields
from groupcommd.operators.figures import figures
from tests.groupcomm.engine.cluster import Cluster

ROOT: Final = Path(__file__).parents[2]
PRODUCT: Final = sorted(
    path for name in ("groupcomm", "daemon", "clients") for path in (ROOT / name).rglob("*.py")
)


def naming(pattern: str) -> list[str]:
    """Return the files of the product in which a pattern occurs."""
    return [
        path.relative_to(ROOT).as_posix()
        for path in PRODUCT
        if re.search(pattern, path.read_text())
    ]


def recipe(title: str) -> str:
    """Return the text of a recipe."""
    _, _, rest = (ROOT / "docs/CONTRIBUTING.md").read_text().partition(f"## {title}\n")
    return rest.partition("\n## ")[0]


def test_a_counter_is_named_where_it_stands_and_where_it_is_counted() -> None:
    assert naming(r"\brepeated_tokens\b|tokens_repeated_total") == [
        "groupcomm/ring/counts.py",
        "groupcomm/ring/token_monitor.py",
    ]
    assert "groupcomm/ring/counts.py" in recipe("Add a counter")
    assert "groupcomm_tokens_repeated_total" in {metric.name for metric in METRICS}
    assert "groupcomm_tokens_repeated_total" in expand((ROOT / "docs/metrics.md").read_text())


@attrs.define
class Grown(RingCounts):
    """The counts of a ring with one more, as the recipe has it."""

    dreams: int = metric("dream_seconds_total", "Time of dreams.", default=0)


def test_a_field_of_a_status_is_in_json_and_metrics_and_top_by_itself() -> None:
    cluster = Cluster("abc")
    cluster.start("a")
    status = cluster.cores["a"].status(0.0)
    answers = [
        json.loads(json.dumps({"metrics": figures(attrs.evolve(status, token=Grown(dreams=n)))}))
        for n in (1, 5)
    ]
    told = answers[0]["metrics"]["groupcomm_dream_seconds_total"]
    head = {"kind": "counter", "unit": "seconds", "help": "Time of dreams.", "label": ""}
    assert told == {**head, "values": {"": 1}}
    (row,) = (each for each in _of_fields(Grown, lambda _: Grown(dreams=5)) if "dream" in each.name)
    assert (row.kind, row.unit, row.help) == ("counter", "seconds", "Time of dreams.")
    (figure,) = (each for each in figures_of(answers[0], answers[1], 2.0) if each.is_rate)
    assert (figure.name, figure.value) == ("dream_seconds_total", 2.0)
    assert shown(figure) == "2 s/s"


def test_all_fields_that_are_metrics_are_told_and_have_rows_in_the_table() -> None:
    cluster = Cluster("abc")
    cluster.start("a")
    names = set(figures(cluster.cores["a"].status(0.0)))
    assert "groupcomm_groups" in names, "of the status"
    assert "groupcomm_token_visits_total" in names, "of its parts"
    assert names < {metric.name for metric in METRICS}


def test_a_request_with_an_answer_is_a_case_and_the_part_that_answers_it() -> None:
    text = recipe("Add a request with an answer")
    asking = naming(r"""cluster\.ask\(|\bdef ask\(self, now: float\) -> dict""")
    assert asking == [
        "daemon/groupcommd/operators/cluster.py",
        "daemon/groupcommd/operators/status.py",
        "daemon/groupcommd/service.py",  # a drain asks, too, for the addresses
    ]
    assert all(path in text for path in asking[:2])


def test_a_frame_to_clients_and_its_event_are_named_by_five_files() -> None:
    text = recipe("Add a frame to clients")
    frame = naming(r"(FrameKind|Capability)\.STOPPING|\bSTOPPING = \d|(en|de)code_stopping")
    assert frame == [
        "groupcomm/engine/sessions.py",
        "groupcomm/session/daemon_frames.py",
        "groupcomm/session/frames.py",
    ]
    event = ["clients/groupcomm_client/__init__.py", "groupcomm/events.py"]
    assert set(event) < set(naming(r"\bDaemonStopping\b"))
    assert all(path in text for path in (*frame, *event))
