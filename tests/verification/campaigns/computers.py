"""The vehicle's load on computers with a network of their own: a daemon on each, or one for all.

Each computer is a network namespace on a bridge, or with --delay-ms or --loss at a switch that
delays and loses frames, those of TCP, too. Programs of other computers reach the one daemon
over TCP with TLS, as they would in a vehicle; programs beside a daemon use its unix socket.

python -m tests.verification.campaigns computers --computers 3 6 --rounds 3
"""

import json
import os
import statistics
import subprocess
import tempfile
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from examples.common.stage import Network, program
from examples.vehicle.report import as_json
from examples.vehicle.runs import WARM_UP_S, Result, Setup, cpu_s, evaluate
from examples.vehicle.table import choose
from groupcomm_tools.cli import main as groupcomm
from groupcomm_tools.local_cluster import LocalDaemon
from groupcomm_tools.terminal import say
from tests.verification.campaigns.peers.daemons import prepare_daemons, running
from tests.verification.campaigns.peers.nodes import Node, open_nodes
from tests.verification.campaigns.runner import Found, campaign, option
from tests.verification.campaigns.wire import Wire

MTU: Final = 1500
SHAPES: Final = ("one", "each")


@attrs.frozen(kw_only=True)
class Shape:
    """A vehicle that is to run.

    Attributes:
        folder: the folder of all files.
        nodes: the computers.
        each: whether each has a daemon; otherwise the first has the only one.
        daemons: the daemons by name; that of the first computer first.
    """

    folder: Path
    nodes: Sequence[Node]
    each: bool
    daemons: Mapping[str, LocalDaemon]

    def address_at(self, computer: int) -> str:
        """Return the address at which a program of a computer connects."""
        daemons = list(self.daemons.values())
        if self.each or computer == 0:
            return str(daemons[computer].unix)
        return f"tls://{self.nodes[0].address}:4804"


def prepare(folder: Path, nodes: Sequence[Node], *, each: bool) -> Shape:
    """Write configuration, keys and certificates."""
    pki = folder / "pki"
    for command in (
        ["init", str(pki)],
        ["issue", str(pki), "c1", "--host", nodes[0].address],
        ["issue", str(pki), "program"],
    ):
        if groupcomm(["certs", *command]):
            raise SystemExit(f"groupcomm certs {' '.join(command)} has failed")
    where = nodes if each else nodes[:1]
    tls = [] if each else [f'tls.{key} = "{pki / file}"' for key, file in TLS_FILES]
    os.environ |= {
        "GROUPCOMM_CA": str(pki / "ca.pem"),
        "GROUPCOMM_CERTIFICATE": str(pki / "program.pem"),
        "GROUPCOMM_KEY": str(pki / "program.key"),
    }
    daemons = prepare_daemons(folder, where, tls)
    return Shape(folder=folder, nodes=nodes, each=each, daemons=daemons)


TLS_FILES: Final = (("certificate", "c1.pem"), ("key", "c1.key"), ("ca", "ca.pem"))


async def measure(
    computers: int,
    seconds: float,
    only: Sequence[str] = (),
    *,
    each: bool,
    wire: Wire | None = None,
) -> dict[str, Any]:
    """Run the vehicle once; return delays, processors and bytes on the wire."""
    with (
        tempfile.TemporaryDirectory() as folder,
        open_nodes(computers, MTU, (), wire=wire) as nodes,
    ):
        shape = prepare(Path(folder), nodes, each=each)
        async with running(shape.daemons):
            result, sent = await _drive(shape, seconds, only)
    told = as_json(result)
    kinds = told["kinds"]
    return {
        "computers": computers,
        "daemons": "each" if each else "one",
        "processor_of_all_daemons": round(sum(result.daemon_cpu.values()), 3),
        "most_of_one": round(max(result.daemon_cpu.values()), 3),
        "wire_mb_per_s": round(sent / seconds / 1e6, 2),
        **{f"{name} p50": kinds[name]["p50_ms"] for name in kinds},
        **{f"{name} p99": kinds[name]["p99_ms"] for name in kinds},
        "lost": round(max(kind["loss"] for kind in kinds.values()), 4),
    }


async def _drive(shape: Shape, seconds: float, only: Sequence[str]) -> tuple[Result, int]:
    """Have the modules run; return their figures, and the bytes that the computers have sent."""
    setup = Setup(
        daemons=len(shape.daemons), network=Network(), seconds=seconds, load={"only": only}
    )
    load = choose(only=only)
    places = {name: at % len(shape.nodes) for at, name in enumerate(load.modules)}
    async with AsyncExitStack() as stack:
        programs = {}
        for name, at in places.items():
            options = ("--address", shape.address_at(at), "--load", json.dumps({"only": only}))
            one = program("examples.vehicle.modules", name, *options, prefix=shape.nodes[at].prefix)
            programs[name] = await stack.enter_async_context(one)
        for each in programs.values():
            await each.told()
        now_ns = time.monotonic_ns()
        start_ns = now_ns + round(WARM_UP_S * 1e9)
        window = {
            "start_ns": start_ns,
            "end_ns": start_ns + round(seconds * 1e9),
            "offset_ns": time.time_ns() - now_ns,
        }
        for each in programs.values():
            await each.tell(window)
        await trio.sleep(WARM_UP_S)
        before = {name: cpu_s(daemon.pid) for name, daemon in shape.daemons.items()}
        wire = sum(map(_sent_bytes, shape.nodes))
        await trio.sleep(seconds)
        wire = sum(map(_sent_bytes, shape.nodes)) - wire
        cpu = {
            name: (cpu_s(daemon.pid) - before[name]) / seconds
            for name, daemon in shape.daemons.items()
        }
        reports = {name: await each.told() for name, each in programs.items()}
    where = {name: f"c{at + 1}" for name, at in places.items()}
    return evaluate(setup, load, where, reports, cpu), wire


def _sent_bytes(node: Node) -> int:
    """Return the bytes that a computer has sent on its network."""
    command = [*node.prefix, "ip", "-s", "-j", "link", "show", "eth0"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    sent: int = found[0]["stats64"]["tx"]["bytes"]
    return sent


@campaign(
    option("computers", (3, 6)),
    option("only", [], "of the vehicle's table", type=str, nargs="+"),
    option("rounds", 3, "in turn"),
    option("seconds", 5.0, "of a run"),
    option("delay_ms", 0.0, "one way"),
    option("loss", 0.0, "of all frames"),
)
async def run(options: Namespace) -> Found:
    """Run all shapes in turn; return medians."""
    found: dict[tuple[int, str], list[dict[str, Any]]] = {}
    wire = None
    if options.delay_ms or options.loss:
        wire = Wire(delay_s=options.delay_ms / 1000, loss=options.loss)
    for number in range(options.rounds):
        for computers in options.computers:
            for shape in SHAPES:
                each = shape == "each"
                row = await measure(computers, options.seconds, options.only, each=each, wire=wire)
                found.setdefault((computers, shape), []).append(row)
                say(f"round {number + 1}: {json.dumps(row)}")
    medians = [
        {
            key: value if isinstance(value, str) else statistics.median(row[key] for row in rows)
            for key, value in rows[0].items()
        }
        for rows in found.values()
    ]
    return {"medians": medians, "violations": []}
