"""The diagram of a trace: lines, points, messages, reasons of waits, views, violations."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given

from groupcomm.sim.check import check_events
from groupcomm.trace.events import Conf, Deliver, Hold, Release, Send, Stamped, TraceEvent
from groupcomm.trace.steps import Buffered, Given, StampedReceived, StampedSent
from groupcomm_lessons.algorithms.fan_out import FanOut
from groupcomm_lessons.algorithms.sequencer import Sequencer
from groupcomm_lessons.algorithms.tick_lines import clocks_of
from groupcomm_lessons.algorithms.vector import Vector
from groupcomm_tools.view.build import make_diagram
from groupcomm_tools.view.diagram import Arrival, Diagram, LineKind, PointKind
from tests.groupcomm_lessons.algorithms.schedules import late_cause, play, schedules
from tests.groupcomm_tools.view.traces import buggy, parted, random_run


def arrival(diagram: Diagram, message: int, line: int) -> Arrival:
    (found,) = [a for a in diagram.arrivals if (a.message, a.line) == (message, line)]
    return found


def assert_logical_time(diagram: Diagram) -> None:
    """C1 and C2: clocks rise on a line, and with each message."""
    latest: dict[int, int] = {}
    for point in diagram.points:
        assert point.clock > latest.get(point.line, 0)
        latest[point.line] = point.clock
    for each in diagram.arrivals:
        for reached in (each.received, each.delivered):
            if reached is not None and each.origin is not None:
                assert diagram.points[reached].clock > diagram.points[each.origin].clock


def test_a_message_that_waits_for_its_cause() -> None:
    diagram = make_diagram("late", late_cause(Vector))
    assert [(line.label, line.kind) for line in diagram.lines] == [
        (name, LineKind.PROCESS) for name in "pqr"
    ]
    assert [(m.sender, m.number, m.level) for m in diagram.messages] == [
        ("p", 1, None),
        ("q", 1, None),
    ]
    waited = arrival(diagram, 1, 2)
    assert waited.waits == (0,)
    assert waited.received is not None
    assert waited.delivered is not None
    received, delivered = diagram.points[waited.received], diagram.points[waited.delivered]
    assert (received.kind, delivered.kind) == (PointKind.RECEIVE, PointKind.DELIVER)
    assert received.t < delivered.t
    cause = arrival(diagram, 0, 2)
    assert (cause.received, cause.waits) == (None, ())
    assert cause.delivered is not None
    assert cause.delivered < waited.delivered
    assert diagram.counted
    assert not diagram.violations
    assert_logical_time(diagram)


def test_an_order_that_was_not_kept_is_proved_by_two_deliveries() -> None:
    diagram = make_diagram("late", late_cause(FanOut))
    causal = next(found for found in diagram.violations if found.name == "causal")
    assert causal.text == "r: q1 before p1, which may have caused it"
    assert not causal.claimed
    points = [diagram.points[each.point] for each in causal.evidence if each.point is not None]
    assert [(point.line, point.message, point.kind) for point in points] == [
        (2, 0, PointKind.DELIVER),
        (2, 1, PointKind.DELIVER),
    ]
    assert (causal.evidence[0].t, causal.evidence[0].text) == (6, "r delivers p:1")
    total = [found for found in diagram.violations if found.name == "total"]
    assert [found.text for found in total] == ["p: p1 before q1; r: the other way round"]
    assert len(total[0].evidence) == 4


def test_a_long_trace_is_not_checked_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupcomm_tools.view.orders.JUDGED_DELIVERIES", 2_003)
    diagram = make_diagram("long", random_run(FanOut, 501)[1])
    assert not diagram.violations
    assert "2004 deliveries" in diagram.unjudged


def test_a_message_comes_from_who_passed_it_on() -> None:
    diagram = make_diagram("sequencer", late_cause(Sequencer))
    origin = arrival(diagram, 1, 2).origin
    assert origin is not None
    assert diagram.points[origin].line == 0  # p is the sequencer, q the sender
    assert_logical_time(diagram)


def test_what_a_filter_holds_back_is_delivered_when_it_gives_it_on() -> None:
    """The connection delivers q's answer to the filter of r, which waits for its cause."""
    p, q, r = (f"#{name}#alfa/1" for name in "pqr")
    events: list[TraceEvent] = []
    for t, sender in enumerate((p, q)):  # a filter reports it before the session does
        events.append(StampedSent(t, sender, sender, 1, (), "stamp", 8))
        events.append(Send(t, sender, 1, 1, ("g",), 0, discard=False, ordered=False))
    for t, sender, waits in ((5, q, [(p, 1)]), (6, p, [])):
        events.append(Deliver(t, r, sender, 1, 1, ("g",), 0, None))
        events.append(StampedReceived(t, r, sender, 1, sender))
        events += [Buffered(t, r, sender, 1, ((p, 1),)) for _ in waits]
    events += [Given(6, r, p, 1), Given(6, r, q, 1)]
    diagram = make_diagram("filter", events)
    assert [line.label for line in diagram.lines] == ["alfa", "p", "q", "r"]
    assert [point.kind for point in diagram.points].count(PointKind.SEND) == 2
    assert len(diagram.messages) == len(diagram.arrivals) == 2
    waited, cause = diagram.arrivals
    assert waited.waits == (0,)
    assert waited.received is not None
    assert waited.delivered is not None
    assert [diagram.points[place].t for place in (waited.received, waited.delivered)] == [5, 6]
    assert (cause.received, cause.waits) == (None, ())
    assert diagram.messages[1].to == ("g",)
    assert (diagram.messages[1].stamp, diagram.messages[1].level) == ("stamp", 1)


