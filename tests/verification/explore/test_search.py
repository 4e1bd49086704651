"""Exploration: everything within the bounds is reached, and what is wrong is found there."""

import attrs
import pytest

from groupcomm.errors import ConfigError
from groupcomm.membership.failure_detector import FailureDetector
from tests.verification.explore.canonical import TICK
from tests.verification.explore.ends import LIVENESS
from tests.verification.explore.scenarios import SCENARIOS, Beginning, begin
from tests.verification.explore.script import read_path, write_path
from tests.verification.explore.search import Progress, Search
from tests.verification.explore.transitions import (
    CUT,
    DEFER,
    LATE,
    LOSS,
    Bounds,
    Move,
    State,
    TransitionSystem,
)
from tests.verification.mutants.catalogue import find_mutant

LARGE = ("start-3", "sites-3")
"""Clusters of more than two daemons that are begun in each run; the others take longer to begin."""


def search(
    name: str,
    kind: str = "",
    *,
    within_s: float = 0.01,
    most_states: int = 10**9,
    shuffle: int | None = None,
) -> tuple[Beginning, Progress]:
    """Explore with at most one deviation of a kind."""
    bounds = Bounds(most={kind: 1}, in_all=1 if kind else 0, within_s=within_s)
    beginning = begin(SCENARIOS[name], bounds)
    one = Search(beginning, most_states=most_states, stop_at_first=True, shuffle=shuffle)
    return beginning, one.run()


def explore(
    name: str, kind: str = "", *, within_s: float = 0.01, most_states: int = 10**9
) -> Progress:
    """Explore with at most one deviation of a kind; return how far it has come."""
    return search(name, kind, within_s=within_s, most_states=most_states)[1]


@pytest.mark.parametrize(
    "name",
    [
        *("start-2", "agreed-2"),
        *(pytest.param(n, marks=pytest.mark.long) for n in ("both-2", "agreed-3", "sites-2")),
    ],
)
def test_every_order_is_right(name: str) -> None:
    progress = explore(name)
    assert progress.is_complete
    assert not progress.findings
    assert progress.ends


@pytest.mark.verification
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.long] * (not n.endswith("-2") and n not in LARGE))
        for n in SCENARIOS
    ],
)
def test_every_cluster_can_be_explored(name: str) -> None:
    progress = explore(name, most_states=25)
    assert progress.states
    assert not progress.findings


@pytest.mark.verification
def test_orders_of_one_round_meet_again() -> None:
    """Most paths lead to a state that was reached before: else there would be no end."""
    progress = explore("start-3", most_states=700)
    assert progress.transitions > 2 * progress.states


@pytest.mark.long
@pytest.mark.parametrize("kind", [DEFER, LATE, LOSS])
def test_nothing_breaks_by_one_deviation(kind: str) -> None:
    progress = explore("agreed-2", kind, within_s=0.002)
    assert progress.is_complete
    assert not progress.findings


@pytest.mark.verification
def test_a_bug_of_an_order_is_found() -> None:
    with find_mutant("announcements-but-one").active():
        progress = explore("agreed-2")
    assert {found.property for found in progress.findings} >= {"C8"}


@pytest.mark.verification
def test_a_cluster_that_does_not_settle_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that have found views of their own hear each other, and do nothing about it."""
    monkeypatch.setattr(FailureDetector, "may_seek_view_with", lambda *_: False)
    progress = explore("start-2", CUT, within_s=0.0005)
    assert {found.property for found in progress.findings} == {LIVENESS}


@pytest.mark.verification
@pytest.mark.parametrize(
    ("name", "scenario", "shuffle"),
    [
        ("announcements-but-one", "agreed-2", None),
        ("announcements-but-one", "agreed-2", 0),
        pytest.param("join-when-asked", "groups-2", 0, marks=pytest.mark.long),
    ],
)
def test_the_path_to_a_finding_can_be_gone_again(
    name: str, scenario: str, shuffle: int | None
) -> None:
    """Also where the search has met the packets in another order than the path does."""
    with find_mutant(name).active():
        beginning, progress = search(scenario, shuffle=shuffle)
        finding = progress.findings[0]
        text = write_path(beginning, scenario, finding.moves, finding.text)
        happened = list(read_path(text).replay())
    assert len(happened) == len(finding.moves)
    assert text.startswith(f"# {finding.text}")


@pytest.mark.verification
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


# ---- clusters that do not come to rest ----


class Restless(TransitionSystem):
    """Something that happens again and again; `after` says what becomes of the state."""

    what = "wake"

    def after(self, state: State) -> State:
        return state._replace(turn=1 - state.turn)

    def moves(self, state: State) -> list[Move]:
        return [Move(self.what, state.turn)]

    def apply(self, state: State, move: Move) -> tuple[State, None]:
        return self.after(state), None


class OnlyPassing(Restless):
    what = "pass"


class AtOneInstant(Restless):
    def after(self, state: State) -> State:
        return state._replace(turn=state.turn + 1)


class ForEver(Restless):
    def after(self, state: State) -> State:
        return state._replace(turn=state.turn + 1, elapsed=state.elapsed + round(1 / TICK))


def explore_system(kind: type[Restless]) -> list[str]:
    """Return the texts of what is found in a system of this kind."""
    beginning = begin(SCENARIOS["agreed-2"], Bounds())
    system = kind(beginning.nodes, Bounds())
    progress = Search(attrs.evolve(beginning, system=system)).run()
    assert progress.is_complete
    assert {found.property for found in progress.findings} <= {LIVENESS}
    return [found.text for found in progress.findings]


@pytest.mark.verification
def test_a_circle_is_found() -> None:
    assert explore_system(Restless) == ["the daemons go round in a circle of 2 moves"]


def test_to_wait_for_somebody_is_no_circle() -> None:
    """The disk may answer a round later, again and again; on another path it answers now."""
    assert explore_system(OnlyPassing) == []


@pytest.mark.verification
def test_a_cluster_that_is_busy_for_ever_at_one_instant_is_found() -> None:
    assert explore_system(AtOneInstant) == ["the daemons do not come to rest at one instant"]


@pytest.mark.verification
def test_a_cluster_that_is_busy_for_too_long_is_found() -> None:
    assert explore_system(ForEver) == ["the daemons do not come to rest within 12 s"]
