"""Findings that were in the log or in a counter alone: lines that are missing, daemons left out,
programs refused.
"""

from groupcommd.operators.assessment import (
    DaemonAnswers,
    check_log,
    check_programs,
    check_room,
)
from groupcommd.operators.findings import Grade


def answers(before: int, after: int) -> DaemonAnswers:
    first, later = ({"log": {"dropped_lines": count}} for count in (before, after))
    return DaemonAnswers(first, later, {})


def test_lines_that_the_log_lacks_are_a_finding() -> None:
    assert list(check_log(answers(0, 0))) == []
    (found,) = check_log(answers(7, 7))
    assert (found.grade, "7 lines could not be written" in found.text) == (Grade.WARNING, True)
    (found,) = check_log(answers(7, 9))
    assert (found.grade, "2 of them in the last" in found.text) == (Grade.PROBLEM, True)
    assert "standard error" in found.remedy
    assert list(check_log(DaemonAnswers({}, {}, {}))) == [], "an older daemon does not count them"


def test_daemons_for_which_a_view_has_no_room_are_a_finding() -> None:
    rings = [["a"], ["b"]]
    (found,) = check_room(DaemonAnswers({}, {"no_room": ["c", "d"], "rings": rings}, {}))
    assert (found.grade, "c, d are heard and left out" in found.text) == (Grade.PROBLEM, True)
    assert "now it has 2" in found.text
    assert list(check_room(DaemonAnswers({}, {"no_room": [], "rings": rings}, {}))) == []
    assert list(check_room(DaemonAnswers({}, {}, {}))) == [], "an older daemon does not say it"


def programs(limit: int | None, **refused: int) -> DaemonAnswers:
    later = {"connections": 9, "connections_most": 101, "refused": refused}
    return DaemonAnswers({}, later, {"quotas": {"connections": limit}})


def test_it_is_told_how_many_connections_a_user_may_have() -> None:
    found = check_programs(programs(None, hello=3))
    assert found.grade is Grade.OK
    assert found.text.startswith("9 connections of at most 101; one user may have as many as it")
    assert "leaves to others, 51 if there are none" in found.text
    assert check_programs(programs(20)).text.endswith("one user may have 20")
    found = check_programs(programs(20, quota=4, full=1, hello=3))
    assert (found.grade, "5 more were refused" in found.text) == (Grade.WARNING, True)
    assert "clients.quotas.connections" in found.remedy
