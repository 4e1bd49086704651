import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("cluster_in_simulator.py")


def test_all_three_receive_the_same_six_messages_in_one_order() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    received: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        if line.endswith("received:"):
            messages = received.setdefault(line.split(",")[0], [])
        elif "bids" in line:
            messages.append(line.strip())
    assert set(received) == {"ann", "bob", "cem"}
    assert received["ann"] == received["bob"] == received["cem"]
    assert sorted(received["ann"]) == sorted(
        f"{user} bids {price}" for user in received for price in (10, 20)
    )


def test_each_learns_when_its_second_message_is_ordered() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.count("nothing can come before my message 3 any more") == 3
