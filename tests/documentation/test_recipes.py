"""The recipes of CONTRIBUTING: the files that they name are those that an example is named by."""

import re
from pathlib import Path
from typing import Final

from docs.extensions.reference import expand
from groupcommd.http.metrics import METRICS

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
