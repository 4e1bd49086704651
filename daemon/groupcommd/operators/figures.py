"""Figures: the fields of a core's status that are metrics, for programs that ask for `metrics`.

A field says itself what it tells (groupcomm/metrics.py); its name tells its kind and its unit, as
the conventions of Prometheus want.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from groupcomm.engine import Status
from groupcomm.metrics import metrics_of


def kind_of(name: str) -> str:
    """Return the kind of a metric of one number: counter or gauge."""
    return "counter" if name.endswith("_total") else "gauge"


def unit_of(name: str) -> str:
    """Return the unit of a metric: seconds, bytes or none."""
    last = name.removesuffix("_total").rpartition("_")[2]
    return last if last in ("seconds", "bytes") else ""


def figures(found: Status) -> dict[str, dict[str, Any]]:
    """Return by its name each metric of a status: kind, unit, help, label, and its values.

    The values are numbers by the value of the label; that is "" where there is no label.
    """
    told: dict[str, dict[str, Any]] = {}
    for of, owner in _owners(found):
        for family, fields in metrics_of(type(owner)).items():
            name, help_, label = family
            head = {"kind": kind_of(name), "unit": unit_of(name), "help": help_, "label": label}
            values = told.setdefault(name, {**head, "values": {}})["values"]
            for value, field in fields.items():
                read = getattr(owner, field)
                values |= read if isinstance(read, Mapping) else {of or value: read}
    return told


def _owners(found: Status) -> Iterator[tuple[str, Any]]:
    """Yield the status and its parts, each with the value of its label, if there are several."""
    yield "", found
    for field in attrs.fields(Status):
        part = getattr(found, field.name)
        if attrs.has(type(part)):
            yield "", part
    for link in found.links:
        yield link.to, link
