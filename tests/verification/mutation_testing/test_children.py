"""Children do their jobs, report, and may die of anything."""

import os
import signal

import pytest

from tests.verification.mutation_testing.children import Report, do_all

pytestmark = [
    pytest.mark.verification,
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
"""Later releases of Python warn of forks in a process with threads."""


def do(job: str, report: Report) -> None:
    """Do one job of the tests."""
    report(f"begins {job}")
    if job == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if job == "fails":
        raise ValueError(job)
    print("nobody sees this")
    report(f"ends {job}")


def test_each_job_is_done_in_a_child_that_may_die() -> None:
    ended = {each.job: each for each in do_all(["works", "dies", "fails", "works too"], do, 2)}
    assert ended["works"].lines == ["begins works", "ends works"]
    assert ended["works"].died_of == ""
    assert ended["works too"].lines[-1] == "ends works too"
    assert (ended["dies"].lines, ended["dies"].died_of) == (["begins dies"], "SIGKILL")
    assert ended["fails"].lines == ["begins fails", "error ValueError: fails"]
    assert ended["fails"].died_of == "status 1"
