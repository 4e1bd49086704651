"""The checks of a mutated module, in a process of their own: does any of them notice the change?

First come the tests of the module's package, then those of whole daemons, the scenarios, and last
the seeds of the simulator. The first check that fails ends it: the mutation is found.
"""

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

import attrs
import pytest

from tests.mutation_testing.operators import mutate

CPU_S: Final = 600
"""Processor time of all checks of one mutation: more means that something goes on for ever."""

MEMORY_BYTES: Final = 3 * 2**30

WHOLE: Final = ("tests/groupcomm/engine", "tests/paper", "tests/scenarios")
"""The tests of whole daemons, which follow those of the package."""

_RESULT: Final = "found by: "


@attrs.frozen
class Verdict:
    """The result of the checks of one mutation.

    Attributes:
        is_found: whether a check noticed it.
        by: the check, or why it counts as found.
    """

    is_found: bool
    by: str


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module from a mutated tree."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self._tree = tree

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the mutated module."""
        return compile(self._tree, self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module, and nothing else."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        self._name, self._path, self._tree = name, path, tree

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of the mutated module."""
        if fullname != self._name:
            return None
        loader = _Loader(fullname, self._path, self._tree)
        return importlib.util.spec_from_file_location(fullname, self._path, loader=loader)


def check(module: str, number: int, seeds: int) -> Verdict:
    """Check one mutation of a module, in a process of its own.

    Args:
        module: the path of the module.
        number: the number of the mutation.
        seeds: the number of seeds that are run last.
    """
    command = [
        sys.executable,
        "-m",
        "tests.mutation_testing.checks",
        module,
        str(number),
        str(seeds),
    ]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=_limit, check=False
    )
    if done.returncode < 0:
        return Verdict(is_found=True, by=f"ended by {signal.Signals(-done.returncode).name}")
    lines = done.stdout.decode(errors="replace").splitlines()
    if not lines or not lines[-1].startswith(_RESULT):
        return Verdict(is_found=True, by=f"ended with status {done.returncode}")
    by = lines[-1].removeprefix(_RESULT)
    return Verdict(is_found=bool(by), by=by)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _run(module: str, tree: ast.Module, seeds: range) -> str:
    """Run the checks; return the one that fails, "" if none does."""
    name = module.removesuffix(".py").replace("/", ".")
    sys.meta_path.insert(0, _Finder(name, module, tree))
    package = Path(module).parent.name
    own = f"tests/groupcomm/{package}"
    folders = [own] if Path(own).is_dir() else []
    for folder in dict.fromkeys((*folders, *WHOLE)):
        if found := _run_tests(folder):
            return found
    return _run_seeds(seeds)


class _FirstFailure:
    """Notes the first test that fails."""

    name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        if report.failed and not self.name:
            self.name = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a module that cannot be imported."""
        if report.failed and not self.name:
            self.name = report.nodeid


def _run_tests(folder: str) -> str:
    failed = _FirstFailure()
    options = ["-x", "-q", "-p", "no:cacheprovider"]
    status = pytest.main([folder, *options], plugins=[failed])
    return failed.name or ("" if status == pytest.ExitCode.OK else f"{folder}: {status!s}")


def _run_seeds(seeds: range) -> str:
    # Only now: what these import may be the module that is mutated.
    simulator = importlib.import_module("groupcomm.sim.run")
    settings = importlib.import_module("groupcomm.sim.settings")
    for seed in seeds:
        options = settings.Options(duration_s=4.0, sites=3 if seed % 4 == 0 else None)
        result = simulator.run_seed(seed, options)
        if result.findings:
            return f"seed {seed}: {result.findings[0].property}"
    return ""


def main() -> None:
    """Run the checks of one mutation, and print the one that fails."""
    module, number, seeds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    _, tree = mutate(module, Path(module).read_text(), number)
    try:
        by = _run(module, tree, range(1, seeds + 1))
    except Exception as error:  # nothing can be imported, or a run ends by something unforeseen
        by = f"{type(error).__name__}: {error}"
    print(_RESULT + " ".join(by.split())[:1000])


if __name__ == "__main__":
    main()
