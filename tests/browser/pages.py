"""Queries and acts of tests on the page of `groupcomm view`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def count(page: "Page", selector: str) -> int:
    return page.locator(f"#diagram {selector}").count()


def settle(page: "Page") -> None:
    """Wait until the requested parts are drawn."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def press(page: "Page", *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)
    settle(page)


def centre(found: "Locator") -> tuple[float, float]:
    box = found.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def click(page: "Page", found: "Locator") -> None:
    page.mouse.click(*centre(found))
    settle(page)


def messages(page: "Page", selector: str) -> set[int]:
    """Numbers of the messages with such marks."""
    found: Sequence[Any] = page.eval_on_selector_all(
        f"#diagram {selector}", "marks => marks.map((mark) => Number(mark.dataset.m))"
    )
    return set(found)
