"""Metrics as text: prometheus-client writes the values that the daemon has sent."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, Final

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.exposition import generate_latest as generate_plain
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.utils import floatToGoString

from groupcomm.durations import BOUNDS_S

_OPEN: Final[bytes] = CONTENT_TYPE_LATEST.encode()
_PLAIN: Final[bytes] = CONTENT_TYPE_PLAIN_0_0_4.encode()

_write: Final[dict[bytes, Callable[[Any], bytes]]] = {
    _OPEN: generate_latest,
    _PLAIN: generate_plain,
}
_bound: Final[Callable[[float], str]] = floatToGoString
_BOUNDS: Final = (*map(_bound, BOUNDS_S), "+Inf")


PIECE: Final = 6
"""Metrics that are written at a time: that takes some 0.3 ms."""

_END: Final = b"# EOF\n"

Row = Sequence[Any]
"""A metric at one time: name, kind, help, unit, names of labels, and samples.

A sample has values of the labels, and a number; of a summary how many and their sum, of a histogram
the counts of its buckets and the sum.
"""


class RowCollector:
    """Metrics of some rows, in the form of the library."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def collect(self) -> Iterator[Family]:
        """Yield each metric with its samples."""
        for row in self._rows:
            yield _family(row)


def _family(row: Row) -> Family:
    name, kind, help_, unit, names, samples = row
    if kind == "info":
        ((labels, _),) = samples
        values = dict(zip(names, labels, strict=True))
        return InfoMetricFamily(name.removesuffix("_info"), help_, value=values)
    if kind == "histogram":
        histogram = HistogramMetricFamily(name, help_, labels=names, unit=unit)
        for labels, (counts, total_s) in samples:
            buckets = list(zip(_BOUNDS, map(float, accumulate(counts)), strict=True))
            histogram.add_metric(labels, buckets, total_s)
        return histogram
    if kind == "summary":
        summary = SummaryMetricFamily(name, help_, labels=names, unit=unit)
        for labels, (count, total) in samples:
            summary.add_metric(labels, count, total)
        return summary
    made = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
    family = made(name, help_, labels=names, unit=unit)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def kind_for(accept: bytes) -> bytes:
    """Return the type of the text for whoever accepts these: OpenMetrics if it is among them."""
    return _OPEN if b"application/openmetrics-text" in accept.lower() else _PLAIN


def pieces(rows: Sequence[Row], kind: bytes) -> Iterator[Callable[[], bytes]]:
    """Yield functions that each write some metrics; joined, they are a text of this kind."""
    for at in range(0, len(rows), PIECE):
        yield partial(_piece, rows[at : at + PIECE], kind)
    if kind == _OPEN:
        yield lambda: _END


def _piece(rows: Sequence[Row], kind: bytes) -> bytes:
    return _write[kind](RowCollector(rows)).removesuffix(_END)
