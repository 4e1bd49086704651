"""Daemons in namespaces, as in containers: they join with tokens, by names, and their addresses
change whenever they start again.

    python -m tests.verification.campaigns containers --rounds 5

One node has a server of DNS, the others a daemon each. Daemon a runs alone; b and c join with
tokens, by A and by SRV records that appear only while they ask. Then each daemon in turn is ended,
its node gets another address, and it is started again; in the end all three at once, of which none
knows where another one is but by DNS, whose records change only after their start. Measured are the
times from the change of the records, or from the start, until the daemons have found another one,
which have to be WITHIN_S at most, and until a view has all three.

Then three new daemons are listed with the names of their hosts, without seeds and tokens. They
start before DNS has the names; and each in turn, then all at once, get other addresses. Measured
are the times until a view has all, at most BY_NAME_S. It needs root; the last line of the output is
the result.
"""

import json
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import attrs
import trio

from groupcomm.errors import GroupCommError
from groupcomm.host.key_file import write_key_file
from groupcomm_tools.local_cluster import LocalDaemon
from groupcomm_tools.terminal import say
from tests.groupcommd.hosts import run
from tests.groupcommd.namespaces import MTU, talk, until_view, why_not
from tests.verification.campaigns.peers.nodes import Node, open_nodes
from tests.verification.campaigns.runner import Found, NotHere, campaign, option

NAMES: Final = "abc"
WITHIN_S: Final = 2.0
BY_NAME_S: Final = 10.0
"""Two of the longest times between lookups of a name."""

ASKS_S: Final = 3.0
"""A daemon asks in vain for this time before the records change."""

FOUND: Final = "is asked to admit this daemon"
"""The line of a daemon that joins and has found the cluster."""

DOMAIN: Final = "daemons.test"
SERVICE: Final = f"_groupcomm._udp.{DOMAIN}"


@attrs.define
class Containers:
    """The daemons, their nodes, and the records of DNS.

    Attributes:
        folder: the folder of all files.
        nodes: the node of each daemon.
        daemons: the daemons.
        addresses: the present address of each node.
        figures: what was done, and the times in seconds until it was found, and until the view.
        by_name: the same for daemons that are listed by name, until the view.
    """

    folder: Path
    nodes: dict[str, Node]
    daemons: dict[str, LocalDaemon]
    addresses: dict[str, str]
    figures: list[tuple[str, float, float]] = attrs.field(factory=list)
    by_name: list[tuple[str, float]] = attrs.field(factory=list)
    _next: int = 100

    def publish(self, names: Sequence[str]) -> None:
        """Have DNS name these daemons, at their present addresses."""
        records: dict[str, list[str]] = {f"{DOMAIN} A": [self.addresses[each] for each in names]}
        for name in names:
            records[f"{name}.{DOMAIN} A"] = [self.addresses[name]]
        records[f"{SERVICE} SRV"] = [f"0 0 4803 {name}.{DOMAIN}." for name in names]
        new = self.folder / "records.new"
        new.write_text(json.dumps(records if names else {}))
        new.rename(self.folder / "records.json")

    def readdress(self, name: str) -> None:
        """Give a node another address."""
        self._next += 1
        old, new = self.addresses[name], f"10.77.0.{self._next}"
        node = self.nodes[name]
        for words in (f"addr del {old}/24", f"addr add {new}/24"):
            subprocess.run([*node.prefix, "ip", *words.split(), "dev", "eth0"], check=True)
        self.addresses[name] = new

    async def measure(self, what: str, names: str, begin: Callable[[], object]) -> None:
        """Note the times from an act until these daemons have found another one, and until a view
        has all; check that they talk.
        """
        lines = {name: len(daemon.lines()) for name, daemon in self.daemons.items()}
        begun = time.monotonic()
        begin()
        with trio.fail_after(10):
            while not all(self._was_found(name, lines) for name in names):
                await trio.sleep(0.01)
        found_s = time.monotonic() - begun
        await until_view(self.daemons, NAMES)
        took_s = time.monotonic() - begun
        self.figures.append((what, found_s, took_s))
        figures = {"what": what, "found_s": round(found_s, 3), "view_s": round(took_s, 3)}
        say(json.dumps(figures))
        await talk(self.daemons, "a", "c")

    def _was_found(self, name: str, lines: dict[str, int]) -> bool:
        """Return whether a daemon has asked another one that answers, since these lines."""
        if any(FOUND in line["text"] for line in self.daemons[name].lines()[lines[name] :]):
            return True
        says = f"daemon {name} says that it is at {self.addresses[name]}"
        return any(
            says in line["text"] for daemon in self.daemons.values() for line in daemon.lines()
        )

    async def invite(self, name: str) -> str:
        """Return a token for a daemon."""
        words = "invite", name, "--through", self.daemons["a"].unix
        status, token, told = await run("daemons", *words)
        assert status == 0, told
        return token.strip()

    async def known(self) -> None:
        """Wait until the roster of all has the present addresses."""
        with trio.fail_after(10):
            for name in NAMES:
                wanted = [[f"{self.addresses[each]}:4803"] for each in NAMES]
                while await self._addresses_at(name) != wanted:
                    await trio.sleep(0.05)

    async def _addresses_at(self, name: str) -> list[list[str]]:
        words = "list", "--json", "--through", self.daemons[name].unix
        _, output, _ = await run("daemons", *words)
        found: dict[str, Any] = json.loads(output)
        return [each["addresses"] for each in found["daemons"]]


