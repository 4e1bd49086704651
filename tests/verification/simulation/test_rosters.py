"""Runs in which operators change the roster; the checks, and what they find."""

import attrs
import pytest

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.roster import (
    AddDaemon,
    MoveDaemon,
    RemoveDaemon,
    Roster,
    RosterChange,
    RosterEntry,
    RosterRecord,
)
from groupcomm.config.view import DaemonId, Incarnation, View
from groupcomm.config.votes import CountDaemon, Settle, SetVotes, Share
from groupcomm.errors import ConfigError
from groupcomm.sim.network.links import SimulatedLink
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import random_for
from tests.verification.simulation import cluster
from tests.verification.simulation.cluster import VerificationCluster
from tests.verification.simulation.operator import Operator
from tests.verification.simulation.roster_checker import RosterChecker
from tests.verification.simulation.runs import run_seed
from tests.verification.simulation.settings import (
    VerificationOptions,
    VerificationSettings,
    draw_settings,
    widened,
)

FIRST = Roster(entries=tuple(RosterEntry(name=name, site="1") for name in "abc"))
SECOND = FIRST.changed(AddDaemon(name="d", site="1"))
OTHER = FIRST.changed(AddDaemon(name="e", site="1"))


def view(counter: int, names: str) -> View:
    daemons = tuple(DaemonId(name, Incarnation(1, ord(name))) for name in names)
    ring = tuple(range(len(names)))
    return View(id=ViewId(counter, names[0], ord(names[0])), daemons=daemons, rings=(ring,))


def ids(checker: RosterChecker) -> list[str]:
    return [found.property for found in checker.violations]


@pytest.mark.parametrize(
    ("seed", "sites"),
    [(2, 1), *(pytest.param(*each, marks=pytest.mark.long) for each in ((6, 1), (3, 2)))],
)
def test_rosters_change_whatever_goes_wrong(seed: int, sites: int) -> None:
    result = run_seed(seed, VerificationOptions(rosters=True, duration_s=3.0, sites=sites))
    assert result.findings == ()
    assert result.views > 2


def test_two_rosters_with_one_number_are_found() -> None:
    checker = RosterChecker()
    checker.used("a/1", SECOND)
    checker.used("b/1", SECOND)
    assert ids(checker) == []
    checker.used("c/1", OTHER)
    assert ids(checker) == ["Q1"]


def test_a_change_with_a_majority_that_gives_way_to_a_forced_one_is_found() -> None:
    checker = RosterChecker()
    forced = FIRST.changed(MoveDaemon("a", ("h:1",)), forced=True)
    later = forced.changed(MoveDaemon("a", ("h:2",)))
    lost = f"roster {later.number} of this part of the cluster is replaced by roster 1: ..."
    checker.used("a/1", SECOND)
    checker.used("b/1", forced)
    checker.used("b/1", later)
    checker.used("b/1", SECOND, [lost])
    checker.used("c/1", later)
    checker.finish([("a", SECOND)], [later, SECOND])
    assert ids(checker) == [], "a change with a majority counts, whatever was forced"
    checker.used("c/1", SECOND, [])
    assert ids(checker) == ["Q6"]
    checker.used("a/1", later, [lost])
    assert ids(checker)[1:] == ["Q2"]
    checker.finish([("c", later)], [SECOND])
    assert ids(checker)[2:] == ["Q4"]


def test_a_site_that_no_link_reaches_is_found() -> None:
    checker = RosterChecker()
    entries = tuple(RosterEntry(name=name, site=name) for name in "abc")
    checker.used("a/1", Roster(entries=entries, links=(("a", "b", 1), ("b", "c", 1))))
    assert ids(checker) == []
    checker.used("b/1", Roster(entries=entries, links=(("a", "b", 1),)))
    assert ids(checker) == ["Q5"]


def test_a_daemon_that_counts_before_it_was_in_a_view_is_found() -> None:
    checker = RosterChecker()
    checker.used("a/1", FIRST)
    checker.used("a/1", SECOND)
    assert ids(checker) == []
    counting = tuple(attrs.evolve(entry, share=Share()) for entry in SECOND.entries)
    checker = RosterChecker()
    checker.used("a/1", FIRST)
    checker.used("a/1", attrs.evolve(SECOND, entries=counting))
    assert ids(checker) == ["Q8"]


