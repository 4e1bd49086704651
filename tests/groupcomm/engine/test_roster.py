"""The roster of a cluster changes by agreement, whatever happens in between."""

import attrs
import pytest

from groupcomm.config.roster import (
    MAX_INVITATIONS,
    AddDaemon,
    AdmitDaemon,
    Invitation,
    InviteDaemon,
    MoveDaemon,
    RemoveDaemon,
    RemoveLinks,
    Roster,
    RosterChange,
    RosterRecord,
    SetLinks,
)
from groupcomm.engine import ChangeRoster, EndReason, RosterNews
from groupcomm.engine.view import ViewState
from groupcomm.errors import ConfigError, LocalProtocolError
from groupcomm.membership.states import GatherReason
from groupcomm.wire.membership import RosterNotice
from groupcomm.wire.roster import encode_roster
from tests.groupcomm.engine.cluster import Cluster


def formed(names: str = "abc") -> Cluster:
    cluster = Cluster(names)
    cluster.start(names)
    cluster.run(1.0)
    assert {cluster.members(name) for name in names} == {names}
    return cluster


def change(cluster: Cluster, at: str, wanted: RosterChange, *, forced: bool = False) -> None:
    cluster.cores[at].command(ChangeRoster(change=wanted, forced=forced))


def add(name: str) -> AddDaemon:
    return AddDaemon(name=name, site="1", addresses=(f"{name}.example:4803",))


def roster(cluster: Cluster, name: str) -> Roster:
    return cluster.cores[name].config.roster


def names_of(cluster: Cluster, name: str) -> str:
    return "".join(roster(cluster, name).names)


def views(cluster: Cluster, name: str) -> int:
    return cluster.cores[name].membership.reasons.total()


def stop(cluster: Cluster, *names: str) -> None:
    for name in names:
        del cluster.cores[name]


def restart(cluster: Cluster, names: str, restarts: int = 2) -> None:
    """Start daemons again, with the rosters that their disks hold."""
    for name in names:
        record = cluster.shells[name].record
        cluster.start(name, restarts=restarts, random_id=ord(name) + 1000, rosters=record)


def test_a_daemon_is_added_counts_once_it_is_there_and_costs_one_view() -> None:
    cluster = formed()
    change(cluster, "b", add("d"))
    cluster.run(0.1)
    assert [names_of(cluster, name) for name in "abc"] == ["abcd"] * 3
    assert len({roster(cluster, name).id for name in "abc"}) == 1
    assert roster(cluster, "a").number == 1
    assert cluster.cores["a"].config.has_majority("ab"), "d does not count yet: 2 of 3"
    before = [views(cluster, name) for name in "abc"]
    cluster.start("d", rosters=RosterRecord(agreed=roster(cluster, "a")))
    cluster.run(1.0)
    assert [cluster.members(name) for name in "abcd"] == ["abcd"] * 4
    assert [views(cluster, name) for name in "abc"] == [count + 1 for count in before]
    assert {roster(cluster, name).number for name in "abcd"} == {2}
    assert not cluster.cores["a"].config.has_majority("ab"), "2 of 4"


def test_a_daemon_that_is_removed_leaves_in_order_and_learns_why() -> None:
    cluster = formed()
    change(cluster, "a", RemoveDaemon("c"))
    cluster.run(1.0)
    over = cluster.shells["c"].over
    assert over is not None
    assert over.end is EndReason.REMOVED
    assert [cluster.members(name) for name in "ab"] == ["ab"] * 2
    assert over.roster == roster(cluster, "a"), "so that its next start knows"
    assert "does not have this daemon" in cluster.shells["c"].lines(RosterNews)[-1]


def test_a_daemon_that_is_removed_gets_everything_until_it_has_left() -> None:
    """Without the beacons of the others it would not learn that they know, and wait for long."""
    cluster = formed()
    change(cluster, "a", RemoveDaemon("c"))
    while "c" in names_of(cluster, "a"):
        cluster.run(0.005)
    began = cluster.now
    assert cluster.cores["a"].near == {"b", "c"}
    while cluster.shells["c"].over is None:
        cluster.run(0.005)
    assert cluster.now < began + 2 * cluster.config.timing.beacon_interval_s
    cluster.run(0.2)
    for name, other in ("ab", "ba"):
        assert cluster.cores[name].near == {other}
        assert cluster.cores[name].membership.reasons[GatherReason.MEMBER_LEFT] == 1
    assert [cluster.members(name) for name in "ab"] == ["ab"] * 2


