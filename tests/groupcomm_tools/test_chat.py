"""`groupcomm chat`, run as users run it: piped lines, commands, a terminal, and what goes wrong."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groupcomm.errors import LocalProtocolError
from groupcomm_tools.chat.commands import InputLines
from groupcomm_tools.chat.session import readable
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_tools.shell import NO_PAUSES, PATIENCE_S, Shell, finish
from tests.groupcomm_tools.warm import WarmProcess


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with RunningCluster(1, settings=NO_PAUSES) as daemons:
        yield Shell(daemons.address("a"))


def say(process: WarmProcess, text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.flush()


def hear(process: WarmProcess, count: int) -> list[dict[str, Any]]:
    assert process.stdout is not None
    return [json.loads(process.stdout.readline()) for _ in range(count)]


def test_what_is_typed_is_said_and_who_comes_and_goes_is_shown(shell: Shell) -> None:
    ann = shell.start("chat", "room", "--user", "ann", "--json")
    assert [line["event"] for line in hear(ann, 2)] == ["daemons", "group view"]
    words = ("chat", "room", "--user", "bob", "--level", "safe")
    status, output, messages = shell.run(*words, given="hello ü\n//path\nno end")
    assert (status, messages) == (0, "")
    assert output.splitlines() == [
        "daemons: a",
        "group room: join #bob#a - members #ann#a, #bob#a - came along #bob#a",
        "[room SAFE] #bob#a: hello ü",
        "[room SAFE] #bob#a: /path",
        "[room SAFE] #bob#a: no end",
    ]
    seen = hear(ann, 5)
    assert [(v["cause"], v["changed"], v["came_along"]) for v in (seen[0], seen[-1])] == [
        ("join", ["#bob#a"], ["#ann#a"]),
        ("disconnect", ["#bob#a"], ["#ann#a"]),
    ]
    assert [m["data"] for m in seen[1:-1]] == ["hello ü", "/path", "no end"]
    assert finish(ann) == ("", "")
    assert ann.returncode == 0


@pytest.mark.parametrize("level", ["reliable", "agreed"])
def test_it_ends_once_all_that_it_said_has_come_back(shell: Shell, level: str) -> None:
    status, said, messages = monologue(shell, level)
    assert (status, said, messages) == (0, LINES, "")


def test_it_tells_how_many_unreliable_messages_were_lost(shell: Shell) -> None:
    status, said, messages = monologue(shell, "unreliable")
    lost = int(messages.split()[0]) if messages else 0
    assert (status, len(said) + lost) == (0, len(LINES))
    assert set(said) <= set(LINES)


LINES = [f"line {number}" for number in range(500)]


def monologue(shell: Shell, level: str) -> tuple[int, list[str], str]:
    """Return exit status, received messages, and errors; messages sent elsewhere are not
    awaited."""
    given = "\n".join(LINES) + "\n/s elsewhere this does not come back\n"
    status, output, messages = shell.run("chat", "many", "--level", level, "--json", given=given)
    found = [json.loads(line) for line in output.splitlines()]
    return status, [line["data"] for line in found if line["event"] == "message"], messages


def test_a_file_is_read_to_its_end(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("one\r\ntwo\n")
    with path.open() as file:
        done = subprocess.run(
            shell.command("chat", "files"),
            stdin=file,
            capture_output=True,
            text=True,
            env=shell.environment,
            timeout=PATIENCE_S,
            check=True,
        )
    said = [line.partition(": ")[2] for line in done.stdout.splitlines() if line[0] == "["]
    assert said == ["one", "two"]


def test_orders_of_a_chat(shell: Shell) -> None:
    given = "/j other\nin other\n/s room to room\n/l\nin room\n/m\na\nb\n\n/b 12\n/l room\n/q\nx\n"
    status, output, _ = shell.run("chat", "room", "--user", "ann", "--json", given=given)
    assert status == 0
    found = [json.loads(line) for line in output.splitlines()]
    messages = [(m["groups"], m["data"]) for m in found if m["event"] == "message"]
    assert messages[:4] == [
        (["other"], "in other"),
        (["room"], "to room"),
        (["room"], "in room"),
        (["room"], "a\nb"),
    ]
    assert messages[4:] == [(["room"], f"message {n} ".ljust(12, ".")[:12]) for n in range(1, 11)]
    views = [(v["group"], v["cause"]) for v in found if v["event"] == "group view"]
    assert views == [("room", "join"), ("other", "join"), ("other", "leave"), ("room", "leave")]


def test_letters_of_spuser(shell: Shell) -> None:
    process = shell.start("chat", "--spuser", "--user", "ann", "--json")
    assert [line["event"] for line in hear(process, 1)] == ["daemons"]
    given = "d\nj one\nj two\np\nr\nr\ns one two\nhello\nr\ne\nb one\n3\nq\n"
    output, messages = process.communicate(given, timeout=PATIENCE_S)
    assert (process.returncode, messages) == (0, "2 events wait\n")
    found = [json.loads(line) for line in output.splitlines()]
    assert [line["event"] for line in found[:3]] == ["group view", "group view", "message"]
    assert (found[2]["groups"], found[2]["data"]) == (["one", "two"], "hello")
    assert [line["data"] for line in found[3:]] == ["mes"] * 10


def test_what_cannot_be_done_is_reported_and_the_rest_is_done(shell: Shell) -> None:
    process = subprocess.Popen(
        shell.command("chat", "rough", "--json"),
        env=shell.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    given = (
        b"before\n/x\n/j \xff\n/s #nobody text\n/l nowhere\n/r\n/b rough x\nraw \xfe\nafter\n/s g\n"
    )
    output, told = process.communicate(given, timeout=PATIENCE_S)
    assert process.returncode == 1
    found = [json.loads(line) for line in output.splitlines()]
    said = [m.get("data", m.get("data_hex")) for m in found if m["event"] == "message"]
    assert said == ["before", b"raw \xfe".hex(), "after"]
    errors = [line for line in told.decode().splitlines() if line.startswith("line ")]
    assert [error.split(":")[0] for error in errors] == [
        f"line {n}" for n in (2, 3, 4, 5, 6, 7, 10)
    ]
    for error, part in zip(
        errors,
        (
            "unknown command",
            "not UTF-8",
            "'#nobody'",
            "nowhere",
            "after d",
            "'x' bytes",
            "input ended",
        ),
        strict=True,
    ):
        assert part in error


def test_without_a_group_and_without_a_daemon(shell: Shell) -> None:
    status, _, messages = shell.tell("chat")
    assert (status, "no group is named" in messages) == (2, True)
    status, _, messages = shell.tell("chat", "room", "--address", "/nowhere/x")
    assert (status, "is the daemon running?" in messages) == (3, True)
    closed = f"exec {sys.executable} -m groupcomm_tools.cli chat room <&-"
    done = subprocess.run(
        ["sh", "-c", closed],
        env=shell.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, "no standard input" in done.stderr) == (2, True)
    status, _, messages = shell.tell("chat", "#room")
    assert (status, "starts with '#'" in messages) == (2, True)


def test_control_c_ends_it(shell: Shell) -> None:
    process = shell.start("chat", "room", "--json")
    hear(process, 2)
    process.send_signal(signal.SIGINT)
    output, messages = finish(process)
    assert (process.returncode, output, messages) == (130, "", "stopped\n")


def test_the_end_of_the_daemon_is_reported() -> None:
    with RunningCluster(1) as daemons:
        process = Shell(daemons.address("a")).start("chat", "room", "--json")
        hear(process, 2)
        daemons.kill("a")
        _, messages = finish(process)
    assert process.returncode == 1
    assert messages.startswith("groupcomm: ")
    assert len(messages.splitlines()) == 1


def test_on_a_terminal_it_asks(shell: Shell) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        shell.command("chat", "--spuser", "--user", "ann"),
        env=shell.environment,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    os.write(ours, b"j room\ns room\nhello\n\x04")  # as a user types it, with ^D at the end
    output, asked = finish(process)
    os.close(ours)
    assert process.returncode == 0
    assert b"[room AGREED] #ann#a: hello" in output.splitlines()
    assert asked == b"> > message: > "


async def test_a_line_that_is_too_long_is_dropped_as_a_whole() -> None:
    read, write = os.pipe()
    try:
        os.write(write, b"12345\n" + b"x" * 17 + b"\n123456\n" + b"y" * 6)
        os.close(write)
        lines = InputLines(read, most_bytes=5)
        assert await lines.next() == b"12345"
        for number in (2, 3, 4):
            with pytest.raises(LocalProtocolError, match="more than 5 bytes"):
                await lines.next()
            assert lines.number == number
        assert await lines.next() is None
        assert await lines.next() is None
    finally:
        os.close(read)


def test_what_is_shown_does_nothing_else_to_a_terminal() -> None:
    assert readable("tab\t, ü\nline".encode()) == "tab\t, ü\n    line"
    assert readable(b"\x1b[2J\r\xff\x9b") == "\\u001b[2J\\r\\xff\\x9b"
    assert readable("\x9b\u202e".encode()) == "\\u009b\\u202e"
