"""The job counts what happened to messages as plain Python does, and the command writes a model."""

import math
from dataclasses import astuple
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from groupcomm_log.channel.distributions import Lognormal
from groupcomm_log.channel.fitting import count_link, fit_channel
from groupcomm_log.channel.losses import GilbertElliott
from groupcomm_log.channel.model import OTHER, SAME, Channel, ChannelModel, Clock
from groupcomm_log.schema import GAP, MESSAGE, rows_of
from groupcomm_log.writer import LogWriter
from groupcomm_spark.channel.job import Way, find_clocks, make_model
from groupcomm_spark.commands.report import sent_at
from groupcomm_spark.logs import read
from groupcomm_tools.cli import main
from tests.groupcomm_log.make import QuickDisk

BEGIN_US = 1_800_000_000_000_000
PERIOD_S = 0.02
AHEAD_S = 0.1
"""The clock of bravo is ahead of that of alfa."""

CHANNEL = Channel(
    level="UNRELIABLE",
    place=OTHER,
    messages=0,
    delays=Lognormal(0.001, -6.0, 0.5),
    memory_s=0.05,
    interval_s=PERIOD_S,
    overtaken=0.1,
    passing=1.0,
    losses=GilbertElliott(0.05, 0.3, 0.0, 0.9),
)

Sent = list[tuple[float, float | None]]


def gap(daemon: str) -> dict[str, Any]:
    return {"kind": GAP, "sender": f"#rec#{daemon}/9", "received": BEGIN_US, "cause": "begin"}


def row(sender: str, number: int, sent_s: float, received_s: float, **more: Any) -> dict[str, Any]:
    sent_ns = BEGIN_US * 1000 + round(sent_s * 1e9)
    return {
        "kind": MESSAGE,
        "received": BEGIN_US + round(received_s * 1e6),
        "sender": sender,
        "number": number,
        "level": "UNRELIABLE",
        "groups": ["g"],
        "data": sent_ns.to_bytes(8, "big"),
        **more,
    }


def rows_at(sender: str, sent: Sent, ahead_s: float) -> list[dict[str, Any]]:
    """Return a log's rows of a sender, by a clock that is ahead of the sender's; in order of
    arrival."""
    came = [(n, s, a) for n, (s, a) in enumerate(sent, 1) if a is not None]
    return [row(sender, n, s, a + ahead_s) for n, s, a in sorted(came, key=lambda each: each[2])]


def traffic(seed: int, count: int) -> Sent:
    """A sender's messages, the last of which arrives."""
    link = ChannelModel(channels=(CHANNEL,)).link("UNRELIABLE", Random(seed))
    times = [index * PERIOD_S for index in range(count)]
    sent: Sent = [(at_s, link.send(at_s)) for at_s in times]
    sent[0], sent[-1] = (times[0], times[0] + 0.004), (times[-1], times[-1] + 0.004)
    return sent


@pytest.fixture(scope="module")
def to_bravo() -> Sent:
    return traffic(1, 600)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, to_bravo: Sent) -> list[Path]:
    """Ann at alfa and Bob at bravo send to recorders at both, which have all of those beside them;
    besides, pairs of SAFE messages to two groups come in one packet each.
    """
    ann, bob = "#ann#alfa/1", "#bob#bravo/1"
    beside: Sent = [(at_s, at_s + 0.0002) for at_s, _ in to_bravo]
    safe = []
    for index in range(40):
        place = {"view": "1.alfa.a", "ring": 0, "causal_context": [index], "level": "SAFE"}
        delay_s = 0.01 + 0.001 * (index * 7 % 40)
        sent_s = index * PERIOD_S + 0.007
        for part, group in enumerate(("g", "h")):
            # Messages of two senders: a packet has the messages that wait at its daemon.
            sender, number = (ann, "#amy#alfa/2")[part], 10_000 + index
            arrival_s = sent_s + delay_s + AHEAD_S
            safe.append(row(sender, number, sent_s, arrival_s, groups=[group], **place))
    contents = {
        "alfa": [*rows_at(ann, beside, 0.0), *rows_at(bob, traffic(2, 200), -AHEAD_S)],
        "bravo": [*rows_at(ann, to_bravo, AHEAD_S), *rows_at(bob, beside[:200], 0.0), *safe],
    }
    found = []
    for name, rows in contents.items():
        found.append(tmp_path_factory.mktemp("logs") / name)
        writer = LogWriter(found[-1], disk=QuickDisk())
        writer.append(rows_of([gap(name), *rows]))
        writer.close()
    return found


