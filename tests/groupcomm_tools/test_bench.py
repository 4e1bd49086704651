"""The benchmark: its checks, and its runs as a user would start them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.errors import ConfigError
from groupcomm.level import ServiceLevel
from groupcomm_tools.bench import content as content_module
from groupcomm_tools.bench.content import DISTINCT, Content, Receipts, lost_of
from groupcomm_tools.bench.figures import CpuUse, figures_of
from groupcomm_tools.bench.plan import Plan
from tests.groupcomm_tools.shell import Told, tell

CONTENT = Content(3, 40)


def run(*options: str) -> Told:
    return tell("bench", *options)


def test_both_sides_make_the_same_messages_and_all_differ() -> None:
    messages = CONTENT.many(0, 50_000)
    assert messages == Content(3, 40).many(0, 50_000)
    assert len(set(messages)) == 50_000
    assert {len(message) for message in messages} == {40}
    assert CONTENT.many(0, 5) != Content(4, 40).many(0, 5)


def test_after_the_last_distinct_message_the_first_comes_again() -> None:
    assert CONTENT.many(DISTINCT - 2, 4) == CONTENT.many(DISTINCT - 2, 2) + CONTENT.many(0, 2)


def test_a_message_shows_which_one_it_is() -> None:
    for number in (0, 17, DISTINCT - 1, DISTINCT + 5):
        assert CONTENT.number(CONTENT.many(number, 1)[0], number + 3) == number
    assert CONTENT.number(b"?" * 40, 0) is None


@given(st.permutations(list(range(12))), st.sets(st.integers(0, 11)), st.integers(0, 11))
def test_what_goes_wrong_is_counted(order: list[int], lost: set[int], doubled: int) -> None:
    account = Receipts(CONTENT)
    come = [number for number in order if number not in lost]
    if doubled in come:
        come.append(doubled)
    account.check([CONTENT.many(number, 1)[0] for number in come])
    late = sum(
        number < max(come[:place], default=-1)
        for place, number in enumerate(come)
        if number not in come[:place]
    )
    assert lost_of(account.report(0), 12) == len(lost)
    assert account.duplicated == (doubled in come)
    assert account.misordered == late
    assert (account.wrong, account.got) == (0, len(come))


def test_bytes_that_nobody_sent_are_counted() -> None:
    account = Receipts(CONTENT)
    account.check([CONTENT.many(0, 1)[0], CONTENT.many(1, 1)[0][:-1] + b"?"])
    assert account.wrong == 1


def test_receivers_that_see_another_order_are_counted() -> None:
    account = {
        "got": 1,
        "expected": 1,
        "skipped": 0,
        "duplicated": 0,
        "misordered": 0,
        "wrong": 0,
        "timed": 0,
    }
    report = {
        "accounts": [account],
        "wrong_timed": 0,
        "order": 1,
        "counts": [(5, 1)],
        "delays": [],
    }
    sent = [{"sent": 1, "timed": 0}]
    for level, wrong in ((ServiceLevel.AGREED, 1), (ServiceLevel.FIFO, 0)):
        plan = Plan(level=level, receivers=2)
        reports = [report, {**report, "order": 2}]
        figures = figures_of(plan, (0, 10**9), CpuUse(0, 0, 0), sent, reports)
        assert figures.misordered == wrong
        assert figures.is_right == (not wrong)
        assert figures.msgs_per_s_each == pytest.approx(1.0)


def test_a_plan_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="size is 3; it must be at least 16"):
        Plan(size=3)
    status, output, messages = run("--daemons", "9")
    assert (status, output) == (2, "")
    assert "--daemons is 9; it must be 1 to 8" in messages


@pytest.mark.parametrize(
    "options",
    [
        ("--daemons", "2", "--senders", "2", "--size", "300", "--rate", "300"),
        (
            *("--daemons", "1", "--tcp", "--rate", "300", "--level", "safe"),
            *("--bundling", "off", "--encryption", "off", "--packet-bytes", "1340"),
        ),
    ],
)
def test_it_measures_and_finds_nothing_wrong(options: tuple[str, ...]) -> None:
    status, output, messages = run(*options, "--duration-s", "0.2", "--json")
    assert status == 0, messages
    found = json.loads(output)
    assert found["msgs_per_s_each"] > 0
    assert found["delay_p50_us"] > 0
    assert found["cpu_daemons"] >= 0
    assert [found[name] for name in ("lost", "duplicated", "misordered", "wrong")] == [0] * 4
    assert "processors" in found["machine"]


@pytest.mark.long
def test_sites_are_reported_each_on_its_own() -> None:
    links = ("--sites", "2", "--daemons", "2", "--delay-ms", "20", "--rate", "100")
    status, output, messages = run(*links, "--duration-s", "0.2", "--json")
    assert status == 0, messages
    found = json.loads(output)
    assert (found["sites"], found["shape"], found["packet_bytes"]) == (2, "mesh", 1340)
    assert found["by_site"]["south"]["delay_p50_us"] >= 20_000
    assert found["by_site"]["north"]["delay_p50_us"] > 0
    members = ("--members-in", "1", "--duration-s", "0.2", "--level", "fifo")
    status, output, messages = run(*links, *members)
    assert status == 0, messages
    assert "2 daemons, 1 senders, 1 receivers" in output
    assert "2 sites, mesh; links have 20 ms, jitter 0 ms, loss 0, any bandwidth" in output
    assert "north " in output
    assert "south " not in output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--sites", "9"), "--sites is 9; it must be 1 to 8"),
        (("--sites", "3", "--daemons", "2"), "--daemons is 2; it must be 3 to 8"),
        (("--delay-ms", "5"), "--delay-ms is for several sites; see --sites"),
        (("--sites", "2", "--members-in", "3"), "--members-in is 3; it must be 0 to 2"),
        (
            ("--sites", "2", "--floor"),
            "--sites starts daemons of its own: leave out --address and --floor",
        ),
        (("--sites", "2", "--loss", "2"), "--loss: it is 2, and must be at most 1"),
    ],
)
def test_sites_that_cannot_be_are_refused(options: tuple[str, ...], said: str) -> None:
    status, output, messages = run(*options)
    assert (status, output) == (2, "")
    assert said in messages


@pytest.mark.long
def test_bare_relays_are_measured_in_turn() -> None:
    options = ("--daemons", "2", "--rate", "200", "--duration-s", "0.2", "--floor", "--json")
    status, output, messages = run(*options)
    assert status == 0, messages
    found = json.loads(output)
    assert 0 < found["floor_p50_us"] <= found["floor_p99_us"]
    status, _, messages = run("--floor")
    assert status == 2
    assert "--floor needs one sender, a --rate" in messages


@pytest.mark.long
def test_what_it_says_to_people() -> None:
    status, output, messages = run("--daemons", "1", "--duration-s", "0.2")
    assert status == 0, messages
    assert "1 daemons, 1 senders, 1 receivers, 100 bytes, AGREED, unix, encrypted" in output
    assert "lost 0, duplicated 0, misordered 0, changed 0" in output


def test_a_block_holds_more_messages_than_a_run_sends() -> None:
    assert content_module.DISTINCT >= 8_000_000
