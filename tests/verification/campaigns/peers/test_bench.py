"""The comparison of systems, for parts that need nothing installed: relays, options, tables."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest

from groupcomm.errors import GroupCommError
from groupcomm_tools.bench.content import Content, timed
from groupcomm_tools.bench.figures import Figures
from groupcomm_tools.bench.plan import Plan
from tests.verification.campaigns.peers import bench, spread
from tests.verification.campaigns.peers.bare_relays import BareRelays
from tests.verification.campaigns.peers.nodes import Node
from tests.verification.campaigns.peers.ours import Ours
from tests.verification.campaigns.peers.peer import Servers
from tests.verification.campaigns.peers.program import COUNTER_BYTES, Counters, Tally, end_of
from tests.verification.campaigns.peers.rounds import (
    Arrangement,
    Results,
    arrangements,
    measure_all,
)
from tests.verification.campaigns.peers.table import as_object, rate, ratio, text

PLAN = Plan(daemons=2, receivers=2, duration_s=0.5, warm_up_s=0.3)
TIMED = attrs.evolve(PLAN, daemons=1, receivers=1, rate=200.0)
RIGHT = Figures(
    plan=PLAN,
    msgs_per_s_each=1000.0,
    mb_per_s_each=0.1,
    msgs_per_s_fastest=1000.0,
    delay_p50_us=None,
    delay_p95_us=None,
    delay_p99_us=None,
    delay_p999_us=None,
    delay_max_us=None,
    lost=0,
    duplicated=0,
    misordered=0,
    wrong=0,
    cpu_daemons=0.5,
    cpu_senders=0.25,
    cpu_receivers=1.0,
    cpu_s_per_million=1.0,
    jain=1.0,
)


class Absent(BareRelays):
    """A system that is not installed."""

    name = "absent"

    def missing(self) -> str:
        return "not installed; apt-get install absent"


class Broken(BareRelays):
    """A system whose server does not start."""

    name = "broken"

    @asynccontextmanager
    async def open(self, plan: Plan) -> AsyncIterator[Servers]:
        raise GroupCommError("its server has ended")
        yield Servers([], lambda plan: ([], []))


def rounds_of(*rates: float, lost: int = 0) -> list[Figures]:
    return [attrs.evolve(RIGHT, msgs_per_s_each=each, lost=lost) for each in rates]


def made_up() -> tuple[list[Arrangement], Results]:
    """Ours is 2, 3 and 4 times as fast as relays that lose messages."""
    found = [Arrangement("two daemons", [Ours("ours"), BareRelays(), Absent()], [PLAN])]
    figures = {
        (PLAN, "ours"): rounds_of(2000.0, 6000.0, 3600.0),
        (PLAN, "bare relay"): rounds_of(1000.0, 2000.0, 900.0, lost=7),
    }
    return found, Results(figures, {"absent": "not installed"})


@pytest.mark.long
async def test_relays_are_measured_and_what_cannot_run_is_named() -> None:
    found = [Arrangement("relays", [Absent(), Broken(), BareRelays()], [PLAN, TIMED])]
    results = await measure_all(found, rounds=1)
    assert results.failed == {
        "absent": "not installed; apt-get install absent",
        "broken": "its server has ended",
    }
    assert set(results.figures) == {(PLAN, "bare relay"), (TIMED, "bare relay")}
    for (figures,) in results.figures.values():
        assert figures.is_right
        assert figures.msgs_per_s_each > 0
        assert (figures.delay_p50_us is not None) == figures.plan.is_timed


def test_a_ratio_is_the_median_of_those_of_each_round() -> None:
    _, results = made_up()
    ours, theirs = results.figures.values()
    assert ratio(ours, theirs, rate) == 3.0
    assert ratio(ours, [], rate) is None


def test_the_table_tells_medians_ratios_losses_and_who_is_missing() -> None:
    lines = text(*made_up()).splitlines()
    row = next(line for line in lines if line.startswith("  bare relay"))
    assert " ".join(row.split()) == "bare relay 1,000 3.00 1,750.0 0.50, 0.25, 1.00 lost 21"
    assert "absent was not measured: not installed" in lines


def test_json_has_the_same() -> None:
    shape = as_object(*made_up())
    (setting,) = shape["settings"]
    ours, bare = setting["systems"]
    assert (ours["ours_to_msgs_per_s_each"], bare["ours_to_msgs_per_s_each"]) == (1.0, 3.0)
    assert (bare["msgs_per_s_each"], bare["lost"], bare["rounds"]) == (1000.0, 21, 3)
    assert shape["not_measured"] == {"absent": "not installed"}


def test_only_ours_decides_about_the_status() -> None:
    _, results = made_up()
    assert bench.ours_is_right(results)
    results.failed["ours"] = "a daemon has ended"
    assert not bench.ours_is_right(results)
    assert not bench.ours_is_right(Results())
    assert not bench.ours_is_right(Results({(PLAN, "ours"): rounds_of(1.0, lost=1)}))


def test_options_choose_systems_rounds_and_time() -> None:
    options = bench.run.read(
        "", ["--rounds", "5", "--duration-s", "0.5", "--only", "nats", "corosync"]
    )
    three, one = arrangements(options.duration_s, options.only)
    assert options.rounds == 5
    assert {plan.duration_s for plan in (*three.plans, *one.plans)} == {0.5}
    assert [peer.name for peer in three.peers if peer.family] == ["corosync", "corosync, encrypted"]
    assert [peer.name for peer in one.peers if peer.family] == ["nats"]
    for each in (three, one):
        names = {peer.name for peer in each.peers}
        assert {"ours", "ours, singly", "bare relay"} <= names


@pytest.mark.parametrize(
    "words", [["--only", "kafka"], ["--rounds", "0"], ["--duration-s", "0"], ["--rounds", "x"]]
)
def test_wrong_options_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        bench.run.read("", words)
    assert ended.value.code == 2
    assert words[0] in capsys.readouterr().err


def test_a_receiver_of_another_system_checks_every_message() -> None:
    content, tally = Content(0, PLAN.size), Tally(PLAN)
    tally.check(content.many(0, 5))
    tally.check([*content.many(7, 1), *content.many(6, 1), *content.many(0, 1), b"?" * PLAN.size])
    assert not tally.has_ended
    tally.check([end_of(PLAN)])
    assert tally.has_ended
    (account,) = tally.report()["accounts"]
    assert account["skipped"] == account["misordered"] == account["duplicated"] == 1
    assert (account["wrong"], account["expected"], account["got"]) == (1, 8, 9)


def test_and_sees_a_gap_in_those_with_the_time() -> None:
    tally = Tally(TIMED)
    tally.check([timed(1, number, TIMED.size) for number in (0, 1, 3)])
    report = tally.report()
    assert (report["wrong_timed"], report["accounts"][0]["timed"]) == (1, 4)
    assert tally.got == 4, "or a sender that keeps a rate would wait for ever"
    assert len(report["delays"]) == 3


def test_a_sender_sees_what_the_slowest_receiver_has_got(tmp_path: Path) -> None:
    path = tmp_path / "counters"
    path.write_bytes(bytes(2 * COUNTER_BYTES))
    sender, receivers = Counters(path), [Counters(path), Counters(path)]
    receivers[0].report(0, 70)
    assert sender.least == 0
    receivers[1].report(1, 30)
    assert sender.least == 30


def test_spreads_daemons_are_in_one_segment_and_their_log_tells_when_they_met(
    tmp_path: Path,
) -> None:
    nodes = [Node([f"10.77.0.{at}"], ()) for at in (1, 2)]
    text = spread.configuration(nodes, tmp_path)
    assert "Spread_Segment 10.77.0.255:4803 {\n    n1 10.77.0.1\n    n2 10.77.0.2\n}" in text
    log = tmp_path / "n1.log"
    alone, both = "\n\t\tn1 10.77.0.1", "\n\t\tn1 10.77.0.1\n\t\tn2 10.77.0.2"
    log.write_text(f"with 2 procs:\n\tn1\n\tn2\nNum Segments 1\n\t1\t[10.77.0.255]:4803{alone}\n")
    assert spread.members(log) == 1
    log.write_text(f"{log.read_text()}Num Segments 1\n\t2\t[10.77.0.255]:4803{both}\n")
    assert spread.members(log) == 2


def test_spread_is_measured_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("SPREAD_DAEMON", raising=False)
    assert "SPREAD_DAEMON" in spread.Spread().missing()
    monkeypatch.setenv("SPREAD_DAEMON", "/opt/spread/sbin/spread")
    assert spread.daemon() == "/opt/spread/sbin/spread"
