"""The roster manager of one daemon: each step of a change, rosters that come, and its disk."""

from math import inf
from typing import Any, cast

import attrs
import pytest

from groupcomm.config.roster import AddDaemon, Roster, RosterEntry, RosterRecord
from groupcomm.engine.backlog import Backlog, Submitter
from groupcomm.engine.counters import Counters
from groupcomm.engine.roster import (
    FLOOD_AGAIN_S,
    MAX_PROPOSED,
    REMOVAL_WAIT_S,
    STORE_AGAIN_S,
    EndRemoved,
    FloodRoster,
    RosterEffect,
    RosterManager,
    TellRoster,
    UseRoster,
)
from groupcomm.errors import BadDatagram, LocalProtocolError
from groupcomm.wire.bundle import body_payload, roster_bundle
from groupcomm.wire.membership import RosterNotice
from groupcomm.wire.roster import (
    RosterStep,
    StepKind,
    decode_roster_untrusted,
    decode_step_untrusted,
    encode_roster,
)

NAMES = ("a", "b", "c")
BASE = Roster(entries=tuple(RosterEntry(name=name, site="1") for name in NAMES))
WITH_D = BASE.changed(AddDaemon(name="d", site="1"))
WITH_E = BASE.changed(AddDaemon(name="e", site="1"))
BALLOT = 7


class Core:
    """What is around a roster manager.

    Attributes:
        effects: what it has told the core to do, in order.
    """

    def __init__(self, name: str = "a", roster: Roster = BASE) -> None:
        self.name, self.roster = name, roster
        self.counters = Counters()
        self.backlog = Backlog()
        self.submitter = Submitter(self.backlog)
        self.effects: list[RosterEffect] = []

    @property
    def submitted(self) -> list[RosterStep]:
        """Return the steps that were sent, in order."""
        return [decode_step_untrusted(bytes(body_payload(each.body))) for each in self.backlog]

    @property
    def flooded(self) -> list[Roster]:
        """Return the rosters that were sent to all."""
        notices = [each.notice for each in self.effects if isinstance(each, FloodRoster)]
        assert all((each.name, each.counts) == (self.name, False) for each in notices)
        return [decode_roster_untrusted(each.roster) for each in notices]

    @property
    def used(self) -> list[Roster]:
        """Return the rosters that count from then on."""
        return [each.roster for each in self.effects if isinstance(each, UseRoster)]

    @property
    def told(self) -> list[Roster]:
        """Return those of them that others may learn."""
        told, latest = [], self.roster
        for each in self.effects:
            if isinstance(each, UseRoster):
                latest = each.roster
            if isinstance(each, TellRoster) or (isinstance(each, UseRoster) and each.stored):
                told.append(latest)
        return told

    @property
    def removed(self) -> int:
        """Return how often the manager said that this daemon is removed."""
        return self.effects.count(EndRemoved())

    def pop_woken(self) -> bool:
        """Return whether the next step was to come at once since the last call."""
        woken, self.submitter.is_woken = self.submitter.is_woken, False
        return woken


def manager_of(
    core: Core, *, record: RosterRecord | None = None, majority: bool = True, view: bool = True
) -> RosterManager:
    manager = RosterManager(
        core.name, core.roster, record or RosterRecord(), core.submitter, core.counters
    )
    manager.effects = core.effects
    if view:
        manager.begin_view(NAMES, BALLOT, majority=majority)
    return manager


def step(manager: RosterManager, sender: int, kind: StepKind, roster: Roster, **more: Any) -> None:
    """Have a step of a daemon come in the agreed order."""
    made = RosterStep(kind=kind, base=manager.roster.id, roster=roster.id, **more)
    manager.on_step(sender, roster_bundle(made.encode()))


def propose(manager: RosterManager, sender: int, roster: Roster, **more: Any) -> None:
    step(manager, sender, StepKind.PROPOSE, roster, **more)


def notice(roster: Roster, *, counts: bool = False, name: str = "b") -> RosterNotice:
    return RosterNotice(name, counts, encode_roster(roster))


def store(manager: RosterManager, now: float = 0.0) -> None:
    """Have the disk hold what it is to hold."""
    record = manager.to_store(now)
    assert record is not None
    manager.stored(record)


# ---- a change, step by step ----