@given(schedules)
def test_clocks_are_those_of_the_tick_lines(steps: list[tuple[int, int, int]]) -> None:
    """Return the least clocks that keep C1 and C2, in a run without waits."""
    events: list[TraceEvent] = []
    network = play(FanOut, steps, record=events.append)
    diagram = make_diagram("run", events)
    kinds = (PointKind.SEND, PointKind.DELIVER)
    drawn = [point.clock for point in diagram.points if point.kind in kinds]
    assert drawn == clocks_of(network.history.events)


# ---- clusters ----


@pytest.fixture(scope="module")
def run() -> list[TraceEvent]:
    return parted()


@pytest.fixture(scope="module")
def diagram(run: list[TraceEvent]) -> Diagram:
    return make_diagram("run", run)


def test_clients_stand_below_their_daemon(diagram: Diagram) -> None:
    daemons = [line.label for line in diagram.lines if line.kind is LineKind.DAEMON]
    assert daemons == ["alfa", "bravo", "charlie", "delta"]
    home = None
    for place, line in enumerate(diagram.lines):
        if line.kind is LineKind.DAEMON:
            home = place
        else:
            assert line.home == home
            assert line.identity.startswith(f"#{line.label}#{diagram.lines[line.home or 0].label}/")


def test_everything_that_was_sent_and_delivered_is_drawn(
    run: list[TraceEvent], diagram: Diagram
) -> None:
    sent = [event for event in run if isinstance(event, Send)]
    assert [(m.sender, m.number, m.level, m.to) for m in diagram.messages] == [
        (event.c, event.m, event.level, event.to) for event in sent
    ]
    delivered = [event for event in run if isinstance(event, Deliver)]
    assert [
        (diagram.lines[each.line].identity, diagram.messages[each.message].number)
        for each in diagram.arrivals
    ] == [(event.c, event.m) for event in delivered]
    assert diagram.complete
    assert not diagram.counted
    assert_logical_time(diagram)


def test_clocks_rise_no_more_than_they_need(diagram: Diagram) -> None:
    """Clocks rise by one, or to one above a message's: invisible events take no clock values."""
    sent = 0  # the highest clock of a send so far
    before = dict.fromkeys(range(len(diagram.lines)), 0)
    for point in diagram.points:
        assert point.clock <= max(before[point.line], sent) + 1
        before[point.line] = point.clock
        if point.kind is PointKind.SEND:
            sent = max(sent, point.clock)


def test_what_was_held_back_says_why(diagram: Diagram) -> None:
    waited = [each for each in diagram.arrivals if each.received is not None]
    assert waited
    for each in waited:
        assert each.reason
        assert each.received is not None
        assert each.delivered is not None
        assert diagram.points[each.received].t < diagram.points[each.delivered].t
    reasons = " ".join(each.reason for each in waited)
    assert "a horizon of ring 0 (" in reasons
    assert "confirmation that every daemon" in reasons


