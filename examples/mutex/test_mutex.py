"""The examples, run as a user would."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from examples.mutex import compare
from groupcomm_tools.local_cluster import LocalCluster

HERE = Path(__file__).parent
LIMIT_S = 60


def run(program: str, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, str(HERE / program), *options],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def start(program: str, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, str(HERE / program), *options], stdout=subprocess.PIPE, text=True
    )


async def test_one_at_a_time_presses_and_the_press_refuses_others() -> None:
    async with LocalCluster("ab") as cluster:
        await cluster.settle("ab")
        machine = start("machine.py", "--address", str(cluster["b"].unix), "--times", "7")
        assert machine.stdout is not None
        assert machine.stdout.readline() == "the press is ready\n"
        programs = [
            start(
                *("press.py", "--times", "2", "--user", user, *more),
                *("--address", str(cluster[daemon].unix)),
            )
            for user, daemon, *more in (
                ("ann", "a"),
                ("bob", "b"),
                ("cem", "a"),
                ("eve", "a", "--rude"),
            )
        ]
        outputs = [program.communicate(timeout=LIMIT_S)[0].splitlines() for program in programs]
        assert [program.returncode for program in programs] == [0, 0, 0, 0]
        assert outputs[1] == [
            "#bob#b presses part 1",
            "#bob#b is done",
            "#bob#b presses part 2",
            "#bob#b is done",
        ]
        said = machine.communicate(timeout=LIMIT_S)[0].splitlines()
        refusal = "refused #eve#a, which does not hold the press"
        pressed = [line for line in said if line != refusal]
        assert len(said) == len(pressed) + 1
        assert sorted(pressed) == [
            f"pressed part {number} for {user}"
            for number in (1, 2)
            for user in ("#ann#a", "#bob#b", "#cem#a")
        ]


def test_without_a_daemon_it_says_what_to_do() -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "press.py"), "--address", "/nowhere/x.sock"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith("press.py: cannot connect to /nowhere/x.sock: ")
    assert "is the daemon running" in line


def test_requests_to_a_scheduler_overtake_their_causes_below_causal() -> None:
    rows = [line.split() for line in run("scheduler.py").splitlines()[2:-1]]
    unfair = {level: int(count) for level, count in rows}
    assert unfair["RELIABLE"] > 0
    assert unfair["CAUSAL"] == unfair["AGREED"] == 0


@pytest.mark.long
def test_agreed_order_needs_fewer_messages(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main(["--programs", "4", "--rounds", "8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["forms"]
    sent = {row["form"]: (row["multicasts"], row["private"]) for row in found}
    # A request and a release; with acknowledgements by all members, or by all others.
    assert sent == {"agreed": (2, 0), "acknowledged": (2, 4), "lamport": (2, 3)}