def test_a_change_counts_once_all_daemons_of_the_view_have_stored_it() -> None:
    core = Core()
    manager = manager_of(core)
    manager.change(AddDaemon(name="d", site="1"), forced=False)
    assert core.flooded == [WITH_D]
    assert core.submitted == [
        RosterStep(kind=StepKind.PROPOSE, base=BASE.id, roster=WITH_D.id, ballot=0, forced=False)
    ]
    assert not manager.is_changing, "its place in the order is not known yet"
    propose(manager, 0, WITH_D)
    assert manager.is_changing
    assert manager.to_store(0.0) == RosterRecord(pending=WITH_D, ballot=BALLOT)
    assert len(core.submitted) == 1
    store(manager)
    assert (manager.unstored, manager.to_store(0.0)) == (False, None)
    assert [each.kind for each in core.submitted] == [StepKind.PROPOSE, StepKind.STORED]
    for sender, lacking in ((2, ("a", "b")), (2, ("a", "b")), (0, ("b",))):
        step(manager, sender, StepKind.STORED, WITH_D)
        assert manager.lacking == lacking
    step(manager, 1, StepKind.STORED, WITH_E)
    assert core.used == [], "that is another roster"
    step(manager, 1, StepKind.STORED, WITH_D)
    assert core.used == [WITH_D]
    assert (manager.is_changing, manager.lacking) == (False, ())
    assert manager.to_store(0.0) == RosterRecord(agreed=WITH_D)
    assert core.told == [], "its disk does not hold that yet"
    store(manager)
    assert core.told == [WITH_D]
    assert list(manager.news) == [f"roster {WITH_D.number} counts: a, b, c, d"]


def test_a_daemon_waits_for_a_roster_that_it_has_not_got_yet() -> None:
    core = Core()
    manager = manager_of(core)
    propose(manager, 1, WITH_D)
    assert not manager.unstored
    for sender in (0, 1, 2):
        step(manager, sender, StepKind.STORED, WITH_D)
    assert core.used == [], "this daemon does not have it"
    assert not manager.on_notice(notice(WITH_D), 0.0)
    assert manager.to_store(0.0) == RosterRecord(pending=WITH_D, ballot=BALLOT)
    store(manager)
    assert [each.kind for each in core.submitted] == [StepKind.STORED]
    store_again = manager.record
    manager.stored(store_again)
    assert len(core.submitted) == 1, "it is said once"


def test_steps_that_do_not_fit_are_ignored() -> None:
    core = Core()
    manager = manager_of(core)
    manager.on_notice(notice(WITH_D), 0.0)
    propose(manager, 3, WITH_D)
    manager.on_step(1, roster_bundle(b"junk"))
    assert core.counters.violations == {"roster": 1}
    manager.on_step(3, roster_bundle(b"junk"))
    other = RosterStep(kind=StepKind.PROPOSE, base=WITH_E.id, roster=WITH_D.id)
    manager.on_step(1, roster_bundle(other.encode()))
    step(manager, 1, StepKind.STORED, WITH_D)
    assert core.counters.violations == {"roster": 1}
    assert not manager.is_changing
    manager.end_regular()
    propose(manager, 1, WITH_D)
    assert not manager.is_changing, "the regular view is over"


def test_without_a_majority_only_a_forced_change_is_chosen() -> None:
    manager = manager_of(Core(), majority=False)
    with pytest.raises(LocalProtocolError, match="no majority"):
        manager.change(AddDaemon(name="d", site="1"), forced=False)
    propose(manager, 1, WITH_D)
    assert not manager.is_changing
    propose(manager, 1, WITH_D, forced=True)
    assert manager.is_changing


def test_a_roster_that_one_message_cannot_carry_is_not_proposed() -> None:
    core = Core()
    manager = manager_of(core)
    long = tuple(f"{number}.{'x' * 70_000}:4803" for number in range(8))
    with pytest.raises(
        LocalProtocolError, match=r"would take 56\d+ bytes; .* at most 524288: give"
    ):
        manager.change(AddDaemon(name="d", site="1", addresses=long), forced=False)
    assert core.flooded == []
    assert core.submitted == []


def test_a_forced_change_says_so() -> None:
    core = Core()
    manager = manager_of(core, majority=False)
    manager.change(AddDaemon(name="d", site="1"), forced=True)
    assert core.submitted[0].forced
    assert core.flooded[0].is_forced


