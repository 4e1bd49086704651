"""Links that lose large datagrams in silence: views form, and everything arrives."""

from math import inf

import attrs
import pytest

from groupcomm.level import ServiceLevel
from groupcomm.link.path_mtu import RAISE_S, PathMtu
from groupcomm.sim.cluster.cluster import Cluster, sites_by_host
from groupcomm.sim.network.links import SimulatedLink, equal_links
from groupcomm.sim.settings import plain_settings
from tests.groupcomm.sim.checked_cluster import CheckedCluster, with_few_notices
from tests.groupcomm.sim.test_lost_links import DELAY_S, Sites, texts

LARGEST_BYTES = 1211
"""A datagram without the heads of UDP and IPv6 that fits the 1,280 bytes of RFC 8200."""

LARGE = b"x" * 8_000
"""A message of many full packets."""

LEVELS = (ServiceLevel.FIFO, ServiceLevel.CAUSAL, ServiceLevel.AGREED, ServiceLevel.SAFE)


def narrow(cluster: Cluster, largest_bytes: float) -> None:
    """Between sites only datagrams of at most this size pass."""
    place = sites_by_host(cluster.settings)
    network = cluster.network
    far = [(one, other) for one, other in network.paths if place[one] != place[other]]
    assert far
    network.narrow(far, largest_bytes)


def narrow_links(largest_bytes: int) -> list[SimulatedLink]:
    """Return a cluster of three linked sites that never received anything larger."""
    return [attrs.evolve(link, largest_bytes=largest_bytes) for link in equal_links(3, DELAY_S)]


def send_large(sites: Sites, times: int) -> None:
    """Every client sends a large message at each level, and all of them arrive."""
    before = [texts(member).count(LARGE.decode()) for member in sites.members]
    for _ in range(times):
        for member in sites.members:
            for level in LEVELS:
                member.multicast(["g"], LARGE, level=level)
        sites.cluster.run(0.5)
    sites.cluster.run(1.0)
    for had, member in zip(before, sites.members, strict=True):
        assert texts(member).count(LARGE.decode()) == had + times * len(LEVELS) * 6


def paths(sites: Sites) -> list[PathMtu]:
    """Return the known sizes of the links in use."""
    operations = [host.core.view_state for host in sites.cluster.daemons]
    return [
        link.path
        for operation in operations
        if operation is not None
        for link in operation.links.values()
    ]


def test_a_view_forms_over_narrow_links_and_large_messages_pass() -> None:
    sites = Sites(narrow_links(LARGEST_BYTES))
    views = sites.views
    send_large(sites, 1)
    sites.cluster.run(1.0)
    assert len(paths(sites)) == 6
    assert all(path.is_narrow for path in paths(sites))
    assert sites.views == views, "nobody leaves the view for it"
    sites.checked.finish()


def test_messages_to_many_long_names_have_one_order_for_members_of_different_groups() -> None:
    """Their names alone need more than a packet that passes."""
    links = [attrs.evolve(link, largest_bytes=LARGEST_BYTES) for link in equal_links(2, DELAY_S)]
    settings = plain_settings(daemons=2, sites=2, links=links)
    checked = CheckedCluster(with_few_notices(settings))
    names = [f"{number:031}" for number in range(43)]
    members = checked.connect(2)
    for member, name in zip(members, (names[0], names[-1]), strict=True):
        checked.join(name, [member])
    for turn in range(10):
        for member in members:
            text = f"{turn} {member.name}".encode()
            member.multicast(names, text, level=ServiceLevel.AGREED)
        checked.cluster.run(0.005)
    checked.cluster.run(0.5)
    one, other = map(texts, members)
    assert one == other
    assert len(one) == 20
    checked.finish()


@pytest.mark.long
def test_links_that_become_narrow_under_load_and_wide_again() -> None:
    sites = Sites()
    send_large(sites, 1)
    assert not any(path.is_narrow for path in paths(sites))
    views = sites.views
    narrow(sites.cluster, LARGEST_BYTES)
    send_large(sites, 2)
    assert all(path.carries < path.most for path in paths(sites))
    narrow(sites.cluster, inf)
    sites.cluster.run(RAISE_S + 1.0)
    send_large(sites, 1)
    assert not any(path.is_narrow for path in paths(sites))
    assert sites.views == views
    sites.checked.finish()


@pytest.mark.long
def test_views_come_and_go_over_narrow_links_while_much_is_on_its_way() -> None:
    """Packets of the old view that one site has and another lacks are repaired, in parts that
    pass."""
    sites = Sites(narrow_links(LARGEST_BYTES))
    network = sites.cluster.network
    away = [pair for pair in network.paths if (pair[0] in (0, 1)) != (pair[1] in (0, 1))]
    views = sites.views
    for _ in range(2):
        for member in sites.members:
            member.multicast(["g"], LARGE, level=ServiceLevel.AGREED)
        sites.cluster.run(0.03)
        network.cut(away)
        sites.cluster.run(1.5)
        network.mend(away)
        sites.cluster.run(2.0)
        sizes = {len(view.daemons) for host in sites.cluster.daemons if (view := host.core.view)}
        assert sizes == {6}, "they have found each other again"
    assert sites.views > views
    send_large(sites, 1)
    sites.checked.finish()
