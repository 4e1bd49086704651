"""Hosts that vanish between programs and daemons, on interfaces of their own; needs root.

The cable of a host is pulled, and the process behind it killed: nobody gets a FIN or a reset. It
prints after how many seconds the mutex of such a program has passed on, its name is free, a program
of Spread is out of its group, a stream of HTTP is closed, an idle and a sending program have left
such a daemon; and what becomes of programs that are stopped.

python -m tests.verification.campaigns vanished_hosts --rounds 3
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import attrs
import trio

from groupcomm.errors import GroupCommError
from groupcomm_tools.cli import main as groupcomm
from groupcomm_tools.local_cluster import LocalDaemon
from groupcomm_tools.terminal import say
from tests.groupcommd.namespaces import MTU, daemons_of, running, until_view, why_not, write_config
from tests.verification.campaigns.peers.nodes import Node, open_nodes
from tests.verification.campaigns.runner import Found, NotHere, campaign, option

LIMIT_S: Final = 30.0
"""A campaign has failed if anything takes longer; without heartbeats it is 15 minutes."""

HTTP_PORT: Final = 4805

STOPPED_S: Final = (5.0, 60.0)
_ENDED: Final = ""


@attrs.define
class Program:
    """A program on a node; see vanished_program.py."""

    process: "subprocess.Popen[str]"

    def line(self, word: str) -> str:
        """Wait for a line with this word, or for its end; return the line."""
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            if line.startswith(word):
                return line
        return _ENDED

    def seconds_until(self, word: str) -> float:
        """Return how long it takes until a line comes.

        Raises:
            GroupCommError: it has ended.
        """
        begin = time.monotonic()
        if self.line(word) == _ENDED:
            raise GroupCommError(f"a program has ended, and did not say {word!r}")
        return time.monotonic() - begin


class Stage:
    """The daemons a and b, each on a node, and two nodes for programs."""

    def __init__(self, nodes: Sequence[Node], daemons: Mapping[str, LocalDaemon]) -> None:
        self.hosts = dict(zip("ab", nodes[:2], strict=True))
        self.leaves, self.stays = nodes[2:]
        self.daemons = daemons
        self.stack = ExitStack()

    def tls(self, names: str) -> str:
        """Return the addresses of daemons for programs of other hosts."""
        return ",".join(f"tls://{self.hosts[name].address}:4804" for name in names)

    def start(self, role: str, addresses: str, user: str, node: Node | None = None) -> Program:
        """Start a program, on a node or beside the daemons."""
        command = (
            sys.executable,
            "-m",
            "tests.verification.campaigns.vanished_program",
            role,
            addresses,
            user,
        )
        prefix = () if node is None else node.prefix
        made = subprocess.Popen((*prefix, *command), stdout=subprocess.PIPE, text=True)
        self.stack.enter_context(made)
        self.stack.callback(made.kill)
        self.stack.callback(made.send_signal, signal.SIGCONT)
        return Program(made)

    def vanishing_program(self) -> dict[str, float]:
        """Let the host of a program vanish that holds the mutex."""
        holder = self.start("hold", self.tls("a"), "ann", self.leaves)
        holder.line("holds")
        follower = self.start("hold", str(self.daemons["a"].unix), "bob")
        time.sleep(1.0)
        self.leaves.plug(0, up=False)
        holder.process.kill()
        passed = follower.seconds_until("holds")
        begin = time.monotonic()
        again = _ENDED
        while again == _ENDED:
            again = self.start("stay", self.tls("a"), "ann", self.stays).line("in")
        self.leaves.plug(0, up=True)
        return {"mutex_s": passed, "name_s_after_that": time.monotonic() - begin}

    def vanishing_daemon(self) -> dict[str, float]:
        """Let the host of a daemon vanish that has an idle and a sending program."""
        idle = self.start("idle", self.tls("ab"), "ida", self.stays)
        sending = self.start("send", self.tls("ab"), "sue", self.stays)
        for each in (idle, sending):
            each.line("in")
        time.sleep(1.0)
        self.hosts["a"].plug(0, up=False)
        self.daemons["a"].kill()
        begin = time.monotonic()
        idle.seconds_until("moved")
        moved = time.monotonic() - begin
        sending.seconds_until("moved")
        self.hosts["a"].plug(0, up=True)
        return {"idle_s": moved, "sending_s": time.monotonic() - begin}

    def vanishing_spread_program(self, role: str) -> float:
        """Let the host of a program of Spread vanish; return when it is out of its group.

        Args:
            role: `watch` if nothing is sent to it, `flood` if output waits for it.
        """
        watching = self.start(role, str(self.daemons["b"].unix), f"{role}er")
        watching.line("comes")
        address = f"{self.hosts['a'].address}:4803"
        program = self.start("spread", address, "sam", self.leaves)
        program.line("in")
        watching.line("comes")
        time.sleep(1.0)
        self.leaves.plug(0, up=False)
        program.process.kill()
        gone = watching.seconds_until("gone")
        self.leaves.plug(0, up=True)
        watching.process.kill()
        return gone

    def vanishing_reader(self) -> float:
        """Let the host of a program vanish that watches by HTTP; return when it is closed."""
        reader = self.start("read", f"{self.hosts['a'].address}:{HTTP_PORT}", "rea", self.leaves)
        reader.line("in")
        assert self.streams() == 1
        self.leaves.plug(0, up=False)
        reader.process.kill()
        begin = time.monotonic()
        while self.streams():
            if time.monotonic() > begin + LIMIT_S:
                break
            time.sleep(0.1)
        self.leaves.plug(0, up=True)
        return time.monotonic() - begin

    def streams(self) -> int:
        """Return the connections of HTTP that the daemon a has open."""
        table = subprocess.run(
            [*self.hosts["a"].prefix, "cat", "/proc/net/tcp"],
            check=True,
            capture_output=True,
            text=True,
        )
        return len(re.findall(rf": \w+:{HTTP_PORT:04X} \w+:\w+ 01 ", table.stdout))

    def stopped_program(self, seconds: float) -> bool:
        """Stop a program for some seconds; return whether it has kept its session."""
        program = self.start("stay", str(self.daemons["b"].unix), f"eve{seconds:g}")
        program.line("in")
        program.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        program.process.send_signal(signal.SIGCONT)
        try:
            return program.process.wait(2.0) is None
        except subprocess.TimeoutExpired:
            return True


async def play(folder: Path, stopped: Sequence[float]) -> dict[str, object]:
    """Play one round; return what it has measured."""
    with open_nodes(4, MTU, ()) as nodes:
        pki = folder / "pki"
        hosts = [word for node in nodes[:2] for word in ("--host", node.address)]
        for command in (["init"], ["issue", "daemons", *hosts], ["issue", "program"]):
            if groupcomm(["certs", command[0], str(pki), *command[1:]]):
                raise GroupCommError(f"groupcomm certs {command[0]} has failed")
        files = (("certificate", "daemons.pem"), ("key", "daemons.key"), ("ca", "ca.pem"))
        tls = tuple(f'clients.tls.{key} = "{pki / file}"' for key, file in files)
        http = (line.replace("clients.", "http.", 1) for line in tls)
        listen = f'http.listen = "0.0.0.0:{HTTP_PORT}"'
        head = "\n".join(("clients.spread = true", *tls, listen, *http))
        places = dict(zip("ab", nodes[:2], strict=True))
        where = {name: f'"{node.address}:4803"' for name, node in places.items()}
        os.environ |= {
            "GROUPCOMM_CA": str(pki / "ca.pem"),
            "GROUPCOMM_CERTIFICATE": str(pki / "program.pem"),
            "GROUPCOMM_KEY": str(pki / "program.key"),
        }
        daemons = daemons_of(folder, write_config(folder, {"main": where}, head), places)
        async with running(daemons):
            await until_view(daemons, "ab")
            stage = Stage(nodes, daemons)
            with stage.stack:
                return await trio.to_thread.run_sync(_measure, stage, stopped)


def _measure(stage: Stage, stopped: Sequence[float]) -> dict[str, object]:
    kept = {f"kept_after_{seconds:g}_s": stage.stopped_program(seconds) for seconds in stopped}
    times = {
        "idle_spread_s": stage.vanishing_spread_program("watch"),
        "busy_spread_s": stage.vanishing_spread_program("flood"),
        "http_s": stage.vanishing_reader(),
        **stage.vanishing_program(),
        **stage.vanishing_daemon(),
    }
    return {**{name: round(seconds, 1) for name, seconds in times.items()}, **kept}


@campaign(option("rounds", 1), option("stopped_s", STOPPED_S, nargs="*"))
async def run(options: Namespace) -> Found:
    """Run some rounds where namespaces can be made."""
    if reason := why_not():
        raise NotHere(reason)
    rounds: list[dict[str, object]] = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            rounds.append(await play(Path(folder), options.stopped_s))
        say(json.dumps(rounds[-1]))
    late = [
        f"{name} is {value}: above {LIMIT_S:g}"
        for found in rounds
        for name, value in found.items()
        if isinstance(value, float) and value > LIMIT_S
    ]
    return {"rounds": rounds, "violations": late}