def test_no_change_begins_between_views_and_beside_another() -> None:
    core = Core()
    with pytest.raises(LocalProtocolError, match="looks for a view"):
        manager_of(core, view=False).change(AddDaemon(name="d", site="1"), forced=False)
    manager = manager_of(core)
    propose(manager, 1, WITH_E)
    with pytest.raises(LocalProtocolError, match="waits for the disks of a, b, c"):
        manager.change(AddDaemon(name="d", site="1"), forced=False)
    assert core.submitted == []


@pytest.mark.parametrize(("ballot", "replaces"), [(4, False), (5, False), (6, True)])
def test_a_proposal_is_replaced_by_one_with_a_higher_ballot_only(
    ballot: int, replaces: bool
) -> None:
    core = Core("b")
    manager = manager_of(core)
    for roster in (WITH_D, WITH_E):
        manager.on_notice(notice(roster), 0.0)
    propose(manager, 0, WITH_D, ballot=5)
    propose(manager, 1, WITH_E, ballot=ballot)
    assert manager.record.pending == (WITH_E if replaces else WITH_D)
    dropped = ["a change of the roster was dropped: another one came first"]
    assert list(manager.news) == ([] if replaces else dropped)


def test_a_change_that_others_propose_again_is_nobodys_loss() -> None:
    manager = manager_of(Core("b"))
    propose(manager, 0, WITH_D, ballot=5)
    propose(manager, 2, WITH_E, ballot=5)
    propose(manager, 1, WITH_D, ballot=5)
    assert list(manager.news) == [], "neither of them was this daemon's own other change"


# ---- views ----


def test_a_pending_change_is_proposed_again_with_its_ballot() -> None:
    core = Core("b")
    manager_of(core, record=RosterRecord(pending=WITH_D, ballot=3))
    assert core.flooded == [WITH_D]
    assert [(each.kind, each.ballot) for each in core.submitted] == [(StepKind.PROPOSE, 3)]
    idle = Core("b")
    manager_of(idle, record=RosterRecord(pending=WITH_D, ballot=3), majority=False)
    assert idle.submitted == []


def test_a_pending_change_that_has_come_to_count_is_not_proposed_again() -> None:
    core = Core("b", WITH_D)
    manager_of(core, record=RosterRecord(agreed=WITH_D, pending=WITH_D, ballot=3))
    assert core.submitted == []


@pytest.mark.parametrize(
    ("name", "members", "majority", "proposes"),
    [
        ("a", "abcd", True, True),
        ("b", "abcd", True, False),
        ("a", "abc", True, False),
        ("a", "abcd", False, False),
    ],
)
def test_the_lowest_daemon_proposes_to_count_one_that_was_added(
    name: str, members: str, majority: bool, proposes: bool
) -> None:
    core = Core(name, WITH_D)
    assert not next(entry for entry in WITH_D.entries if entry.name == "d").counts
    manager = manager_of(core, view=False)
    manager.begin_view(tuple(members), BALLOT, majority=majority)
    assert len(core.submitted) == proposes
    if proposes:
        assert all(entry.counts for entry in core.flooded[0].entries)


def test_each_step_has_the_core_act_soon() -> None:
    """Else a step would wait for whatever comes next, on a quiet day for a beacon."""
    core = Core()
    manager = manager_of(core)
    assert not core.pop_woken()
    manager.change(AddDaemon(name="d", site="1"), forced=False)
    assert core.pop_woken(), "a bundle waits for a number"
    propose(manager, 0, WITH_D)
    assert core.pop_woken(), "the disk lacks the roster, and it is to be flooded again"
    store(manager)
    assert core.pop_woken(), "another bundle waits"
    waiting = Core()
    manager = manager_of(waiting, view=False)
    manager.on_notice(notice(WITH_D, counts=True), 0.0)
    assert waiting.pop_woken(), "the disk lacks the roster"


def test_a_daemon_that_has_come_is_counted_as_soon_as_the_roster_has_it() -> None:
    core = Core()
    manager = manager_of(core, view=False)
    manager.begin_view((*NAMES, "d"), BALLOT, majority=True)
    manager.on_notice(notice(WITH_D), 0.0)
    propose(manager, 1, WITH_D)
    store(manager)
    for sender in (0, 1, 2, 3):
        step(manager, sender, StepKind.STORED, WITH_D)
    assert core.used == [WITH_D]
    assert [each.kind for each in core.submitted] == [StepKind.STORED, StepKind.PROPOSE]
    assert core.submitted[-1].base == WITH_D.id
    counted = core.flooded[-1].entry("d")
    assert counted is not None
    assert counted.counts


