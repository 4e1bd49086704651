"""The commands that connect to a daemon, run as users run them."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from groupcomm.security.identity import Roll
from groupcomm_tools.running_cluster import RunningCluster
from groupcommd.files.identity_file import store_roll
from groupcommd.programs.local_users import unix_principal
from tests.groupcomm_tools.shell import NO_PAUSES, PATIENCE_S, Shell, finish


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with RunningCluster(1, settings=NO_PAUSES) as daemons:
        yield Shell(daemons.address("a"))


def test_what_one_publishes_another_prints(shell: Shell) -> None:
    subscriber = shell.start("sub", "chat", "--count", "4", "--json", "--views", "--user", "ann")
    assert subscriber.stdout is not None
    joined = [json.loads(subscriber.stdout.readline()) for _ in range(2)]
    assert [line["event"] for line in joined] == ["daemons", "group view"]
    assert joined[1]["members"] == ["#ann#a"]
    status, output, _ = shell.run("pub", "chat", "--json", given="one\ntwo\n")
    assert (status, json.loads(output)["sent"]) == (0, 2)
    texts = ("--text", "drei ü", "--text", "")
    shell.tell("pub", "chat", "--level", "safe", "--type", "7", "--user", "bob", *texts)
    output, messages = finish(subscriber)
    lines = [json.loads(line) for line in output.splitlines()]
    assert [line["data"] for line in lines] == ["one", "two", "drei ü", ""]
    assert (lines[2]["level"], lines[2]["type"], lines[2]["sender"]) == ("SAFE", 7, "#bob#a")
    assert len({line["position"] for line in lines}) == 4
    assert (subscriber.returncode, messages) == (0, "")


def test_publishing_loads_no_event_loop_no_daemon_and_no_cryptography(shell: Shell) -> None:
    code = (
        "import sys; from groupcomm_tools.cli import main\n"
        "status = main(['pub', 'chat']); print(status, *sys.modules)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, input="hello\n", capture_output=True, text=True, env=shell.environment, check=True
    )
    status, *modules = done.stdout.split()
    assert status == "0"
    assert not {"trio", "asyncio", "groupcommd", "cryptography", "pyarrow"} & set(modules)


def test_a_whole_file_is_one_message(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 1000)
    subscriber = shell.start("sub", "files", "--count", "1", "--json", "--views")
    assert subscriber.stdout is not None
    subscriber.stdout.readline(), subscriber.stdout.readline()
    assert shell.run("pub", "files", str(path), "--whole")[0] == 0
    output, _ = finish(subscriber)
    assert bytes.fromhex(json.loads(output)["data_hex"]) == path.read_bytes()


def test_of_several_groups_each_message_names_its_own(shell: Shell) -> None:
    subscriber = shell.start("sub", "one", "--count", "3", "other", "--views", "--user", "ann")
    assert subscriber.stdout is not None
    for _ in range(3):
        subscriber.stdout.readline()
    for group, data in (("one", b"text\n"), ("other", b"\xff\x00\n"), ("other", b"ff00\n")):
        subprocess.run(
            shell.command("pub", group, "--user", "bob"),
            input=data,
            env=shell.environment,
            check=True,
        )
    output, _ = finish(subscriber)
    assert output.splitlines() == [
        "AGREED     one #bob#a text",
        "AGREED     other #bob#a (2 bytes, no text) ff00",
        "AGREED     other #bob#a ff00",
    ]


def test_identities_are_added_to_a_daemon_that_has_none(shell: Shell, tmp_path: Path) -> None:
    words = ("identity", "add", str(tmp_path / "ids"), "press", f"{1:064x}")
    status, _, messages = shell.tell(*words)
    assert status == 0
    assert "works without identities: name this file in its configuration" in messages
    status, output, _ = shell.tell(*words, "--json")
    assert (status, json.loads(output)["reloaded"]) == (0, False)
    keys = [number.to_bytes(32, "big") for number in (1, 2)]
    store_roll(tmp_path / "ids", Roll({"press": keys[0]}, {keys[1]: "lathe"}))
    listed = ("identity", "list", str(tmp_path / "ids"))
    shown = f"{'press':<24} {1:064x}\n{'lathe':<24} {2:064x}  evicted\n"
    assert shell.tell(*listed)[1] == shown
    found = json.loads(shell.tell(*listed, "--json")[1])
    assert found == {"daemons": {"press": f"{1:064x}"}, "evicted": {f"{2:064x}": "lathe"}}


@pytest.mark.long
def test_delays_of_full_queues_are_called_so(shell: Shell) -> None:
    words = ("bench", "--address", shell.environment["GROUPCOMM_ADDRESS"], "--duration-s", "0.5")
    for rate, told in (((), True), (("--rate", "50"), False)):
        status, output, _ = shell.tell(*words, *rate)
        assert (status, "one-way delay  of full queues" in output) == (0, told)


def test_watch_tells_who_comes_and_who_goes(shell: Shell) -> None:
    watcher = shell.start("watch", "room", "--count", "4", "--json", "--user", "eve")
    assert watcher.stdout is not None
    watcher.stdout.readline(), watcher.stdout.readline()
    shell.tell("sub", "room", "--duration-s", "0.1", "--user", "ann")
    output, _ = finish(watcher)
    views = [json.loads(line) for line in output.splitlines()]
    assert [(v["cause"], v["changed"]) for v in views] == [
        ("join", ["#ann#a"]),
        ("disconnect", ["#ann#a"]),
    ]
    assert views[1]["came_along"] == ["#eve#a"]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("pub", "#x"), 2, "'#x' is not a private name"),
        (("pub", "chat", "--type", "70000"), 2, "--type: it is 70000, and must be at most 65535"),
        (("pub", "chat", "--user", "a#b"), 2, "contains '#'"),
        (("pub", "chat", "/nowhere"), 2, "argument FILE: /nowhere: No such file"),
        (("sub", "chat", "--address", "/nowhere/x"), 3, "is the daemon running?"),
        (("sub", "chat", "--address", "127.0.0.1:1"), 3, "Connection refused"),
    ],
)
def test_what_is_wrong_is_reported_in_a_line(
    shell: Shell, words: tuple[str, ...], status: int, said: str
) -> None:
    found, output, messages = shell.tell(*words, given="text\n")
    assert (found, output) == (status, "")
    assert said in messages
    assert len(messages.splitlines()) == 1


def test_a_name_is_taken_once_and_free_again_at_once(shell: Shell) -> None:
    holder = shell.start("sub", "names", "--count", "1", "--views", "--user", "max")
    assert holder.stdout is not None
    holder.stdout.readline()
    status, _, messages = shell.tell("pub", "names", "--user", "max", given="x\n")
    assert status == 1
    assert "has a session of user 'max' already" in messages
    shell.tell("pub", "names", given="go\n")
    finish(holder)
    assert shell.tell("pub", "names", "--user", "max", given="x\n")[0] == 0


def test_a_daemon_tells_about_itself_its_groups_and_their_members(shell: Shell) -> None:
    holder = shell.start("sub", "told", "--count", "1", "--views", "--user", "tom")
    assert holder.stdout is not None
    holder.stdout.readline(), holder.stdout.readline()
    status, output, _ = shell.tell("members", "told", "--json")
    assert status == 0
    own = unix_principal(os.getuid())
    found = json.loads(output)
    since = found.pop("since")["#tom#a"]
    members = {"members": ["#tom#a"], "principals": {"#tom#a": own}}
    assert found == {"group": "told", "paused_for": [], **members}
    joined = datetime.fromisoformat(since["time"])
    assert abs((datetime.now(UTC) - joined).total_seconds()) < PATIENCE_S
    assert since["position"].startswith(f"{since['view']}/")
    shown = f"#tom#a                   since {since['time']}  {own}\n"
    assert shell.tell("members", "told")[1] == shown
    status, output, messages = shell.tell("members", "nobody is there")
    assert (status, output) == (1, "")
    assert "group nobody is there has no member" in messages
    assert json.loads(shell.tell("groups", "--json")[1])["groups"]["told"] == 1
    found = json.loads(shell.tell("status", "--json")[1])
    assert (found["daemon"], found["state"], found["daemons"]) == ("a", "operational", ["a"])
    assert found["rings"] == [["a"]]
    assert "tom" in [session["user"] for session in found["sessions"]]
    status, output, _ = shell.run("status")
    assert status == 0
    assert "daemons   a\n" in output
    shell.tell("pub", "told", given="go\n")
    finish(holder)


def test_each_reason_for_which_datagrams_are_dropped_has_a_line(shell: Shell) -> None:
    host, _, port = json.loads(shell.tell("status", "--json")[1])["listens"].rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for datagram in (b"bad", bytes(50), b"\1\0" + bytes(100)):
            stranger.sendto(datagram, (host, int(port)))
    told = json.loads(shell.tell("status", "--json")[1])["datagrams"]["rejected"]
    assert told == {"short": 1, "version": 1, "suite": 1}
    lines = shell.tell("status")[1].splitlines()
    # The source of datagrams of another suite is reported, too, once the daemon has checked them.
    assert [line.partition(", from ")[0].strip() for line in lines if "rejected:" in line] == [
        "1 rejected: short",
        "1 rejected: suite",
        "1 rejected: version",
    ]


@pytest.mark.parametrize("level", ["unreliable", "safe"])
def test_latency_gets_all_its_messages_back(shell: Shell, level: str) -> None:
    words = ("latency", "--count", "20", "--rate", "500", "--level", level, "--json")
    status, output, _ = shell.tell(*words)
    found = json.loads(output)
    assert (status, found["lost"]) == (0, 0)
    assert 0 < found["p50_ms"] <= found["p99_ms"] <= found["max_ms"]
