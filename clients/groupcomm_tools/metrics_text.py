"""Metrics of commands for Prometheus, as of archives, workers and the server for browsers.

Archives and workers have no HTTP: a timer writes what they print to a file that node_exporter reads
(its textfile collector), see docs/operating.md.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeVar

from groupcommd.http.exposition import kind_for, pieces

Labels = TypeVar("Labels", bound=tuple[str, ...])


def gauge(
    name: str,
    text: str,
    labels: Sequence[str],
    samples: Mapping[Labels, float],
    kind: str = "gauge",
) -> list[object]:
    """Return a row of `groupcommd.http.exposition`, of values by the values of the labels."""
    return [name, kind, text, "", labels, list(samples.items())]


counter = partial(gauge, kind="counter")
"""Returns a row of values that only rise."""


def metrics_text(rows: Sequence[Sequence[object]]) -> bytes:
    """Return rows in Prometheus' plain format."""
    return b"".join(piece() for piece in pieces(rows, kind_for(b"")))


def print_metrics(rows: Sequence[Sequence[object]]) -> None:
    """Print rows in Prometheus' plain format."""
    print(metrics_text(rows).decode(), end="")