def test_daemons_that_do_not_agree_in_the_end_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "ROSTER_LIMIT_S", 0.0)
    found = run_seed(1, VerificationOptions(rosters=True, duration_s=1.0, sites=1)).findings
    assert [each.text for each in found] == ["no roster is agreed on 0 s after all faults"]


def test_daemons_that_route_by_different_delays_are_found() -> None:
    checker = RosterChecker()
    checker.routed("a/1", view(3, "ab"), FIRST, (1, 2))
    checker.routed("b/1", view(3, "ab"), FIRST, (1, 2))
    checker.routed("b/1", view(3, "ab"), SECOND, (2, 2))
    assert ids(checker) == []
    checker.routed("a/1", view(3, "ab"), SECOND, (1, 2))
    assert ids(checker) == ["Q7"]


def test_a_roster_that_comes_back_is_found() -> None:
    checker = RosterChecker()
    checker.used("a/1", SECOND)
    checker.used("a/1", SECOND)
    assert ids(checker) == ["Q2"]


def test_two_majorities_are_found() -> None:
    checker = RosterChecker()
    checker.begun("a/1", view(7, "ab"), FIRST, majority=True)
    checker.begun("b/1", view(7, "ab"), FIRST, majority=True)
    checker.begun("c/1", view(7, "c"), FIRST, majority=False)
    assert ids(checker) == []
    checker.begun("d/1", view(7, "cd"), FIRST, majority=True)
    assert ids(checker) == ["Q3"]


def test_majorities_that_share_no_daemon_are_found() -> None:
    checker = RosterChecker()
    for counter, names in ((3, "ab"), (9, "cd"), (5, "bc")):
        checker.begun(f"{names[0]}/1", view(counter, names), FIRST, majority=True)
    checker.finish([("a", SECOND), ("b", SECOND)])
    assert ids(checker) == []
    checker.begun("e/1", view(11, "ae"), FIRST, majority=True)
    checker.finish([("a", SECOND), ("b", FIRST)])
    assert ids(checker) == ["Q4", "Q3"]


def test_an_answer_that_the_held_votes_do_not_give_is_found() -> None:
    checker = RosterChecker()
    checker.counted("a/1", view(3, "ab"), FIRST, majority=True)
    checker.counted("a/1", view(3, "ab"), SECOND, majority=True)
    checker.counted("c/1", view(3, "cd"), SECOND, majority=False)
    assert ids(checker) == []
    checker.counted("c/1", view(3, "cd"), SECOND, majority=True)
    checker.counted("a/1", view(3, "ab"), FIRST, majority=False)
    assert ids(checker) == ["Q9", "Q9"]


def test_a_change_of_two_votes_and_one_that_settles_other_votes_are_found() -> None:
    heavy = FIRST.changed(SetVotes("a", 3))
    checker = RosterChecker()
    for roster in (heavy, counted := heavy.changed(CountDaemon("a")), counted.changed(Settle())):
        checker.used("a/1", roster)
    assert ids(checker) == []
    both = counted.changed(CountDaemon("a"))
    checker.used("b/1", attrs.evolve(both, ancestors=(*both.ancestors[:-1], heavy.id)))
    assert ids(checker)[-1] == "Q9"
    checker = RosterChecker()
    checker.used("a/1", heavy)
    checker.used("a/1", attrs.evolve(counted, settled=True))
    assert ids(checker) == ["Q9"]


def test_each_site_keeps_a_daemon_of_the_first_roster() -> None:
    drawn = [
        draw_settings(seed, VerificationOptions(rosters=True, sites=3)) for seed in range(1, 100)
    ]
    assert any(settings.spares for settings in drawn)
    for settings in drawn:
        assert all(set(site) - set(settings.spares) for site in settings.sites)
        assert not settings.faults.files


def test_rosters_do_not_change_beside_liars_and_attackers() -> None:
    with pytest.raises(ConfigError, match="nothing could be checked"):
        VerificationOptions(rosters=True, byzantine=True)


# ---- daemons that know only daemons that are gone ----

OF_FILES = Roster(entries=(RosterEntry(name="bravo", site="1"),))
AWAY = OF_FILES.changed(AddDaemon(name="charlie", site="1"))
"""The roster of charlie, which was away since."""


def changed(roster: Roster, *changes: RosterChange) -> Roster:
    for change in changes:
        roster = roster.changed(change)
    return roster


