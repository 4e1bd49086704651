"""The page of `groupcomm view` in a browser: keys and choices, violations, long traces.

All of it is long. The short form is `test_view_in_short.py`.
"""

from itertools import combinations
from pathlib import Path

import pytest
import trio

from groupcomm.events import Message
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.trace.events import TraceEvent
from groupcomm.trace.steps import Given, StampedReceived, StampedSent
from groupcomm_client import Connection, ConnectOptions, connect
from groupcomm_lessons.algorithms.acknowledged import AcknowledgedStamps
from groupcomm_lessons.algorithms.fan_out import FanOut
from groupcomm_lessons.algorithms.vector import Vector
from groupcomm_tools.cli import main
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.view.build import make_diagram
from tests.browser.conftest import Show, View, write_page
from tests.browser.pages import centre, count, messages, press, settle
from tests.groupcomm_lessons.algorithms.schedules import late_cause
from tests.groupcomm_tools.view.traces import buggy, parted, random_run, traffic

pytestmark = pytest.mark.long


# ---- algorithms ----


def test_who_waits_for_an_own_message_and_what_no_user_gets(view: View) -> None:
    """Acknowledged stamps: p's own waits from its sending on. Answers are only received."""
    page = view(late_cause(AcknowledgedStamps))
    page.evaluate("pick(0)")
    settle(page)
    own = page.locator("#panel tbody tr").filter(has=page.locator("td", has_text="p")).first
    assert " steps for " in own.inner_text()
    answer: list[TraceEvent] = [
        StampedSent(1, "p", "p", 1, ("q",), "", 0),
        StampedReceived(2, "q", "p", 1, "p"),
        StampedSent(3, "p", "p", 2, ("q",), "", 0),
    ]
    page = view(answer)
    assert (count(page, ".arrow"), count(page, ".wait")) == (1, 0)
    press(page, "n")
    assert "received at step 2" in page.locator("#panel").inner_text()


def test_messages_that_are_concurrent_stay_dark(view: View) -> None:
    """Of two messages that cross neither causes the other; a later one has both causes."""
    names = ("p", "q")
    page = view(
        [
            StampedSent(1, "p", "p", 1, names, "", 0),
            StampedSent(2, "q", "q", 1, names, "", 0),
            Given(3, "p", "q", 1),
            Given(4, "q", "p", 1),
            StampedSent(5, "q", "q", 2, names, "", 0),
            Given(6, "p", "q", 2),
        ]
    )
    press(page, "n")
    assert (messages(page, ".chosen"), messages(page, ".effect")) == ({0}, {2})
    assert not messages(page, ".cause")
    press(page, "n", "n")
    assert (messages(page, ".chosen"), messages(page, ".cause")) == ({2}, {0, 1})
    assert not messages(page, ".effect")


def test_causes_are_those_of_the_definition(view: View) -> None:
    """Of every message of a run, as the history of the algorithms finds them."""
    network, events = random_run(FanOut, 40)
    page = view(events)
    places = {m.id: at for at, m in enumerate(network.history.sent)}
    causes = {
        places[message.id]: {places[cause.id] for cause in network.history.causes(message)}
        for message in network.history.sent
    }
    assert len(causes) == 40
    for message, expected in causes.items():
        assert set(page.evaluate(f"[...causesOf({message})]")) == expected
        effects = {each for each in causes if message in causes[each]}
        assert set(page.evaluate(f"[...effectsOf({message})]")) == effects


def test_a_trace_without_anything_is_an_empty_page(view: View) -> None:
    page = view([])
    press(page, "0", "l", "t", "n", "v", "+", "ArrowLeft", "Escape")
    assert not count(page, ".life")


def test_an_order_that_was_not_kept_is_shown_when_asked_for(view: View) -> None:
    page = view(late_cause(FanOut))
    assert page.locator("#violations h2").inner_text() == "Order not kept"
    assert not count(page, ".proof")
    page.get_by_text("causal: r: q1 before p1").click()
    settle(page)
    assert count(page, "circle.proof.unkept.chosen") == 2
    assert "which may have caused it" in page.locator("#panel").inner_text()


# ---- time ----


