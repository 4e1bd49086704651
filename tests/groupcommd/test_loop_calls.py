"""Nothing that the event loop of a daemon or an archive does may wait, whatever it waits for.

See loop_calls/sitecustomize.py for how that is found out, and for the calls that are allowed.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import pytest
import trio

from groupcomm.errors import SessionEnded
from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm_client import TlsOptions
from groupcomm_client.blocking import BlockingConnection, connect
from groupcomm_client.history import EARLIEST, CaughtUp, Cursor
from groupcomm_tools.certificates import issue, make_authority
from groupcomm_tools.local_cluster import LocalDaemon
from groupcomm_tools.running_cluster import RunningCluster
from groupcommd.programs.token_file import add_token
from tests.groupcomm_client.history.archives import ArchiveProcess
from tests.groupcomm_tools.shell import tell
from tests.groupcommd.spread_client import connect as connect_spread

PATIENCE_S: Final = 60.0
FOLDER: Final = Path(__file__).parent / "loop_calls"
KINDS: Final = {
    "sleep": "sleep",
    "sync": "file",
    "write": "file",
    "list_folder": "file",
    "look_up": "name",
    "look_user_up": "name",
    "lock": "lock",
    "send": "socket",
    "start": "process",
}
"""The methods of the waiting program, and what each waits for."""


def environment(path: Path, program: str, method: str) -> Mapping[str, str]:
    """Return the variables with which a program is watched."""
    return {
        **{"LOOP_CALLS": str(path), "LOOP_PROGRAM": program, "LOOP_METHOD": method},
        "PYTHONPATH": str(FOLDER),
    }


def found_in(path: Path) -> list[dict[str, Any]]:
    """Return the findings of a watch, which must have watched to the end."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    end = lines.pop()
    assert end["watched"], "nothing has replaced the profiler"
    assert end["steps"] > 0
    return lines


def told(path: Path) -> list[str]:
    """Return the findings as text: what is called, and by whom."""
    return [
        " < ".join(
            [f"{line['kind']}: {line['call']}", *(":".join(map(str, p)) for p in line["places"])]
        )
        for line in found_in(path)
    ]


@pytest.mark.parametrize("where", ["loop", "thread"])
def test_the_watch_finds_what_waits_in_the_loop(where: str, tmp_path: Path) -> None:
    """In a thread all of that may wait."""
    program, path = str(FOLDER / "waiting_program.py"), tmp_path / "calls"
    variables = environment(path, program, "waiting_program:Waiting.run")
    subprocess.run([sys.executable, program, where], env={**os.environ, **variables}, check=True)
    found: dict[str, set[str]] = {}
    for line in found_in(path):
        names = [name for _, name, _ in line["places"] if name in KINDS]
        found.setdefault(names[-1], set()).add(line["kind"])
    wanted = KINDS if where == "loop" else {}
    assert found.keys() == wanted.keys()
    assert all(kind in found[name] for name, kind in wanted.items())


# ---- a daemon ----

QUESTIONS: Final = (
    *("name", "status", "cluster", "groups", "members g", "configuration", "keys", "daemons"),
    *('read-history [["unix:x", "g"]]', "keys retire 7", "drain nonsense", "nonsense"),
    'daemons add {"name": "z", "addresses": ["127.9.9.9:7000"]}',
    'daemons move {"name": "z", "addresses": ["z.invalid:7000"]}',
    'daemons remove {"name": "z"}',
)


def watch_daemon(cluster: RunningCluster, name: str, path: Path) -> LocalDaemon:
    """Watch a daemon of a cluster that does not run yet."""
    variables = environment(path, "groupcommd", "groupcommd.service:Service.run")
    before = cluster._local[name]
    prefix = ("env", *(f"{name}={value}" for name, value in variables.items()))
    daemon = LocalDaemon(
        cluster.config.parent, name, cluster.config, before._options, prefix=prefix
    )
    cluster._local.daemons[name] = daemon
    return daemon


def wait_until(ready: Callable[[], object], what: str) -> None:
    limit = time.monotonic() + PATIENCE_S
    while not ready():
        assert time.monotonic() < limit, what
        time.sleep(0.01)


def exchange(*connections: BlockingConnection) -> None:
    """Send messages of all kinds, and receive them."""
    first = connections[0]
    for each in connections:
        each.join("g")
    for level in ServiceLevel:
        first.multicast("g", bytes(2000), level=level)
    first.multicast("g", bytes(300_000))
    first.multicast(connections[-1].name, b"to one")
    first.multicast("g", b"last")
    for each in connections:
        while not (
            isinstance(event := each.receive(PATIENCE_S), Message) and event.data == b"last"
        ):
            continue
    first.leave("g")


