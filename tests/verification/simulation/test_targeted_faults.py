"""`--targets`: chosen kinds of packets suffer, programs are rough, and every property holds."""

from collections import Counter
from random import Random

import pytest

from groupcomm.errors import ConfigError
from groupcomm.events import Message
from groupcomm.sim.settings import plain_settings
from groupcomm_tools.plan.kinds import kind_of
from tests.verification.simulation.cluster import VerificationCluster
from tests.verification.simulation.rules import Effect, Rule, RuledPath
from tests.verification.simulation.runs import run_seed
from tests.verification.simulation.settings import VerificationOptions
from tests.verification.simulation.targets import TargetedFaults

pytestmark = pytest.mark.verification


@pytest.mark.parametrize(("seed", "sites"), [(3, 1), (4, 3)])
def test_properties_hold(seed: int, sites: int) -> None:
    result = run_seed(seed, VerificationOptions(targets=True, sites=sites, duration_s=2.0))
    assert not result.findings
    assert result.settings.suite == 0


def test_a_seed_gives_one_run() -> None:
    options = VerificationOptions(targets=True, duration_s=0.5, daemons=3)
    hashes = {run_seed(5, options).trace_hash for _ in range(2)}
    assert len(hashes) == 1
    assert hashes != {run_seed(5, VerificationOptions(duration_s=0.5, daemons=3)).trace_hash}


def test_many_kinds_and_effects_are_hit() -> None:
    cluster = VerificationCluster(plain_settings(daemons=3), lambda event: None)
    faults = TargetedFaults(cluster.loop, Random(1), cluster.network, 3)
    drawn: set[Effect] = set()
    kinds: set[str] = set()
    done: Counter[Effect] = Counter()
    for _ in range(400):
        cluster.run(0.1)
        for path in cluster.network.paths.values():
            assert isinstance(path.ruled, RuledPath)
            for rule in path.ruled.rules:
                drawn.add(rule.effect)
                kinds.update(rule.kinds)
                done[rule.effect] += rule.done
    assert drawn == set(Effect)
    assert len(kinds) > 10
    assert done[Effect.LOSE]
    faults.end()
    cluster.form()


def test_a_rule_lets_the_first_ones_pass() -> None:
    rule = Rule(Effect.LOSE, ("token",), 1, spared=2)
    assert [rule.concerns("token") for _ in range(5)] == [False, False, True, False, False]
    assert not rule.concerns("data")


def test_held_packets_arrive_once_the_faults_are_over() -> None:
    cluster = VerificationCluster(plain_settings(daemons=2), lambda event: None)
    faults = TargetedFaults(cluster.loop, Random(2), cluster.network, 2)
    faults.end()  # none of its own
    sender, receiver = (cluster.connect("u", place) for place in range(2))
    cluster.run(0.5)
    receiver.join("g")
    cluster.run(0.5)
    ruled = cluster.network.paths[0, 1].ruled
    assert isinstance(ruled, RuledPath)
    ruled.rules.append(Rule(Effect.HOLD, ("data",), 1))
    sender.multicast(["g"], b"late")
    cluster.run(0.001)
    assert not [event for event in receiver.events if isinstance(event, Message)]
    ruled.flush()
    cluster.run(0.5)
    assert [event.data for event in receiver.events if isinstance(event, Message)] == [b"late"]


@pytest.mark.parametrize("others", [{"suite": 1}, {"attackers": ("outsider",)}])
def test_kinds_must_be_visible(others: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="could not know the kinds"):
        VerificationOptions(targets=True, **others)  # type: ignore[arg-type]


def test_the_network_sees_the_kind() -> None:
    seen = set()
    cluster = VerificationCluster(plain_settings(daemons=2), lambda event: None)
    cluster.network.observers.append(lambda source, target, data, goes: seen.add(kind_of(data)))
    cluster.run(0.5)
    assert {"beacon"} <= seen
