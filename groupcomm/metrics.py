"""Metrics of the fields of statuses: what these tell operators.

A field says it where it is declared::

    visits: int = metric("token_visits_total", "Visits of the token.", default=0)

The table of metrics and their page are made of these, and the status as JSON of the fields.
"""

from typing import Any, NamedTuple

import attrs


class Family(NamedTuple):
    """A metric of one field, or one metric of several, which differ in the value of its label.

    Attributes:
        name: its name: that of a counter ends with ``_total``, before which the unit stands.
        help: its meaning.
        label: the name of its label; "" without one.
    """

    name: str
    help: str
    label: str


def metric(name: str, help_: str, label: str = "", value: str = "", **options: Any) -> Any:
    """Return a field of a class of attrs that is a metric.

    Args:
        name: the name of the metric, without ``groupcomm_``.
        help_: its meaning.
        label: its label, if it has several values.
        value: that of the label for this field; "" if the field has a mapping with all of them, or
            there is an object for each.
        options: for `attrs.field`.
    """
    family = Family(f"groupcomm_{name}", help_, label)
    return attrs.field(metadata={"metric": (family, value)}, **options)


def metrics_of(status: type) -> dict[Family, dict[str, str]]:
    """Return the metrics of a class: of each the names of its fields, by the value of the label."""
    found: dict[Family, dict[str, str]] = {}
    for field in attrs.fields(status):
        if "metric" in field.metadata:
            family, value = field.metadata["metric"]
            found.setdefault(family, {})[value] = field.name
    return found