def prepare(folder: Path, nodes: Sequence[Node]) -> Containers:
    """Return the daemons, none of which runs, each with a file of its own."""
    resolv = folder / "resolv.conf"
    resolv.write_text(f"nameserver {nodes[0].address}\noptions timeout:1 attempts:1\n")
    places = dict(zip(NAMES, nodes[1:], strict=True))
    write_key_file(folder / "key")
    head = '[clients]\ntcp = "off"\nspread_unix = "off"\n'
    first = f'key_file = "key"\nseeds = ["dns:{DOMAIN}"]\n[sites.main.daemons]\n'
    daemons = {}
    for name, node in places.items():
        subprocess.run(
            [*node.prefix, "mount", "--bind", str(resolv), "/etc/resolv.conf"], check=True
        )
        config = folder / f"{name}.toml"
        config.write_text(head)
        daemons[name] = LocalDaemon(folder, name, config, (), prefix=node.prefix)
    (folder / "a.toml").write_text(f'{first}a = "{places["a"].address}"\n{head}')
    return Containers(
        folder, places, daemons, {name: node.address for name, node in places.items()}
    )


async def join(cluster: Containers) -> None:
    """Have b and c join, while DNS does not name a daemon yet, or a wrong one."""
    await cluster.daemons["a"].start()
    async with trio.open_nursery() as nursery:
        for name, seed in (("b", f"dns:{DOMAIN}"), ("c", f"srv:{SERVICE}")):
            daemon = cluster.daemons[name]
            daemon._options = ("--join", seed, "--token", await cluster.invite(name))
            nursery.start_soon(daemon.start)
        await trio.sleep(ASKS_S)
        assert not any(cluster.daemons[name].view[1] for name in "bc")
        await cluster.measure("two join once DNS has records", "bc", lambda: cluster.publish("a"))
    for name in "bc":
        cluster.daemons[name]._options = ()
    cluster.publish(NAMES)


async def restart(cluster: Containers, name: str) -> None:
    """Stop a daemon, and start it at another address; DNS has the old one."""
    daemon = cluster.daemons[name]
    daemon.stop()
    cluster.readdress(name)
    await daemon.start()
    await cluster.measure(f"{name} is back at another address", name, bool)
    cluster.publish(NAMES)
    await cluster.known()


async def restart_all(cluster: Containers) -> None:
    """Stop all daemons, and start them at other addresses, which DNS has later."""
    for name in NAMES:
        cluster.daemons[name].stop()
        cluster.readdress(name)
    await start_all(cluster)
    await trio.sleep(ASKS_S)
    assert {cluster.daemons[name].view[1] for name in NAMES} == {(name,) for name in NAMES}
    await cluster.measure("all are at other addresses", NAMES, lambda: cluster.publish(NAMES))
    await cluster.known()


