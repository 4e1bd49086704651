"""docs/metrics.md, made of the table of metrics.

python -m tests.groupcommd.http.metrics_page > docs/metrics.md
"""

from groupcommd.http.metrics import METRICS, Metric

HEAD = """# Metrics

What `/metrics` of a daemon ([HTTP](http.md)) tells. This page is made of the table in
`daemon/groupcommd/http/metrics.py`: after a change there,
`python -m tests.groupcommd.http.metrics_page > docs/metrics.md`.

Counters begin anew with each start of a daemon. All of a daemon are at most half a second old, and
tell of other daemons only what it has seen of them: let Prometheus ask each daemon.

| metric | type | unit | labels | tells |
|---|---|---|---|---|
"""

TAIL = """
Examples in [examples/monitoring](../examples/monitoring/README.md): alerts, and a dashboard for
Grafana.
"""


def row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {metric.unit} | {labels} | {metric.help} |\n"


def page() -> str:
    return HEAD + "".join(map(row, METRICS)) + TAIL


if __name__ == "__main__":
    print(page(), end="")
