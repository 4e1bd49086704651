"""Votes of cores: daemons that leave in order, ties, and who acts when they come back."""

import pytest

from groupcomm.config.roster import AddDaemon, RemoveDaemon, RosterChange
from groupcomm.config.votes import Policy, SetPolicy, SetVotes
from groupcomm.engine import ChangeRoster, ClientBytes, ClientOpened, EndReason
from groupcomm.errors import LocalProtocolError
from groupcomm.events import DaemonView
from groupcomm.session.client_session import ClientSession
from groupcomm.session.frames import Capability, encode_hello
from groupcomm_client.continuity import Continuity
from tests.groupcomm.engine.cluster import PLENTY, Cluster, Program

ORDERLY = SetPolicy(Policy(orderly=True))
TIE_A = SetPolicy(Policy(tie_breaker="a"))


def formed(names: str, *changes: RosterChange) -> Cluster:
    """Return a cluster that has agreed on changes, and on the steps that follow from them."""
    cluster = Cluster(names)
    cluster.start(names)
    cluster.run(1.0)
    for change in changes:
        cluster.cores[names[0]].command(ChangeRoster(change=change))
        cluster.run(0.5)
    assert {cluster.members(name) for name in names} == {names}
    return cluster


def acts(cluster: Cluster, name: str) -> bool:
    """Return whether the view of a daemon has a majority, as its programs are told."""
    state = cluster.cores[name].view_state
    return state is not None and bool(state.majority)


def table(cluster: Cluster, name: str) -> bytes:
    """Return which table of lines a daemon uses."""
    state = cluster.cores[name].view_state
    assert state is not None
    return state.delivery.groups.table.lines.table


def held(cluster: Cluster, name: str) -> dict[str, int]:
    """Return the votes that count, by the roster of a daemon."""
    entries = cluster.cores[name].config.roster.entries
    return {entry.name: entry.share.held for entry in entries}


def leave(cluster: Cluster, name: str) -> None:
    cluster.cores[name].leave()
    cluster.run(1.0)
    over = cluster.shells[name].over
    assert over is not None
    assert over.end is EndReason.LEFT, over.unfinished
    del cluster.cores[name]


def kill(cluster: Cluster, name: str) -> None:
    del cluster.cores[name]
    cluster.run(2.0)


def start(cluster: Cluster, name: str) -> None:
    """Start a daemon again, with the rosters that its disk holds."""
    record = cluster.shells[name].record
    cluster.start(name, restarts=2, random_id=ord(name) + 1000, rosters=record)
    cluster.run(2.0)


def test_who_is_left_of_an_orderly_shrink_acts_down_to_the_last_one() -> None:
    cluster = formed("abc", ORDERLY)
    for leaver, left in (("b", "ac"), ("a", "c")):
        leave(cluster, leaver)
        for name in left:
            assert cluster.members(name) == left
            assert acts(cluster, name)
    assert held(cluster, "c") == {"a": 0, "b": 0, "c": 1}
    kill(cluster, "c")
    start(cluster, "a")
    start(cluster, "b")
    assert cluster.members("a") == "ab"
    assert not acts(cluster, "a"), "c may act alone, or has acted"
    start(cluster, "c")
    assert cluster.members("a") == "abc"
    assert acts(cluster, "a")
    assert held(cluster, "a") == {"a": 1, "b": 1, "c": 1}


def test_without_the_policy_a_daemon_that_leaves_is_counted_missing() -> None:
    cluster = formed("ab")
    leave(cluster, "b")
    assert not acts(cluster, "a")
    assert cluster.cores["a"].config.roster.number == 0


def test_the_last_daemon_keeps_its_vote_and_leaves_in_order() -> None:
    cluster = formed("ab", ORDERLY)
    leave(cluster, "a")
    leave(cluster, "b")
    start(cluster, "b")
    assert acts(cluster, "b")


def test_a_daemon_that_would_leave_no_majority_behind_leaves_with_its_vote() -> None:
    """b would only make the return of a useless: of {a, b} either one and c are a majority."""
    cluster = formed("abc", ORDERLY)
    kill(cluster, "a")
    leave(cluster, "b")
    assert not acts(cluster, "c")
    assert held(cluster, "c") == {"a": 1, "b": 1, "c": 1}
    start(cluster, "a")
    assert acts(cluster, "c")


