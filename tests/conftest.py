"""Settings of all tests."""

import functools
import gc
import logging
import os
import signal
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests.browser.chromium import missing
from tests.examples import load_profiles

ROOT: Final = Path(__file__).parent.parent

TOGETHER: Final = (
    "tests/groupcomm_spark/",
    "tests/browser/",
    "tests/test_",
)
"""They share a Spark session, a browser, or the sources: to have another one takes long."""

FORKED_BESIDE_PROGRAMS: Final = {"ArchiveProcess", "RecorderProcess", "recorded_pair"}
"""What modules import whose tests start archives and recorders while they are connected."""

load_profiles()

gc.disable()  # until all is imported: nothing of that is ever freed

# Tests that run in the background of a shell, or by nohup, have signals ignored, and so would all
# processes that they start: those that are to be interrupted would never end.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="module", autouse=True)
def signals_are_left_alone() -> Iterator[None]:
    """Fail if a test leaves a handler of signals: later ones of the process would have it, too."""
    numbers = signal.SIGTERM, signal.SIGHUP
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.fixture(scope="module", autouse=True)
def warm_commands(request: pytest.FixtureRequest) -> None:
    """Start the process that forks archives and recorders before programs of the tests connect.

    It imports for more than 10 s on a very busy machine. Whose loop waits for that says nothing to
    its daemon, which ends its session.
    """
    if not FORKED_BESIDE_PROGRAMS.isdisjoint(vars(request.module)):
        from tests.groupcomm_tools.warm import warm_up  # noqa: PLC0415 - few tests need it

        warm_up()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a test whose fixtures use a virtual clock that does not count: pytest-trio reads only
    the test's own arguments, and the test would run on real time.
    """
    if isinstance(item, pytest.Function):
        unnamed = set(item.fixturenames) - set(item._fixtureinfo.argnames)
        if "autojump_clock" in unnamed:
            raise pytest.UsageError(f"{item.nodeid} must name autojump_clock itself")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mix tests that wait with tests that compute, if several run at once: those of one folder are
    alike, so that all would wait together. The order is the same each time.
    """
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: zlib.crc32(unit_of(item.nodeid).encode()))


def pytest_collection_finish() -> None:
    """Have the collector of cycles ignore all imported objects."""
    gc.collect()
    gc.freeze()
    gc.enable()


class Folders(LoadScopeScheduling):  # type: ignore[misc]
    """Run tests that share a slow setup in one process, the largest groups first; others singly."""

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget what is done: the scheduler goes over all that it keeps at each test."""
        super().mark_test_complete(node, item_index, duration)
        done = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(done[scope].values()):
            del done[scope]

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def unit_of(nodeid: str) -> str:
    """Return the name of the tests that are to run in one process with this one."""
    for folder in TOGETHER:
        if nodeid.startswith(folder):
            return folder
    file = nodeid.partition("::")[0]
    return file if shares_its_setup(file) else nodeid


@functools.cache
def shares_its_setup(file: str) -> bool:
    """Return whether tests of a file share a fixture, such as a cluster, or what they compute."""
    text = (ROOT / file).read_text()
    return any(word in text for word in ('scope="module"', "functools.cache", "lru_cache"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Group tests by name: some releases of pytest lose the suffix that xdist adds for groups."""
    return Folders(config, log)


@pytest.fixture(scope="session", autouse=True)
def umask() -> None:
    """Files that tests write are their user's alone to change, as daemons ask for."""
    os.umask(0o022)


@pytest.fixture(autouse=True)
def daemon_log() -> Iterator[None]:
    """Restore a daemon's log: one that ran in this process has set it up for itself."""
    log = logging.getLogger("groupcommd")
    before = log.handlers[:], log.level, log.propagate
    yield
    log.handlers[:], log.level, log.propagate = before


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the files that daemons write by default out of the user's folders, and contexts."""
    os.environ["STATE_DIRECTORY"] = str(tmp_path_factory.mktemp("state"))
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))


def pytest_report_header() -> str | None:
    """Report the tests that are left out here, and the reason."""
    return f"tests/browser left out: {missing()}" if missing() else None
