"""Daemons of which one runs with another file: what they do, and what their tools say."""

import logging
from pathlib import Path

import attrs
import pytest

from groupcomm.config.core import CoreConfig
from groupcomm.config.shared import Difference
from groupcomm.config.view import Incarnation, Start
from groupcomm.engine import DaemonCore, Status
from groupcomm.host.addresses import Address
from groupcomm.membership.comparison import OtherConfiguration, Verdict
from groupcommd.config.config_file import read_config
from groupcommd.config.daemon_config import DaemonConfig
from groupcommd.operators.mismatches import (
    FRESH_S,
    LOOK_S,
    MAX_SENDERS,
    PATIENCE_S,
    ConfigDifferences,
    DifferenceReport,
    RejectedSenders,
)
from tests.verification.campaigns.differing_files import play

FILE = """
[sites.hall.daemons]
a = "127.0.0.1:4901"
b = "127.0.0.1:4902"
"""


async def test_each_set_with_equal_files_has_a_view_of_its_own_and_all_tools_say_why() -> None:
    """The order in which they had view after view, for ever; campaigns have all orders."""
    played = await play("bca", 1.0)
    assert played.wrong == ()
    assert played.views == {"a": "a,c", "b": "b", "c": "a,c"}


# ---- sentences ----


@pytest.fixture
def config(tmp_path: Path) -> DaemonConfig:
    path = tmp_path / "hall.toml"
    path.write_text(FILE)
    return read_config(path, name="a", state_dir=tmp_path, make_key=False)


def other(verdict: Verdict, *differences: Difference, excludes: bool = True) -> OtherConfiguration:
    return OtherConfiguration(
        daemons=("b",),
        alike=("c",),
        excludes=excludes,
        verdict=verdict,
        differences=differences,
    )


MISSING = Difference("sites.hall.daemons", ("a", "b", "c"), ("b", "c", "d"))


def status(now: float, *others: OtherConfiguration) -> Status:
    """Return the status of a core that has found these."""
    config = CoreConfig(suite=0, sites=(("a", "b"),))
    start = Start(name="a", incarnation=Incarnation(1, 7))
    core = DaemonCore(config, start, keys=None, now=0.0, wall=0.0)
    return attrs.evolve(core.status(now), differing=others)


def stated(config: DaemonConfig, found: OtherConfiguration) -> DifferenceReport:
    """Return the text about one that was found."""
    (statement,) = ConfigDifferences(lambda: config).statements(status(0.0, found))
    return statement


@pytest.mark.parametrize(
    ("verdict", "text", "remedy"),
    [
        (Verdict.THEIRS, "so a is left out of their view", "then restart a"),
        (Verdict.OURS, "that of this host and c", "then restart b"),
        (Verdict.OPEN, "neither counts", "whose files were changed"),
    ],
)
def test_a_statement_names_file_key_and_host(
    config: DaemonConfig, verdict: Verdict, text: str, remedy: str
) -> None:
    found = stated(config, other(verdict, MISSING))
    assert text in found.text
    assert remedy in found.remedy
    assert str(config.file) in found.text
    assert "b (127.0.0.1:4902)" in found.text
    assert "sites.hall.daemons (only here: a; only there: d)" in found.text


def test_settings_are_reported_with_both_values_and_not_too_many(config: DaemonConfig) -> None:
    numbers = [Difference(f"timing.t{place}", ("1",), ("2",)) for place in range(9)]
    found = stated(config, other(Verdict.OPEN, *numbers))
    assert "timing.t4 (here 1, there 2), and 4 more" in found.text
    only = Difference("links.a-b.delay_ms", ("5",), None)
    found = stated(config, other(Verdict.OPEN, only))
    assert "links.a-b.delay_ms (only here: 5)" in found.text


def test_settings_that_only_should_be_equal_part_nobody(config: DaemonConfig) -> None:
    found = stated(config, other(Verdict.OURS, MISSING, excludes=False))
    assert "form views together nevertheless" in found.text


def test_the_log_has_a_line_for_each_change_and_one_for_the_end(
    config: DaemonConfig, caplog: pytest.LogCaptureFixture
) -> None:
    told = ConfigDifferences(lambda: config)
    with caplog.at_level(logging.INFO, "groupcommd"):
        told.check(status(0.0, other(Verdict.OPEN)))
        assert caplog.messages == [], "it may still say what differs"
        told.check(status(PATIENCE_S, other(Verdict.OPEN)))
        assert "settings that they have not reported yet" in caplog.messages[-1]
        for now in range(6, 60):
            told.check(status(now, other(Verdict.OPEN, MISSING)))
        told.check(status(60.0, other(Verdict.OURS, MISSING)))
        told.check(status(61.0))
        told.check(status(62.0))
    assert len(caplog.messages) == 4
    assert caplog.messages[-1] == "all daemons that are heard have the same settings again"


# ---- strangers ----


class Everywhere:
    """All datagrams come from one address."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def source_of(self, index: int) -> Address:
        assert index == 1
        return self.address


def note(strangers: RejectedSenders, reason: str, address: Address, now: float) -> None:
    good, bad = b"good", b"bad"
    strangers.note([(bad, reason)], [good, bad], Everywhere(address), now)


def test_a_stranger_that_is_listed_or_has_the_key_is_logged_once(
    config: DaemonConfig, caplog: pytest.LogCaptureFixture
) -> None:
    strangers = RejectedSenders(lambda: config)
    listed, unknown = config.addresses["b"], Address("10.0.0.9", 4803)
    cases = [("suite", listed), ("suite", unknown), ("unlisted", unknown), ("replay", listed)]
    with caplog.at_level(logging.WARNING, "groupcommd"):
        for second in range(3):
            for place, (reason, address) in enumerate(cases):
                note(strangers, reason, address, second + place * LOOK_S)
    assert [message.split(" are ")[0] for message in caplog.messages] == [
        "datagrams from b (127.0.0.1:4902)",
        "datagrams from 10.0.0.9:4803",
    ]
    assert f"sites.*.daemons differs there from {config.file}" in caplog.messages[-1]
    told = strangers.report(3.0)
    assert [(each["name"], each["reason"]) for each in told] == [
        ("b", "suite"),
        (None, "suite"),
        (None, "unlisted"),
    ]
    assert strangers.report(3.0 + FRESH_S) == []


def test_a_stranger_is_named_by_the_configuration_that_counts_now(config: DaemonConfig) -> None:
    address, running = Address("10.0.0.9", 4803), [config]
    strangers = RejectedSenders(lambda: running[-1])
    note(strangers, "suite", address, 0.0)
    running.append(attrs.evolve(config, located={"b": address}))
    note(strangers, "suite", address, LOOK_S)
    assert [each["name"] for each in strangers.report(LOOK_S)] == ["b"]
    note(strangers, "key", address, 2 * LOOK_S)
    assert {each["name"] for each in strangers.report(2 * LOOK_S)} == {"b"}


def test_junk_is_looked_at_now_and_then_and_kept_in_bounds(config: DaemonConfig) -> None:
    strangers = RejectedSenders(lambda: config)
    for place in range(3 * MAX_SENDERS):
        note(strangers, "tag", Address("10.0.0.1", place), place * LOOK_S / 2)
    told = strangers.report(0.0)
    assert len(told) == MAX_SENDERS
    assert told[-1]["address"] == f"10.0.0.1:{3 * MAX_SENDERS - 2}"