def test_half_with_the_tie_breaker_acts_and_the_other_half_does_not() -> None:
    cluster = formed("ab", TIE_A)
    cluster.isolate("a", "b")
    cluster.run(2.0)
    assert (acts(cluster, "a"), acts(cluster, "b")) == (True, False)
    assert held(cluster, "a") == {"a": 1, "b": 0}
    cluster.cut = set()
    cluster.run(2.0)
    assert cluster.members("b") == "ab"
    assert acts(cluster, "b")
    assert held(cluster, "b") == {"a": 1, "b": 1}


def test_half_acts_only_once_its_disk_holds_that_it_is_more_than_half() -> None:
    cluster = formed("ab", TIE_A)
    cluster.isolate("a", "b")
    cluster.stores = False
    cluster.run(2.0)
    assert cluster.members("a") == "a"
    assert not acts(cluster, "a")
    cluster.shells["a"].store_now()
    cluster.run(0.5)
    assert acts(cluster, "a")
    assert held(cluster, "a") == {"a": 1, "b": 0}


def test_the_half_without_the_tie_breaker_never_acts() -> None:
    cluster = formed("ab", TIE_A)
    kill(cluster, "a")
    assert not acts(cluster, "b")
    with pytest.raises(LocalProtocolError, match="no majority of the roster"):
        cluster.cores["b"].command(ChangeRoster(change=AddDaemon(name="d", site="1")))


def test_a_daemon_that_was_away_by_a_tie_does_not_act_with_the_votes_that_it_remembers() -> None:
    cluster = formed("abcd", TIE_A)
    cluster.isolate("ab", "cd")
    cluster.run(2.0)
    assert [acts(cluster, name) for name in "abcd"] == [True, True, False, False]
    kill(cluster, "a")
    kill(cluster, "b")
    cluster.cut = set()
    start(cluster, "b")
    assert cluster.members("c") == "bcd"
    assert acts(cluster, "c"), "b has the roster in which one of c and d holds no vote"
    assert cluster.cores["c"].config.roster.votes.settled


def test_the_half_that_lost_does_not_act_though_it_is_all_that_is_left() -> None:
    cluster = formed("ab", TIE_A)
    cluster.isolate("a", "b")
    cluster.run(2.0)
    assert acts(cluster, "a")
    kill(cluster, "a")
    cluster.cut = set()
    kill(cluster, "b")
    start(cluster, "b")
    assert not acts(cluster, "b"), "its disk has the votes of before, and half of them"
    start(cluster, "a")
    assert acts(cluster, "b")


def test_a_leaver_whose_last_step_the_others_have_not_delivered_waits_for_them() -> None:
    """Else the one that stays would lack a majority: its roster has the votes of both."""
    cluster = formed("ab", ORDERLY)
    cluster.cores["b"].leave()
    while held(cluster, "b")["b"]:
        cluster.run(0.0005)
    assert cluster.shells["b"].over is None
    cluster.run(1.0)
    over = cluster.shells["b"].over
    assert over is not None
    assert over.end is EndReason.LEFT
    del cluster.cores["b"]
    cluster.run(1.0)
    assert acts(cluster, "a")


def test_a_leaver_that_cannot_store_leaves_in_time_and_stays_missing() -> None:
    cluster = formed("ab", ORDERLY)
    cluster.stores = False
    cluster.cores["b"].leave()
    cluster.run(cluster.config.leave_timeout_s + 1.0)
    over = cluster.shells["b"].over
    assert over is not None
    assert over.end is EndReason.CUT_SHORT
    assert "its votes still count" in over.unfinished
    del cluster.cores["b"]
    cluster.run(1.0)
    assert not acts(cluster, "a")


def test_programs_are_told_at_once_that_a_forced_removal_has_brought_a_majority() -> None:
    cluster = formed("ab")
    kill(cluster, "b")
    assert not acts(cluster, "a")
    cluster.cores["a"].command(ChangeRoster(change=RemoveDaemon("b"), forced=True))
    cluster.run(0.5)
    assert acts(cluster, "a")


