"""Readers: sessions that get the messages of a group, and are no members of it."""

from math import inf

import attrs
import pytest

from groupcomm.config.versions import SPOKEN, Versions
from groupcomm.events import Cause
from groupcomm.groups.announcement import (
    NOTHING,
    Announcements,
    encode_announcement,
    rows_of,
)
from groupcomm.groups.carried import CarriedGroups
from groupcomm.groups.groups import Groups
from groupcomm.groups.pruning import Reach
from tests.groupcomm.groups.announced import bundles_of
from tests.groupcomm.groups.stage import VIEW, Audience, Stage, messages

KNOWING = attrs.evolve(VIEW, versions=SPOKEN)
"""A view of two daemons that know readers."""


def stage_with_a_reader() -> Stage:
    """anna at daemon 0 and ben at daemon 1 are members; cora at daemon 1 reads."""
    stage = Stage(KNOWING)
    for daemon, connection, user in ((0, 1, "anna"), (1, 1, "ben"), (1, 2, "cora")):
        stage.connect(daemon, connection, user)
        (stage.read if user == "cora" else stage.join)(daemon, connection, user, "g")
    return stage


def names(stage: Stage, daemon: int) -> list[str]:
    return [str(member) for member in stage.groups[daemon].table.member_ids("g")]


def test_a_reader_gets_messages_and_nobody_gets_a_view_of_it() -> None:
    stage = stage_with_a_reader()
    for daemon in (0, 1):
        assert names(stage, daemon) == ["#anna#a/1", "#ben#b/1"]
    assert [number for number, _ in stage.audience[0].views] == [1, 1], "of anna and of ben"
    number, view = stage.audience[1].views[-1]
    assert (number, view.own, view.cause) == (2, True, Cause.JOIN)
    (me,) = view.members
    assert (me.user, view.changed, view.vs_set) == ("cora", (me,), (me,))
    stage.release(0, messages(1, "anna", "g"))
    stage.release(0, messages(1, "anna", "h", "g"))
    assert stage.audience[1].delivered == [(1, 1), (2, 1)] * 2
    for audience in stage.audience:
        audience.views.clear()
    stage.leave(1, 2, "cora", "g")
    ((number, view),) = stage.audience[1].views
    assert (number, view.own, view.cause, view.members) == (2, True, Cause.LEAVE, ())
    assert (view.changed, view.vs_set) == ((me,), ())
    stage.release(0, messages(1, "anna", "g"))
    assert stage.audience[1].delivered[-1] == (1, 1)
    assert stage.audience[0].views == []
    assert stage.audience[1].leaves == ["g"]


def test_a_reader_that_disconnects_goes_without_a_view() -> None:
    stage = stage_with_a_reader()
    for audience in stage.audience:
        audience.views.clear()
    stage.disconnect(1, 2, "cora")
    assert [audience.views for audience in stage.audience] == [[], []]
    assert stage.groups[1].table.reading == {}
    digests = [audience.digests for audience in stage.audience]
    assert digests[0] == digests[1]


def test_members_and_readers_do_not_become_the_other_by_asking_again() -> None:
    stage = stage_with_a_reader()
    before = [list(audience.views) for audience in stage.audience]
    stage.join(1, 2, "cora", "g")
    stage.read(1, 1, "ben", "g")
    assert [audience.views for audience in stage.audience] == before
    assert list(stage.groups[1].table.reading["g"]) == [2]


def test_the_tables_tell_members_from_readers() -> None:
    member, reader = Stage(KNOWING), Stage(KNOWING)
    for stage in (member, reader):
        stage.connect(0, 1, "anna")
    member.join(0, 1, "anna", "g")
    reader.read(0, 1, "anna", "g")
    assert member.audience[1].digests[-1] != reader.audience[1].digests[-1]
    for stage in (member, reader):
        stage.leave(0, 1, "anna", "g")
    assert member.audience[1].digests[-1] == reader.audience[1].digests[-1]


def test_beside_a_daemon_that_knows_no_readers_they_are_members() -> None:
    stage = Stage()
    stage.connect(0, 1, "anna")
    stage.read(0, 1, "anna", "g")
    assert names(stage, 0) == names(stage, 1) == ["#anna#a/1"]


# ---- from view to view ----


@pytest.mark.parametrize("along", ["a", "ab"])
def test_readers_read_on_in_the_next_view(along: str) -> None:
    old, audience = stage_with_a_reader().groups, Audience()
    groups = Groups(KNOWING, 1, audience)
    held = Announcements(2, SPOKEN)
    both = [CarriedGroups(), CarriedGroups()]
    for me, carried in enumerate(both):
        carried.replace(old[me].table, KNOWING, me)
        carried.keep_members(KNOWING.daemons[1 - (along == "a") * me : 2])
        for bundle in bundles_of(carried.announce(1000, KNOWING)):
            held.accept(me, bundle)
    groups.begin(both[1].pop(1), held, on_table=audience.present.clear).advance(inf)
    assert [(number, view.cause) for number, view in audience.views] == [(1, Cause.NETWORK)]
    assert groups.table.reading == {"g": {2: None}}
    assert len(groups.table.member_ids("g")) == 2
    groups.deliver(Stage(KNOWING).place(0, messages(1, "anna", "g")))
    assert audience.delivered == [(1, 1), (2, 1)]


def test_daemons_that_know_no_readers_get_announcements_as_they_know_them() -> None:
    table = stage_with_a_reader().groups[1].table
    found = rows_of(table, readers=False)
    assert (found.groups, found.readers) == ((("g", (1, 2)),), ())
    body = encode_announcement(NOTHING, found, Versions(), 1000)
    assert body[0] == 0x95, "an array of five fields, as in releases before"
    assert encode_announcement(NOTHING, rows_of(table), Versions(), 1000)[0] == 0x96


def test_messages_for_readers_leave_their_ring() -> None:
    view = attrs.evolve(KNOWING, rings=((0,), (1,)), links=((0, 1),))
    reach = Reach(view, 0)
    bundle = messages(1, "anna", "g")
    assert reach.is_local_only(bundle)
    reach.add(stage_with_a_reader().groups[1].table.sessions[1, 2])
    assert not reach.is_local_only(bundle)
