"""The time since which members are in their groups: the place of the join, at present daemons."""

from groupcomm.clocks.stamp import Position
from tests.groupcomm.engine.cluster import Cluster


def since(cluster: Cluster, name: str) -> dict[str, Position]:
    """Return a daemon's facts about the members of `g`."""
    return {member.id.name: member.groups["g"] for member in cluster.cores[name].groups()["g"]}


def test_the_place_of_a_join_goes_from_view_to_view_with_those_who_saw_it() -> None:
    cluster = Cluster("abc")
    cluster.start("ab")
    cluster.run(2.0)
    ann, bob = cluster.connect("a", "ann"), cluster.connect("b", "bob")
    ann.session.join("g")
    cluster.run(0.2)
    bob.session.join("g")
    cluster.run(0.2)
    seen = since(cluster, "a")
    assert since(cluster, "b") == seen
    assert 0 < seen["#ann#a"].time < seen["#bob#b"].time
    first = seen["#ann#a"].view

    cluster.start("c")
    cluster.run(2.0)
    assert cluster.members("a") == "abc"
    assert since(cluster, "a") == since(cluster, "b") == seen
    late = since(cluster, "c")
    assert {position.time for position in late.values()} == {0}, "the newcomer saw no join"
    assert all(position.view > first for position in late.values())

    ann.session.leave("g")
    cluster.run(0.2)
    ann.session.join("g")
    cluster.run(0.2)
    assert since(cluster, "c")["#ann#a"] == since(cluster, "a")["#ann#a"] > late["#ann#a"]

    cluster.isolate("ac", "b")
    cluster.run(3.0)
    cluster.isolate("abc")
    cluster.run(6.0)
    assert cluster.members("a") == "abc"
    assert since(cluster, "b")["#bob#b"] == seen["#bob#b"]
    assert since(cluster, "b")["#ann#a"].time == 0, "apart, ann might have left and come again"
    assert since(cluster, "c")["#ann#a"] == since(cluster, "a")["#ann#a"]
    assert since(cluster, "c")["#ann#a"].time > 0