@pytest.mark.parametrize("lost", ["a", "b", "w"])
@pytest.mark.parametrize("after_ms", range(0, 40, 8))
def test_of_two_daemons_and_a_witness_any_one_is_lost_and_the_others_act_within_2_s(
    lost: str, after_ms: int
) -> None:
    cluster = formed("abw")
    cluster.run(after_ms / 1000)
    left, at = "abw".replace(lost, ""), cluster.now
    cluster.isolate(left, lost)
    while not all(cluster.members(name) == left and acts(cluster, name) for name in left):
        cluster.run(0.01)
        assert cluster.now - at < 2.0
    cluster.run(2.0)
    assert not acts(cluster, lost)
    cluster.cut = set()
    cluster.run(2.0)
    assert all(acts(cluster, name) for name in "abw")


def test_a_witness_that_both_sides_reach_one_after_the_other_serves_the_last_one_alone() -> None:
    cluster = formed("abw")
    for acting, other in (("a", "b"), ("b", "a"), ("a", "b")):
        cluster.isolate(acting + "w", other)
        cluster.run(2.0)
        assert (acts(cluster, acting), acts(cluster, other)) == (True, False)


def test_a_daemon_alone_waits_for_the_witness_whatever_that_has_forgotten() -> None:
    cluster = formed("abw")
    kill(cluster, "w")
    kill(cluster, "a")
    assert not acts(cluster, "b")
    cluster.start("w", restarts=1, random_id=7)  # its disk is empty
    cluster.run(2.0)
    assert acts(cluster, "b")


def test_programs_are_told_at_once_that_votes_decide() -> None:
    cluster = formed("abc")
    program = cluster.connect("c", "u")
    cluster.cores["a"].command(ChangeRoster(change=ORDERLY))
    cluster.run(0.5)
    first, last = (each for each in program.events if isinstance(each, DaemonView))
    assert (first.by_votes, last.by_votes) == (False, True)
    assert last.daemons == ("a", "b", "c")


def test_a_client_that_does_not_know_votes_is_not_told_that_few_did_not_come_along() -> None:
    """It would take one of two for too few to have acted; its daemon was away, and a has."""
    cluster = formed("ab", TIE_A)
    programs = [cluster.connect("b", "u", origins=True), Program(cluster.cores["b"], "old")]
    programs[1].session = ClientSession("old", origins=True)
    programs[1].session.pop_output(PLENTY)
    cluster.programs.append(programs[1])
    cluster.step("b", [], [ClientOpened(programs[1].connection, "")])
    hello = encode_hello("old", Capability.ORIGINS)
    cluster.step("b", [], [ClientBytes(programs[1].connection, hello)])
    cluster.run(0.1)
    start(cluster, "a")
    for program, together in zip(programs, (("b",), None), strict=True):
        views = [each for each in program.events if isinstance(each, DaemonView)]
        assert (views[-1].majority, views[-1].together) == (True, together)
        continuity = Continuity()
        assert [continuity.is_broken_by(view) for view in views][-1]


def test_votes_are_counted_one_at_a_time_and_decide() -> None:
    cluster = formed("abc", SetVotes("a", 3), SetVotes("b", 0))
    assert held(cluster, "c") == {"a": 3, "b": 0, "c": 1}
    cluster.isolate("a", "bc")
    cluster.run(2.0)
    assert [acts(cluster, name) for name in "abc"] == [True, False, False]


def test_all_daemons_of_a_view_trust_the_same_table_of_lines() -> None:
    """One that was away while the roster shrank knows an earlier one, by which others could act."""
    cluster = formed("abcde")
    cluster.isolate("acde", "b")
    cluster.run(2.0)
    kill(cluster, "d")
    for name in "de":
        cluster.cores["a"].command(ChangeRoster(change=RemoveDaemon(name=name)))
        cluster.run(1.0)
        cluster.cores.pop(name, None)
    before = table(cluster, "a")
    kill(cluster, "c")
    cluster.isolate("ab")
    cluster.run(3.0)
    assert (cluster.members("b"), acts(cluster, "b")) == ("ab", True)
    assert table(cluster, "a") == table(cluster, "b") == before