def removing() -> Cluster:
    """Return a cluster of a and b, which have both just stored the removal of b as pending."""
    cluster = formed("ab")
    cluster.stores = False
    change(cluster, "a", RemoveDaemon("b"))
    cluster.run(0.1)
    for name in "ab":
        cluster.shells[name].store_now()
    return cluster


def test_a_removed_daemon_ends_only_once_another_one_uses_the_roster_without_it() -> None:
    """A life of the simulator, `rosters, 3 sites, 5 daemons`, seed 16: only the removed daemon had
    delivered the last step, and ended; without it the others had no majority to complete it."""
    cluster = removing()
    cluster.cut = {("b", "a")}
    cluster.run(0.3)
    cluster.stores = True
    cluster.isolate("a", "b")
    cluster.run(5.0)
    assert cluster.shells["b"].over is None
    assert names_of(cluster, "a") == "ab"
    cluster.cut = set()
    cluster.run(5.0)
    over = cluster.shells["b"].over
    assert over is not None
    assert over.end is EndReason.REMOVED
    assert names_of(cluster, "a") == "a"


def test_a_removal_is_told_only_by_a_daemon_whose_disk_holds_it() -> None:
    """Else it forgets that, if it is killed, and waits for the daemon that has ended."""
    cluster = removing()
    cluster.run(3.0)
    assert names_of(cluster, "a") == "a"
    assert cluster.shells["b"].over is None
    cluster.shells["a"].rosters.clear()
    stop(cluster, "a")
    cluster.stores = True
    cluster.shells["b"].store_now()
    restart(cluster, "a")
    cluster.run(5.0)
    assert names_of(cluster, "a") == "a"
    over = cluster.shells["b"].over
    assert over is not None
    assert over.end is EndReason.REMOVED


def test_a_daemon_that_is_being_removed_refuses_changes() -> None:
    """The others, which use the roster without it, would drop its steps."""
    cluster = removing()
    cluster.run(0.3)
    with pytest.raises(LocalProtocolError, match="roster 1 does not have this daemon"):
        change(cluster, "b", add("c"))


def test_a_removed_daemon_that_comes_back_is_told_so() -> None:
    cluster = formed()
    stop(cluster, "c")
    cluster.run(1.5)
    change(cluster, "a", RemoveDaemon("c"))
    cluster.run(1.0)
    assert names_of(cluster, "b") == "ab"
    restart(cluster, "c")
    cluster.run(7.0)
    over = cluster.shells["c"].over
    assert over is not None
    assert over.end is EndReason.REMOVED
    assert cluster.members("a") == "ab"


def test_a_removed_daemon_that_says_only_that_it_has_a_view_is_told_so() -> None:
    """Simulator seed 3001756 with rosters: those that hear it have started since, and beacons have
    no name."""
    cluster = formed()
    cluster.isolate("ab", "c")
    cluster.run(2.0)
    change(cluster, "a", RemoveDaemon("c"))
    cluster.run(0.5)
    assert (cluster.members("c"), names_of(cluster, "b")) == ("c", "ab")
    stop(cluster, "a", "b")
    restart(cluster, "ab")
    cluster.run(1.0)
    cluster.isolate("abc")
    cluster.run(7.0)  # it has no roster on disk, and waits
    over = cluster.shells["c"].over
    assert over is not None
    assert over.end is EndReason.REMOVED


def test_a_new_daemon_with_the_name_of_a_removed_one_waits_until_it_is_added_again() -> None:
    cluster = formed()
    change(cluster, "a", RemoveDaemon("c"))
    cluster.run(1.0)
    stop(cluster, "c")
    cluster.isolate("bc", "a")  # c hears b first, which does not know that c was added again
    cluster.start("c", restarts=2, random_id=7)
    cluster.run(1.0)
    assert cluster.shells["c"].over is None
    cluster.isolate("ab")
    cluster.run(1.0)
    change(cluster, "a", add("c"))
    cluster.run(0.2)
    cluster.isolate("abc")
    cluster.run(2.0)
    assert cluster.shells["c"].over is None
    assert [cluster.members(name) for name in "abc"] == ["abc"] * 3


