"""The checks that must notice a mutation: tests, scenarios, and seeds of the simulator.

Pytest collects the tests once, in a process that imports everything and runs none of them. The
processes that do are its children, made by fork: each has all it needs from the start.
"""

import importlib
import resource
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs
import pytest

from tests.verification.simulation.runs import run_seed
from tests.verification.simulation.settings import VerificationOptions

PACKAGES: Final = (
    "engine",
    "groups",
    "joining",
    "link",
    "membership",
    "order",
    "ring",
    "security",
    "session",
    "stream",
    "trace",
    "wire",
)
FOLDERS: Final = (
    *(f"tests/groupcomm/{package}" for package in PACKAGES),
    "tests/paper",
    "tests/verification/scenarios",
    "tests/groupcomm/sim/test_rotation.py",
    "tests/groupcomm/sim/test_identities.py",
)
"""The tests that are run. Of those of the simulator only these two, as keys and identities have no
others: all of them take longer than everything else together, and seeds are run in their place."""

DURATION_S: Final = 4.0
"""The simulated time of each seed, with faults and load."""

MOST_MORE_BYTES: Final = 2 * 2**30
"""The memory that the checks of one mutation may take more than those before it."""

PATIENCE: Final = (2.0, 10.0)
"""The processor time that a check may take: seconds, and times what it takes otherwise."""


@attrs.frozen
class Outcome:
    """The result of one check.

    Attributes:
        is_failed: whether something was wrong.
        trace_hash: the digest of the trace of a seed; "" for tests.
    """

    is_failed: bool
    trace_hash: str = ""


@attrs.frozen
class Check:
    """One check.

    Attributes:
        name: the name of the test, or of the seed.
        run: runs it, given the check that follows in the same process; returns what it saw.
    """

    name: str
    run: "Callable[[Check | None], Outcome]"
    item: pytest.Item | None = None


class _Failures:
    """Notes whether a test fails."""

    is_failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        self.is_failed = self.is_failed or report.failed


class Collector:
    """A plugin of pytest that hands over the tests instead of running them.

    Args:
        then: is given the tests as checks.
    """

    def __init__(self, then: Callable[[list[Check]], None]) -> None:
        self._then = then

    def pytest_configure(self) -> None:
        """Have Hypothesis end at the first example that fails."""
        # Only now: pytest warns of what it would have liked to import itself.
        hypothesis = importlib.import_module("hypothesis")
        phase, settings = hypothesis.Phase, hypothesis.settings
        phases = (phase.explicit, phase.generate, phase.target)
        settings.register_profile("mutation", settings(), phases=phases)
        settings.load_profile("mutation")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Hand over all tests."""
        if session.testsfailed:
            raise session.Interrupted("tests cannot be imported")
        failures = _Failures()
        session.config.pluginmanager.register(failures)
        self._then([_of_test(item, failures) for item in session.items])
        return True


def _of_test(item: pytest.Item, failures: _Failures) -> Check:
    def run(following: Check | None) -> Outcome:
        failures.is_failed = False
        nextitem = None if following is None else following.item
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        return Outcome(failures.is_failed)

    return Check(item.nodeid, run, item)


def seeds(count: int) -> list[Check]:
    """Return the seeds from 1; some have several sites, a roster that changes, or targets."""
    return [_of_seed(seed) for seed in range(1, count + 1)]


def _of_seed(seed: int) -> Check:
    options = VerificationOptions(
        duration_s=DURATION_S,
        sites=3 if seed % 4 == 0 else None,
        rosters=seed % 10 == 7,
        versions=seed % 10 == 3,
        targets=seed % 10 == 5,
        suite=0 if seed % 10 == 5 else None,
    )

    def run(following: Check | None) -> Outcome:
        try:
            result = run_seed(seed, options)
        except Exception:  # a mutation may break whatever it likes
            return Outcome(is_failed=True)
        return Outcome(bool(result.findings), result.trace_hash)

    return Check(f"seed {seed}", run)


def with_tests(folders: Sequence[str], then: Callable[[list[Check]], None]) -> int:
    """Have pytest collect tests, and call a function with them; return pytest's status."""
    quiet = ["-qq", "-s", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=0"]
    return int(pytest.main([*folders, *quiet], plugins=[Collector(then)]))


def limit_memory() -> None:
    """Let this process take some more memory than it has now."""
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + MOST_MORE_BYTES, has + MOST_MORE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_time(usual_s: float) -> None:
    """End this process by SIGPROF if it takes far more processor time from now on than usual."""
    signal.setitimer(signal.ITIMER_PROF, PATIENCE[0] + PATIENCE[1] * usual_s)