def test_what_is_behind_a_safe_message_waits_for_it() -> None:
    """AGREED is a barrier: the token, which no trace tells of, lets both go at once."""
    ann, bob = "#ann#alfa/1", "#bob#bravo/1"
    events: list[TraceEvent] = [Conf(0, "bravo/1", "R", "7.alfa.2a", (("alfa/1", "bravo/1"),))]
    for m, level in ((1, 5), (2, 4)):
        events.append(Send(1, ann, m, level, ("g",), m, discard=False, ordered=False))
        events.append(Hold(2 + m, "bravo/1", 0, m, 10 + m))
    for m, level in ((1, 5), (2, 4)):
        events.append(Release(5_000, "bravo/1", 0, m, 10 + m, 0, 0, level, ann, m, m, 0, 1))
    for m, level in ((1, 5), (2, 4)):
        place = ("7.alfa.2a", 10 + m, 0, 0, 0)
        events.append(Deliver(5_001, bob, ann, m, level, ("g",), m, place))
    safe, agreed = make_diagram("barrier", events).arrivals
    assert (safe.waits, safe.reason) == (
        (),
        "confirmation that every daemon of the view can deliver it",
    )
    assert (agreed.waits, agreed.reason) == ((0,), "a SAFE message before it")


def test_a_later_packet_of_its_stream_lets_nothing_go() -> None:
    """On real clocks: packets 1 to 3 come at once, 2 before 1; then 1 and 2 are given out."""
    ann, bob = "#ann#alfa/1", "#bob#bravo/1"
    conf = Conf(0, "bravo/1", "R", "7.alfa.2a", (("alfa/1", "bravo/1"),))
    sends = [Send(1, ann, m, 4, ("g",), m, discard=False, ordered=False) for m in (1, 2)]
    stamps = [Stamped(2, "alfa/1", "7.alfa.2a", 0, m, 10 + m) for m in (1, 2, 3)]
    holds = [Hold(t, "bravo/1", 0, m, 10 + m) for t, m in ((100, 2), (130, 1), (131, 3))]
    given: list[TraceEvent] = []
    for m in (1, 2):
        given.append(Release(140, "bravo/1", 0, m, 10 + m, 0, 0, 4, ann, m, m, 0, 1))
        given.append(Deliver(150, bob, ann, m, 4, ("g",), m, ("7.alfa.2a", 10 + m, 0, 0, 0)))
    diagram = make_diagram("batch", [conf, *sends, *stamps, *holds, *given])
    at_once, waited = diagram.arrivals
    assert (at_once.received, at_once.reason) == (None, "")
    assert (waited.waits, waited.reason) == ((0,), "packet 1 of alfa")


def test_unreliable_and_reliable_wait_for_nothing(diagram: Diagram) -> None:
    for each in diagram.arrivals:
        if diagram.messages[each.message].level in {0, 1}:
            assert each.reason in {"", "the groups of the view", "the end of the view"}


def test_views_are_bands_without_gaps(run: list[TraceEvent], diagram: Diagram) -> None:
    confs = [event for event in run if isinstance(event, Conf)]
    assert len(diagram.bands) == len(confs)
    assert any(band.transitional for band in diagram.bands)
    assert {len(band.daemons) for band in diagram.bands} > {4}
    for band, following in pairwise(diagram.bands):
        if band.line == following.line:
            assert band.begins <= band.ends == following.begins
            assert band.transitional != following.transitional


def test_a_violation_is_marked_where_it_happened() -> None:
    run = buggy()
    diagram = make_diagram("buggy", run)
    checked = check_events("buggy", run).violations
    assert "D2" in {found.property for found in checked}
    assert [found.name for found in diagram.violations] == [found.property for found in checked]
    for found, violation in zip(checked, diagram.violations, strict=True):
        assert violation.claimed
        (event,) = found.events
        (evidence,) = violation.evidence
        assert isinstance(event, Deliver)
        assert evidence.point is not None
        point = diagram.points[evidence.point]
        assert (point.t, diagram.lines[point.line].identity) == (event.t, event.c)
        assert point.kind is PointKind.DELIVER


def test_a_proof_without_a_point_gets_one(run: list[TraceEvent]) -> None:
    """A daemon's release is not drawn, unless it is what should not have happened."""
    place = next(
        at for at, event in enumerate(run) if isinstance(event, Release) and not event.kind
    )
    lie = msgspec.structs.replace(run[place], first=99, last=99)
    diagram = make_diagram("lie", [*run[: place + 1], lie, *run[place + 1 :]])
    proofs = [point for point in diagram.points if point.kind is PointKind.PROOF]
    assert lie.t in {point.t for point in proofs}
    assert any("releases 99 of" in point.text for point in proofs)
