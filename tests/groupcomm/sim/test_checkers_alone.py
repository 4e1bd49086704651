"""Recorded traces: good ones, broken lines, and lines that make no sense."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from msgspec.structs import fields, replace

from groupcomm.trace.events import (
    Accept,
    Ask,
    Boot,
    Conf,
    Deliver,
    Dview,
    Heal,
    Hold,
    Member,
    Release,
    Send,
    Stamped,
    Table,
    TraceEvent,
    encode_event,
)
from groupcomm.trace.steps import (
    STEPS,
    Buffered,
    Concurrent,
    Counted,
    Given,
    MemberAdded,
    MemberDropped,
    PassedThrough,
    PathCopied,
    StampedReceived,
    StampedSent,
    SuccessorFound,
    Taken,
    VectorCreated,
)
from groupcomm_tools.traces.check import check_trace
from groupcomm_tools.traces.reading import MAX_BUNDLE, TraceError
from groupcomm_tools.traces.text import readable
from tests.verification.generators import make_changing_history, make_history

EVENTS = make_history(5)
STEPS_OF_R: list[TraceEvent] = [
    VectorCreated(1, "r", {"p": 0, "r": 0}),
    MemberAdded(2, "r", "q", 0),
    Counted(3, "r", 1),
    StampedSent(3, "r", "r", 1, ("p", "q"), "r 1", 10),
    StampedReceived(4, "r", "q", 1, "q"),
    Concurrent(4, "r", "q", 1),
    PathCopied(4, "r", "q", 1, 2),
    Buffered(4, "r", "q", 1, (("p", 1),)),
    SuccessorFound(5, "r", "q", 1),
    Taken(5, "r", "q", 1),
    Given(5, "r", "q", 1),
    PassedThrough(6, "r", "a view"),
    MemberDropped(7, "r", "q"),
]


@cache
def changing() -> list[TraceEvent]:
    """Return a history that has an event of every kind but steps."""
    wanted = set(get_args(TraceEvent)) - set(STEPS)
    histories = map(make_changing_history, range(100))
    return next(events for events in histories if {type(event) for event in events} == wanted)


def lines(events: list[TraceEvent]) -> list[bytes]:
    return [encode_event(event) + b"\n" for event in events]


def test_a_good_trace_holds() -> None:
    result = check_trace("run.jsonl", lines(EVENTS))
    assert result.holds
    assert result.complete
    assert (result.name, result.events) == ("run.jsonl", len(EVENTS))


def test_a_trace_without_its_end_is_checked_as_far_as_it_goes() -> None:
    result = check_trace("run.jsonl", lines(EVENTS[:-1]))
    assert result.holds
    assert not result.complete


def test_an_empty_trace_holds_and_is_not_complete() -> None:
    result = check_trace("empty", [])
    assert (result.holds, result.complete, result.events) == (True, False, 0)


def test_a_violation_is_found_in_a_recorded_trace() -> None:
    index = next(i for i, e in enumerate(EVENTS) if isinstance(e, Deliver))
    events = list(EVENTS)
    events[index] = replace(EVENTS[index], digest=0)
    result = check_trace("run.jsonl", lines(events))
    assert not result.holds
    assert [violation.property for violation in result.violations] == ["D1"]
    assert result.violations[0].events == (events[index],)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"e":"quiet","t":5', "cut off"),
        (b"\n", "empty line"),
        (b"\xff\xfe\n", "not an event"),
        (b'{"e":"quiet"}\n', "missing required field `t`"),
        (b'{"e":"nothing","t":5}\n', "Invalid value 'nothing'"),
        (b'{"e":"quiet","t":"soon"}\n', "Expected `int`"),
        (b"[]\n", "not an event"),
    ],
)
def test_a_broken_line_is_named(line: bytes, why: str) -> None:
    with pytest.raises(TraceError, match=r"^run\.jsonl:4: ") as caught:
        check_trace("run.jsonl", [*lines(EVENTS[:3]), line])
    assert why in str(caught.value)


def first(kind: type[TraceEvent]) -> TraceEvent:
    return next(event for event in [*changing(), *STEPS_OF_R] if isinstance(event, kind))


def test_a_good_trace_of_several_views_holds() -> None:
    result = check_trace("run.jsonl", lines(changing()))
    assert result.holds
    assert result.complete


@pytest.mark.parametrize("kind", get_args(TraceEvent))
def test_every_event_is_described(kind: type[TraceEvent]) -> None:
    line = readable(first(kind))
    who, what = line[11:38].strip(), line[38:]
    assert "None" not in line
    assert who
    assert what


@pytest.mark.parametrize(
    ("kind", "change", "why"),
    [
        (Boot, {"incarnation": "first"}, "restarts.random-id"),
        (Conf, {"view": "8.alfa"}, "counter.daemon.incarnation"),
        (Conf, {"kind": "X"}, "kind 'X'"),
        (Conf, {"rings": ()}, "without daemons"),
        (Conf, {"rings": (("alfa/1",), ("alfa/2",))}, "one daemon twice"),
        (Conf, {"kind": "T", "old": ""}, "counter.daemon.incarnation"),
        (Heal, {"core": ()}, "names no daemon"),
        (Hold, {"p": "zulu"}, "name/start"),
        (Stamped, {"view": "seven"}, "counter.daemon.incarnation"),
        (Table, {"pos": ("", 0, 0, 0, 0)}, "counter.daemon.incarnation"),
        (Dview, {"view": ".."}, "counter.daemon.incarnation"),
        (Release, {"kind": 6}, "kind 6"),
        (Release, {"index": 1, "count": 1}, "part 1 of 1"),
        (Accept, {"first": 1, "last": 1 + MAX_BUNDLE}, "a bundle of messages"),
        (Accept, {"first": 2, "last": 1}, "a bundle of messages"),
        (Accept, {"c": "ann"}, "#user#daemon/connection"),
        (Ask, {"what": "dance"}, "'dance'"),
        (Send, {"level": 6}, "level 6"),
        (Send, {"to": ()}, "without a destination"),
        (Send, {"to": ("",)}, "without a destination"),
        (Deliver, {"s": "#a#b"}, "#user#daemon/connection"),
        (Member, {"changed": ("x",)}, "#user#daemon/connection"),
    ],
)
def test_an_event_that_makes_no_sense_is_refused(
    kind: type[TraceEvent], change: dict[str, object], why: str
) -> None:
    strange = replace(first(kind), **change)
    with pytest.raises(TraceError, match=rf"^run\.jsonl:{len(EVENTS) + 1}: ") as caught:
        check_trace("run.jsonl", lines([*EVENTS, strange]))
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("fits", "words"),
    [
        (lambda event: isinstance(event, Send), ("sends",)),
        (lambda event: isinstance(event, Deliver), ("receives",)),
        (lambda event: isinstance(event, Hold), ("holds packet",)),
    ],
)
def test_events_are_described_in_one_line(
    fits: Callable[[TraceEvent], bool], words: tuple[str, ...]
) -> None:
    line = readable(next(event for event in EVENTS if fits(event)))
    assert "\n" not in line
    assert all(word in line for word in words)


def test_the_documentation_names_every_event_with_its_fields() -> None:
    page = (Path(__file__).parents[3] / "docs" / "trace.md").read_text()
    rows = re.findall(r"^\| ([a-z]+) \| ([a-z_, ]*) ?\|", page, re.MULTILINE)
    documented = {kind: tuple(re.findall(r"\w+", names)) for kind, names in rows}
    del documented["e"]  # the heads of the tables
    assert documented == {
        str(struct_info(kind).tag): tuple(field.name for field in fields(kind) if field.name != "t")
        for kind in get_args(TraceEvent)
    }


def struct_info(kind: type[TraceEvent]) -> msgspec.inspect.StructType:
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    return info