def test_a_daemon_that_was_away_learns_the_roster_before_it_joins_a_view() -> None:
    cluster = formed()
    stop(cluster, "c")
    cluster.run(1.5)
    change(cluster, "a", add("d"))
    cluster.run(0.2)
    change(cluster, "a", MoveDaemon("b", ("10.0.0.9:4803",)))
    cluster.run(0.2)
    restart(cluster, "c")
    cluster.run(2.0)
    assert [cluster.members(name) for name in "abc"] == ["abc"] * 3
    assert roster(cluster, "c") == roster(cluster, "a")
    entry = roster(cluster, "c").entry("b")
    assert entry is not None
    assert entry.addresses == ("10.0.0.9:4803",)
    assert cluster.shells["c"].record.agreed == roster(cluster, "a"), "it is on its disk"


def test_a_daemon_that_was_away_while_all_that_it_knew_were_removed_needs_another_file() -> None:
    """The others may need it for a majority; simulator seed 1 with rosters, 4 s, had it alone."""
    cluster = formed()
    stop(cluster, "c")
    cluster.run(1.5)
    change(cluster, "a", add("d"))
    cluster.run(0.1)
    cluster.start("d", rosters=RosterRecord(agreed=roster(cluster, "a")))
    cluster.run(1.0)
    for name in "ab":
        change(cluster, "d", RemoveDaemon(name))
        cluster.run(1.0)
        stop(cluster, name)
    restart(cluster, "c")
    cluster.run(30.0)
    assert (names_of(cluster, "c"), names_of(cluster, "d")) == ("abc", "cd")
    assert (cluster.members("c"), cluster.members("d")) == ("c", "d")
    with pytest.raises(LocalProtocolError, match="no majority"):
        change(cluster, "d", add("e"))
    stop(cluster, "c")
    cluster.config = attrs.evolve(cluster.config, sites=(("c", "d"),))
    cluster.start("c", restarts=3, random_id=7)  # without a roster on its disk
    cluster.run(2.0)
    assert [cluster.members(name) for name in "cd"] == ["cd"] * 2
    assert roster(cluster, "c") == roster(cluster, "d")
    change(cluster, "d", add("e"))
    cluster.run(0.2)
    assert names_of(cluster, "c") == "cde"


def test_without_a_majority_a_change_is_refused_unless_forced() -> None:
    cluster = formed()
    stop(cluster, "b", "c")
    cluster.run(2.0)
    with pytest.raises(LocalProtocolError, match=r"no majority of the roster .*force the change"):
        change(cluster, "a", RemoveDaemon("b"))
    change(cluster, "a", RemoveDaemon("b"), forced=True)
    cluster.run(0.2)
    assert names_of(cluster, "a") == "ac"
    assert roster(cluster, "a").forced == 1


def test_impossible_changes_are_refused_with_a_reason() -> None:
    cluster = formed("ab")
    with pytest.raises(LocalProtocolError, match="daemon a is in the roster already"):
        change(cluster, "b", add("a"))
    with pytest.raises(LocalProtocolError, match="daemon z is not in the roster; it has a, b"):
        change(cluster, "b", RemoveDaemon("z"))
    cluster = formed("a")
    with pytest.raises(LocalProtocolError, match="it cannot be removed"):
        change(cluster, "a", RemoveDaemon("a"))


def test_a_change_waits_for_every_disk_of_the_view_and_names_those_that_lack_it() -> None:
    cluster = formed()
    cluster.stores = False
    change(cluster, "a", add("d"))
    cluster.run(0.1)
    cluster.shells["a"].store_now()
    cluster.shells["b"].store_now()
    cluster.run(0.1)
    assert names_of(cluster, "a") == "abc"
    assert cluster.cores["a"].roster_manager.lacking == ("c",)
    with pytest.raises(LocalProtocolError, match="waits for the disks of c"):
        change(cluster, "b", add("e"))
    cluster.shells["c"].fail_to_store()
    cluster.run(0.1)
    assert names_of(cluster, "a") == "abc"
    cluster.run(1.2)  # it is tried again
    cluster.shells["c"].store_now()
    cluster.run(0.1)
    assert [names_of(cluster, name) for name in "abc"] == ["abcd"] * 3


