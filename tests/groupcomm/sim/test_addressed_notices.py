"""In a large cluster notices go to who waits: what they cost, and that nobody waits longer."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from string import ascii_lowercase, digits

import attrs
import pytest

from groupcomm.events import Event, Message
from groupcomm.level import ServiceLevel
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.network.links import SitePair, equal_links, mesh, star
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import SECOND
from groupcomm_tools.plan.kinds import kind_of

DELAY_S = 0.02
WARM = 15
"""The messages of each kind before those that count."""

Shape = Callable[[int], set[SitePair]]


def cluster_of(sites: int, shape: Shape, *, large: bool) -> Cluster:
    """Return a cluster of lone daemons in one view, who take it for a large one or not."""
    links = equal_links(sites, DELAY_S, shape)
    settings = plain_settings(daemons=[1] * sites, links=links, delay_s=DELAY_S)
    return Cluster(attrs.evolve(settings, few_daemons=0 if large else 10**6))


# ---- costs ----


def lone_message(sites: int, shape: Shape) -> int:
    """Return the datagrams of an AGREED message to members in two sites, beacons left out."""
    cluster = cluster_of(sites, shape, large=True)
    members = [cluster.connect("u", 0), cluster.connect("u", sites - 1)]
    cluster.run(0.5)
    for member in members:
        member.join("g")
    cluster.run(2.5)
    kinds: Counter[str] = Counter()
    cluster.network.observers.append(lambda _from, _to, raw, _on: kinds.update([kind_of(raw)]))
    members[0].multicast(["g"], b"x", level=ServiceLevel.AGREED)
    cluster.run(2.5)
    return sum(count for kind, count in kinds.items() if not kind.endswith("beacon"))


@pytest.mark.parametrize("shape", [mesh, star])
def test_a_lone_agreed_message_costs_what_the_number_of_sites_is(shape: Shape) -> None:
    few, many = lone_message(4, shape), lone_message(8, shape)
    assert many < 20 * 8
    assert many < 2.6 * few, "notices of all sites fill more than one datagram"


@pytest.mark.long
@pytest.mark.parametrize("shape", [mesh, star])
def test_a_lone_agreed_message_among_32_sites_costs_less_than_a_thousand(shape: Shape) -> None:
    assert lone_message(32, shape) < 1000


# ---- delays ----


def delays_ms(shape: Shape, sites: int, *, safe: bool, large: bool) -> dict[str, list[float]]:
    """Return how long messages took that may have to wait for the agreed order, by their text.

    Site 0 and the last one are in group g, the first two in h. First uses are left out.
    """
    cluster = cluster_of(sites, shape, large=large)
    clients = [cluster.connect("u", site) for site in range(sites)]
    cluster.run(0.5)
    found: dict[str, list[float]] = {}
    sent_at: dict[str, int] = {}

    def on_event(site: int, event: Event) -> None:
        if isinstance(event, Message):
            text = event.data.decode()
            number = int(text.lstrip(ascii_lowercase))
            if number >= WARM:
                kind = f"{text.rstrip(digits)} to {site}"
                took = cluster.loop.now - sent_at[text]
                found.setdefault(kind, []).append(took * 1000 / SECOND)
            if site == sites - 1 and text.startswith("agreed"):
                send(site, ["h"], text.replace("agreed", "causal"), ServiceLevel.CAUSAL)

    def send(site: int, groups: list[str], text: str, level: ServiceLevel) -> None:
        sent_at[text] = cluster.loop.now
        clients[site].multicast(groups, text.encode(), level=level)

    for site, client in enumerate(clients):
        client.on_event = partial(on_event, site)
    for site, group in ((0, "g"), (sites - 1, "g"), (0, "h"), (1, "h")):
        clients[site].join(group)
    private = clients[2].name
    cluster.run(4.0)
    for number in range(30):
        send(0, ["g"], f"agreed{number}", ServiceLevel.AGREED)
        send(0, [private], f"private{number}", ServiceLevel.AGREED)
        cluster.run(0.005)  # the next one is to have a packet of its own
        send(0, ["h"], f"fifo{number}", ServiceLevel.FIFO)
        if safe and number % 5 == 4:
            send(sites - 1, ["h"], f"safe{number}", ServiceLevel.SAFE)
        cluster.run(0.07)
    cluster.run(1.0)
    return found


@pytest.mark.parametrize(("shape", "safe"), [(mesh, False), (star, False), (mesh, True)])
def test_nobody_waits_longer_than_when_all_are_told(shape: Shape, safe: bool) -> None:
    """Also where a message of another level waits for agreed ones, which has other receivers.

    SAFE messages have all rings told, so what others need shows without them.
    """
    alike, addressed = (delays_ms(shape, 4, safe=safe, large=large) for large in (False, True))
    assert {kind: len(took) for kind, took in addressed.items()} == {
        kind: len(took) for kind, took in alike.items()
    }
    assert len(addressed) == 7 + 2 * safe, sorted(addressed)
    for kind, took in addressed.items():
        assert max(took) < max(alike[kind]) + 3.0, kind
