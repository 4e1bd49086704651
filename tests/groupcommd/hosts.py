"""Daemons of this host with files of their own, as on several hosts, and commands of operators."""

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path

import trio

from groupcomm.host.key_file import write_key_file
from groupcomm_tools.cli import main
from groupcomm_tools.local_cluster import LocalCluster


def make_hosts(
    names: Sequence[str], settings: str, *, tables: str = ""
) -> tuple[LocalCluster, dict[str, Path]]:
    """Daemons that do not run yet; the folder of each, with its configuration and the.key.

    Args:
        names: the names of the daemons.
        settings: TOML for the head of their configuration; it names the.key.
        tables: more of it, before that of clients.
    """
    cluster = LocalCluster(names, settings)
    first = cluster.folder / "first.key"
    write_key_file(first)
    hosts = {}
    for name, daemon in cluster.daemons.items():
        hosts[name] = host = cluster.folder / f"host-{name}"
        host.mkdir(mode=0o700)
        text = cluster.config.read_text().replace("[clients]", f"{tables}\n[clients]")
        (host / "cluster.toml").write_text(text)
        daemon._config = host / "cluster.toml"
        (host / "the.key").write_bytes(first.read_bytes())
        (host / "the.key").chmod(0o600)
    return cluster, hosts


def command(*arguments: object) -> tuple[int, str, str]:
    """Run `groupcomm`; return exit status, output and messages."""
    output, messages = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(messages):
        status = main([*map(str, arguments)])
    return status, output.getvalue(), messages.getvalue()


async def run(*arguments: object) -> tuple[int, str, str]:
    """The same beside what else goes on."""
    return await trio.to_thread.run_sync(lambda: command(*arguments))