@pytest.mark.long
def test_the_job_finds_what_is_counted_without_spark(
    spark: SparkSession, folders: list[Path], to_bravo: Sent
) -> None:
    logs = read(spark, *folders).where("sender is null or sender != '#bob#bravo/1'")
    found = make_model(logs, sent_us=sent_at(0))
    by_clock = [(s, None if a is None else round(a + AHEAD_S, 6)) for s, a in to_bravo]
    wanted = fit_channel("UNRELIABLE", OTHER, count_link(by_clock))
    channel = found.channel("UNRELIABLE", OTHER)
    assert (channel.messages, channel.overtaken) == (wanted.messages, wanted.overtaken)
    assert astuple(channel.losses) == pytest.approx(astuple(wanted.losses))
    assert (channel.interval_s, channel.memory_s) == pytest.approx(
        (wanted.interval_s, wanted.memory_s)
    )
    assert channel.delays is not None
    assert wanted.delays is not None
    for score in (-2.0, 0.0, 2.0):
        assert channel.delays.at(score) == pytest.approx(wanted.delays.at(score), rel=1e-3)
    assert found.channel("UNRELIABLE", SAME).losses.loss == 0


@pytest.mark.long
def test_numbers_that_no_log_has_are_lost_if_all_is_recorded(
    spark: SparkSession, folders: list[Path], to_bravo: Sent
) -> None:
    logs = read(spark, *folders[1:]).where("level is null or level = 'UNRELIABLE'")
    nothing, all_of_it = (
        make_model(logs, sent_us=sent_at(0), all_recorded=all_recorded).channel("UNRELIABLE")
        for all_recorded in (False, True)
    )
    wanted = fit_channel("UNRELIABLE", OTHER, count_link(to_bravo))
    assert nothing.losses.loss == 0
    assert astuple(all_of_it.losses) == pytest.approx(astuple(wanted.losses))


@pytest.mark.long
@pytest.mark.usefixtures("spark")
def test_the_command_writes_a_model_that_is_sampled_without_spark(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.json"
    options = ("--sent-at", "0", "--correct-clocks", "--output", str(path))
    assert main(["spark", "channel", *map(str, folders), *options]) == 0
    told = capsys.readouterr()
    assert f"the model is in {path}" in told.err
    model = ChannelModel.load(path)
    (clock,) = model.clocks
    assert clock.hosts == ("alfa", "bravo")
    assert clock.ahead_s == pytest.approx(AHEAD_S, abs=0.001)
    assert "clock of bravo ahead of alfa by 99.9" in told.out
    assert "| UNRELIABLE | other |" in told.out
    delays = model.channel("UNRELIABLE").delays
    assert delays is not None
    assert delays.at(0.0) == pytest.approx(0.001 + math.exp(-6.0), rel=0.2)
    safe = model.channel("SAFE")
    assert (safe.overtaken, safe.losses.loss) == (0, 0)
    (shared,) = model.sharing
    assert (shared.groups, shared.pairs) == (("g", "h"), 40)
    assert shared.delays > 0.99
    packets = model.sample_groups("SAFE", ["g", "h"], 10, Random(1))
    assert all(one == pytest.approx(other, rel=0.2) for one, other in packets)


def test_a_clock_is_known_by_delays_both_ways_only() -> None:
    ways = [
        Way("a", "alfa", "bravo", "SAFE", -4000),
        Way("b", "bravo", "alfa", "SAFE", 6000),
        Way("b", "bravo", "alfa", "FIFO", 7000),
        Way("a", "alfa", "alfa", "SAFE", 100),
        Way("a", "alfa", "charlie", "SAFE", 900),
        Way("b", "bravo", "alfa", "UNRELIABLE", None),
    ]
    assert find_clocks(ways, corrected=False) == [
        Clock(hosts=("alfa", "bravo"), ahead_s=0.005, corrected=False)
    ]


def test_a_time_before_the_message_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "channel", ".", "--sent-at", "-1"]) == 2
    assert "argument --sent-at: it is -1, and must be at least 0" in capsys.readouterr().err
