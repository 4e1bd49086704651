"""Every story shows what its text says."""

from typing import Any, NamedTuple

import pytest

from examples.ordering.chapter import STORIES
from groupcomm.algorithms.process import Order

ALL = {"fifo", "causal", "total"}


class Shown(NamedTuple):
    """What a run has to show: what some processes deliver, which orders hold, what else is seen."""

    delivered: dict[str, str]
    held: set[str]
    seen: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it


SHOWN = {
    "tick-lines": Shown(
        {},
        {"fifo"},
        {
            "lines": [
                ["p sends p1", "r sends r1"],
                ["p receives p1", "q receives p1", "r receives r1"],
                ["q sends q1"],
                ["p receives q1", "q receives q1", "r receives q1"],
                ["p receives r1", "q receives r1", "r receives p1"],
            ]
        },
    ),
    "converse": Shown({}, {"fifo"}, {"clock_of_r1": 1, "clock_of_q1": 3, "concurrent": True}),
    "two-total-orders": Shown(
        {}, {"fifo"}, {"low": ["p1", "r1", "q1"], "high": ["p1", "q1", "r1"]}
    ),
    "pair": Shown({"q": "p1 p2"}, ALL, {"waited": ["p2"]}),
    "three-diverge": Shown({"r": "q1 p1", "s": "p1 q1"}, {"fifo", "causal"}),
    "effect-first": Shown({"p": "p1 q1", "r": "q1 p1"}, {"fifo"}),
    "two-orders": Shown({"r": "p1 q1", "s": "q1 p1"}, {"fifo", "causal"}),
    "late-message": Shown({"q": "p1 q1", "r": "q1 p1"}, {"fifo"}),
    "clock-behind": Shown({"p": "q2 q1", "r": "q1 q2"}, set()),
    "history": Shown(
        {"r": "p1 q1"},
        ALL,
        {
            "bytes_of_stamps": {
                "MessageHistory": [10, 250, 490, 730],
                "CompressedHistory": [0, 12, 12, 12],
                "Vector": [30, 30, 30, 30],
            }
        },
    ),
    "one-number": Shown({"r": "p1 q1", "s": "q1 p1"}, {"fifo", "causal"}),
    "two-causes": Shown({"q": "q1 r1 p1", "r": "p1 q1 r1"}, {"fifo"}),
    "vector": Shown({"r": "p1 q1"}, ALL),
    "vector-two-causes": Shown({"q": "q1 p1 r1"}, {"fifo", "causal"}, {"waited": ["r1"]}),
    "live-vector": Shown({"p": "p1 p2"}, ALL, {"waited": ["p1", "p2"]}),
    "advance": Shown({"s": "q1 s1 r1 p1"}, {"fifo"}),
    "paths": Shown({"r": "p1 q1 p2"}, {"fifo", "causal"}, {"apart": 2, "joined": 1}),
    "latecomer": Shown({"p": "p1 q1 s1", "s": "q1 s1"}, ALL),
    "unicasts": Shown({"r": "p1 q1"}, ALL, {"waited": ["q1"]}),
    "causal-not-total": Shown({"r": "p1 q1", "s": "q1 p1"}, {"fifo", "causal"}),
    "total-not-causal": Shown(dict.fromkeys("pqr", "q2 q1"), {"total"}),
    "sender-sequencer": Shown(dict.fromkeys("pqr", "q1 q2"), ALL, {"waited": ["q2"]}),
    "acknowledged": Shown(
        dict.fromkeys("pqr", "p1 q1"), ALL, {"waited": ["p1", "q1"], "packets": 16}
    ),
    "overlapping-groups": Shown({"p": "p1", "q": "p1 s1", "r": "p1 s1", "s": "s1"}, ALL),
    "token": Shown(dict.fromkeys("pqr", "p1 q1"), ALL, {"waited": ["q1"]}),
    "horizons": Shown(dict.fromkeys("pqr", "p1 q1"), ALL, {"waited": ["q1"]}),
}


@pytest.mark.parametrize("name", STORIES)
def test_a_story_shows_what_it_says(name: str) -> None:
    shown, run = SHOWN[name], STORIES[name].run()
    for process, messages in shown.delivered.items():
        assert " ".join(run.delivered[process]) == messages
    assert run.held == frozenset(map(Order, shown.held))
    assert {key: run.seen[key] for key in shown.seen} == shown.seen
    assert list(run.events), "there is something to draw"


def test_a_story_is_always_alike() -> None:
    for story in STORIES.values():
        assert story.run() == story.run(), story.name
