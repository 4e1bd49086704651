"""Daemons of several releases in one cluster: what their views use, and who is left out."""

import pytest

from groupcomm.config.roster import AddDaemon, Roster, RosterRecord
from groupcomm.config.versions import Versions
from groupcomm.engine import RosterNews
from groupcomm.wire.control import ControlPacket
from groupcomm.wire.membership import RosterNotice
from groupcomm.wire.roster import encode_roster
from tests.groupcomm.engine.cluster import Cluster

OLD = Versions()
BOTH = Versions(lowest=1, highest=2, features=0b11)
NEW = Versions(lowest=2, highest=3, features=0b110)


def mixed(**versions: Versions) -> Cluster:
    cluster = Cluster("".join(versions))
    cluster.versions.update(versions)
    cluster.start("".join(versions))
    cluster.run(1.0)
    return cluster


def used(cluster: Cluster, name: str) -> Versions:
    view = cluster.cores[name].view
    assert view is not None
    return view.versions


def views(cluster: Cluster, name: str) -> int:
    return cluster.cores[name].membership.reasons.total()


def test_a_view_uses_the_highest_version_and_the_features_that_all_members_have() -> None:
    cluster = mixed(a=BOTH, b=NEW, c=NEW)
    assert {cluster.members(name) for name in "abc"} == {"abc"}
    expected = Versions(lowest=2, highest=2, features=0b10)
    assert [used(cluster, name) for name in "abc"] == [expected] * 3


def test_the_last_upgraded_daemon_switches_all_to_the_next_version() -> None:
    cluster = mixed(a=OLD, b=OLD, c=OLD)
    for number, name in enumerate("abc", start=2):
        assert used(cluster, "b").highest == 1
        cluster.versions[name] = BOTH
        cluster.start(name, restarts=2, random_id=1000 + number)
        cluster.run(1.5)
        assert {cluster.members(other) for other in "abc"} == {"abc"}
    assert [used(cluster, name) for name in "abc"] == [BOTH] * 3
    cluster.versions["b"] = OLD
    cluster.start("b", restarts=3, random_id=2000)
    cluster.run(1.5)
    assert [used(cluster, name) for name in "abc"] == [OLD] * 3


def test_daemons_without_a_common_version_have_lasting_views_of_their_own() -> None:
    cluster = mixed(a=OLD, b=NEW, c=NEW)
    assert [cluster.members(name) for name in "abc"] == ["a", "bc", "bc"]
    before = [views(cluster, name) for name in "abc"]
    cluster.run(5.0)
    assert [views(cluster, name) for name in "abc"] == before


def test_a_view_does_not_end_for_a_daemon_that_cannot_be_in_it() -> None:
    """The daemon that speaks both versions could be in either view, and stays."""
    cluster = Cluster("abcd")
    cluster.versions.update(a=OLD, b=OLD, c=BOTH, d=NEW)
    cluster.start("abc")
    cluster.run(1.0)
    cluster.start("d")
    cluster.run(1.0)
    assert [cluster.members(name) for name in "abcd"] == ["abc", "abc", "abc", "d"]
    before = [views(cluster, name) for name in "abcd"]
    cluster.run(5.0)
    assert [views(cluster, name) for name in "abcd"] == before


def test_a_control_message_of_a_later_release_is_nobodys_fault() -> None:
    cluster = mixed(a=OLD, b=OLD)
    packet = ControlPacket(
        origin=cluster.cores["b"].start.daemon.number,
        incarnation=cluster.cores["b"].start.incarnation,
        sequence=500,
        kind=200,
        part=0,
        parts=1,
        payload=b"anything",
    )
    core = cluster.cores["a"]
    core.membership.on_control(packet, packet.origin, cluster.now)
    cluster.run(1.0)
    assert not core.status(cluster.now).broken


@pytest.mark.parametrize("counts", [False, True])
def test_a_roster_of_a_later_release_is_named_and_nobodys_fault(counts: bool) -> None:
    cluster = mixed(a=OLD, b=OLD)
    core = cluster.cores["a"]
    roster: Roster = core.config.roster.changed(AddDaemon(name="z", site="1"))
    longer = bytearray(encode_roster(roster))
    more = 0x9F - longer[0]
    longer[0] = 0x9F  # an array with more items than any release has
    notice = RosterNotice("b", counts, bytes(longer) + more * b"\x90")
    for _ in range(2):
        core.roster_manager.on_notice(notice, core._now)
    cluster.run(0.5)
    lines = cluster.shells["a"].lines(RosterNews)
    assert [line for line in lines if "upgrade this daemon" in line] == lines
    assert len(lines) == 1
    assert cluster.shells["a"].record == RosterRecord()
