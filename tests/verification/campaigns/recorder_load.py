"""The cost of a recorder for other programs under load, and its lag.

    python -m tests.verification.campaigns recorder_load --rate 200000 --duration-s 60

Runs the load of `groupcomm bench` on daemons of this host with a recorder beside its receivers.
Ends with a line of JSON: messages a second at the slowest receiver, the recorder's largest delays
until messages were on disk, and whether its log has all sent messages.
"""

import json
import os
import signal
import sys
from argparse import Namespace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import trio

from groupcomm_log.check import check_log
from groupcomm_tools.bench.plan import GROUP
from groupcomm_tools.local_cluster import LocalCluster
from tests.verification.campaigns.programs import Program, until
from tests.verification.campaigns.recorder import holes
from tests.verification.campaigns.runner import Found, campaign, option

CALM_S = 60.0
"""The time after the load within which everything must be on disk."""


@campaign(
    option("rate", 200_000, "messages a second"),
    option("duration_s", 60.0),
    option("daemons", 1),
    option("receivers", 1),
    option("size", 100, "bytes of a message"),
)
async def run(options: Namespace) -> Found:
    """Run it; return the results."""
    names = [chr(ord("a") + number) for number in range(options.daemons)]
    with TemporaryDirectory(prefix="groupcomm-") as folder:
        log = Path(folder) / "log"
        policy = 'slow_receivers = "block"'
        async with LocalCluster(names, clients=policy) as cluster, trio.open_nursery() as nursery:
            await cluster.settle(names)
            addresses = [str(cluster[name].unix) for name in names]
            recorder = Program(
                "groupcomm_tools.cli",
                ["record", GROUP, "--store", str(log), "--address", addresses[-1], "--json"],
            )
            await recorder.start(nursery)
            await until("the recorder writes", lambda: bool(recorder.lines))
            begun, cpu_s = len(recorder.lines), cpu_of(recorder.pid)
            figures = await bench(addresses, options)
            await until("all is on disk", lambda: not waiting(recorder), CALM_S)
            cpu_s = cpu_of(recorder.pid) - cpu_s
            recorder.send_signal(signal.SIGTERM)
            await recorder.end()
            nursery.cancel_scope.cancel()
        return {
            **{name: figures[name] for name in ("rate", "msgs_per_s_each", "lost", "misordered")},
            **check(log, recorder.lines[begun:], cpu_s),
        }


async def bench(addresses: list[str], options: Namespace) -> dict[str, Any]:
    """Run the load; return its figures."""
    command = [sys.executable, "-m", "groupcomm_tools.cli", "bench", "--json"]
    for address in addresses:
        command += ["--address", address]
    command += ["--rate", str(options.rate), "--duration-s", str(options.duration_s)]
    command += ["--receivers", str(options.receivers), "--size", str(options.size)]
    done = await trio.run_process(command, capture_stdout=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def waiting(recorder: Program) -> int:
    """Return bytes that the recorder has not written yet."""
    synced = [line for line in recorder.lines if line["event"] == "synced"]
    return int(synced[-1]["waiting_bytes"])


def cpu_of(pid: int) -> float:
    """Return seconds of a processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def check(log: Path, told: list[dict[str, Any]], cpu_s: float) -> dict[str, Any]:
    """Return the reports of the recorder, and the contents of its log."""
    lags = [line["lag_ms"] for line in told if line["event"] == "synced"]
    parts = [lags[at * len(lags) // 4 : (at + 1) * len(lags) // 4] for at in range(4)]
    found = check_log(log)
    trouble = [line["text"] for line in told if line["event"] == "trouble"]
    wrong = trouble + [f"a hole: {hole}" for hole in holes(log)[:5]]
    wrong += ["the log is not whole"] * (not found.is_whole)
    return {
        "lag_ms_median": median(lags),
        "lag_ms_worst_by_quarter": [max(part) for part in parts],
        "waiting_mb_worst": max(line.get("waiting_bytes", 0) for line in told) / 1e6,
        "messages": found.messages,
        "cpu_us_each": round(cpu_s / max(found.messages, 1) * 1e6, 2),
        "gaps": len(found.gaps),
        "violations": wrong,
    }
