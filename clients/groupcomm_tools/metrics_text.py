"""Metrics that a command prints for Prometheus, as of archives and workers, which have no HTTP.

A timer writes them to a file that node_exporter reads (its textfile collector), see
docs/operating.md.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from groupcommd.http.exposition import kind_for, pieces

Labels = TypeVar("Labels", bound=tuple[str, ...])


def gauge(
    name: str, text: str, labels: Sequence[str], samples: Mapping[Labels, float]
) -> list[object]:
    """Return a row of `groupcommd.http.exposition`, of values by the values of the labels."""
    return [name, "gauge", text, "", labels, list(samples.items())]


def print_metrics(rows: Sequence[Sequence[object]]) -> None:
    """Print rows in Prometheus' plain format."""
    print(b"".join(piece() for piece in pieces(rows, kind_for(b""))).decode(), end="")
