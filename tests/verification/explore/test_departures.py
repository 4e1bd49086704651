"""The search by departures: the usual order first, and all that is within its bounds."""

import attrs
import pytest

from tests.verification.explore.departures import SearchByDepartures
from tests.verification.explore.ends import LIVENESS
from tests.verification.explore.scenarios import SCENARIOS, Beginning, begin
from tests.verification.explore.script import read_path, write_path
from tests.verification.explore.search import Progress
from tests.verification.explore.test_search import AtOneInstant, Restless
from tests.verification.explore.transitions import CUT, LOSS, PAIR, Bounds, Move, parts_of
from tests.verification.mutants.catalogue import find_mutant

pytestmark = pytest.mark.verification


def search(
    name: str,
    *kinds: str,
    departures: int = 0,
    changes: tuple[str, ...] = (),
    most_states: int = 10**9,
    seed: int = 0,
) -> tuple[Beginning, Progress]:
    """Explore with at most one deviation of each kind."""
    bounds = Bounds(
        most=dict.fromkeys(kinds, 1),
        in_all=len(kinds),
        within_s=0.002,
        in_view_changes=dict.fromkeys(changes, 1.5),
    )
    beginning = begin(SCENARIOS[name], bounds)
    one = SearchByDepartures(
        beginning,
        most_departures=departures,
        most_states=most_states,
        stop_at_first=True,
        seed=seed,
    )
    return beginning, one.run()


def test_the_usual_order_is_one_path() -> None:
    _, progress = search("agreed-2")
    assert progress.is_complete
    assert (progress.ends, progress.transitions) == (1, progress.depth)


def test_a_departure_leads_to_other_ends_and_whatever_is_drawn_all_are_reached() -> None:
    found = [search("agreed-2", departures=1, seed=seed)[1] for seed in range(2)]
    assert all(progress.is_complete and not progress.findings for progress in found)
    assert len({progress.states for progress in found}) == 1
    assert found[0].ends > 1


def test_what_is_a_deviation_is_no_departure() -> None:
    _, progress = search("agreed-2", LOSS)
    assert progress.is_complete
    assert not progress.findings
    assert progress.ends > 1


def test_a_loss_in_a_view_change_comes_after_what_has_caused_that() -> None:
    bounds = Bounds(most={LOSS: 1, CUT: 1}, in_all=2, in_view_changes={LOSS: 1.5})
    beginning = begin(SCENARIOS["agreed-2"], bounds)
    system, state = beginning.system, beginning.state
    state, _ = system.apply(state, Move("cut", others=frozenset((0,))))
    for _ in range(500):
        if system.is_at_rest(state):
            break
        lose = [move for move in system.moves(state) if move.what == "lose"]
        views = [beginning.nodes.states[number].view for number in state.nodes]
        assert not lose or b"" in views
        state, _ = system.apply(state, system.moves(state)[0])
    assert system.is_at_rest(state)


def test_two_of_three_daemons_that_do_not_hear_each_other_are_still_one_part() -> None:
    beginning = begin(SCENARIOS["sites-3"], Bounds(most={PAIR: 1}, in_all=1, within_s=0.002))
    system, state = beginning.system, beginning.state
    pairs = [move for move in system.moves(state) if move.what == "pair"]
    apart = [system.apply(state, move)[0].cut for move in pairs]
    assert set(apart) == {frozenset({pair}) for pair in ((0, 1), (0, 2), (1, 2))}
    assert parts_of(apart[0], (0, 1, 2)) == {0: 0, 1: 0, 2: 0}
    assert parts_of(apart[0], (0, 1)) == {0: 0, 1: 1}, "the third one is down"


@pytest.mark.parametrize(
    ("bug", "scenario", "kinds", "departures"),
    [
        pytest.param("fragments-go-on", "slices-2", (CUT,), 0, marks=pytest.mark.long),
        ("request-sent-once", "levels-2", (LOSS,), 1),
    ],
)
def test_a_bug_that_no_near_path_shows_is_found_and_its_path_replays(
    bug: str, scenario: str, kinds: tuple[str, ...], departures: int
) -> None:
    with find_mutant(bug).active():
        beginning, progress = search(scenario, *kinds, departures=departures, most_states=1_000)
        finding = progress.findings[0]
        assert finding.property == "R"
        text = write_path(beginning, scenario, finding.moves, finding.text)
        assert len(list(read_path(text).replay())) == len(finding.moves)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Restless, "the daemons go round in a circle of 2 moves"),
        (AtOneInstant, "the daemons do not come to rest at one instant"),
    ],
)
def test_a_cluster_that_does_not_come_to_rest_is_found(kind: type[Restless], text: str) -> None:
    beginning = begin(SCENARIOS["agreed-2"], Bounds())
    beginning = attrs.evolve(beginning, system=kind(beginning.nodes, Bounds()))
    progress = SearchByDepartures(beginning, most_departures=0).run()
    assert [(found.property, found.text) for found in progress.findings] == [(LIVENESS, text)]
