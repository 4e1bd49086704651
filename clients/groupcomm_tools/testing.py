"""Fixtures for tests of programs that use groupcomm; docs/testing.md has examples.

::

    pytest_plugins = ["groupcomm_tools.testing"]

Only this module imports pytest.
"""

from collections.abc import Generator, Iterator
from typing import Any, Final

import attrs
import pytest

from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings
from groupcomm_tools.running_cluster import RunningCluster

__all__ = ["RunningCluster", "groupcomm_cluster", "groupcomm_simulation"]

SEED_OPTION: Final = "--groupcomm-seed"
SHOWN_LINES: Final = 20

_MARKERS: Final = (
    "groupcomm_cluster(daemons=3, *, settings='', clients='', options=(), relay=False, line=None,"
    " sites=1, shape='mesh', seed=1): the daemons of the fixture groupcomm_cluster",
    "groupcomm_simulation(daemons=3, *, seed=1, sites=1, delay_s=0.05, faults=None): the"
    " cluster of the fixture groupcomm_simulation",
)


@pytest.fixture
def groupcomm_cluster(request: pytest.FixtureRequest) -> Iterator[RunningCluster]:
    """Run real daemons in one view, for the length of a test.

    A marker of the same name accepts the arguments of `RunningCluster`. ``--groupcomm-seed``
    changes the random decisions of the relay.
    """
    with RunningCluster(**_arguments(request, "groupcomm_cluster")) as cluster:
        yield cluster


@pytest.fixture
def groupcomm_simulation(request: pytest.FixtureRequest) -> Cluster:
    """Run a cluster in virtual time, in one view; its programs are
    `groupcomm.sim.cluster.clients.Client`.

    A marker of the same name accepts the arguments of `groupcomm.sim.settings.plain_settings`.
    ``--groupcomm-seed`` replaces its seed: the same seed gives the same run.
    """
    return Cluster(plain_settings(**_arguments(request, "groupcomm_simulation")))


def _arguments(request: pytest.FixtureRequest, marker: str) -> dict[str, Any]:
    """Return the arguments of the nearest marker, with the seed of the command line."""
    found = request.node.get_closest_marker(marker)
    arguments = dict(found.kwargs) if found is not None else {}
    if found is not None and found.args:
        if len(found.args) > 1:
            raise pytest.UsageError(
                f"{marker}{found.args}: only daemons may be given without a name"
            )
        arguments["daemons"] = found.args[0]
    seed = request.config.getoption(SEED_OPTION, None)
    return arguments if seed is None else {**arguments, "seed": seed}


# ---- hooks of pytest ----


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the seed."""
    parser.getgroup("groupcomm").addoption(
        SEED_OPTION, type=int, metavar="N", help="seed of simulated clusters, and of relays"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Add to the report of a failed test the logs of its daemons, or the seed of its
    simulation.
    """
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if report.failed and report.when == "call":
        given = getattr(item, "funcargs", {})
        report.sections += _sections(
            given.get("groupcomm_cluster"), given.get("groupcomm_simulation")
        )


def _sections(real: RunningCluster | None, simulated: Cluster | None) -> list[tuple[str, str]]:
    found = []
    if simulated is not None:
        settings = attrs.asdict(simulated.settings)
        text = f"seed {settings['seed']}, virtual time {simulated.loop.now / 1e6:.6f} s"
        found.append(("groupcomm simulation", text))
    for name in real.names if real is not None else ():
        assert real is not None
        lines = [f"{line['level']:<8} {line['text']}" for line in real.log(name)]
        state = "runs" if name in real.running else "has ended"
        found.append((f"groupcomm daemon {name} {state}", "\n".join(lines[-SHOWN_LINES:])))
    return found