ONE_SITE = widened(plain_settings(daemons=4), spares=(0, 2, 3))


def with_rosters(
    settings: VerificationSettings = ONE_SITE, **rosters: Roster
) -> tuple[VerificationCluster, Operator]:
    """Return a cluster whose daemons have these rosters on their disks; the others are down."""
    cluster = VerificationCluster(settings, start=False)
    for host in cluster.daemons:
        host.is_spare = host.name not in rosters
        if not host.is_spare:
            host.disk.rosters = RosterRecord(agreed=rosters[host.name])
            host.boot()
    rng, links = random_for(1, "operator"), settings.links
    operator = Operator(cluster.loop, rng, cluster.daemons, links, (), cluster.config.daemons)
    return cluster, operator


def numbers(cluster: VerificationCluster) -> dict[str, int]:
    running = [host for host in cluster.daemons if host.process is not None]
    return {host.name: host.core.config.roster.number for host in running}


def test_a_daemon_that_was_away_while_all_that_it_knew_were_removed_is_helped() -> None:
    """Without any forced change: seed 1 of 4 s."""
    latest = changed(
        AWAY, AddDaemon(name="alfa", site="1"), CountDaemon("alfa"), RemoveDaemon("bravo")
    )
    cluster, operator = with_rosters(alfa=latest, charlie=AWAY)
    cluster.run(10.0)
    assert numbers(cluster) == {"alfa": 4, "charlie": 1}, "they do not hear each other"
    operator.help_strangers()
    cluster.run(2.0)
    assert numbers(cluster) == {"alfa": 5, "charlie": 5}, "and charlie was counted"
    assert operator.given_up == {AWAY.id}


def test_two_daemons_that_know_only_each_other_are_helped() -> None:
    away = changed(AWAY, AddDaemon(name="delta", site="1"))
    latest = changed(
        away, AddDaemon(name="alfa", site="1"), CountDaemon("alfa"), RemoveDaemon("bravo")
    )
    cluster, operator = with_rosters(alfa=latest, charlie=away, delta=away)
    cluster.run(10.0)
    assert numbers(cluster) == {"alfa": 5, "charlie": 2, "delta": 2}
    operator.help_strangers()
    cluster.run(2.0)
    assert set(numbers(cluster).values()) == {7}, "charlie and delta were counted"


@pytest.mark.parametrize("change", [MoveDaemon("bravo", ("h:1",)), RemoveDaemon("charlie")])
def test_a_daemon_that_knows_one_that_could_tell_it_is_not_helped(change: RosterChange) -> None:
    """Else the operator would hide that daemons do not tell each other what they should."""
    cluster, operator = with_rosters(bravo=changed(AWAY, change), charlie=AWAY)
    cluster.network.cut([(1, 2), (2, 1)])
    cluster.run(10.0)
    operator.help_strangers()
    cluster.run(2.0)
    assert numbers(cluster) == {"bravo": 2, "charlie": 1}
    assert operator.given_up == set()


def test_a_cluster_whose_first_daemons_are_all_removed_agrees_on_a_roster() -> None:
    assert run_seed(1, VerificationOptions(rosters=True, duration_s=4.0)).findings == ()


def test_a_daemon_that_knows_only_daemons_of_sites_that_it_cannot_reach_is_helped() -> None:
    """A roster may have a link that does not exist: seed 8 of the long lives of three sites."""
    first = Roster(entries=(RosterEntry(name="alfa", site="1"),))
    astray = changed(first, AddDaemon(name="charlie", site="3", links=(("1", 1000),)))
    latest = changed(
        astray, RemoveDaemon("charlie"), AddDaemon(name="bravo", site="2", links=(("1", 1000),))
    )
    links = [SimulatedLink(sites=pair, delay_s=0.001) for pair in ((0, 1), (1, 2))]
    settings = plain_settings(daemons=3, sites=3, links=links)
    cluster, operator = with_rosters(widened(settings), alfa=latest, bravo=latest, charlie=astray)
    cluster.run(10.0)
    assert numbers(cluster)["charlie"] == astray.number, "it hears nobody"
    operator.help_strangers()
    cluster.run(2.0)
    assert "charlie" not in numbers(cluster), "the roster of the others does not have it"
    assert operator.given_up == {astray.id}
