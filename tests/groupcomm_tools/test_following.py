"""Commands that run on: other daemons, formats, requests; what `status` says of lost daemons."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from groupcomm.errors import ConfigError
from groupcomm.events import DaemonStopping, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_client.blocking import connect
from groupcomm_client.targets import not_admitted
from groupcomm_tools import cli
from groupcomm_tools.commands import drain
from groupcomm_tools.message_format import MessageFormat
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_tools.shell import Shell, finish


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster(2) as daemons:
        yield daemons


@pytest.fixture
def both(cluster: RunningCluster) -> Shell:
    return Shell(f"{cluster.address('a')},{cluster.address('b')}")


def message(data: bytes) -> Message:
    return Message(
        sender=MemberId("#ann#a", 1),
        groups=("g", "h"),
        level=ServiceLevel.SAFE,
        type=7,
        data=data,
        number=1,
        bundle=None,
    )


def test_messages_are_written_by_a_format() -> None:
    text = "{level:<6}{group} {groups} {sender} {type} {bytes} {data_hex} {data}\\t|"
    told = MessageFormat(text).of(message(b"x\ny"))
    assert told == "SAFE  g g h #ann#a 7 3 780a79 x\\ny\t|\n"
    assert MessageFormat("{data}\\0").of(message(b"x\ny")) == "x\ny\0"
    for wrong in ("{nothing}", "{data.x}", "{", "{0}"):
        with pytest.raises(ConfigError, match="--format"):
            MessageFormat(wrong)
    with pytest.raises(ConfigError, match="--format"):
        MessageFormat("{level:d}").of(message(b""))


def test_bytes_are_written_as_they_are(both: Shell, tmp_path: Path) -> None:
    subscriber = subprocess.Popen(
        both.command("sub", "raw", "--raw", "--count", "2", "--views"),
        env=both.environment,
        stdout=subprocess.PIPE,
    )
    assert subscriber.stdout is not None
    subscriber.stdout.readline(), subscriber.stdout.readline()  # two views: it is a member
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(256)))
    assert both.tell("pub", "raw", str(path), "--whole")[0] == 0
    assert both.tell("pub", "raw", given="x\n")[0] == 0
    output, _ = finish(subscriber)
    assert output == path.read_bytes() + b"x"
    assert both.tell("sub", "g", "--raw", "--json")[0] == 2


def test_requests_are_handled_by_a_command(both: Shell) -> None:
    server = both.start("serve", "loud", "--count", "3", "--json", "--", "tr", "a-z", "A-Z")
    assert server.stderr is not None
    assert server.stderr.readline().startswith("serving loud as #")
    assert both.tell("request", "loud", "hello") == (0, "HELLO\n", "")
    assert both.tell("request", "loud", given="text\n") == (0, "TEXT\n", "")
    status, output, _ = both.tell("request", "loud", "x", "--all", "--json")
    (reply,) = json.loads(output)["replies"].values()
    assert (status, reply) == (0, {"data": "X"})
    output, _ = finish(server)
    assert [json.loads(line)["status"] for line in output.splitlines()] == [0, 0, 0]
    assert server.returncode == 0
    status, output, messages = both.tell("request", "loud", "x", "--timeout-s", "0.1")
    assert (status, output) == (1, "")
    assert "no reply of group 'loud' came in 0.1 s; is a server running?" in messages


def test_a_command_that_fails_is_told_to_the_caller(both: Shell) -> None:
    server = both.start("serve", "bad", "--count", "1", "--", "sh", "-c", "echo broken >&2; exit 4")
    assert server.stderr is not None
    server.stderr.readline()
    status, output, messages = both.tell("request", "bad", "x")
    assert (status, output) == (1, "")
    assert "CommandFailed: exit status 4: broken" in messages
    finish(server)


def test_sub_goes_on_at_another_daemon_and_status_names_the_lost_one(
    cluster: RunningCluster, both: Shell
) -> None:
    following = both.start("sub", "news", "--count", "2", "--views", "--json", "--user", "ann")
    ending = both.start("watch", "--no-reconnect", "--json")
    for process in (following, ending):
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "daemons"
    assert following.stdout is not None
    following.stdout.readline()
    both.tell("pub", "news", given="one\n")
    assert json.loads(following.stdout.readline())["data"] == "one"
    cluster.kill("a")
    cluster.settle("b")
    while (line := json.loads(following.stdout.readline()))["event"] != "reconnected":
        pass
    assert line["member"].startswith("#ann#b")
    both.tell("pub", "news", given="two\n")
    output, _ = finish(following)
    assert [each["data"] for each in map(json.loads, output.splitlines()) if "data" in each] == [
        "two"
    ]
    assert following.returncode == 0
    finish(ending)
    assert ending.returncode == 1
    status, output, _ = both.tell("status")
    assert status == 0
    status, output, _ = both.tell("status", "--all", "--json")
    found = json.loads(output)
    assert (status, found["asked"], found["majority"]) == (1, "b", False)
    assert [each["state"].split(" for ")[0] for each in found["daemons"]] == ["lost", "in view"]
    status, output, _ = both.tell("status")
    assert "majority  NO: 1 of 2 daemons are in the view\n" in output
    assert "\nlost      a: heard last " in output
    cluster.start("a")
    cluster.settle()
    assert "majority  yes: 2 of 2 daemons are in the view\n" in both.tell("status")[1]


def test_a_program_that_goes_just_before_the_daemon_was_not_left(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(drain, "POLL_S", 1.0)  # one question, and none behind it
    address = cluster.address("a")

    def go_soon() -> None:
        with connect(address) as connection:
            ready.set()
            while not isinstance(connection.receive(), DaemonStopping):
                pass
            time.sleep(0.3)

    ready = threading.Event()
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(go_soon)
        assert ready.wait(20.0)
        assert cli.main(["drain", "--within-s", "20", "--json", "--address", address]) == 0
        done.result()
    first, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["gone"], len(first["staying"]), first["over"]) == (0, 1, False)
    assert (last["gone"], last["staying"], last["over"]) == (1, [], True)
    cluster.settle("b")
    cluster.start("a")
    cluster.settle()


def test_a_drain_moves_who_follows_and_ends_who_does_not(
    cluster: RunningCluster, both: Shell
) -> None:
    following = both.start("sub", "news", "--count", "1", "--views", "--json", "--user", "ann")
    ending = both.start("watch", "--no-reconnect", "--json", "--user", "bob")
    for process in (following, ending):
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "daemons"
    at_a = Shell(cluster.address("a"))
    status, output, _ = at_a.tell("drain", "--within-s", "1", "--json")
    lines = [json.loads(line) for line in output.splitlines()]
    assert "bob" in lines[0]["staying"], "ann may have moved before the first answer"
    last = lines[-1]
    assert (status, last["over"], last["gone"], last["staying"]) == (1, True, 1, ["bob"])
    events = [json.loads(line)["event"] for line in finish(ending)[0].splitlines()]
    assert "stopping" in events
    assert ending.returncode == 1
    cluster.settle("b")
    both.tell("pub", "news", given="one\n")
    told = [json.loads(line) for line in finish(following)[0].splitlines()]
    (moved,) = [line for line in told if line["event"] == "reconnected"]
    assert moved["moved"] is True
    assert moved["member"].startswith("#ann#b")
    assert following.returncode == 0
    cluster.start("a")
    cluster.settle()
    assert at_a.tell("drain", "--within-s", "-1")[0] == 2
    assert at_a.tell("drain", "--json")[0] == 0, "nobody is left"
    cluster.settle("b")
    cluster.start("a")
    cluster.settle()


def test_status_of_all_daemons_is_asked_through_the_cluster(
    cluster: RunningCluster, both: Shell
) -> None:
    with both.start("sub", "g", "--views") as program:
        assert program.stdout is not None
        program.stdout.readline(), program.stdout.readline()
        status, output, messages = both.tell("status", "--all", "--json")
        program.kill()
    found = json.loads(output)
    assert (status, messages, found["majority"]) == (0, "", True)
    a, b = found["daemons"]
    assert (a["name"], a["state"], a["pid"]) == ("a", "in view", cluster.pid("a"))
    assert (b["name"], b["state"], b["pid"]) == ("b", "in view", cluster.pid("b"))
    assert a["groups"] == b["groups"] >= 1
    assert (a["programs"], b["programs"]) == (2, 0)
    status, output, _ = both.tell("status", "--all")
    assert status == 0
    head, first, second, last = output.splitlines()
    assert head.split()[:4] == ["daemon", "state", "uptime_s", "programs"]
    assert (first.split()[0], second.split()[0]) == ("a", "b")
    assert last == "2 of 2 daemons are in the view of a, a majority"


LISTENER = """
import socket, sys
listener = socket.create_server(sys.argv[1], family=socket.AF_UNIX)
print("listening", flush=True)
sys.stdin.read()
"""


def test_a_stopped_daemon_is_named_with_what_continues_it(tmp_path: Path) -> None:
    path = str(tmp_path / "sock")
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", LISTENER, path]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        with socket.socket(socket.AF_UNIX) as end:
            end.connect(path)
            assert str(not_admitted(path, 1.0, end)).endswith("in 1 s")
            daemon.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, daemon.pid, os.WSTOPPED | os.WNOWAIT)
            told = str(not_admitted(path, 1.0, end))
            daemon.send_signal(signal.SIGCONT)
    assert told == (
        f"the daemon at {path} did not admit this client in 1 s: its process {daemon.pid} is"
        f" stopped; continue it with kill -CONT {daemon.pid}"
    )


def test_jobs_are_done_by_a_command_and_bad_ones_set_aside(both: Shell) -> None:
    script = 'read job; [ "$job" != bad ] || { echo torn >&2; exit 3; }; echo "$job done"'
    words = ("work", "pages", "--name", "set", "--at-once", "1", "--tries", "2")
    worker = both.start(*words, "--count", "2", "--", "sh", "-c", script)
    assert worker.stderr is not None
    assert worker.stderr.readline().startswith("working for pages as #")
    assert both.tell("pub", "pages", given="bad\none\n")[0] == 0
    look = ("work", "pages", "--name", "set")
    assert worker.stdout is not None
    assert worker.stdout.readline() == "one done\n"
    status, output, _ = both.tell(*look, "--list", "--json")
    assert status == 0
    (aside,) = json.loads(output)["set_aside"]
    assert aside["why"] == "CommandFailed: exit status 3: torn"
    status, output, _ = both.tell(*look, "--metrics")
    assert status == 0
    assert 'groupcomm_work_set_aside{group="pages",set="set"} 1.0' in output.splitlines()
    assert 'groupcomm_work_workers{group="pages",set="set"} 1.0' in output.splitlines()
    assert both.tell("pub", "pages", given="two\n")[0] == 0
    output, _ = finish(worker)
    assert (output, worker.returncode) == ("two done\n", 0)
    status, _, messages = both.tell(*look)
    assert (status, "write a command behind --" in messages) == (2, True)
