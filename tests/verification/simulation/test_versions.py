"""Runs with daemons of several releases; the checks, and what they find."""

from contextlib import nullcontext
from random import Random

import pytest

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.versions import Versions, shared
from groupcomm.config.view import DaemonId, Incarnation, View
from groupcomm.errors import ConfigError
from tests.groupcomm.engine.cluster import Cluster
from tests.verification.mutants.catalogue import find_mutant
from tests.verification.simulation.releases import APART, MEETING, draw_release
from tests.verification.simulation.runs import run_seed
from tests.verification.simulation.settings import VerificationOptions
from tests.verification.simulation.version_checker import VersionChecker

OLD, NEW = Versions(), Versions(lowest=1, highest=2, features=1)


def daemon(name: str) -> DaemonId:
    return DaemonId(name, Incarnation(1, ord(name)))


def view(names: str, versions: Versions) -> View:
    return View(
        id=ViewId(1, names[0], ord(names[0])),
        daemons=tuple(map(daemon, names)),
        rings=(tuple(range(len(names))),),
        versions=versions,
    )


def checked(**spoken: Versions) -> VersionChecker:
    checker = VersionChecker()
    for name, versions in spoken.items():
        checker.booted(daemon(name), versions)
    return checker


def ids(checker: VersionChecker) -> list[str]:
    return [found.property for found in checker.violations]


@pytest.mark.parametrize("seed", [2, *(pytest.param(s, marks=pytest.mark.long) for s in (1, 5))])
def test_releases_meet_whatever_goes_wrong(seed: int) -> None:
    result = run_seed(seed, VerificationOptions(versions=True, duration_s=3.0, daemons=3, sites=1))
    assert result.findings == ()
    assert result.views > 2


def test_members_that_use_different_versions_are_found() -> None:
    checker = checked(a=NEW, b=NEW)
    checker.begun("a/1", view("ab", NEW))
    checker.begun("b/1", view("ab", NEW))
    assert ids(checker) == []
    checker.begun("b/1", view("ab", OLD))
    assert ids(checker) == ["U1"]


def test_a_version_that_a_member_does_not_speak_is_found() -> None:
    checker = checked(a=NEW, b=OLD)
    checker.begun("a/1", view("ab", NEW))
    assert ids(checker) == ["U2"]
    assert checker.mixed == 1


def test_a_view_without_a_common_version_is_found() -> None:
    checker = checked(a=OLD, b=APART)
    checker.begun("a/1", view("ab", OLD))
    assert ids(checker) == ["U3"]


def test_drawn_releases_share_a_version_unless_one_may_be_apart() -> None:
    rng = Random(1)
    assert {draw_release(rng, meets_all=True) for _ in range(100)} == set(MEETING)
    assert APART in {draw_release(rng, meets_all=False) for _ in range(100)}
    assert shared(MEETING) == OLD
    assert not APART.meets(OLD)


def test_releases_do_not_meet_beside_liars() -> None:
    with pytest.raises(ConfigError, match="versions together with a daemon that lies"):
        VerificationOptions(versions=True, byzantine=True)


# ---- mutants ----


def formed(**spoken: Versions) -> Cluster:
    cluster = Cluster("".join(spoken))
    cluster.versions.update(spoken)
    cluster.start("".join(spoken))
    cluster.run(1.0)
    return cluster


def found_by(mutant: str, **spoken: Versions) -> set[str]:
    """Return the rules that do not hold where daemons with a mutant form views."""
    checker = VersionChecker()
    with find_mutant(mutant).active():
        cluster = formed(**spoken)
    for name, core in cluster.cores.items():
        checker.booted(core.start.daemon, spoken[name])
    for name, core in cluster.cores.items():
        assert core.view is not None
        checker.begun(name, core.view)
    return set(ids(checker))


@pytest.mark.parametrize(
    ("mutant", "other", "found"),
    [
        ("own-version-in-every-view", OLD, {"U1", "U2"}),
        ("features-of-any-member", OLD, {"U2"}),
        ("members-without-a-common-version", Versions(lowest=3, highest=3), {"U3"}),
    ],
)
def test_wrong_ways_to_choose_a_version_are_found(
    mutant: str, other: Versions, found: set[str]
) -> None:
    assert found_by(mutant, a=NEW, b=other) == found


@pytest.mark.parametrize(("mutant", "known"), [("", 1), ("later-version-before-its-view", 0)])
def test_daemons_of_an_earlier_release_do_not_know_what_a_later_one_sends(
    mutant: str, known: int
) -> None:
    with find_mutant(mutant).active() if mutant else nullcontext():
        cluster = formed(a=OLD, b=NEW, c=NEW)
        program = cluster.connect("b", "ann")
        program.session.join("g")
        cluster.run(0.2)
        assert len(cluster.cores["a"].groups().get("g", ())) == 1
        cluster.start("c", restarts=2, random_id=7)
        cluster.run(1.5)
        assert len(cluster.cores["a"].groups().get("g", ())) == known
