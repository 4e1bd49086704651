"""A site of Spread's daemons, imported: its programs connect as they did, by every address."""

import secrets
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio

from groupcomm.host.key_file import write_key_file
from groupcomm_tools.cli import main
from groupcomm_tools.local_cluster import START_S, LocalDaemon, free_ports
from tests.groupcomm_tools.test_spread_import import DIRECTIVES
from tests.groupcommd.spread_client import SAFE, connect

CONF = """
Spread_Segment {one}.255:{port} {{
    press {one}.1
    oven  {one}.2:{port} {{ D {one}.2
            C {one}.2 }}
}}
Spread_Segment {other}.255:{port} {{
    gate {other}.1 {{
        D {other}.1
        D {other}.4
        C {other}.1
        C {other}.5
        M {other}.7
    }}
}}
"""
"""Two segments; a daemon with several interfaces for daemons, for clients and for monitors."""


@pytest.mark.long
async def test_programs_find_the_imported_daemons_at_every_address(tmp_path: Path) -> None:
    net = f"127.{1 + secrets.randbelow(254)}"  # of this host, and nobody else's
    one, other = f"{net}.1", f"{net}.2"
    (port,) = free_ports(f"{one}.1", 1)
    text = CONF.format(one=one, other=other, port=port) + "\n".join(DIRECTIVES) + "\n"
    (tmp_path / "spread.conf").write_text(text)
    config = tmp_path / "groupcomm.toml"
    assert main(["spread", "import", str(tmp_path / "spread.conf"), "--output", str(config)]) == 0
    write_key_file(tmp_path / "cluster.key")
    daemons = {name: LocalDaemon(tmp_path, name, config, ()) for name in ("press", "oven", "gate")}
    try:
        await _meet(daemons, port, one, other)
    finally:
        for daemon in daemons.values():
            daemon.stop()
        Path(f"/tmp/{port}").unlink(missing_ok=True)


async def _meet(daemons: dict[str, LocalDaemon], port: int, one: str, other: str) -> None:
    """Have a program at each address be in one group, and get one message."""
    for daemon in daemons.values():
        await daemon.start()
    with trio.fail_after(START_S):
        while {daemon.view[1] for daemon in daemons.values()} != {tuple(sorted(daemons))}:
            await trio.sleep(0.01)
    places: list[Path | str] = [Path(f"/tmp/{port}"), f"127.0.0.1:{port}", f"localhost:{port}"]
    places += [f"{host}:{port}" for host in (f"{one}.1", f"{one}.2", f"{other}.1", f"{other}.5")]
    async with AsyncExitStack() as stack:
        programs = [
            await stack.enter_async_context(await connect(where, f"p{number}"))
            for number, where in enumerate(places)
        ]
        for program in programs:
            await program.join("room")
        for program in programs:
            while len((await program.view()).groups) < len(programs):
                pass
        assert {each.name.split("#")[2] for each in programs} == {*daemons}
        await programs[0].multicast("room", b"hello", SAFE)
        assert [(await program.text()).data for program in programs] == [b"hello"] * len(programs)
