"""Planning: files that are accepted or refused, the measured figures, and the growth of plans."""

import tomllib
from pathlib import Path
from typing import Any

import attrs
import pytest

from groupcomm.errors import ConfigError
from groupcomm.level import ServiceLevel
from groupcomm.sim.network.links import chain, equal_links, mesh
from groupcomm_tools.plan import measure as measuring
from groupcomm_tools.plan.measure import MeasuredDelays, PlanFailed, measure
from groupcomm_tools.plan.topology import (
    PlannedLoad,
    Topology,
    read_topology,
    with_daemons,
    with_sites,
)
from groupcomm_tools.plan.traffic import bodies_per_s

EXAMPLE = Path(__file__).parents[2] / "examples" / "sites" / "sites.toml"


def example() -> dict[str, Any]:
    return tomllib.loads(EXAMPLE.read_text())


def plan(
    *,
    members: tuple[int, ...] = (0, 2),
    sender: int = 0,
    rate: float = 20.0,
    daemons: tuple[int, ...] = (2, 1, 2),
) -> Topology:
    """Return sites a, b and c in a chain, 20 ms apart; a FIFO load from a to a and c."""
    load = PlannedLoad(
        group="g", members=members, sender=sender, level=ServiceLevel.FIFO, rate=rate, bytes=100
    )
    return Topology(
        names=("a", "b", "c"),
        sizes=daemons,
        links=equal_links(3, 0.02, chain),
        loads=(load,),
        duration_s=2.0,
    )