def test_logical_time_has_upright_tick_lines(view: View) -> None:
    page = view(late_cause(Vector))
    press(page, "t")
    bent = page.eval_on_selector_all(
        "#diagram .tickline", "all => all.map(t => t.getAttribute('d'))"
    )
    press(page, "l")
    upright = page.eval_on_selector_all(
        "#diagram .tickline", "all => all.map(t => t.getAttribute('d'))"
    )
    clocks = make_diagram("late", late_cause(Vector)).points
    assert len(upright) == max(point.clock for point in clocks)
    for path in upright:
        assert len({part.split()[0] for part in path[1:].split("L")}) == 1
    assert any(len({part.split()[0] for part in path[1:].split("L")}) > 1 for path in bent)
    assert page.locator("#logical").is_checked()
    # An event of a higher clock stands further to the right, whatever line it is on.
    places = page.evaluate("segments.filter(s => s.p >= 0).map(s => [points.clock[s.p], s.x1])")
    assert sorted(places) == sorted(places, key=lambda pair: pair[1])


# ---- clusters ----


def test_views_are_bands_and_may_be_left_out(view: View) -> None:
    events = parted()
    page = view(events)
    press(page, "0")
    assert count(page, ".band.transitional") > 0
    tints = page.eval_on_selector_all("#diagram .band", "all => all.map(b => b.classList[1])")
    assert len(set(tints) - {"transitional"}) > 2  # daemons are together, partitioned, together
    views = make_diagram("run", events).bands
    shown: dict[str, int] = dict(page.evaluate("[...viewTints]"))
    for one, other in combinations(views, 2):
        at_once = one.begins <= other.ends and other.begins <= one.ends
        if at_once and one.view != other.view:
            assert shown[one.view] != shown[other.view]
    assert "Every property holds" in page.locator(".verdict").inner_text()
    page.locator("#views").uncheck()
    settle(page)
    assert not count(page, ".band")


def test_levels_groups_and_processes_may_be_left_out(view: View) -> None:
    page = view(parted())
    press(page, "0")
    assert count(page, ".l4.arrow") > 0
    page.get_by_label("AGREED").uncheck()
    settle(page)
    assert count(page, ".l4.arrow") == 0
    assert count(page, ".l5.arrow") > 0
    page.locator("#groups-choice summary").click()
    for box in page.locator("#groups input").all():
        box.uncheck()
    settle(page)
    assert not count(page, ".msg")
    rows = count(page, ".life")
    page.locator("#daemons").uncheck()
    settle(page)
    assert count(page, ".life") == rows - 4


def test_what_a_message_of_daemons_waited_for_is_reported(view: View) -> None:
    page = view(parted())
    press(page, "0")
    page.evaluate(f"pick({min(messages(page, '.wait'))})")
    settle(page)
    assert count(page, ".wait.chosen") > 0
    told = page.locator("#panel").inner_text()
    assert " ms for " in told or " µs for " in told
    assert "position" in told


def test_a_violation_is_marked_where_it_happened(view: View) -> None:
    """Of a run with a known bug: what proves it has a ring, on the list and in the diagram."""
    page = view(buggy())
    assert "Does not hold: D2" in page.locator(".verdict").inner_text()
    press(page, "0")  # events outside of the window are not drawn
    rings = count(page, "circle.proof")
    assert rings == len(make_diagram("buggy", buggy()).violations)
    press(page, "v")
    assert count(page, "circle.proof.chosen") == 1
    ring = centre(page.locator("#diagram circle.proof.chosen"))
    assert any(
        abs(ring[0] - x) < 1 and abs(ring[1] - y) < 1
        for x, y in map(centre, page.locator("#diagram .point.deliver").all())
    )
    assert "twice" in page.locator("#panel").inner_text()
    page.locator("#violations button").nth(1).click()
    settle(page)
    assert page.locator("#violations [aria-current=true]").count() == 1


async def until(connection: Connection, level: ServiceLevel, data: bytes = b"to all") -> None:
    async for event in connection:
        if isinstance(event, Message) and (event.level, event.data) == (level, data):
            return


