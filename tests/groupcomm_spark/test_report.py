"""Reports: the figures are those of the logs, and the page shows them."""

import json
import math
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from groupcomm.errors import ConfigError
from groupcomm_log.schema import DAEMONS, GAP, MESSAGE, TRANSITION
from groupcomm_spark.commands.report import read_sites, sent_at
from groupcomm_spark.logs import read
from groupcomm_spark.report.figures import DelayKey, Figures, count_delays, gather, site_of
from groupcomm_spark.report.histogram import PER_DOUBLING, later_than, percentile_ms
from groupcomm_spark.report.page import grouped_delays, make_page
from groupcomm_tools.cli import main
from tests.groupcomm_spark.test_logs import make_log
from tests.groupcomm_tools.shell import tell

BEGIN_US = 1_800_000_000_000_000
ANN, BOB = "#ann#alfa/1", "#bob#bravo/2"


def message(at_ms: float, sender: str, number: int, level: str, **more: Any) -> dict[str, Any]:
    """Return a message that is received this long after the beginning."""
    row = {"kind": MESSAGE, "received": BEGIN_US + round(at_ms * 1000), "sender": sender}
    return {**row, "number": number, "level": level, "groups": ["g"], "data": b"12345", **more}


def stamped(at_ms: float, delay_ms: float, sender: str, number: int, **more: Any) -> dict[str, Any]:
    """Return an AGREED message that was numbered this long before."""
    stamp = BEGIN_US + round((at_ms - delay_ms) * 1000)
    place = {"view": "1.alfa.a", "stamp": stamp, "ring": 0 if sender == ANN else 1}
    return message(at_ms, sender, number, "AGREED", **place, **more)


def view(at_ms: float, name: str, *daemons: str) -> dict[str, Any]:
    received = BEGIN_US + round(at_ms * 1000)
    return {"kind": DAEMONS, "view": name, "members": daemons, "received": received}


def log_of(bravo: bool) -> list[dict[str, Any]]:
    """Return a recorder's rows; the one at bravo lacks numbers 3 and 6 of ann, one of these in a
    gap."""
    unreliable = [message(100 * n, ANN, n, "UNRELIABLE") for n in range(1, 9)]
    session = {"kind": GAP, "sender": "#rec#bravo/9", "received": BEGIN_US, "cause": "restart"}
    lost = [*unreliable[:2], *unreliable[3:5], session, *unreliable[6:]]
    return [
        {"kind": GAP, "sender": "#rec#alfa/9", "received": BEGIN_US, "cause": "begin"},
        view(0, "1.alfa.a", "alfa", "bravo", "charlie"),
        *(lost if bravo else unreliable),
        *[stamped(1000 + 10 * n, 2**n, ANN, 8 + n) for n in range(1, 9)],
        *[stamped(2000 + 10 * n, 50, BOB, n) for n in range(1, 3)],
        {"kind": TRANSITION, "view": "1.alfa.a", "received": BEGIN_US + 2_100_000},
        view(2350, "2.alfa.a", "alfa", "bravo"),
        stamped(3000, 1, BOB, 3) | {"view": "2.alfa.a"},
    ]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    found = [tmp_path_factory.mktemp("logs") / name for name in ("alfa", "bravo")]
    for folder in found:
        make_log(folder, log_of(folder.name == "bravo"), sealed=3).close()
    return found


class Report(NamedTuple):
    """Return the command's page, and its figures."""

    output: str
    messages: str
    page: str
    path: Path
    figures: Figures


