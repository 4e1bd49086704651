"""Every story shows what its text says."""

from typing import Any, NamedTuple

import pytest

from examples.ordering import book
from examples.ordering.chapter import STORIES
from groupcomm.trace.events import encode_event
from groupcomm_lessons.algorithms.process import Order
from groupcomm_tools.traces.check import check_trace

ALL = {"fifo", "causal", "total"}


class Shown(NamedTuple):
    """The expected results of a run: some deliveries, the orders that hold, observations."""

    delivered: dict[str, str]
    held: set[str] | None
    seen: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it


SHOWN = {
    "tick-lines": Shown(
        {},
        {"fifo"},
        {
            "lines": [
                ["p sends p1", "r sends r1"],
                ["p receives p1", "q receives p1", "r receives r1"],
                ["p receives r1", "q sends q1"],
                ["p receives q1", "q receives q1", "r receives q1"],
                ["q receives r1", "r receives p1"],
            ]
        },
    ),
    "logical-time": Shown({"r": "r1 q1 p1"}, {"fifo"}),
    "converse": Shown({}, {"fifo"}, {"clock_of_r1": 1, "clock_of_q1": 3, "concurrent": True}),
    "happens-before": Shown(
        {}, ALL, {"p1_before_q3": True, "p3_before_q3": False, "q3_before_p3": False}
    ),
    "two-total-orders": Shown(
        {}, {"fifo"}, {"low": ["p1", "r1", "q1"], "high": ["p1", "q1", "r1"]}
    ),
    "pair": Shown({"q": "p1 p2"}, ALL, {"waited": ["p2"]}),
    "three-diverge": Shown({"r": "p1 q1", "s": "q1 p1"}, {"fifo", "causal"}),
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
    "same-as": Shown({"q": "p1 q1 p2", "r": "p1 p2"}, ALL, {"waited": ["q1"]}),
    "vector": Shown({"r": "p1 q1"}, ALL),
    "vector-two-causes": Shown({"q": "q1 p1 r1"}, {"fifo", "causal"}, {"waited": ["r1"]}),
    "live-vector": Shown({"p": "p1 p2"}, ALL, {"waited": ["p1", "p2"]}),
    "advance": Shown({"s": "q1 s1 r1 p1"}, {"fifo"}),
    "update-stamp": Shown(
        {"r": "p1 q1 t1", "s": "p1 q1 s1 t1"}, {"fifo", "causal"}, {"waited": ["s1"]}
    ),
    "keep-stamp": Shown(
        {"r": "p1 q1 t1", "s": "p1 q1 s1 t1"}, {"fifo", "causal"}, {"waited": ["s1"]}
    ),
    "path-tree": Shown({"r": "p1 q2 p2 q1"}, set(), {"flagged": ["q2", "q1"], "paths": 3}),
    "paths": Shown({"r": "p1 q1 p2"}, {"fifo", "causal"}, {"apart": 2, "joined": 1}),
    "latecomer": Shown({"p": "p1 q1 s1", "s": "q1 s1"}, ALL),
    "unicasts": Shown(
        {"r": "p1 q1"},
        ALL,
        {"waited": ["q1"], "vector_of_q1": {"p": 2, "q": 3, "r": 0}, "bytes_of_stamps": 47},
    ),
    "unicasts-sends": Shown(
        {"r": "p1 q1"},
        ALL,
        {"waited": ["q1"], "vector_of_q1": {"p": 2, "q": 1, "r": 0}, "bytes_of_stamps": 41},
    ),
    "causal-not-total": Shown({"r": "p1 q1", "s": "q1 p1"}, {"fifo", "causal"}),
    "total-not-causal": Shown(dict.fromkeys("pqr", "q2 q1"), {"total"}),
    "sender-sequencer": Shown(dict.fromkeys("pqr", "q1 q2"), ALL, {"waited": ["q2"]}),
    "acknowledged": Shown(
        dict.fromkeys("pqr", "p1 q1"), ALL, {"waited": ["p1", "q1"], "packets": 16}
    ),
    "overlapping-groups": Shown({"p": "p1", "q": "p1 s1", "r": "p1 s1", "s": "s1"}, ALL),
    "token": Shown(dict.fromkeys("pqr", "p1 q1"), ALL, {"waited": ["q1"]}),
    "horizons": Shown(dict.fromkeys("pqr", "p1 q1"), ALL, {"waited": ["q1"]}),
    "causal-daemons": Shown({"anna": "anna2 ben2", "ben": "ben2 anna2"}, None),
    "agreed-daemons": Shown(dict.fromkeys(("anna", "ben"), "ben2 anna2"), None),
    "reliable-not-safe": Shown({"ben": "anna2", "cleo": ""}, None, {"regular": ["anna", "ben"]}),
    "agreed-not-safe": Shown({"ben": "anna2", "cleo": ""}, None, {"regular": ["anna", "ben"]}),
    "safe": Shown(dict.fromkeys(("anna", "ben", "cleo"), ""), None, {"regular": []}),
    "safe-cut-off": Shown(
        {"ben": "anna2", "cleo": ""},
        None,
        {"regular": [], "transitional": ["anna", "ben"]},
    ),
    "scheduler": Shown(
        {"r": "q2 r1"},
        None,
        {
            "requested": ["q1", "r1"],
            "granted": ["r1", "q1"],
            "overtaken": [("r1", "q1")],
            "overlaps": [],
            "packets_of_users": 1,
            "packets_of_the_algorithm": 6,
        },
    ),
    "lamport-mutex": Shown(
        {"r": "q2 r1"},
        None,
        {
            "granted": ["q1", "r1"],
            "overtaken": [],
            "overlaps": [],
            "packets_of_users": 1,
            "packets_of_the_algorithm": 12,
        },
    ),
    "answer-overtakes": Shown({}, None, {"granted": ["p1", "q1"], "overlaps": [("p1", "q1")]}),
    "fifo-overtaking": Shown({"r": "p1 q1", "s": "q1 p1"}, {"fifo", "causal"}),
    "bus1-overtaking": Shown(dict.fromkeys("rs", "p1 q1"), ALL, {"held_back": {"s": ["q1"]}}),
    "fifo-reaction": Shown({"q": "p1", "r": "q1 p1"}, {"fifo", "total"}),
    "bus1-reaction": Shown({"q": "p1", "r": "p1 q1"}, ALL, {"held_back": {"r": ["q1"]}}),
    "hasty-bus1": Shown(
        {"q": "p1", "s": "q1", "r": "s1 p1"},
        {"fifo", "total"},
        {"stamps": {"p1": 6, "s1": 1}},
    ),
    "bus1-telephone": Shown(
        {"q": "p1", "s": "q1", "r": "p1 s1"},
        ALL,
        {"stamps": {"p1": 6, "s1": 7}, "held_back": {"r": ["s1"]}},
    ),
    "bus1-destruction": Shown(
        {"p": "q1 p1", "q": "p1", "r": "p1"},
        ALL,
        {
            "stamps": {"q1": 1, "p1": 2, "r1": 3},
            "refused": ["r1"],
            "fates": {"q1": "delivered", "r1": "refused"},
        },
    ),
    "bus1-abandoned": Shown({"r": "s1"}, ALL, {"held_back": {"q": ["s1"]}}),
    "bus1-aborted": Shown(dict.fromkeys("qr", "s1"), ALL, {"held_back": {}}),
    "clock-in-queue": Shown(
        {"c": "p1"}, None, {"clocks": {"p1": "A:1, B:1", "p2": "A:1, B:1"}, "missed": ["p2"]}
    ),
    "clock-in-memory": Shown(
        {"c": "p1 p2"},
        None,
        {
            "clocks": {"p1": "A:1, B:1", "p2": "A:2, B:2", "p3": "A:1, B:3"},
            "missed": ["p3"],
            "twice": [],
        },
    ),
    "not-covered": Shown({"c": "p1 p2 p3 p2"}, None, {"missed": [], "twice": ["p2"]}),
    "shared-counter": Shown(
        {"c": "p1 p3"},
        None,
        {"clocks": {"p1": "A:1, B:1", "p2": "A:2, B:2", "p3": "A:3, B:3"}, "missed": ["p2"]},
    ),
    "clock-on-disk": Shown(
        {"c": "p1 p2"},
        None,
        {
            "clocks": {"p1": "A:1, B:1", "p2": "A:2, B:2", "p3": "A:1, B:3"},
            "missed": ["p3"],
            "writes": {"A": 3, "B": 3},
        },
    ),
    "restarts-counted": Shown(
        {"c": "p1 p2 p3"},
        None,
        {
            "clocks": {"p1": "A:1/1, B:1/1", "p2": "A:1/2, B:1/2", "p3": "A:2/1, B:1/3"},
            "missed": [],
            "writes": {"A": 2, "B": 1},
        },
    ),
    "quorums-after": Shown({"c": "p1"}, None, {"missed": ["p2", "p3"]}),
    "quorums": Shown(
        {"c": "p1 p2 p3"},
        None,
        {
            "clocks": {"p1": "x:1/1, y:1/1", "p2": "y:1/2, z:1/1", "p3": "x:2/1, z:1/2"},
            "missed": [],
            "twice": [],
        },
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_a_story_shows_what_it_says(name: str) -> None:
    shown, run = SHOWN[name], STORIES[name].run()
    for process, messages in shown.delivered.items():
        assert " ".join(run.delivered[process]) == messages
    assert run.held == (None if shown.held is None else frozenset(map(Order, shown.held)))
    assert {key: run.seen[key] for key in shown.seen} == shown.seen
    assert list(run.events), "there is something to draw"


@pytest.mark.parametrize("name", STORIES)
def test_its_trace_is_short_and_checked_for_the_orders_that_it_keeps(name: str) -> None:
    run = STORIES[name].run()
    lines = [encode_event(event) + b"\n" for event in run.events]
    assert len(lines) < 200
    found = {violation.property for violation in check_trace(name, lines, set(Order)).violations}
    if run.held is not None:
        assert found == {order.value for order in Order} - {order.value for order in run.held}
    else:
        assert found == BROKEN_BESIDE.get(name, set())


BROKEN_BESIDE = {"not-covered": {"fifo", "causal"}}
"""Orders that break in stories which are about something else."""


def test_all_stories_are_known_here_by_what_they_show() -> None:
    assert list(SHOWN) == list(STORIES)


def test_a_story_is_always_alike() -> None:
    for story in STORIES.values():
        assert story.run() == story.run(), story.name


@pytest.mark.parametrize("name", STORIES)
def test_a_story_that_breaks_an_order_does_so(name: str) -> None:
    story = STORIES[name]
    held = story.run().held
    assert story.breaks is None or (held is not None and story.breaks not in held)


def test_the_chapter_has_all_stories_and_their_figures_as_they_are_now() -> None:
    """If this fails, run ``python -m examples.ordering.book`` and look at what has changed."""
    chapter = (book.DOCS / book.CHAPTER).read_text()
    assert book.filled(chapter) == chapter
    assert book.places(chapter) == list(STORIES)
    drawn = {path.stem: path.read_text() for path in (book.DOCS / book.FIGURES).glob("*.svg")}
    assert drawn == {name: book.figure(story) for name, story in STORIES.items()}