def test_a_change_that_some_have_stored_is_completed_by_the_next_majority() -> None:
    cluster = formed()
    cluster.stores = False
    change(cluster, "a", add("d"))
    cluster.run(0.1)
    cluster.shells["b"].store_now()
    stop(cluster, "a")  # its proposer is gone, and c has stored nothing
    cluster.stores = True
    cluster.shells["c"].rosters.clear()
    restart(cluster, "c")
    cluster.run(3.0)
    assert [cluster.members(name) for name in "bc"] == ["bc"] * 2
    assert [names_of(cluster, name) for name in "bc"] == ["abcd"] * 2


def test_a_change_that_counts_at_one_daemon_is_never_overtaken_by_another() -> None:
    """Only b learns that all have stored the roster; a and c complete it before their own wish."""
    cluster = formed()
    cluster.stores = False
    change(cluster, "a", add("d"))
    cluster.run(0.1)
    for name in "abc":
        cluster.shells[name].store_now()
    cluster.cut = {("a", "c"), ("b", "a"), ("b", "c"), ("c", "a")}  # b hears all, and nobody b
    cluster.run(0.3)
    cluster.stores = True
    cluster.isolate("b", "ac")
    cluster.run(3.0)
    assert [cluster.members(name) for name in "ac"] == ["ac"] * 2
    assert {names_of(cluster, name) for name in "ac"} == {"abcd"}
    assert {roster(cluster, name).number for name in "ac"} == {1}


@pytest.mark.parametrize("former", "abc")
def test_of_two_pending_changes_the_one_with_the_higher_ballot_counts(former: str) -> None:
    """All of its own view may have stored it, and one of them may have gone on to it.

    Whichever daemon has the other one: one of the two is proposed first.
    """
    cluster = formed()
    cluster.stores = False
    change(cluster, former, add("d"))
    cluster.run(0.1)
    cluster.shells[former].store_now()  # the others store nothing of it
    others = "abc".replace(former, "")
    for name in others:
        cluster.shells[name].rosters.clear()
    stop(cluster, *others)
    cluster.isolate(former, others)
    cluster.stores = True
    restart(cluster, others)
    cluster.run(3.0)
    assert [cluster.members(name) for name in others] == [others] * 2
    cluster.stores = False
    change(cluster, others[0], add("e"))
    cluster.run(0.1)
    cluster.shells[others[0]].store_now()
    cluster.shells[others[1]].rosters.clear()
    stop(cluster, *others)
    cluster.cut.clear()
    cluster.stores = True
    restart(cluster, others, restarts=3)
    cluster.run(3.0)
    assert {cluster.members(name) for name in "abc"} == {"abc"}
    assert {names_of(cluster, name) for name in "abc"} == {"abce"}
    assert {roster(cluster, name).number for name in "abc"} == {1}


def test_of_two_parts_that_both_forced_changes_the_one_with_fewer_counts() -> None:
    cluster = formed("abcd")
    cluster.isolate("a", "bcd")
    cluster.run(2.0)
    change(cluster, "a", RemoveDaemon("d"), forced=True)
    change(cluster, "b", add("e"))
    cluster.run(0.5)
    assert (names_of(cluster, "a"), names_of(cluster, "b")) == ("abc", "abcde")
    cluster.isolate("abcd")
    cluster.run(3.0)
    assert [cluster.members(name) for name in "abcd"] == ["abcd"] * 4
    assert {names_of(cluster, name) for name in "abcd"} == {"abcde"}
    assert any(
        "changes that were forced here are lost" in line
        for line in cluster.shells["a"].lines(RosterNews)
    )


def test_who_was_removed_by_a_part_whose_changes_are_lost_tells_it_the_roster() -> None:
    """Simulator seed 3000031 with rosters: members of that part send nothing else to it."""
    cluster = formed("abcd")
    cluster.isolate("ab", "cd")
    cluster.run(2.0)
    for name in "cd":
        change(cluster, "a", RemoveDaemon(name), forced=True)
        cluster.run(0.5)
    change(cluster, "c", add("k"), forced=True)
    cluster.run(0.5)
    assert (names_of(cluster, "a"), names_of(cluster, "d")) == ("ab", "abcdk")
    assert roster(cluster, "d").supersedes(roster(cluster, "a")), "else another name than k"
    stop(cluster, "c", "d")
    restart(cluster, "cd")  # they know nothing of a and b any more
    cluster.run(1.0)
    cluster.isolate("abcd")
    cluster.run(3.0)
    assert {names_of(cluster, name) for name in "abcd"} == {"abcdk"}
    assert [cluster.members(name) for name in "abcd"] == ["abcd"] * 4