async def play(folder: Path) -> None:
    async with LocalCluster("ab", options=("--trace", str(folder))) as cluster:
        await cluster.settle("ab")
        async with (
            connect(
                str(cluster["a"].unix), user="ann", options=ConnectOptions(trace=folder)
            ) as ann,
            connect(
                str(cluster["b"].unix), user="bob", options=ConnectOptions(trace=folder)
            ) as bob,
        ):
            await ann.join("g")
            await bob.join("g")
            for level in LEVELS:
                await ann.multicast("g", b"to all", level=level)
            await until(bob, LEVELS[-1])
            await bob.multicast("g", b"answer", level=LEVELS[0])
            await bob.multicast("g", b"answer", level=LEVELS[-1])
            await until(ann, LEVELS[-1], b"answer")
        for name in "ab":
            await cluster[name].leave()


def test_a_folder_of_real_daemons_and_programs(show: Show, tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    trio.run(play, folder)
    output = tmp_path / "real.html"
    assert main(["view", str(folder), "-o", str(output)]) == 0
    page = show(output)
    names = page.eval_on_selector_all("#diagram .label", "all => all.map(n => n.firstChild.data)")
    assert names == ["a", "ann", "b", "bob"]
    assert count(page, ".point.send") == 8
    assert {level for level in range(6) if count(page, f".l{level}.send")} == set(range(6))
    assert messages(page, ".arrow") >= {1, 2, 3, 4, 5, 7}  # at least all but the UNRELIABLE ones
    press(page, *("n" for _ in range(8)))
    causes = set(page.evaluate("[...scene.causes]"))
    assert causes >= {1, 2, 3, 4, 5, 6}  # bob had received all of ann's messages
    assert "Every property holds" in page.locator(".verdict").inner_text()


# ---- 10,000 messages ----


@pytest.fixture(scope="module")
def long_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("long") / "page.html", traffic(10_000))


def test_only_what_is_in_the_window_is_drawn(show: Show, long_page: Path) -> None:
    diagram = make_diagram("run", traffic(10_000))
    begin = min(point.t for point in diagram.points)
    page = show(long_page)
    for _ in range(6):
        elements = count(page, "*")
        assert elements < 2_500
        low, high = page.evaluate("[scene.from, scene.to]")
        expected = set()
        for each in diagram.arrivals:
            assert each.origin is not None
            assert each.delivered is not None
            sent, delivered = (diagram.points[p].t - begin for p in (each.origin, each.delivered))
            if delivered >= low and sent <= high:
                expected.add(each.message)
        assert messages(page, ".msg") == expected
        assert not page.locator("#notice.thinned").count()
        press(page, "+")
    press(page, "0")
    assert count(page, "*") < 6_000
    assert "messages is drawn" in page.locator("#notice").inner_text()
    assert len(messages(page, ".msg")) < 400


def test_the_wheel_zooms_where_it_points_and_a_drag_moves(show: Show, long_page: Path) -> None:
    page = show(long_page)
    x, y = centre(page.locator("#diagram"))
    page.mouse.move(x, y)
    before = page.evaluate(
        f"[fromX({x} - diagram.getBoundingClientRect().left), scene.to - scene.from]"
    )
    page.mouse.wheel(0, -200)
    page.wait_for_function(f"scene.to - scene.from < {before[1]}")
    after = page.evaluate(f"fromX({x} - diagram.getBoundingClientRect().left)")
    assert after == pytest.approx(before[0], rel=1e-3)
    low = page.evaluate("scene.from")
    page.mouse.down()
    page.mouse.move(x - 100, y, steps=3)
    page.mouse.up()
    settle(page)
    assert page.evaluate("scene.from") > low
    assert page.evaluate("scene.chosen") == -1


def test_causes_in_a_long_trace_light_up(show: Show, long_page: Path) -> None:
    page = show(long_page)
    press(page, "End", "n")
    assert page.evaluate("scene.causes.size + scene.effects.size") > 9_000
    assert count(page, "*") < 6_000
    assert count(page, ".cause") > 0


# ---- safety ----


def test_no_other_script_runs_and_nothing_is_fetched(view: View) -> None:
    page = view(late_cause(Vector))
    policy = page.locator("meta[http-equiv]").get_attribute("content")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
