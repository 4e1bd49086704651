"""Groups: views, recipients, private messages that come too late, and messages cut short."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.events import Cause, GroupView, MemberId
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import SELF_DISCARD
from tests.groupcomm.groups.stage import Stage, fragment, messages

UNRELIABLE, RELIABLE, FIFO, CAUSAL, AGREED, SAFE = ServiceLevel


def stage_with_members() -> Stage:
    """anna at daemon 0, ben and cora at daemon 1, all in one group."""
    stage = Stage()
    for daemon, connection, user in ((0, 1, "anna"), (1, 1, "ben"), (1, 2, "cora")):
        stage.connect(daemon, connection, user)
        stage.join(daemon, connection, user, "g")
    for audience in stage.audience:
        audience.views.clear()
    return stage


# ---- views ----


def test_a_join_is_shown_to_all_members_and_names_who_came_along() -> None:
    stage = stage_with_members()
    stage.connect(0, 2, "dora")
    stage.join(0, 2, "dora", "g")
    everybody = ("#anna#a/1", "#ben#b/1", "#cora#b/2", "#dora#a/2")
    shown = [(number, view) for audience in stage.audience for number, view in audience.views]
    assert [number for number, _ in shown] == [1, 2, 1, 2]
    for number, view in shown:
        assert tuple(map(str, view.members)) == everybody, "in the order of their joins"
        assert (view.cause, *map(str, view.changed)) == (Cause.JOIN, "#dora#a/2")
        assert view.own == (number == 2 and view is stage.audience[0].views[1][1])
    together = [tuple(map(str, view.vs_set)) for _, view in shown]
    assert together == [everybody[:3], everybody[3:], everybody[:3], everybody[:3]]
    assert len({view.id for _, view in shown}) == 1


def test_a_leave_is_shown_to_those_who_stay_and_once_to_who_leaves() -> None:
    stage = stage_with_members()
    stage.leave(1, 1, "ben", "g")
    (_, annas), (cora, coras), (ben, bens) = stage.audience[0].views + stage.audience[1].views
    assert (cora, ben) == (2, 1)
    assert tuple(map(str, annas.members)) == ("#anna#a/1", "#cora#b/2")
    assert annas.vs_set == coras.vs_set == annas.members
    assert (bens.own, bens.vs_set, bens.cause) == (True, (), Cause.LEAVE)


def test_a_disconnect_leaves_every_group_and_shows_the_gone_nothing() -> None:
    stage = stage_with_members()
    stage.join(1, 1, "ben", "h")
    stage.join(0, 1, "anna", "h")
    for audience in stage.audience:
        audience.views.clear()
    stage.disconnect(1, 1, "ben")
    shown = [(number, view.group, view.cause) for number, view in stage.audience[0].views]
    assert shown == [(1, "g", Cause.DISCONNECT), (1, "h", Cause.DISCONNECT)]
    assert [number for number, _ in stage.audience[1].views] == [2]
    assert stage.audience[1].present == [2]


@pytest.mark.parametrize("act", [Stage.join, Stage.leave])
def test_what_changes_nothing_is_shown_to_nobody(act: Callable[..., None]) -> None:
    stage = stage_with_members()
    act(stage, 0, 1, "anna", "g" if act is Stage.join else "h")
    act(stage, 0, 9, "stranger", "g")  # its disconnect came before
    assert stage.audience[0].views == stage.audience[1].views == []


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["connect", "disconnect", "join", "leave"]),
        st.integers(0, 1),
        st.integers(1, 3),
        st.sampled_from("gh"),
    ),
    max_size=40,
)


@given(ACTS)
def test_all_daemons_and_all_members_know_the_same_groups(
    acts: list[tuple[str, int, int, str]],
) -> None:
    """Compare with a model of two lines: the present clients, and the members of each group."""
    stage = Stage()
    present: set[tuple[int, int]] = set()
    inside: dict[str, list[str]] = {"g": [], "h": []}
    for act, daemon, connection, group in acts:
        user = f"u{connection}"
        identity = f"#{user}#{'ab'[daemon]}/{connection}"
        known = (daemon, connection) in present
        if act == "connect" and not known:
            stage.connect(daemon, connection, user)
            present.add((daemon, connection))
        elif act == "disconnect" and known:
            stage.disconnect(daemon, connection, user)
            present.remove((daemon, connection))
            inside = {name: [who for who in inside[name] if who != identity] for name in inside}
        elif act == "join":
            stage.join(daemon, connection, user, group)
            if known and identity not in inside[group]:
                inside[group].append(identity)
        elif act == "leave":
            stage.leave(daemon, connection, user, group)
            inside[group] = [who for who in inside[group] if who != identity]
    for groups in stage.groups:
        assert set(groups.table.sessions) == present
        found = {group: [*map(str, groups.table.member_ids(group))] for group in "gh"}
        assert found == inside
    assert stage.audience[0].digests == stage.audience[1].digests
    assert_last_views(stage, inside)


def assert_last_views(stage: Stage, inside: dict[str, list[str]]) -> None:
    """The last view that a member received of a group is the group as it is."""
    last: dict[tuple[int, int, str], GroupView] = {}
    for daemon, audience in enumerate(stage.audience):
        for connection, view in audience.views:
            last[daemon, connection, view.group] = view
    for group, members in inside.items():
        for identity in members:
            connection = int(identity[-1])
            view = last["ab".index(identity[-3]), connection, group]
            assert [*map(str, view.members)] == members


# ---- recipients ----


def test_each_member_of_any_group_gets_a_message_once() -> None:
    stage = stage_with_members()
    stage.join(1, 1, "ben", "h")
    stage.release(0, messages(1, "anna", "g", "h", "#ben#b", "#cora#b", targets=(1, 2)))
    assert stage.audience[0].delivered == [(1, 1)]
    assert sorted(stage.audience[1].delivered) == [(1, 1), (2, 1)]


@pytest.mark.parametrize("groups", [("g",), ("g", "#anna#a")])
def test_a_discarded_message_spares_its_sender_not_its_namesake(groups: tuple[str, ...]) -> None:
    stage = stage_with_members()  # ben has the same connection number at the other daemon
    targets = (1,) * (len(groups) - 1)
    stage.release(0, messages(1, "anna", *groups, flags=SELF_DISCARD, targets=targets))
    assert stage.audience[0].delivered == []
    assert sorted(stage.audience[1].delivered) == [(1, 1), (2, 1)]


def test_unreliable_messages_of_the_gone_are_dropped_not_of_those_about_to_come() -> None:
    stage = stage_with_members()
    stage.disconnect(1, 1, "ben")
    gone = stage.place(1, messages(1, "ben", "g", level=UNRELIABLE, number=5))
    coming = stage.place(1, messages(3, "dora", "g", level=UNRELIABLE, number=6))
    for bundle in (gone, coming):
        stage.groups[0].deliver_unreliable(bundle)
    assert stage.audience[0].delivered == [(1, 6)]


# ---- private messages ----


@pytest.mark.parametrize("level", [RELIABLE, FIFO, CAUSAL, AGREED, SAFE])
def test_a_private_message_comes_back_if_its_target_had_gone_at_its_position(
    level: ServiceLevel,
) -> None:
    stage = stage_with_members()
    before = messages(1, "anna", "#ben#b", level=level, number=1, targets=(1,))
    after = messages(1, "anna", "#ben#b", level=level, number=2, count=2, targets=(1,))
    stage.release(0, before)
    stage.disconnect(1, 1, "ben")
    stage.release(0, after)
    for groups in stage.groups:
        groups.settle(stage.time)
    assert stage.audience[0].bounced == [(1, 2, "#ben#b"), (1, 3, "#ben#b")], "each message of it"
    assert stage.audience[1].bounced == [], "only the sender's daemon decides"


def test_what_is_released_before_its_position_waits_for_the_verdict() -> None:
    stage = stage_with_members()
    reliable = stage.place(0, messages(1, "anna", "#ben#b", level=RELIABLE, targets=(1,)))
    reliable.packet.time = 100
    stage.groups[0].deliver(reliable)
    stage.groups[0].settle(99)
    assert stage.audience[0].bounced == []
    stage.disconnect(1, 1, "ben")
    stage.groups[0].settle(100)
    assert stage.audience[0].bounced == [(1, 1, "#ben#b")]


def test_a_name_without_owner_comes_back_and_its_next_owner_gets_nothing() -> None:
    stage = stage_with_members()
    stage.release(0, messages(1, "anna", "#dora#b", targets=(0,)))
    assert stage.audience[0].bounced == [(1, 1, "#dora#b")]
    stage.connect(1, 3, "dora")
    stage.disconnect(1, 3, "dora")
    stage.connect(1, 4, "dora")
    stage.release(0, messages(1, "anna", "#dora#b", targets=(3,), number=2))
    assert stage.audience[0].bounced[1:] == [(1, 2, "#dora#b")]
    assert [entry for entry in stage.audience[1].delivered if entry[0] == 4] == []


@pytest.mark.parametrize("level", [RELIABLE, FIFO, CAUSAL, AGREED, SAFE])
def test_a_name_whose_connect_the_senders_daemon_did_not_know_gets_the_message(
    level: ServiceLevel,
) -> None:
    stage = stage_with_members()
    stage.connect(1, 3, "dora")
    sent = stage.place(0, messages(1, "anna", "#dora#b", level=level, targets=(0,)))
    for groups in reversed(stage.groups):
        groups.deliver(sent)
    assert stage.audience[1].delivered == [(3, 1)]
    stage.disconnect(1, 3, "dora")
    stage.groups[0].settle(stage.time)
    assert stage.audience[0].bounced == []


@pytest.mark.parametrize("level", [RELIABLE, AGREED])
def test_a_name_that_appears_between_fragments_comes_back(level: ServiceLevel) -> None:
    stage = stage_with_members()
    for index in range(3):
        stage.release(0, fragment(1, "anna", index, "#dora#b", level=level, targets=(0,)))
        if index == 0:
            stage.connect(1, 3, "dora")
    for groups in stage.groups:
        groups.settle(stage.time)
    assert stage.audience[1].delivered == []
    assert stage.audience[0].bounced == [(1, 1, "#dora#b")]
    for index in range(3):
        stage.release(0, fragment(1, "anna", index, "#dora#b", number=2, targets=(0,)))
    assert stage.audience[1].delivered == [(3, 2)] * 3
    assert stage.audience[0].bounced == [(1, 1, "#dora#b")]


def test_a_message_in_fragments_comes_back_once_by_its_last_one() -> None:
    stage = stage_with_members()
    stage.release(0, fragment(1, "anna", 0, "#ben#b", targets=(1,)))
    stage.disconnect(1, 1, "ben")
    for index in (1, 2):
        assert stage.audience[0].bounced == []
        stage.release(0, fragment(1, "anna", index, "#ben#b", targets=(1,)))
    assert stage.audience[0].bounced == [(1, 1, "#ben#b")]


# ---- fragments ----


def test_who_leaves_between_fragments_is_asked_to_forget_them() -> None:
    stage = stage_with_members()
    stage.release(0, fragment(1, "anna", 0, "g", number=2))
    stage.leave(1, 1, "ben", "g")
    stage.release(0, fragment(1, "anna", 1, "g", number=2))
    stage.join(1, 1, "ben", "g")
    stage.release(0, fragment(1, "anna", 2, "g", number=2))
    assert [entry[0] for entry in stage.audience[1].delivered] == [1, 2, 2, 2]
    assert stage.audience[1].aborted == [(1, "#anna#a", 2)]


def test_a_senders_end_ends_its_message() -> None:
    stage = stage_with_members()
    stage.release(0, fragment(1, "anna", 0, "g"))
    stage.disconnect(0, 1, "anna")
    assert sorted(stage.audience[1].aborted) == [(1, "#anna#a", 1), (2, "#anna#a", 1)]


def test_lost_unreliable_fragments_end_with_the_next_message_and_no_other_levels_do() -> None:
    stage = stage_with_members()
    cora = stage.groups[1]
    cora.deliver(stage.place(0, fragment(1, "anna", 0, "g", level=CAUSAL, number=1)))
    for number in (2, 3):
        bundle = fragment(1, "anna", 0, "g", level=UNRELIABLE, number=number)
        cora.deliver_unreliable(stage.place(0, bundle))
    assert sorted(stage.audience[1].aborted) == [(1, "#anna#a", 2), (2, "#anna#a", 2)]


def test_the_identity_of_a_sender_is_its_name_and_connection() -> None:
    stage = stage_with_members()
    bundle = stage.place(1, messages(2, "cora", "g"))
    assert stage.groups[0].sender(bundle) == MemberId("#cora#b", 2)


def test_a_daemon_notes_the_joins_and_leaves_of_its_own_sessions_and_of_no_others() -> None:
    stage = Stage()
    stage.connect(0, 1, "anna")
    stage.connect(1, 1, "ben")
    for daemon, user in ((0, "anna"), (1, "ben"), (1, "ben")):
        stage.join(daemon, 1, user, "g")
    assert [audience.joins for audience in stage.audience] == [["g"], ["g", "g"]]
    for daemon, user in ((1, "ben"), (1, "ben"), (0, "anna")):
        stage.leave(daemon, 1, user, "g")
    assert [audience.leaves for audience in stage.audience] == [["g"], ["g"]]
