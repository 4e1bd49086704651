"""The versions of all daemons, as status, log, doctor and `daemons upgrade-status` show them."""

import argparse
import logging
from typing import Any

import pytest

from groupcomm.config.versions import Versions
from groupcomm.engine import Status
from groupcomm.errors import GroupCommError
from groupcomm_client.blocking import BlockingConnection
from groupcomm_tools.commands import upgrade_status
from groupcommd.operators.assessment import DaemonAnswers, check_versions
from groupcommd.operators.versions import VersionWatch, protocol_table
from tests.groupcomm.engine.cluster import Cluster

OLD = Versions()
NEW = Versions(lowest=1, highest=2, features=1 << 40)
FAR = Versions(lowest=3, highest=3)


def status_of(cluster: Cluster, name: str) -> Status:
    return cluster.cores[name].status(cluster.now)


def mixed(**versions: Versions) -> Cluster:
    cluster = Cluster("".join(versions))
    cluster.versions.update(versions)
    cluster.start("".join(versions))
    cluster.run(1.0)
    return cluster


def assessed(table: dict[str, Any]) -> list[tuple[str, str]]:
    answers = DaemonAnswers(first={}, later={"protocol": table}, configuration={})
    return [(found.grade.value, found.text) for found in check_versions(answers)]


def test_an_upgrade_in_progress_says_who_has_to_be_upgraded() -> None:
    table = protocol_table(status_of(mixed(a=NEW, b=OLD, c=OLD), "a"))
    assert table["view"] == {"version": 1, "features": []}
    assert [(each["name"], each["highest"]) for each in table["daemons"]] == [
        ("a", 2),
        ("b", 1),
        ("c", 1),
    ]
    assert table["next"] == [
        {"version": 2, "waits_for": ["b", "c"]},
        {"feature": "feature 40", "waits_for": ["b", "c"]},
    ]
    assert table["apart"] == []
    assert assessed(table)[0] == ("warning", "version 2 is not used yet: b, c cannot")


def test_when_all_are_upgraded_nothing_is_left_to_do() -> None:
    table = protocol_table(status_of(mixed(a=NEW, b=NEW), "b"))
    assert table["view"] == {"version": 2, "features": ["feature 40"]}
    assert table["next"] == []
    assert assessed(table) == [("ok", "all use version 2")]


def test_a_daemon_without_a_common_version_is_named_once_on_both_sides(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = mixed(a=OLD, b=FAR)
    for name, other in (("a", "b"), ("b", "a")):
        found, watch = status_of(cluster, name), VersionWatch()
        caplog.clear()
        with caplog.at_level(logging.ERROR, logger="groupcommd"):
            watch.check(found)
            watch.check(found)
        (record,) = caplog.records
        assert f"{other} speaks version" in record.getMessage()
        table = protocol_table(found)
        assert [each["name"] for each in table["apart"]] == [other]
        assert assessed(table)[0][0] == "problem"
    assert "version 3" in protocol_table(status_of(cluster, "a"))["apart"][0]["text"]


class Asked(BlockingConnection):
    """A connection to a daemon that gives fixed answers."""

    def __init__(self, **answers: dict[str, Any]) -> None:
        self._answers = answers

    def ask(self, question: str) -> dict[str, Any]:
        """Return the answer to a question."""
        return self._answers[question]


def test_the_command_shows_releases_versions_and_states(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupcomm_tools.commands.status.ANSWERS_S", 0.0)
    found = status_of(mixed(a=NEW, b=OLD, c=FAR), "a")
    told = {
        "daemon": "a",
        "view": "1.a.1",
        "majority": True,
        "daemons": ["a", "b"],
        "configured": ["a", "b", "c"],
        "peers": [],
        "protocol": protocol_table(found),
    }
    reports = {name: {"version": "0.1.0", "age_s": 0.0} for name in "ab"}
    shown = upgrade_status.ask_upgrade(Asked(status=told, cluster={"reports": reports}))
    assert [(d["name"], d["release"], d["state"]) for d in shown["daemons"]] == [
        ("a", "0.1.0", "in view"),
        ("b", "0.1.0", "in view"),
        ("c", None, "no common version"),
    ]
    upgrade_status._show(shown)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["a", "0.1.0", "1-2", "feature", "40", "in", "view"]
    assert lines[4] == "the view uses version 1; features: none"
    assert lines[5] == "version 2 is switched on once upgraded: b"
    assert "c speaks version 3" in lines[-1]


def test_a_daemon_that_tells_no_versions_is_no_help() -> None:
    with pytest.raises(GroupCommError, match="ask one that is upgraded already"):
        upgrade_status.ask_upgrade(Asked(status={}))


def test_the_command_has_options() -> None:
    parser = argparse.ArgumentParser()
    upgrade_status.add_options(parser)
    assert parser.parse_args(["--json"]).json