def test_a_removal_that_was_heard_of_is_forgotten_once_another_roster_counts() -> None:
    """Simulator seed 3000031 with rosters: five seconds later the daemon ended itself."""
    cluster = formed("abcd")
    cluster.isolate("ab", "c")
    stop(cluster, "d")
    cluster.run(2.0)
    change(cluster, "a", RemoveDaemon("d"), forced=True)
    cluster.run(0.5)
    cluster.isolate("abd", "c")
    cluster.start("d", restarts=2, random_id=7)  # its disk is new: it does not believe that at once
    cluster.run(0.5)
    cluster.isolate("ab", "cd")
    cluster.run(2.0)
    change(cluster, "c", add("e"), forced=True)
    cluster.run(5.0)
    assert cluster.shells["d"].over is None
    assert names_of(cluster, "d") == "abcde"


def test_links_change_routes_of_the_view_at_all_daemons_and_cost_no_view() -> None:
    """Packets of a go to c directly, then over b, and directly again once no link is near a."""
    cluster = Cluster("a", "b", "c", link_delays_us=((0, 1, 10), (1, 2, 10), (0, 2, 15)))
    cluster.start("abc")
    cluster.run(3.0)
    before = [views(cluster, name) for name in "abc"]

    def onward() -> list[tuple[int, ...]]:
        return [_view_state(cluster, name).routes.onward[0] for name in "abc"]

    assert onward() == [(1, 2), (), ()]
    change(cluster, "b", SetLinks((("1", "3", 50),)))
    cluster.run(0.5)
    assert onward() == [(1,), (2,), ()]
    assert [views(cluster, name) for name in "abc"] == before
    change(cluster, "c", RemoveLinks((("1", "2"),)))
    cluster.run(0.5)
    assert onward() == [(2, 1), (), ()], "a pair without a link is as far as any two sites"
    assert {roster(cluster, name).links for name in "abc"} == {(("1", "3", 50), ("2", "3", 10))}
    assert [views(cluster, name) for name in "abc"] == before


def test_a_new_site_comes_with_its_link() -> None:
    cluster = Cluster("ab", "c", link_delays_us=((0, 1, 400),))
    cluster.start("abc")
    cluster.run(3.0)
    with pytest.raises(LocalProtocolError, match="no path of links leads from site 1 to site new"):
        change(cluster, "a", AddDaemon(name="d", site="new"))
    change(cluster, "a", AddDaemon(name="d", site="new", links=(("2", 600),)))
    cluster.run(0.5)
    assert [cluster.cores[name].config.timing.longest_delay_s for name in "abc"] == [0.001] * 3
    cluster.start("d", rosters=RosterRecord(agreed=roster(cluster, "a")))
    cluster.run(3.0)
    assert [cluster.members(name) for name in "abcd"] == ["abcd"] * 4


def _view_state(cluster: Cluster, name: str) -> ViewState:
    found = cluster.cores[name].view_state
    assert found is not None
    return found


def test_from_one_daemon_to_four_and_back_one_at_a_time() -> None:
    cluster = formed("a")
    for name in "bcd":
        before = views(cluster, "a")
        change(cluster, "a", add(name))
        cluster.run(0.1)
        cluster.start(name, rosters=RosterRecord(agreed=roster(cluster, "a")))
        cluster.run(1.0)
        assert cluster.members("a")[-1] == name
        assert views(cluster, "a") == before + 1, name
        assert cluster.cores["a"].status(cluster.now).majority, name
    for name in "dcb":
        before = views(cluster, "a")
        change(cluster, "a", RemoveDaemon(name))
        cluster.run(1.0)
        stop(cluster, name)
        assert views(cluster, "a") == before + 1, name
        assert name not in cluster.members("a")
    assert cluster.members("a") == "a"


# ---- invitations ----


def invite(name: str, id: bytes) -> InviteDaemon:
    invitation = Invitation(
        id=id, name=name, site="1", proof=bytes(32), expires_s=2_000_000, holder=b""
    )
    return InviteDaemon(invitation=invitation, now_s=1_000_000)


def admit(id: bytes, holder: int) -> AdmitDaemon:
    return AdmitDaemon(id=id, holder=bytes((holder,)) * 32, addresses=(f"h{holder}.example:4803",))


