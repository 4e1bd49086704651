"""The log of a daemon, for people and for the journal of systemd."""

import json
import logging
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from groupcomm.errors import SessionError
from groupcomm_client.blocking import connect
from groupcomm_tools.running_cluster import RunningCluster
from groupcommd.operators import journal
from groupcommd.operators.logs import JournalFormatter, set_up_logs
from groupcommd.programs.local_users import origin_of
from tests.groupcomm_tools.shell import tell

PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster(3, clients="quotas = { connections = 1 }") as daemons:
        yield daemons


def until(what: Callable[[], Any]) -> Any:
    """Return the result of a function, once it is true."""
    end = time.monotonic() + PATIENCE_S
    while not (found := what()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def line_with(cluster: RunningCluster, key: str, value: object) -> dict[str, Any]:
    """The last line of the log of `a` in which a field has this value."""
    found: dict[str, Any] = until(
        lambda: next((e for e in reversed(cluster.log("a")) if e.get(key) == value), None)
    )
    return found


def test_a_start_says_who_and_where_the_daemon_is(cluster: RunningCluster) -> None:
    first = line_with(cluster, "version", version("groupcomm"))
    assert first["daemon"] == "a"
    assert first["unix"] == cluster.address("a")
    assert re.fullmatch(r"127\.\d+\.\d+\.\d+:\d+", first["listens"])
    assert len(bytes.fromhex(first["fingerprint"])) == 8
    for field in ("version", "daemon", "cluster", "listens", "unix", "state_dir", "fingerprint"):
        assert str(first[field]) in first["text"], field


def test_a_lost_daemon_is_a_warning_with_the_majority_that_is_left(cluster: RunningCluster) -> None:
    cluster.kill("c")
    cluster.settle("a", "b")
    lost = line_with(cluster, "lost", "c")
    assert lost["level"] == "warning"
    assert re.fullmatch(
        r"daemon c is lost: .+; it was heard last at \d\d:\d\d:\d\d, \d+\.\d s ago;"
        r" 2 of 3 daemons are left, a majority",
        lost["text"],
    )
    assert lost["majority"] is True
    cluster.kill("b")
    cluster.settle("a")
    lost = line_with(cluster, "lost", "b")
    assert lost["text"].endswith("1 of 3 daemons are left, NO majority")
    assert lost["majority"] is False
    cluster.start("b", "c")
    cluster.settle()
    cluster.leave("c")
    gone = line_with(cluster, "gone", "c")
    assert (gone["level"], gone["text"]) == (
        "info",
        "daemon c has left in order; 2 of 3 daemons are left, a majority",
    )
    cluster.start("c")
    cluster.settle()


def test_a_refused_program_has_its_address(cluster: RunningCluster) -> None:
    with connect(cluster.address("a")), pytest.raises(SessionError, match="as many as it may have"):
        connect(cluster.address("a")).__enter__()
    refused = line_with(cluster, "refused", "quota")
    assert refused["program"] == f"process {os.getpid()} of user {os.getuid()}"
    assert refused["text"].startswith(f"a program at {refused['program']} was refused: ")


def test_a_program_of_another_host_has_its_address_and_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        program = socket.create_connection(listener.getsockname())
        accepted, (host, port) = listener.accept()
        with program, accepted:
            assert origin_of(accepted) == f"{host}:{port}"


def test_the_flight_recorder_is_drawn_by_view(cluster: RunningCluster, tmp_path: Path) -> None:
    with connect(cluster.address("a"), user="ann") as ann:
        ann.join("g")
        for _ in range(5):
            ann.multicast_ordered("g", b"x")
    (first,) = {line["state_dir"] for line in cluster.log("a") if "state_dir" in line}
    os.kill(cluster.pid("a"), signal.SIGUSR1)
    path = until(lambda: next(Path(first).glob("flight-*.jsonl"), None))
    status, output, messages = tell("view", str(path), "-o", str(tmp_path / "page.html"), "--json")
    assert (status, messages) == (0, "")
    found = json.loads(output)
    assert found["messages"] >= 5
    assert found["deliveries"] >= 5
    assert (found["lines"], found["violations"]) == (1, 0)
    page = (tmp_path / "page.html").read_text()
    assert "No program has written a trace, so properties were not checked" in page


# ---- the journal ----


def test_fields_are_encoded_as_the_journal_wants_them() -> None:
    assert journal.encode({"A": "b", "C": "d\ne"}) == b"A=b\nC\n\3\0\0\0\0\0\0\0d\ne\n"
    levels = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
    assert [journal.priority_of(level) for level in levels] == [2, 3, 4, 6, 7]


def test_lines_go_to_the_journal_with_their_fields(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    found = os.fstat(sys.stderr.fileno())
    monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
    monkeypatch.setattr(journal, "SOCKET", path)
    log = logging.getLogger("groupcommd")
    kept = log.handlers[:], log.level, log.propagate
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        set_up_logs(as_json=False, verbose=False)
        try:
            log.warning("daemon %s is lost", "c", extra={"lost": "c", "majority": True})
            assert listener.recv(4096) == (
                b"MESSAGE=daemon c is lost\nPRIORITY=4\nSYSLOG_IDENTIFIER=groupcommd\n"
                b"GROUPCOMM_LOST=c\nGROUPCOMM_MAJORITY=true\n"
            )
            path.unlink()
            log.error("it is not\nthere")
        finally:
            for handler in log.handlers:
                handler.close()
            log.handlers[:], log.level, log.propagate = kept
    assert capfd.readouterr().err == "<3>it is not\\nthere\n"


def test_a_standard_error_that_is_no_journal_is_written_as_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "1:2")
    assert not journal.is_standard_error()
    monkeypatch.delenv("JOURNAL_STREAM")
    assert not journal.is_standard_error()
    record = logging.makeLogRecord({"msg": "x", "levelno": logging.INFO, "levelname": "INFO"})
    assert JournalFormatter().format(record) == "<6>x"
