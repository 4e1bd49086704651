"""An archive that was away fetches what it has missed, and holds the same digests as the others.

    python -m tests.verification.campaigns history_away --messages 1000000

Three archives record; one is killed, and messages of 100 bytes are sent. It is started again:
measured is the time from that until it and both others agree on digests up to a message that is
sent last, by `groupcomm history status`. The output is a line of JSON.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any, Final

from groupcomm.clocks.stamp import Position, parse_position
from groupcomm.level import ServiceLevel
from groupcomm_client.blocking import connect
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.history.archives import ArchiveProcess
from tests.verification.campaigns.runner import Found, campaign, option

NAMES: Final = "abc"
GROUP: Final = "orders"
PATIENCE_S: Final = 120.0
LIMIT_S: Final = 30.0
SIZE: Final = 100
BATCH: Final = 1000


def fill(address: str, messages: int, rate: float) -> None:
    """Send messages at a rate, and wait until the daemons hold them."""
    data = [os.urandom(SIZE) for _ in range(BATCH)]
    began = time.monotonic()
    with connect(address) as sender:
        for sent in range(0, messages, BATCH):
            time.sleep(max(0.0, began + sent / rate - time.monotonic()))
            sender.multicast_many(GROUP, data)
        sender.multicast_ordered(GROUP, b"the last one", level=ServiceLevel.SAFE)


def send_last(address: str) -> Position:
    """Send the last message of all; return its place."""
    with connect(address) as connection:
        return connection.multicast_ordered(GROUP, b"x", level=ServiceLevel.SAFE).position


def reports(address: str) -> dict[str, Any]:
    """Return what the archives tell, by their names."""
    command = [sys.executable, "-m", "groupcomm_tools.cli", "history", "status", GROUP, "--json"]
    command += ["--address", address]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[str, Any] = json.loads(told.stdout)["archives"]
    return {name: report["groups"][GROUP] for name, report in found.items()}


def agree(found: dict[str, Any], last: Position) -> bool:
    """Return whether all three agree with both others, up to a place."""
    pairs = [each for report in found.values() for each in report["compared"].values()]
    return len(pairs) == len(NAMES) * (len(NAMES) - 1) and all(
        each["upto"] is not None and parse_position(each["upto"]) >= last for each in pairs
    )


def wait_until_agreed(address: str) -> dict[str, Any]:
    """Wait until the archives agree up to a message that is sent now; return what they tell."""
    limit = time.monotonic() + PATIENCE_S
    last = send_last(address)
    while not agree(found := reports(address), last):
        assert time.monotonic() < limit, f"they do not agree: {found}"
        if not any(report["compared"] for report in found.values()):
            last = send_last(address)  # the range in which they have begun is not compared
    return found


@campaign(
    option("messages", 1_000_000),
    option("rate", 50_000.0, "messages a second"),
)
def measure(options: Namespace) -> Found:
    """Return the results."""
    with (
        tempfile.TemporaryDirectory(prefix="groupcomm-") as name,
        RunningCluster(NAMES) as cluster,
    ):
        folder = Path(name)

        def archive(name: str) -> ArchiveProcess:
            return ArchiveProcess(cluster.address(name), folder / name, [GROUP])

        with archive("a") as first, archive("b") as second:
            with archive("c") as third:
                for each in (first, second, third):
                    each.until_live()
                wait_until_agreed(cluster.address("a"))
            fill(cluster.address("a"), options.messages, options.rate)
            began = time.monotonic()
            with archive("c") as third:
                third.until_live(PATIENCE_S)
                live_s = time.monotonic() - began
                found = wait_until_agreed(cluster.address("a"))
                agreed_s = time.monotonic() - began
                told = [*first.reported, *second.reported, *third.reported]
    differences = sum(each["event"] == "differs" for each in told)
    gaps = sum(each["event"] == "gap" for each in told)
    wrong = [f"they agreed after {agreed_s:.1f} s: more than {LIMIT_S:g}"] * (agreed_s > LIMIT_S)
    wrong += [f"{differences} differences, {gaps} gaps"] * bool(differences or gaps)
    return {
        "live_s": round(live_s, 1),
        "agreed_s": round(agreed_s, 1),
        "ranges": [
            each["ranges"] for report in found.values() for each in report["compared"].values()
        ],
        "differences": differences,
        "gaps": gaps,
        "violations": wrong,
    }