def test_an_invitation_is_at_all_disks_and_admits_one_daemon_of_two_that_ask_at_once() -> None:
    cluster = formed()
    change(cluster, "a", invite("d", b"12345678"))
    cluster.run(1.0)
    for name in "abc":
        stored = cluster.shells[name].record
        assert stored is not None
        assert stored.agreed == roster(cluster, name)
        assert roster(cluster, name).invitation(b"12345678") is not None
    before = views(cluster, "a")
    change(cluster, "a", admit(b"12345678", 1))
    change(cluster, "b", admit(b"12345678", 2))
    cluster.run(2.0)
    assert views(cluster, "a") == before, "nobody else is there yet"
    assert len({roster(cluster, name).id for name in "abc"}) == 1
    assert names_of(cluster, "c") == "abcd"
    used = roster(cluster, "c").invitation(b"12345678")
    assert used is not None
    with pytest.raises(LocalProtocolError, match="was used"):
        change(cluster, "c", admit(b"12345678", 3))
    change(cluster, "c", RemoveDaemon("d"))
    cluster.run(2.0)
    assert roster(cluster, "a").invitations == ()


def test_invitations_are_replaced_by_name_forgotten_when_old_and_bounded() -> None:
    first = formed("a").cores["a"].config.roster
    one = first.changed(invite("d", b"12345678")).changed(invite("d", b"87654321"))
    assert [each.id for each in one.invitations] == [b"87654321"]
    later = attrs.evolve(invite("e", b"aaaaaaaa"), now_s=2_000_000)
    assert [each.name for each in one.changed(later).invitations] == ["e"]
    full = first
    for number in range(MAX_INVITATIONS):
        full = full.changed(invite(f"x{number}", number.to_bytes(8, "big")))
    with pytest.raises(ConfigError, match="32 daemons are invited"):
        full.changed(invite("y", b"yyyyyyyy"))
    with pytest.raises(ConfigError, match="in the roster already"):
        first.changed(invite("a", b"yyyyyyyy"))
    assert full.id != first.id


def test_a_daemon_that_hears_of_the_roster_before_the_last_step_waits_for_the_step() -> None:
    """Its own next proposal would be in front of that step, where the others drop it for good."""
    cluster = formed()
    change(cluster, "b", add("d"))
    core = cluster.cores["a"]
    while not core.roster_manager.is_changing:
        cluster.run(0.0005)
    pending = core.roster_manager.record.pending
    assert pending is not None
    cluster.isolate("a", "bc")
    core.roster_manager.on_notice(RosterNotice("b", True, encode_roster(pending)), core._now)
    cluster.run(0.1)
    assert roster(cluster, "a").number == 0
    cluster.cut = set()
    cluster.run(0.5)
    assert roster(cluster, "a") == pending
    cluster.start("d", rosters=RosterRecord(agreed=pending))
    cluster.run(1.0)
    assert {roster(cluster, name).number for name in "abcd"} == {2}, "d counts"


def test_between_two_views_a_roster_that_counts_elsewhere_is_learned() -> None:
    """The last step of the change came in the view that is over here: it comes no more."""
    cluster = formed()
    cluster.stores = False
    change(cluster, "a", add("d"))
    cluster.run(0.1)
    manager = cluster.cores["c"].roster_manager
    pending = manager.record.pending
    assert pending is not None
    manager.end_regular()
    assert not manager.is_changing
    manager.on_notice(RosterNotice("b", True, encode_roster(pending)), 0.0)
    assert manager.record == RosterRecord(agreed=pending)


def test_of_two_changes_at_once_the_first_in_the_order_counts_and_the_other_is_dropped() -> None:
    cluster = formed()
    change(cluster, "a", add("d"))
    change(cluster, "b", add("e"))
    cluster.run(1.0)
    dropped = [
        wish
        for name, wish in (("a", "d"), ("b", "e"))
        if any("was dropped" in line for line in cluster.shells[name].lines(RosterNews))
    ]
    assert len(dropped) == 1
    assert {names_of(cluster, name) for name in "abc"} == {"abcde".replace(dropped[0], "")}
    assert {roster(cluster, name).number for name in "abc"} == {1}


def test_a_daemon_that_leaves_by_itself_says_nothing_of_a_roster() -> None:
    cluster = formed("ab")
    change(cluster, "a", add("c"))
    cluster.run(0.5)
    cluster.cores["b"].leave()
    cluster.run(2.0)
    over = cluster.shells["b"].over
    assert over is not None
    assert (over.end, over.roster) == (EndReason.LEFT, None)
