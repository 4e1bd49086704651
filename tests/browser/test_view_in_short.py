"""The page of `groupcomm view` in a browser: the drawing, the effect of a click, the text.

`test_view.py` has everything else, and is long.
"""

from groupcomm.trace.events import Send, TraceEvent
from groupcomm.trace.steps import Given, StampedSent
from groupcomm_lessons.algorithms.vector import Vector
from tests.browser.conftest import View
from tests.browser.pages import click, count, messages, press, settle
from tests.groupcomm_lessons.algorithms.schedules import late_cause


def test_all_is_drawn_and_a_click_lights_up_causes_and_effects(view: View) -> None:
    """p sends, q answers, and r, which hears of the answer first, keeps it back."""
    page = view(late_cause(Vector))
    assert (count(page, ".point.send"), count(page, ".point.deliver")) == (2, 6)
    assert (count(page, ".arrow"), count(page, ".wait")) == (4, 1)
    assert count(page, ".life") == 3
    names = page.eval_on_selector_all("#diagram .label", "all => all.map(n => n.firstChild.data)")
    assert names == ["p", "q", "r"]
    assert page.locator(".verdict").inner_text() == "Order kept: fifo, causal, total"
    click(page, page.locator("#diagram .wait"))  # q's answer, message 1
    assert messages(page, ".chosen") == {1}
    assert messages(page, ".cause") == messages(page, ".waited") == {0}
    assert not messages(page, ".effect")
    told = page.locator("#panel").inner_text()
    assert "caused by: 1 message" in told
    assert "1 step for p:1" in told
    page.locator("#panel [data-go='0']").first.click()
    settle(page)
    assert messages(page, ".chosen") == {0}
    assert messages(page, ".effect") == {1}
    press(page, "Escape")
    assert not messages(page, ".lit")


def test_what_a_trace_says_is_text(view: View) -> None:
    evil = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>"
    events: list[TraceEvent] = [
        Send(1, f"#{evil[:20]}#alfa/1", 1, 4, (evil,), 0, discard=False, ordered=False),
        StampedSent(2, evil, evil, 1, (evil,), evil, 3),
        Given(3, evil, evil, 1),
    ]
    page = view(events)
    assert page.title() == "run"
    page.locator("#groups-choice summary").click()
    assert evil in page.locator("#groups").inner_text()
    press(page, "n")
    assert evil in page.locator("#panel").inner_text()
    press(page, "n")
    assert evil in page.locator("#panel").inner_text()
    assert not page.locator("img").count()
