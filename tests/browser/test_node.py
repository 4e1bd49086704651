"""groupcomm.js in a program of node, beside Python and an archive."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from groupcomm_client.blocking import connect
from groupcomm_tools.running_cluster import RunningCluster
from groupcomm_tools.web.server import MODULE
from tests.browser.test_web import until_said, web
from tests.groupcomm_client.history.archives import ArchiveProcess


def node(where: str, *start: str) -> "subprocess.Popen[str]":
    program = Path(__file__).with_name("web_program.mjs")
    words = [
        "node",
        "--experimental-websocket",
        str(program),
        str(MODULE),
        f"ws://{where}/",
        *start,
    ]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def told(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


@pytest.mark.long
def test_a_program_of_node_joins_and_reads_history(tmp_path: Path) -> None:
    with (
        RunningCluster(2) as cluster,
        web(cluster.address("a")) as where,
        connect(cluster.address("b"), user="py") as python,
        ArchiveProcess(cluster.address("b"), tmp_path / "store", ["room"]) as archive,
    ):
        archive.until_live()
        python.join("room")
        with node(where) as program:
            joined = told(program)
            assert joined["text"] == joined["name"]
            assert "has not joined" in told(program)["text"]
            assert until_said(python, b"from node").level.name == "SAFE"
            assert told(program)["text"] == "from node"
            python.multicast("room", b"end")
            assert told(program)["text"] == "end"
        assert program.returncode == 0
        python.multicast("room", b"last")
        with node(where, "earliest") as reader:
            read = [told(reader) for _ in range(3)]
        assert [each["text"] for each in read] == ["from node", "end", "last"]
        with node(where, read[0]["position"]) as reader:
            assert [told(reader)["text"] for _ in range(2)] == ["end", "last"]
