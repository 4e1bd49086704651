"""View ids: none is ever used for two views, also if one of them failed at its leader."""

from groupcomm.membership.states import GatherReason, MembershipState
from tests.groupcomm.engine.cluster import Cluster


def test_an_attempt_that_others_may_have_installed_uses_its_id_up() -> None:
    """a leads it and tells that it has recovered; b installs it, and a never hears of that.

    Their counters are ahead of physical time, as after a clock was set back: only they tell ids
    apart.
    """
    cluster = Cluster("ab")
    cluster.start("ab", counter=2**50)
    a, b = cluster.cores["a"], cluster.cores["b"]
    while a.state is not MembershipState.RECOVERED:
        cluster.run(0.0001)
    cluster.deafen("a", "b")
    while cluster.members("b") != "ab":
        cluster.run(0.001)
    assert b.view is not None
    assert a.state is MembershipState.RECOVERED
    assert b.view.id.daemon == "a"
    used = b.view.id
    while cluster.members("a") != "a":
        cluster.run(0.001)
    assert a.view is not None
    assert a.membership.reasons[GatherReason.ATTEMPT_FAILED] == 1
    assert a.view.id > used


def test_no_view_has_an_id_below_the_mark_on_a_disk() -> None:
    """Both came back with clocks that are far behind; only b's disk knows of earlier views."""
    cluster = Cluster("ab")
    cluster.start("a")
    cluster.start("b", counter=2**50)
    cluster.run(1.0)
    view = cluster.cores["a"].view
    assert view is not None
    assert cluster.members("a") == "ab"
    assert view.id.counter > 2**50


def test_a_disk_that_is_lost_brings_no_view_back_below_an_earlier_one() -> None:
    """c was alone in a view by its own clock, which is ahead; then it comes to the others' clocks.

    Simulator seed 3221: the disk of a daemon was lost twice, with its clock a second ahead.
    """
    cluster = Cluster("abc")
    cluster.isolate("ab", "c")
    cluster.start("ab")
    cluster.start("c", ahead_s=2.0)
    cluster.run(1.0)
    assert cluster.members("c") == "c"
    used = cluster.cores["c"].view
    cluster.isolate("abc")
    cluster.start("c", restarts=2, random_id=99, ahead_s=2.0)
    cluster.run(1.0)
    view = cluster.cores["c"].view
    assert used is not None
    assert view is not None
    assert cluster.members("c") == "abc"
    assert view.id > used.id
