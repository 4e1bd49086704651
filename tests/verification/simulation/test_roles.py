"""Attackers with the means of each role: the cluster behaves as without them."""

import attrs
import pytest

from groupcomm.errors import ConfigError
from groupcomm.sim import run as simulator
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.run import RunResult
from tests.verification.mutants.mutant import Mutant
from tests.verification.simulation.attackers import attackers
from tests.verification.simulation.attackers.evicted import Evicted
from tests.verification.simulation.attackers.keyholder import KeyHolder
from tests.verification.simulation.attackers.programs import RogueProgramsAttack
from tests.verification.simulation.attackers.roles import (
    ENTITLED,
    FOR_SUITE_2,
    ROLES,
    UNITS_US,
    parse_roles,
)
from tests.verification.simulation.cluster import VerificationCluster
from tests.verification.simulation.role_breaks import BREAKS, steps_have_no_bound
from tests.verification.simulation.runs import main, replay_command, run, run_seed
from tests.verification.simulation.settings import (
    VerificationOptions,
    VerificationSettings,
    draw_settings,
)

pytestmark = pytest.mark.verification

PLAYED = [
    (role, suite) for role in ROLES for suite in (1, 2) if suite == 2 or role not in FOR_SUITE_2
]
FINDING_SEEDS = range(1, 5)
HEAVY = ("joiner", "free-sender")
"""Roles that `crowd` stands for."""


def small(role: str, **options: object) -> VerificationOptions:
    chosen = VerificationOptions(attackers=(role,), duration_s=2.0, sites=1, daemons=3)
    return attrs.evolve(chosen, **options)  # type: ignore[arg-type]


def told(result: RunResult) -> list[str]:
    return [f"{finding.property}: {finding.text}" for finding in result.findings]


@pytest.mark.parametrize(
    ("role", "suite", "seed", "faults"),
    [
        pytest.param(
            *(role, suite, seed, faults),
            marks=[pytest.mark.long] * (suite != of_gate or role in ENTITLED),
        )
        for seed, faults, of_gate in ((1, "none", 1), (2, "all", 2))
        for role, suite in PLAYED
    ],
)
def test_no_property_is_violated_whoever_attacks(
    role: str, suite: int, seed: int, faults: str
) -> None:
    options = small(role, suite=suite, faults=faults)
    result = run_seed(seed, options)
    assert not told(result), replay_command(seed, options)
    assert result.deliveries >= 50


@pytest.mark.verification
@pytest.mark.parametrize(
    "roles",
    [
        tuple(role for role in ROLES if role not in ENTITLED),
        pytest.param(tuple(ROLES), marks=pytest.mark.long),
    ],
)
def test_several_roles_together_achieve_no_more(roles: tuple[str, ...]) -> None:
    options = VerificationOptions(attackers=roles, duration_s=2.0, suite=2, daemons=4)
    result = run_seed(5, options)
    assert not told(result), replay_command(5, options)
    assert result.deliveries >= 50


def watched(settings: VerificationSettings) -> VerificationCluster:
    """Return a cluster that lives for four seconds with nobody but attackers."""
    cluster = VerificationCluster(settings)
    for host in cluster.daemons:
        if not host.is_taken:
            cluster.connect("ann", host.index).on_event = lambda event: None
    cluster.run(4.0)
    return cluster


@pytest.mark.verification
@pytest.mark.parametrize(
    ("role", "suite"),
    [
        pytest.param(role, suite, marks=[pytest.mark.long] * (suite != 2 or role in HEAVY))
        for role, suite in PLAYED
    ],
)
def test_without_faults_there_are_the_same_views_as_without_an_attacker(
    role: str, suite: int
) -> None:
    """The daemons stay in their view, except for the one that the eviction itself causes."""
    settings = draw_settings(2, small(role, suite=suite, faults="none"))
    quiet = attrs.evolve(
        settings, attackers=(), evicted=None, faults=attrs.evolve(settings.faults, attacker=False)
    )
    without = watched(quiet)
    cluster = watched(settings)
    assert cluster.attackers.is_watched
    cluster.attackers.on_heal()
    assert not cluster.attackers.breaches
    others = [host for host in cluster.daemons if not host.is_taken]
    views = {host.core.view.id.counter for host in others if host.core.view is not None}
    expected = without.view.id.counter
    if role != "evicted":
        assert views == {expected}
    else:
        assert len(views) == 1
        assert len(others) == 2


@pytest.mark.verification
@pytest.mark.parametrize(("bug", "role"), BREAKS, ids=[f"{r}-{bug.name}" for bug, r in BREAKS])
def test_seeds_of_a_role_find_what_holds_against_it_when_it_is_taken_away(
    bug: Mutant, role: str
) -> None:
    options = small(role, suite=2 if role in FOR_SUITE_2 else 1, faults="none")
    with bug.active():
        assert any(run_seed(seed, options).findings for seed in FINDING_SEEDS)