def list_by_name(cluster: Containers) -> None:
    """Replace the daemons, which have ended, by others that are listed by name."""
    rows = "".join(f'{name} = "{name}.{DOMAIN}"\n' for name in NAMES)
    for name, node in cluster.nodes.items():
        config = cluster.folder / f"named-{name}.toml"
        config.write_text(
            f'cluster = "named"\nkey_file = "key"\n[sites.main.daemons]\n{rows}'
            '[clients]\ntcp = "off"\nspread_unix = "off"\n'
        )
        folder = cluster.folder / "named"
        folder.mkdir(mode=0o700, exist_ok=True)
        cluster.daemons[name] = LocalDaemon(folder, name, config, (), prefix=node.prefix)


async def view_after(cluster: Containers, what: str, begin: Callable[[], object]) -> None:
    """Note the time from an act until a view has all daemons."""
    begun = time.monotonic()
    begin()
    await until_view(cluster.daemons, NAMES)
    took_s = time.monotonic() - begun
    cluster.by_name.append((what, took_s))
    say(json.dumps({"what": what, "view_s": round(took_s, 3)}))
    await talk(cluster.daemons, "a", "c")


async def find_by_name(cluster: Containers, rounds: int) -> None:
    """Have daemons that are listed by name find each other, at changing addresses."""
    list_by_name(cluster)
    cluster.publish("")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(start_all, cluster)  # no daemon listens before DNS has its own name
        await trio.sleep(ASKS_S)
        await view_after(cluster, "names are there", lambda: cluster.publish(NAMES))
    for _ in range(rounds):
        for name in NAMES:
            daemon = cluster.daemons[name]
            daemon.stop()
            cluster.readdress(name)
            await daemon.start()
            await trio.sleep(ASKS_S)
            await view_after(cluster, f"{name} has another address", lambda: cluster.publish(NAMES))
        for name in NAMES:
            cluster.daemons[name].stop()
            cluster.readdress(name)
        await start_all(cluster)
        await trio.sleep(ASKS_S)
        await view_after(cluster, "all have other addresses", lambda: cluster.publish(NAMES))


async def start_all(cluster: Containers) -> None:
    """Start all daemons."""
    async with trio.open_nursery() as nursery:
        for daemon in cluster.daemons.values():
            nursery.start_soon(daemon.start)


async def play(folder: Path, rounds: int) -> Found:
    """Run everything; return the result."""
    with open_nodes(1 + len(NAMES), MTU, ()) as nodes:
        cluster = prepare(folder, nodes)
        cluster.publish("")
        words = (
            "-m",
            "tests.verification.campaigns.dns_server",
            folder / "records.json",
            nodes[0].address,
        )
        command = [*nodes[0].prefix, sys.executable, *map(str, words)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            try:
                await join(cluster)
                for _ in range(rounds):
                    for name in NAMES:
                        await restart(cluster, name)
                    await restart_all(cluster)
                for daemon in cluster.daemons.values():
                    daemon.stop()
                await find_by_name(cluster, rounds)
            finally:
                for daemon in cluster.daemons.values():
                    daemon.stop()
                server.kill()
    found, view = ({what: 0.0 for what, *_ in cluster.figures} for _ in range(2))
    for what, found_s, took_s in cluster.figures:
        found[what] = max(found[what], round(found_s, 3))
        view[what] = max(view[what], round(took_s, 3))
    names = {what: 0.0 for what, _ in cluster.by_name}
    for what, took_s in cluster.by_name:
        names[what] = max(names[what], round(took_s, 3))
    wrong = [f"{what}: found after {s} s" for what, s in found.items() if s > WITHIN_S]
    wrong += [f"{what}: a view after {s} s" for what, s in names.items() if s > BY_NAME_S]
    longest = {"longest_found_s": found, "longest_view_s": view, "longest_by_name_s": names}
    return {**longest, "violations": wrong}


@campaign(option("rounds", 5))
async def change_addresses(options: Namespace) -> Found:
    """Run it where namespaces can be made; show the logs if something does not happen at all."""
    if reason := why_not():
        raise NotHere(reason)
    with TemporaryDirectory(prefix="groupcomm-") as folder:
        try:
            return await play(Path(folder), options.rounds)
        except (GroupCommError, trio.TooSlowError, AssertionError):
            for log in Path(folder).glob("*.log"):
                say(f"{log.name} {log.read_text()[-4000:]}")
            raise