async def use_spread(path: Path) -> None:
    """Do as a client of Spread."""
    async with await connect_spread(path) as client:
        await client.join("g")
        await client.multicast("g", b"of Spread")
        while (await client.receive()).data != b"of Spread":
            continue


def test_a_daemon_calls_nothing_that_may_wait(tmp_path: Path) -> None:
    pki, tokens = tmp_path / "pki", tmp_path / "tokens"
    make_authority(pki, 1.0)
    issue(pki, "press", ["127.0.0.1"], 1.0)
    certificate, key = issue(pki, "ann", [], 1.0)
    token = add_token(tokens, "bob")
    files = f'certificate = "{pki}/press.pem", key = "{pki}/press.key", ca = "{pki}/ca.pem"'
    clients = f'tokens = "{tokens}"\ntls = {{address = "127.0.0.1:0", {files}}}'
    cluster = RunningCluster(
        "ab", settings='[http]\nlisten = "127.0.0.1:0"', clients=clients, tcp=True
    )
    path = tmp_path / "calls"
    daemon = watch_daemon(cluster, "a", path)
    with cluster:
        by_certificate = TlsOptions(ca=pki / "ca.pem", certificate=certificate, key=key)
        by_token = TlsOptions(ca=pki / "ca.pem", token=token)
        with (
            connect(cluster.address("a")) as ann,
            connect(cluster.tcp_address("a")) as bob,
            connect(cluster.tls_address("a"), tls=by_certificate) as carol,
            connect(cluster.tls_address("a"), tls=by_token) as dave,
        ):
            with connect(cluster.address("b")) as eve:
                exchange(ann, bob, carol, dave, eve)
            with pytest.raises(SessionEnded, match="the token is wrong"):
                connect(
                    cluster.tls_address("a"), tls=TlsOptions(ca=pki / "ca.pem", token="x" * 40)
                ).__enter__()
            trio.run(use_spread, daemon.spread)
            for question in QUESTIONS:
                ann.ask(question)
            for page in ("metrics", "livez", "readyz", "", "status.json"):
                urlopen(f"http://{daemon.http}/{page}", timeout=PATIENCE_S).read()
            cluster.kill("b")
            cluster.settle("a")
            cluster.start("b")
            cluster.settle("a", "b")
            operate(cluster, daemon, ann)
            ann.ask("drain 0.1")
        wait_until(lambda: not daemon.running, "it has not stopped")
    assert told(path) == []


def operate(cluster: RunningCluster, daemon: LocalDaemon, ann: BlockingConnection) -> None:
    """Do what operators do to a daemon that runs."""
    key_file = cluster.config.parent / "cluster.key"
    assert tell("keys", "add", str(key_file))[0] == 0
    assert "asked" in ann.ask("keys reload")
    with connect(cluster.address("b")) as there:
        assert "asked" in there.ask("keys reload")
    wait_until(lambda: "asked" in ann.ask("keys promote 2"), "the other has not read the keys")
    wait_until(lambda: "active = 2" in key_file.read_text(), "it has not written the key file")
    daemon.signal(signal.SIGHUP)
    daemon.signal(signal.SIGUSR1)
    wait_until(lambda: ann.ask("status")["reloads"] == 1, "it has not read its configuration")
    wait_until(lambda: [*daemon.state.glob("flight-*.jsonl")], "it has written no flight recorder")


# ---- an archive ----


def test_an_archive_calls_nothing_that_may_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "calls"
    with (
        RunningCluster("ab") as cluster,
        connect(cluster.address("a")) as sender,
        connect(cluster.address("a")) as reader,
    ):
        sender.join("h1")
        for name, value in environment(
            path, "groupcomm_tools.cli", "groupcomm_archive.serving:Serving.run"
        ).items():
            monkeypatch.setenv(name, value)
        store = tmp_path / "store"
        more = ("--seal-s", "0.5", "--compact", "h*=line")
        with ArchiveProcess(
            cluster.address("a"), tmp_path / "store", ["g", "h*"], *more, cold=True
        ) as archive:
            archive.until_live()
            for group in ("g", "h1"):
                sender.multicast_many(group, [b"%d" % number for number in range(300)])
                sender.multicast_ordered(group, b"last")
            for group in ("g", "h1"):
                read_all(reader, group)
            cluster.kill("b")
            cluster.settle("a")
            archive.until(lambda: sealed(store))
            assert archive.end() == 0
    assert told(path) == []


def read_all(connection: BlockingConnection, group: str) -> None:
    """Read the history of a group, and move a cursor there."""
    with connection.subscribe(group, start=Cursor(f"of-{group}", EARLIEST)) as reading:
        while not isinstance(reading.receive(PATIENCE_S), CaughtUp):
            continue
        reading.acknowledge()


def sealed(store: Path) -> list[Path]:
    return [*store.rglob("*.parquet")]
