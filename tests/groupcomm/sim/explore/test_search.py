"""Exploration: everything within the bounds is reached, and what is wrong is found there."""

import pytest

from groupcomm.errors import ConfigError
from groupcomm.membership.failure_detector import FailureDetector
from groupcomm.sim.explore.scenarios import SCENARIOS, begin
from groupcomm.sim.explore.script import read_path, write_path
from groupcomm.sim.explore.search import LIVENESS, Progress, Search
from groupcomm.sim.explore.transitions import CRASH, CUT, DEFER, LATE, LOSS, Bounds
from tests.mutants.catalogue import find_mutant


def explore(
    name: str, kind: str = "", *, within_s: float = 0.01, most_states: int = 10**9
) -> Progress:
    """Explore with at most one deviation of a kind."""
    bounds = Bounds(most={kind: 1}, in_all=1 if kind else 0, within_s=within_s)
    beginning = begin(SCENARIOS[name], bounds)
    return Search(beginning, most_states=most_states, stop_at_first=True).run()


@pytest.mark.parametrize("name", ["start-2", "agreed-2", "agreed-3", "sites-2"])
def test_every_order_is_right(name: str) -> None:
    progress = explore(name)
    assert progress.is_complete
    assert not progress.findings
    assert progress.ends


def test_orders_of_one_round_meet_again() -> None:
    """Most paths lead to a state that was reached before: else there would be no end."""
    progress = explore("start-3", most_states=5_000)
    assert progress.transitions > 2 * progress.states


@pytest.mark.long
@pytest.mark.parametrize("kind", [DEFER, LATE, LOSS, CRASH, CUT])
def test_nothing_breaks_by_one_deviation(kind: str) -> None:
    progress = explore("agreed-2", kind, within_s=0.002)
    assert progress.is_complete
    assert not progress.findings


def test_a_bug_of_an_order_is_found() -> None:
    with find_mutant("announcements-but-one").active():
        progress = explore("agreed-2")
    assert {found.property for found in progress.findings} >= {"C8"}


def test_a_cluster_that_does_not_settle_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that have found views of their own hear each other, and do nothing about it."""
    monkeypatch.setattr(FailureDetector, "may_seek_view_with", lambda *_: False)
    progress = explore("start-2", CUT, within_s=0.0005)
    assert {found.property for found in progress.findings} == {LIVENESS}


def test_the_path_to_a_finding_can_be_gone_again() -> None:
    bug = find_mutant("announcements-but-one")
    with bug.active():
        finding = explore("agreed-2").findings[0]
        text = write_path("agreed-2", finding.moves, finding.text)
        happened = list(read_path(text).replay())
    assert len(happened) == len(finding.moves)
    assert text.startswith(f"# {finding.text}")


def test_a_path_that_cannot_be_gone_says_what_can_happen() -> None:
    with pytest.raises(ConfigError, match=r"cannot happen here; what can: .*a acts"):
        list(read_path("explore agreed-2\nb flies\n").replay())


@pytest.mark.parametrize("text", ["", "explore nothing\n", "a acts\n"])
def test_a_path_needs_a_scenario(text: str) -> None:
    with pytest.raises(ConfigError, match="first line"):
        read_path(text)


def test_a_deviation_counts_only_where_its_kind_is_allowed() -> None:
    bounds = Bounds(most={LOSS: 1}, in_all=1, within_s=1.0)
    beginning = begin(SCENARIOS["agreed-2"], bounds)
    system, state = beginning.system, beginning.state
    kinds = set()
    while not any(move.what == "lose" for move in system.moves(state)):
        kinds |= {move.what for move in system.moves(state)}
        state, _ = system.apply(state, system.usual(state))
    assert kinds <= {"act", "pass", "wait", "wake", "receive", "store"}
    lose = next(move for move in system.moves(state) if move.what == "lose")
    after, step = system.apply(state, lose)
    assert step is None
    assert sum(after.spent) == 1
    assert not any(move.what == "lose" for move in system.moves(after))