@pytest.mark.verification
@pytest.mark.parametrize("role", ENTITLED)
def test_programs_with_a_small_right_end_views_once_steps_have_no_bound(role: str) -> None:
    drawn = draw_settings(3, small(role, faults="none"))
    settings = attrs.evolve(drawn, unit_us=max(UNITS_US))
    assert not told(run(settings))
    with steps_have_no_bound.active():
        assert any("leave their view" in text for text in told(run(settings)))


# ---- an attacker that does nothing proves nothing ----


def test_who_has_the_ring_key_reads_introductions_and_is_refused_for_his_signatures() -> None:
    cluster = watched(draw_settings(2, small("ring-key", faults="none")))
    (attacker,) = cluster.attackers.playing
    assert isinstance(attacker, KeyHolder)
    assert attacker.read > 10
    for host in cluster.daemons:
        rejected = host.core.counters.rejected
        assert rejected["identity"] > 20
        assert rejected["tag"] + rejected["epoch"] + rejected["unproven"] > 20


def test_who_was_evicted_goes_on_as_a_daemon_and_is_heard_by_nobody() -> None:
    cluster = watched(draw_settings(2, small("evicted", faults="none")))
    (attacker,) = cluster.attackers.playing
    assert isinstance(attacker, Evicted)
    assert attacker.is_prepared
    assert attacker.puppet_said > 20
    assert len(attacker._kept) > 0
    others = [host for host in cluster.daemons if not host.is_taken]
    assert len(others) == 2
    assert all(host.core.status(0.0).keys.eviction is None for host in others)
    assert attacker._puppet is not None
    assert attacker._puppet.status(0.0).keys.eviction is not None, "it was told so"
    assert all(len(host.core.view.daemons) == 2 for host in others if host.core.view)


@pytest.mark.parametrize(
    ("seed", "faults"), [pytest.param(37, "none", marks=pytest.mark.long), (463, "all")]
)
def test_who_was_evicted_acts_only_where_all_know_of_it(seed: int, faults: str) -> None:
    """Seed 37: the other site had its view without the evicted one 60 ms later. Seed 463: a clone,
    at the address of a daemon that knew, had read the file before."""
    options = VerificationOptions(suite=2, attackers=("evicted",), faults=faults, duration_s=3.0)
    assert not told(run_seed(seed, options)), replay_command(seed, options)


def test_programs_without_rights_are_let_in_and_refused_and_users_are_not_let_in() -> None:
    for role, welcomed in (("program", True), ("user", False)):
        cluster = watched(draw_settings(1, small(role, faults="none")))
        (attacker,) = cluster.attackers.playing
        assert isinstance(attacker, RogueProgramsAttack)
        desks = [host.core.sessions for host in cluster.daemons]
        assert sum(desk.access_control.refusals["name"] for desk in desks) > 5
        assert (sum(desk.access_control.refusals["send"] for desk in desks) > 50) is welcomed
        assert attacker.acts > 30


# ---- options ----


def test_roles_are_parsed_in_one_order() -> None:
    assert parse_roles("program, nothing,program") == ("nothing", "program")
    with pytest.raises(ConfigError, match="the roles are nothing, ring-key, evicted"):
        parse_roles("root")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--attacker", "ring-key", "--suite", "1"], "an attacker with the ring's key can"),
        (["--attacker", "evicted", "--suite", "0"], "so no run could pass: use --suite"),
        (["--attacker", "user", "--suite", "0"], "a checksum only, which anybody can make"),
        (["--attacker", "evicted", "--daemons", "1"], "no other daemon can evict the daemon"),
        (["--attacker", "king"], "this role does not exist"),
        (["--attacker", "user", "--byzantine"], "nothing could be checked; run one of them"),
    ],
)
def test_a_role_that_cannot_be_held_against_is_refused(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status: object = main(arguments)
    assert status == 2
    assert text in capsys.readouterr().err


@pytest.mark.verification
def test_the_command_plays_roles_and_tells_how_to_see_a_run_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    roles = ["--attacker", "ring-key", "--attacker", "program,nothing"]
    assert main(["--seeds", "3", "--duration-s", "1", *roles]) == 0
    assert "0 violations" in capsys.readouterr().out
    options = VerificationOptions(attackers=("nothing", "ring-key"), suite=2)
    command = replay_command(3, options)
    assert command.endswith("--suite 2 --attacker nothing,ring-key")
    settings = draw_settings(3, VerificationOptions(attackers=("ring-key", "nothing")))
    assert (settings.suite, settings.faults.attacker) == (2, True)
    assert set(attackers.PLAYERS) | {"nothing"} == set(ROLES)


def test_no_plain_run_ignores_who_takes_part() -> None:
    with pytest.raises(AssertionError, match="VerificationOptions has what this run would ignore"):
        simulator.run_seed(1, VerificationOptions(rosters=True))
    with pytest.raises(AssertionError, match="this cluster would ignore some of Verification"):
        Cluster(draw_settings(1, VerificationOptions(rosters=True)))
