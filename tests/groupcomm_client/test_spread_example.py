"""The program in docs/spread-example.md: its Python form runs, its C form is right C for Spread."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio

from groupcomm_client import spread_api as sp
from groupcomm_tools.local_cluster import LocalCluster

DOCUMENT = Path(__file__).parents[2] / "docs" / "spread-example.md"
HEADER = Path(__file__).with_name("spread_header")
WAIT_S = 20.0


def program(language: str) -> str:
    """All blocks of a language, one behind the other."""
    blocks = re.findall(
        rf"^```{language}\n(.*?)^```$", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE
    )
    return "\n\n".join(blocks)


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with closing(LocalCluster("a")) as running:
        trio.run(running["a"].start)
        yield running


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Run the Python form."""
    path = folder / "room.py"
    path.write_text(program("python"))
    return subprocess.Popen(
        [sys.executable, path, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_python_form_hears_and_goes(cluster: LocalCluster, tmp_path: Path) -> None:
    address = str(cluster["a"].unix)
    bob, name = sp.SP_connect(address, "bob", 0, False)
    sp.SP_join(bob, "room")
    sp.SP_multicast(bob, sp.AGREED_MESS, "room", 0, b"")
    assert sp.SP_receive(bob, WAIT_S) is not None, "now it is a member"
    running = start(tmp_path, address, "ann", "hello")
    found = sp.SP_receive(bob, WAIT_S)
    assert found is not None
    assert (found.sender, found.mess_type, found.message) == ("#ann#a", 1, b"hello")
    sp.SP_multicast(bob, sp.AGREED_MESS, "room", 0, b"bye")
    output, errors = running.communicate(timeout=WAIT_S)
    assert (running.returncode, errors) == (0, "")
    assert output.splitlines() == [
        "I am #ann#a",
        f"room has {name} #ann#a; #ann#a is new",
        "#ann#a: hello",
        f"{name}: bye",
    ]
    sp.SP_disconnect(bob)


def test_the_python_form_tells_what_is_wrong(tmp_path: Path) -> None:
    running = start(tmp_path, str(tmp_path / "nobody"), "ann", "hello")
    output, errors = running.communicate(timeout=WAIT_S)
    assert (running.returncode, output) == (1, "")
    assert errors == "SP_error: (-2) no daemon could be reached\n"


def test_the_c_form_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Against the documented prototypes; Spread's library is not needed for that."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        with capsys.disabled():
            print("the C form is not checked: there is no C compiler here (cc or gcc)")
        return
    path = tmp_path / "room.c"
    path.write_text(program("c"))
    checks = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wno-sign-conversion", "-Werror"]
    done = subprocess.run(
        [compiler, "-fsyntax-only", *checks, "-I", str(HEADER), str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len([line for line in path.read_text().splitlines() if line]) < 75


def test_both_forms_call_the_same_functions() -> None:
    called = {
        language: set(re.findall(r"\b(SP_\w+|Is_\w+|\w+_MESS)\b", program(language)))
        for language in ("c", "python")
    }
    assert called["c"] == called["python"]
    assert {"SP_connect", "SP_receive", "SP_get_memb_info", "Is_membership_mess"} <= called["c"]
