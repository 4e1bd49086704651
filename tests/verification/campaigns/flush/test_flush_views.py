"""The flush layer while views change all the time: every message in the view it was sent in."""

from typing import Any

import pytest

from groupcomm_client.spread_api import AGREED_MESS, FIFO_MESS
from tests.verification.campaigns.flush.campaign import checked
from tests.verification.campaigns.flush.checker import Checker

pytestmark = pytest.mark.verification


def test_every_message_is_delivered_in_the_view_it_was_sent_in() -> None:
    with checked(changes=6, kills=1, seed="test") as (campaign, checker):
        assert checker.violations == []
        assert campaign.done["kill a daemon"] == 1
        assert checker.views >= 3  # on a busy machine some changes come together,
        assert checker.deliveries > 20  # and few are sent between two of them


def view(name: str, *members: str, together: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"what": "view", "view": name, "members": members, "together": together or members}


def sent(number: int, view: str = "v1") -> dict[str, Any]:
    return {"what": "sent", "number": number, "view": view}


def got(sender: str, number: int, view: str = "v1", level: int = AGREED_MESS) -> dict[str, Any]:
    return {"what": "got", "sender": sender, "number": number, "view": view, "level": level}


BEGIN, END = view("v1", "a", "b"), view("v2", "a", "b")
GOOD: dict[str, list[dict[str, Any]]] = {
    "a": [BEGIN, sent(1), got("b", 1), got("a", 1), END],
    "b": [BEGIN, sent(1), got("b", 1), got("a", 1), END],
}


def test_the_checker_finds_nothing_where_nothing_is_wrong() -> None:
    assert Checker(GOOD).violations == []


def test_members_that_parted_meanwhile_may_have_got_different_messages() -> None:
    records = {
        "a": [BEGIN, sent(1), got("a", 1), view("v2", "a", "b", together=("a",))],
        "b": [BEGIN, sent(1), got("b", 1), view("v2", "a", "b", together=("b",))],
    }
    assert Checker(records).violations == []


@pytest.mark.parametrize(
    ("name", "events", "found"),
    [
        ("a", [BEGIN, sent(1), got("b", 1), END, got("a", 1)], "it was sent in v1"),
        ("a", [BEGIN, sent(1), got("a", 1), END], "only one got [('b', 1)]"),
        ("a", [BEGIN, sent(1), got("a", 1), got("b", 1), END], "disagree about the order"),
        ("a", [BEGIN, sent(1), got("b", 1), END], "went on from v1 with [] of its own [1]"),
        ("a", [BEGIN, sent(1), got("b", 1), got("b", 1), got("a", 1), END], "got ('b', 1) 2 times"),
        ("b", [BEGIN, sent(1), sent(2), got("b", 2), got("a", 1)], "which sent [1, 2]"),
        ("a", [view("v1", "a", "x"), sent(1), *GOOD["a"][2:]], "different members"),
        ("a", [*GOOD["a"][:-1], view("v2", "a", "b", together=("a",))], "without the other one"),
        ("a", [got("b", 1, level=FIFO_MESS), *GOOD["a"]], "in no view"),
    ],
)
def test_the_checker_finds_what_is_wrong(name: str, events: list[Any], found: str) -> None:
    assert found in "\n".join(Checker({**GOOD, name: events}).violations)
