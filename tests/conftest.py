"""Settings of all tests."""

import os
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests.browser.chromium import missing
from tests.examples import load_profiles

TOGETHER: Final = ("tests/spark/", "tests/browser/", "tests/test_tidy.py")
"""They share a Spark session, a browser, or the sources: to have another one takes long."""

load_profiles()


class Folders(LoadScopeScheduling):  # type: ignore[misc]
    """Some folders run in one process each, the largest ones first; all others test by test."""

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """By the names of tests: what xdist adds to them for its groups is lost with some pytest."""
    return Folders(config, log)


@pytest.fixture(scope="session", autouse=True)
def umask() -> None:
    """Files that tests write are their user's alone to change, as daemons ask for."""
    os.umask(0o022)


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What daemons keep by default stays out of the user's folders."""
    os.environ["STATE_DIRECTORY"] = str(tmp_path_factory.mktemp("state"))


def pytest_report_header() -> str | None:
    """What is left out here, and why."""
    return f"tests/browser left out: {missing()}" if missing() else None
