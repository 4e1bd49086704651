"""The fixtures for users' own tests, as their documentation says and as users run them."""

import ast
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from groupcomm.errors import ConfigError
from groupcomm.sim.faults.faults import Faults
from groupcomm_client.blocking import connect
from groupcomm_tools.running_cluster import RunningCluster, TrioThread

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120


def code_of_the_documentation() -> list[str]:
    """Return the blocks of docs/testing.md; the first is conftest.py."""
    text = (ROOT / "docs/testing.md").read_text()
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


FAILS = """
import pytest

@pytest.mark.groupcomm_cluster(1)
def test_real(groupcomm_cluster):
    assert groupcomm_cluster.names == ("x",)

def test_simulated(groupcomm_simulation):
    groupcomm_simulation.run(2.0)
    assert groupcomm_simulation.settings.seed == 0
"""


WRONG = """
@pytest.mark.groupcomm_cluster(0)
def test_no_daemons(groupcomm_cluster):
    pass

@pytest.mark.groupcomm_cluster(settings="nonsense = 1")
def test_does_not_start(groupcomm_cluster):
    pass

@pytest.mark.groupcomm_simulation(2, 3)
def test_too_many(groupcomm_simulation):
    pass
"""


class Run(NamedTuple):
    """A run of pytest as a user starts it: exit status, what came of each test, and all output."""

    status: int
    outcomes: dict[str, list[str]]
    output: str


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run the tests of the documentation, and those that fail, in a folder of their own."""
    folder = tmp_path_factory.mktemp("users")
    conftest, *examples = code_of_the_documentation()
    assert "pytest_plugins" in conftest
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_documented.py").write_text("\n".join(examples))
    (folder / "test_wrong.py").write_text(FAILS + WRONG)
    options = ("--strict-markers", "-W", "error", "-q", "-rA", "--groupcomm-seed", "42")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    outcomes: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        outcome, _, rest = line.partition(" ")
        if outcome in ("PASSED", "FAILED", "ERROR"):
            outcomes.setdefault(rest.partition("::")[0], []).append(outcome)
    return Run(done.returncode, outcomes, done.stdout + done.stderr)


def test_the_examples_of_the_documentation_pass(users: Run) -> None:
    assert users.outcomes["test_documented.py"] == ["PASSED"] * 8, users.output


def test_what_fails_tells_what_daemons_logged_its_seed_and_what_a_marker_may_not_ask(
    users: Run,
) -> None:
    assert users.status == 1
    assert users.outcomes["test_wrong.py"] == ["ERROR"] * 3 + ["FAILED"] * 2, users.output
    for said in (
        *("groupcomm daemon a runs", "view ", "seed 42, virtual time 2."),
        *("daemons is 0; it must be 1 to 26", "nonsense", "only daemons may be given"),
    ):
        assert said in users.output


def modules_of_users() -> dict[str, Path]:
    """All modules that a user's program may import, but the fixtures."""
    return {
        ".".join(path.relative_to(ROOT / "clients").with_suffix("").parts): path
        for package in ("groupcomm_client", "groupcomm_tools")
        for path in (ROOT / "clients" / package).rglob("*.py")
        if path.stem not in {"testing", "__init__"}
    }


def test_no_module_imports_pytest_but_the_fixtures() -> None:
    for path in modules_of_users().values():
        for node in ast.walk(ast.parse(path.read_bytes())):
            named = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            named += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            for name in named:
                assert name.partition(".")[0] != "pytest", path
                assert name != "groupcomm_tools.testing", path


@pytest.mark.long
def test_nobody_needs_pytest_but_the_fixtures() -> None:
    """Nor does what they import."""
    modules = list(modules_of_users())
    program = (
        f"import sys\nfor name in {modules}: __import__(name)\nassert 'pytest' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], timeout=PATIENCE_S, check=True)


async def test_a_cluster_can_be_handled_inside_an_event_loop() -> None:
    with RunningCluster(2, relay=True) as cluster:
        cluster.partition("a", "b")
        cluster.settle("a")
        cluster.settle("b")
        cluster.heal()
        await trio.to_thread.run_sync(cluster.settle)
        cluster.pause("a")
        cluster.settle("b")
        cluster.resume("a")
        cluster.settle()
        assert cluster.leave("b") == 0
        cluster.settle()
        assert cluster.running == ["a"]
        views = [line["daemons"] for line in cluster.log("a") if "daemons" in line]
        assert views[-1] == ["a"]
        cluster.suffer(Faults(loss=0.1))
        cluster.start("b")
        cluster.settle()


def test_what_needs_a_relay_says_so() -> None:
    with RunningCluster(1) as cluster:
        with connect(cluster.address("a")) as connection:
            assert connection.ask("status")["daemons"] == ["a"]
        for call in (partial(cluster.partition, "a"), partial(cluster.suffer, None), cluster.heal):
            with pytest.raises(ConfigError, match="relay=True"):
                call()


def test_a_call_into_the_thread_returns_raises_or_ends_with_it() -> None:
    async def divide(number: int) -> float:
        await trio.lowlevel.checkpoint()
        return 1 / number

    with TrioThread() as thread:
        assert thread.call(divide, 4) == 0.25
        assert thread.call_sync(len, "abc") == 3
        with pytest.raises(ZeroDivisionError):
            thread.call(divide, 0)
    thread.close()