def test_a_new_view_forgets_the_change_of_the_old_one() -> None:
    manager = manager_of(Core())
    propose(manager, 1, WITH_D)
    manager.end_regular()
    assert not manager.is_changing
    manager.begin_view(NAMES, BALLOT + 1, majority=True)
    assert not manager.is_changing


# ---- rosters that come ----


def test_a_roster_that_counts_elsewhere_is_stored_and_then_used() -> None:
    core = Core()
    manager = manager_of(core, view=False)
    assert not manager.on_notice(notice(WITH_D, counts=True), 0.0)
    assert core.used == []
    assert manager.to_store(0.0) == RosterRecord(agreed=WITH_D)
    manager.on_notice(notice(WITH_D, counts=True), 0.0)
    store(manager)
    assert core.used == [WITH_D]
    assert not manager.unstored, "it is on disk already"
    assert list(manager.news) == [f"roster {WITH_D.number} counts: a, b, c, d"]


def test_a_daemon_with_an_older_roster_has_to_adopt_this_one() -> None:
    core = Core(roster=WITH_D)
    manager = manager_of(core, record=RosterRecord(agreed=WITH_D))
    assert manager.on_notice(notice(BASE, counts=True), 0.0)
    assert not manager.on_notice(notice(WITH_D, counts=True), 0.0)
    assert not manager.on_notice(notice(BASE), 0.0), "that one is only proposed"
    assert not manager_of(Core()).on_notice(notice(BASE, counts=True), 0.0)


def test_the_roster_of_a_change_under_way_comes_in_the_order_of_the_view() -> None:
    core = Core()
    manager = manager_of(core)
    propose(manager, 1, WITH_D)
    assert not manager.on_notice(notice(WITH_D, counts=True), 0.0)
    assert not manager.unstored


def test_only_so_many_proposed_rosters_are_kept_the_oldest_go_first() -> None:
    core = Core()
    manager = manager_of(core)
    rosters = [
        BASE.changed(AddDaemon(name=f"x{number}", site="1")) for number in range(MAX_PROPOSED + 1)
    ]
    for roster in (*rosters[:MAX_PROPOSED], rosters[0], rosters[-1]):
        manager.on_notice(notice(roster), 0.0)
    propose(manager, 1, rosters[1])
    assert not manager.unstored, "it was the oldest"
    manager.end_regular()
    manager.begin_view(NAMES, BALLOT, majority=True)
    propose(manager, 1, rosters[0])
    assert manager.record.pending == rosters[0], "it has come once more"


def test_a_roster_that_is_broken_or_of_a_later_release_is_not_learned() -> None:
    manager = manager_of(Core(), view=False)
    with pytest.raises(BadDatagram):
        manager.on_notice(RosterNotice("b", True, b"junk"), 0.0)
    assert list(manager.news) == []


# ---- removal ----


WITHOUT_C = attrs.evolve(
    BASE, entries=BASE.entries[:2], number=5, removed=(BASE.entries[2],), ancestors=(BASE.id,)
)


def test_a_daemon_without_a_roster_on_disk_waits_before_it_believes_that_it_was_removed() -> None:
    core = Core("c")
    manager = manager_of(core, view=False)
    manager.on_notice(notice(WITHOUT_C, counts=True), 10.0)
    assert (manager.unstored, manager.due) == (False, 10.0 + REMOVAL_WAIT_S)
    manager.on_notice(notice(WITHOUT_C, counts=True), 12.0)
    assert manager.due == 10.0 + REMOVAL_WAIT_S
    manager.step(10.0 + REMOVAL_WAIT_S - 0.001)
    assert not manager.unstored
    manager.step(10.0 + REMOVAL_WAIT_S)
    assert manager.due == inf
    store(manager)
    assert (core.removed, core.used) == (1, [])
    assert list(manager.news)[-1].endswith("does not have this daemon: it was removed")


def test_a_daemon_with_a_roster_on_disk_believes_it_at_once() -> None:
    core = Core("c")
    manager = manager_of(core, record=RosterRecord(agreed=BASE), view=False)
    manager.on_notice(notice(WITHOUT_C, counts=True), 10.0)
    assert manager.unstored
    store(manager)
    assert core.removed == 1
    later = attrs.evolve(WITHOUT_C, number=6, ancestors=(BASE.id, WITHOUT_C.id))
    manager.on_notice(notice(later, counts=True), 11.0)
    store(manager)
    assert core.removed == 1, "it is removed once"