@pytest.fixture(scope="module")
def report(
    spark: SparkSession, folders: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Report:
    """Have the command make one: to gather figures takes long."""
    assert spark is not None
    path = tmp_path_factory.mktemp("report") / "report.html"
    gathered: list[Figures] = []

    def keep(*arguments: Any, **options: Any) -> Figures:
        gathered.append(gather(*arguments, **options))
        return gathered[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("groupcomm_spark.report.figures.gather", keep)
        words = ("spark", "report", *map(str, folders), "--json", "-o", str(path))
        status, output, messages = tell(*words)
    assert status == 0, messages
    (figures,) = gathered
    return Report(output, messages, path.read_text(), path, figures)


@pytest.fixture
def figures(report: Report) -> Figures:
    return report.figures


def test_rates_count_every_delivery(figures: Figures) -> None:
    assert (figures.logs, figures.seconds) == (["alfa", "bravo"], 3.0)
    assert figures.messages == 19 + 17
    per_log = Counter[tuple[str, str]]()
    for each in figures.slices:
        per_log[each.log, each.level] += each.messages
        assert each.bytes == 5 * each.messages
    assert per_log == {
        **{("alfa", "UNRELIABLE"): 8, ("bravo", "UNRELIABLE"): 6},
        **dict.fromkeys([("alfa", "AGREED"), ("bravo", "AGREED")], 11),
    }
    last = max(figures.slices, key=lambda each: each.at_s)
    assert (last.at_s, last.messages) == (3.0, 1)


def test_delays_are_reported_by_sender_and_site(figures: Figures) -> None:
    by_sender = grouped_delays(figures, "sender")
    assert by_sender[ANN].total() == 2 * 8
    assert percentile_ms(by_sender[ANN], 0.5) == pytest.approx(16, rel=0.045)
    assert percentile_ms(by_sender[ANN], 1.0) == pytest.approx(256, rel=0.045)
    assert set(grouped_delays(figures, "site")) == {"ring 0", "ring 1"}
    assert set(grouped_delays(figures, "level")) == {"AGREED"}  # UNRELIABLE has no stamp
    assert figures.backwards == 0


def test_lost_is_what_another_has_but_not_in_a_gap(figures: Figures) -> None:
    found = {(loss.log, loss.sender): loss[2:] for loss in figures.losses}
    assert found == {("alfa", ANN): (8, 0, 0), ("bravo", ANN): (6, 1, 1)}
    assert figures.losses[0].log == "bravo"


def test_views_tell_what_they_cost(figures: Figures) -> None:
    assert [(each.log, each.came, each.went) for each in figures.views] == [
        ("alfa", ("alfa", "bravo", "charlie"), ()),
        ("bravo", ("alfa", "bravo", "charlie"), ()),
        ("alfa", (), ("charlie",)),
        ("bravo", (), ("charlie",)),
    ]
    first, _, second, _ = figures.views
    assert (first.transition_ms, first.silence_ms) == (None, None)
    assert (second.transition_ms, second.silence_ms) == (250.0, 980.0)


@pytest.mark.parametrize("all_figures", [False, pytest.param(True, marks=pytest.mark.long)])
def test_messages_may_tell_when_they_were_sent(
    spark: SparkSession, tmp_path: Path, all_figures: bool
) -> None:
    sent_ns = (BEGIN_US + 5000) * 1000
    data = [b"head" + sent_ns.to_bytes(8, "big") + b"tail", b"head" + bytes(7), None]
    rows = [message(25, ANN, n, "UNRELIABLE", data=each) for n, each in enumerate(data, 1)]
    rows.append(message(4, ANN, 4, "UNRELIABLE", data=data[0]))
    make_log(tmp_path, rows, sealed=2).close()
    logs, sites = read(spark, tmp_path), {"alfa": "north"}
    if all_figures:
        found = gather(logs, sites=sites, sent_us=sent_at(4))
    else:
        found = nothing()
        count_delays(logs, found, sites, sent_at(4))
    (key,) = found.delays
    assert key == DelayKey("UNRELIABLE", "g", ANN, "north")
    assert found.delays[key].total() == 2
    assert percentile_ms(found.delays[key], 1.0) == pytest.approx(20, rel=0.045)
    assert found.backwards == 1
    assert "clocks of hosts differ" in make_page(found)


def nothing() -> Figures:
    return Figures(logs=["alfa"], begin_us=BEGIN_US, seconds=0.0, step_s=0.1)


def test_figures_of_no_messages_have_a_page() -> None:
    check_empty(make_page(nothing()))


@pytest.mark.long
def test_logs_without_messages_have_a_report(spark: SparkSession, tmp_path: Path) -> None:
    make_log(tmp_path, [view(0, "1.alfa.a", "alfa")], sealed=0).close()
    check_empty(make_page(gather(read(spark, tmp_path))))


def test_rows_without_a_time_of_receipt_are_counted_and_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [view(0, "1.alfa.a", "alfa"), message(4, ANN, 1, "FIFO"), message(5, ANN, 2, "FIFO")]
    rows += [{**row, "received": None} for row in rows[:2]]
    make_log(tmp_path, rows, sealed=0).close()
    found = gather(read(spark, tmp_path))
    assert (found.messages, found.untimed, len(found.views)) == (2, 2, 1)
    assert "2 rows have no time of receipt" in make_page(found)


def check_empty(page: str) -> None:
    for text in ("No messages.", "No message has a stamp", "No UNRELIABLE messages."):
        assert text in page


def test_the_page_is_whole_and_shows_all_figures(report: Report) -> None:
    page = report.page
    assert page == make_page(report.figures)
    body = page.split("<body>")[1].split("</body>")[0]
    root = ET.fromstring(f"<body>{body.replace('&ndash;', '-')}</body>")
    words = [each.strip() for each in root.itertext()]
    assert {"alfa", "bravo", "AGREED", ANN, "16.67%", "14.29%", "250", "980"} & set(words) >= {
        *("alfa", "bravo", "AGREED", ANN, "14.29%", "250", "980")
    }
    assert len(root.findall(".//{http://www.w3.org/2000/svg}polyline")) == 2 + 2 + 1 + 2
    assert "http" not in page.replace("http://www.w3.org", "")


def test_the_command_writes_the_page_and_tells_scripts(report: Report) -> None:
    found = json.loads(report.output)
    assert found["messages"] == 36
    assert [row["name"] for row in found["delays"]["level"]] == ["AGREED"]
    assert found["views"][2]["went"] == ["charlie"]
    assert "<svg" in report.page
    assert f"the report is in {report.path}" in report.messages
    assert "delays of 36 deliveries" in report.messages


def test_what_spark_cannot_do_is_reported_in_one_sentence(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (sealed, *_) = folders[0].glob("*.parquet")
    broken = tmp_path / "log" / sealed.name
    broken.parent.mkdir()
    broken.write_bytes(sealed.read_bytes()[:100])
    assert main(["spark", "report", str(broken.parent)]) == 1
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "--debug" in each]
    assert sealed.name in line
    assert main(["spark", "report", str(tmp_path)]) == 1
    messages = capsys.readouterr().err
    assert "there is no log" in messages
    assert "starting Spark" not in messages, "that takes seconds, and is looked for before"


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (["north"], "write NAME=DAEMON,DAEMON"),
        (["=alfa"], "write NAME=DAEMON,DAEMON"),
        (["north=alfa", "south=bravo,alfa"], "puts 'alfa' at 'north' and at 'south'"),
    ],
)
def test_sites_that_make_no_sense_are_refused(texts: list[str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_sites(texts)


def test_sites_are_named_or_are_rings() -> None:
    sites = read_sites(["north=alfa,bravo", "south=charlie"])
    assert site_of("#ann#bravo/7", 3, sites) == "north"
    assert site_of("#ann#delta/7", 3, sites) == "ring 3"
    assert site_of("#ann#delta/7", None, sites) == "unknown"


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_percentiles_of_buckets_are_near_the_true_ones(delays_us: list[int], share: float) -> None:
    bucket: Callable[[int], int] = lambda us: math.floor(math.log2(us) * PER_DOUBLING)  # noqa: E731
    counts = Counter(map(bucket, delays_us))
    true_ms = sorted(delays_us)[math.ceil(len(delays_us) * share) - 1] / 1000
    assert percentile_ms(counts, share) == pytest.approx(true_ms, rel=0.0225)
    points = later_than(counts)
    assert points[0][1] == 1.0
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)