def test_the_example_is_understood() -> None:
    found = read_topology(example())
    assert found.names == ("press", "paint", "office")
    assert found.sizes == (3, 2, 2)
    assert [link.sites for link in found.links] == [(0, 1), (1, 2)]
    slow = found.links[1]
    assert (slow.delay_s, slow.jitter_s, slow.loss) == (0.025, 0.005, 0.005)
    assert slow.bytes_per_s == 2_500_000
    assert found.links[0].jitter_s == pytest.approx(0.0001)
    assert found.loads[2] == PlannedLoad(
        group="orders",
        members=(0, 1, 2),
        sender=2,
        level=ServiceLevel.AGREED,
        rate=20.0,
        bytes=400,
    )


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("colour",), "red", "the topology: there is no key 'colour'"),
        (("duration_s",), 0, "the topology: duration_s is 0; it must be 0.1 or more"),
        (("duration_s",), "long", "the topology: duration_s is 'long'; it must be a number"),
        (("sites",), {}, "sites is no table with a site at least"),
        (("sites", "press", "daemons"), 0, "site press: daemons is 0; it must be 1 to"),
        (("sites", "press", "daemons"), 1.5, "site press: daemons is 1.5; it must be a whole"),
        (("sites", "press", "daemons"), 1022, "there are 1026 daemons"),
        (("sites", "press"), 3, "site press is 3; it must be a table"),
        (("links",), 3, "links is no list of tables"),
        (("links",), [], "no links lead from press to paint, office"),
        (("links", 0, "between"), ["press"], "between press: it must join two different sites"),
        (("links", 0, "between"), ["press", "roof"], "press and roof: there is no site 'roof'"),
        (("links", 0, "delay_ms"), -1, "a link: delay_ms is -1; it must be 0 to 10000"),
        (("links", 0, "loss"), 1, "loss is 1; it must be 0 to 0.99"),
        (
            ("links", 0, "between"),
            ["paint", "office"],
            "there are two links between paint and office",
        ),
        (("loads", 0, "group"), "#x", "starts with '#'"),
        (("loads", 0, "level"), "best", "level is BEST; there are: UNRELIABLE, RELIABLE"),
        (("loads", 0, "members"), [], "members names no site"),
        (("loads", 0, "sender"), "roof", "press-positions: there is no site 'roof'"),
        (("loads", 0, "bytes"), 4, "bytes is 4; it must be 8 to 1e+06"),
        (("loads", 0, "rate"), None, "a load: rate is missing"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_and_its_place_named(
    path: tuple[Any, ...], value: object, message: str
) -> None:
    found: Any = example()
    at = found
    for step in path[:-1]:
        at = at[step]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    with pytest.raises(ConfigError) as error:
        read_topology(found)
    assert message in str(error.value)


def test_delays_are_those_of_the_way_and_every_message_comes() -> None:
    found = measure(plan())
    near, far = found.delays
    assert (near.level, near.near, near.far) == (ServiceLevel.FIFO, 0, 0)
    assert (far.near, far.far) == (0, 2)
    assert 30 <= found.messages <= 50
    assert len(near.seconds) == len(far.seconds) == 2 * found.messages
    assert found.deliveries == 4 * found.messages
    assert near.missing == far.missing == 0
    assert 0 < near.seconds[0] < near.seconds[-1] < 0.02
    assert 0.04 <= far.seconds[0] <= far.seconds[len(far.seconds) // 2] < 0.05
    assert found.views == 0


@pytest.mark.long
def test_links_carry_what_is_sent_over_them_and_nothing_passes_between_strangers() -> None:
    found = measure(plan(rate=50.0))
    assert set(found.load.ways) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    for way in ((0, 1), (1, 2)):
        there, back = found.load.ways[way].kinds, found.load.ways[way[::-1]].kinds
        assert there["link"] > 100 * found.messages, "bodies and their headers"
        assert back["link"] == there["ack"] == 0, "nobody sends in the other direction"
        assert 0 < back["ack"] < there["link"]
        assert sum(found.load.ways[way].kinds.values()) == found.load.ways[way].sent.bytes
    assert found.forming.unheard > 0, "daemons of a and c have called each other in vain"
    assert found.idle.ways[0, 1].kinds["link"] == 0
    assert sum(count.datagrams for count in found.idle.received) < sum(
        count.datagrams for count in found.load.received
    )
    assert all(steps > 0 for steps in found.load.steps)
    assert found.load.seconds == 2.0


@pytest.mark.long
def test_a_lossy_link_loses_datagrams_but_no_message() -> None:
    clean = plan(rate=50.0)
    lossy = attrs.evolve(clean, links=tuple(attrs.evolve(each, loss=0.1) for each in clean.links))
    found = measure(lossy)
    assert found.load.ways[0, 1].lost > 0
    assert [delay.missing for delay in found.delays] == [0, 0]
    assert found.delays[1].seconds[-1] > 0.08, "a message that was lost is sent again"


def test_daemons_that_cannot_agree_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "FORM_LIMIT_S", 0.05)
    with pytest.raises(PlanFailed, match=r"the 5 daemons did not agree on a view within 0.05 s"):
        measure(plan())


def test_quantiles() -> None:
    delay = MeasuredDelays(
        group="g",
        level=ServiceLevel.SAFE,
        near=0,
        far=1,
        seconds=[n / 10 for n in range(1, 11)],
        missing=0,
    )
    assert [delay.quantile(part) for part in (0.0, 0.5, 0.99, 1.0)] == [0.1, 0.6, 1.0, 1.0]
    assert attrs.evolve(delay, seconds=[]).quantile(0.5) is None


# ---- growing ----


def test_more_sites_are_copies_in_the_same_shape() -> None:
    grown = with_sites(plan(daemons=(3, 1, 2)), 5)
    assert grown.names == ("a", "b", "c", "a 2", "b 2")
    assert grown.sizes == (3, 1, 2, 3, 1)
    assert {link.sites for link in grown.links} == chain(5)
    assert grown.loads[0].members == (0, 2, 3)
    two = attrs.evolve(plan(), names=("a", "b"), sizes=(1, 1), links=equal_links(2, 0.01))
    assert {link.sites for link in with_sites(two, 4).links} == mesh(4)


def test_fewer_sites_keep_the_load() -> None:
    small = with_sites(plan(sender=2, members=(2,)), 2)
    assert small.sizes == (2, 1)
    assert (small.loads[0].sender, small.loads[0].members) == (0, (0, 1))


def test_more_daemons_are_spread_evenly() -> None:
    assert with_daemons(plan(), 8).sizes == (2, 3, 3)
    for make, count, message in (
        (with_daemons, 2, "each of 3 sites has one"),
        (with_daemons, 1025, "the simulator has 1024"),
        (with_sites, 256, "a view has 1 to 255"),
        (with_sites, 0, "a view has 1 to 255"),
    ):
        with pytest.raises(ConfigError, match=message):
            make(plan(), count)


def test_bodies_go_once_over_each_link_that_leads_to_members() -> None:
    twenty = 20 * 100.0
    assert bodies_per_s(plan()) == {(0, 1): twenty, (1, 0): 0, (1, 2): twenty, (2, 1): 0}
    assert bodies_per_s(plan(members=(0,)))[0, 1] == 0
    around = attrs.evolve(plan(), links=equal_links(3, 0.02))
    assert bodies_per_s(around)[0, 2] == twenty
    assert bodies_per_s(around)[0, 1] == 0