def test_a_daemon_that_leaves_as_it_was_removed_has_no_part_in_other_changes() -> None:
    """Seed 471700 with rosters: two changes of one roster counted, as it had stored both."""
    core = Core("c")
    manager = manager_of(core, record=RosterRecord(agreed=BASE))
    manager.on_notice(notice(WITHOUT_C, counts=True), 10.0)
    store(manager)
    for _ in range(2):  # in the view in which it was removed, and in the next one
        manager.on_notice(notice(WITH_D), 10.0)
        propose(manager, 0, WITH_D, ballot=BALLOT)
        assert (manager.record, manager.is_changing) == (RosterRecord(agreed=WITHOUT_C), False)
        with pytest.raises(LocalProtocolError, match="does not have this daemon"):
            manager.change(AddDaemon(name="e", site="1"), forced=True)
        manager.begin_view(NAMES, BALLOT + 1, majority=True)
    assert (manager.to_store(11.0), core.submitted) == (None, [])


def test_a_cluster_that_a_daemon_was_not_added_to_yet_does_not_concern_it() -> None:
    core = Core("z")
    manager = manager_of(core, view=False)
    manager.on_notice(notice(WITHOUT_C, counts=True), 10.0)
    assert (manager.unstored, manager.due) == (False, inf)


def test_a_removal_is_forgotten_when_the_daemon_was_added_again() -> None:
    core = Core("c")
    manager = manager_of(core, view=False)
    manager.on_notice(notice(WITHOUT_C, counts=True), 10.0)
    again = WITHOUT_C.changed(AddDaemon(name="c", site="1"))
    manager.on_notice(notice(again, counts=True), 11.0)
    assert manager.due == inf
    store(manager)
    assert (core.removed, core.used) == (0, [again])
    manager.step(100.0)
    assert core.removed == 0


# ---- the disk, and time ----


def test_a_write_that_has_failed_is_tried_again_after_a_while() -> None:
    core = Core()
    manager = manager_of(core)
    manager.on_notice(notice(WITH_D), 0.0)
    propose(manager, 1, WITH_D)
    manager.not_stored("No space left on device", 5.0)
    assert "No space left on device" in manager.news[0]
    assert manager.due == 5.0 + STORE_AGAIN_S
    assert manager.to_store(5.0 + STORE_AGAIN_S - 0.001) is None
    assert manager.to_store(5.0 + STORE_AGAIN_S) == manager.record
    manager.step(5.0 + STORE_AGAIN_S)
    assert manager.due == inf
    assert manager.to_store(0.0) == manager.record


def test_an_older_record_on_disk_does_not_count() -> None:
    core = Core()
    manager = manager_of(core)
    manager.on_notice(notice(WITH_D), 0.0)
    propose(manager, 1, WITH_D)
    manager.stored(RosterRecord())
    assert manager.unstored
    assert core.submitted == []


def test_its_proposer_floods_a_roster_again_until_it_counts() -> None:
    core = Core()
    manager = manager_of(core)
    assert manager.due == inf
    manager.change(AddDaemon(name="d", site="1"), forced=False)
    propose(manager, 0, WITH_D)
    core.effects.clear()
    for now in (1.0, 1.0 + FLOOD_AGAIN_S - 0.001, 1.0 + FLOOD_AGAIN_S):
        if now >= manager.due:
            manager.step(now)
    assert core.flooded == [WITH_D] * 2
    store(manager)
    for sender in (0, 1, 2):
        step(manager, sender, StepKind.STORED, WITH_D)
    assert manager.due == inf
    manager.step(9.0)
    assert core.flooded == [WITH_D] * 2
    other = Core("b")
    manager = manager_of(other)
    manager.on_notice(notice(WITH_D), 0.0)
    propose(manager, 0, WITH_D)
    assert manager.due == inf, "another daemon does so"
    manager.step(1.0)
    assert other.flooded == []


def test_operators_see_the_roster_and_how_far_a_change_has_come() -> None:
    manager = manager_of(Core())
    propose(manager, 1, WITH_D)
    step(manager, 1, StepKind.STORED, WITH_D)
    found = manager.describe(["a", "b"])
    daemons = cast(list[dict[str, Any]], found["daemons"])
    assert [(each["name"], each["in_view"]) for each in daemons] == [
        ("a", True), ("b", True), ("c", False)
    ]  # fmt: skip
    assert (found["changing"], found["lacking"], found["in_view"]) == (True, ["a", "c"], True)
