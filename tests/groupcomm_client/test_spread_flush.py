"""The flush layer: messages are delivered in the view in which they were sent."""

import select
import time
from collections.abc import Iterator

import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm_client import spread_api as sp
from groupcomm_client.spread_api import flush as fl
from groupcomm_client.spread_api import flush_layer
from groupcomm_tools.running_cluster import RunningCluster

WAIT_S = 20.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("ab") as running:
        yield running


class Member:
    """A program in one group."""

    def __init__(self, cluster: RunningCluster, daemon: str, user: str, group: str) -> None:
        self.mbox, self.name = fl.FL_connect(cluster.address(daemon), user)
        self.group = group
        fl.FL_join(self.mbox, group)

    def receive(self) -> sp.Received_message:
        found = fl.FL_receive(self.mbox, WAIT_S)
        assert found is not None, "nothing comes"
        return found

    def send(self, text: bytes, service: int = sp.FIFO_MESS) -> None:
        fl.FL_multicast(self.mbox, service, self.group, 1, text)

    def flush(self) -> None:
        """Expect to be asked, and flush."""
        asked = self.receive()
        assert (fl.Is_flush_req_mess(asked.service_type), asked.sender) == (True, self.group)
        fl.FL_flush(self.mbox, self.group)


def next_of_all(*members: Member) -> list[sp.Received_message]:
    """Return the next message of each, received in turn: a layer works only while it receives."""
    found: dict[int, sp.Received_message] = {}
    end = time.monotonic() + WAIT_S
    while len(found) < len(members):
        assert time.monotonic() < end, f"nothing comes but {found}"
        for member in members:
            if member.mbox not in found:
                message = fl.FL_receive(member.mbox, 0.01)
                if message is not None:
                    found[member.mbox] = message
    return [found[member.mbox] for member in members]


def views(*members: Member) -> list[tuple[str, ...]]:
    """Expect a view at each; return its members."""
    found = next_of_all(*members)
    assert all(sp.Is_reg_memb_mess(message.service_type) for message in found), found
    return [message.groups for message in found]


@pytest.fixture
def pair(
    cluster: RunningCluster, request: pytest.FixtureRequest
) -> Iterator[tuple[Member, Member]]:
    group = request.node.name[:60]
    ann = Member(cluster, "a", "ann", group)
    assert views(ann) == [("#ann#a",)]
    bob = Member(cluster, "b", "bob", group)
    ann.flush()
    assert views(ann, bob) == [("#ann#a", "#bob#b")] * 2
    yield ann, bob
    for each in (ann, bob):
        if each.mbox in fl._layers:
            fl.FL_disconnect(each.mbox)


def test_what_is_sent_before_the_flush_comes_before_the_new_view(
    cluster: RunningCluster, pair: tuple[Member, Member]
) -> None:
    ann, bob = pair
    cid = Member(cluster, "a", "cid", ann.group)
    assert fl.Is_flush_req_mess(ann.receive().service_type)
    ann.send(b"still in the old view")
    fl.FL_flush(ann.mbox, ann.group)
    with pytest.raises(sp.SpreadError) as caught:
        ann.send(b"too early")
    assert caught.value.code == fl.ILLEGAL_STATE
    got = [bob.receive() for _ in range(2)]
    assert [m.message for m in got if sp.Is_regular_mess(m.service_type)] == [
        b"still in the old view"
    ]
    fl.FL_flush(bob.mbox, bob.group)
    assert ann.receive().message == b"still in the old view"
    assert views(ann, bob, cid) == [("#ann#a", "#bob#b", "#cid#a")] * 3
    ann.send(b"in the new one")
    assert {each.receive().message for each in (ann, bob, cid)} == {b"in the new one"}
    fl.FL_disconnect(cid.mbox)


def test_nobody_waits_for_who_has_gone(
    cluster: RunningCluster, pair: tuple[Member, Member]
) -> None:
    """The second change comes while the first one's flush is under way; both become one view."""
    ann, bob = pair
    cid = Member(cluster, "a", "cid", ann.group)
    ann.flush()
    fl.FL_disconnect(cid.mbox)
    bob.flush()
    seen = next_of_all(ann, bob)
    if "#cid#a" in seen[0].groups:  # cid was there for a moment
        ann.flush()
        bob.flush()
        seen = next_of_all(ann, bob)
    assert [found.groups for found in seen] == [("#ann#a", "#bob#b")] * 2
    for found in seen:
        assert sp.SP_get_vs_sets_info(found)[0][0] == ("#ann#a", "#bob#b")


def test_some_members_are_reached_alone(pair: tuple[Member, Member]) -> None:
    ann, bob = pair
    fl.FL_unicast(ann.mbox, sp.AGREED_MESS, ann.group, bob.name, 5, b"psst")
    fl.FL_subgroupcast(ann.mbox, sp.SAFE_MESS, ann.group, [ann.name, bob.name], 6, b"both")
    first, second = bob.receive(), bob.receive()
    assert [(m.message, m.groups, m.sender) for m in (first, second)] == [
        (b"psst", (ann.group,), ann.name),
        (b"both", (ann.group,), ann.name),
    ]
    assert fl.Is_subgroup_mess(first.service_type)
    assert ann.receive().message == b"both"
    with pytest.raises(sp.SpreadError) as caught:
        fl.FL_unicast(ann.mbox, sp.AGREED_MESS, ann.group, "#nobody#a", 5, b"")
    assert caught.value.code == fl.ILLEGAL_RECEIVERS


def test_pieces_polls_and_types_are_as_in_spread(pair: tuple[Member, Member]) -> None:
    ann, bob = pair
    assert fl.FL_poll(ann.mbox) == fl.FL_more_msgs(ann.mbox) == 0
    pieces = [b"one ", b"two"]
    assert fl.FL_scat_multicast(ann.mbox, sp.AGREED_MESS, ann.group, 1, pieces) == 7
    fl.FL_scat_unicast(ann.mbox, sp.AGREED_MESS, ann.group, bob.name, 2, pieces)
    fl.FL_scat_subgroupcast(ann.mbox, sp.AGREED_MESS, ann.group, [bob.name], 3, pieces)
    for tag in (1, 2, 3):
        while not fl.FL_poll(bob.mbox):
            select.select([bob.mbox], [], [], WAIT_S)
        found = fl.FL_scat_receive(bob.mbox, [3, 9], WAIT_S)
        assert found is not None
        message, cut = found
        assert (message.mess_type, cut) == (tag, (b"one", b" two"))
    with pytest.raises(sp.SpreadError) as caught:
        fl.FL_multicast(ann.mbox, sp.AGREED_MESS, ann.group, fl.FL_MIN_LEGAL_MESS_TYPE - 1, b"")
    assert caught.value.code == fl.ILLEGAL_MESSAGE_TYPE
    assert sp.ERRORS[fl.ILLEGAL_MESSAGE_TYPE] in str(caught.value)


def test_a_crash_ends_a_view_like_anything_else(
    cluster: RunningCluster, pair: tuple[Member, Member]
) -> None:
    ann, _ = pair
    cluster.kill("b")
    assert ann.receive().service_type == sp.TRANSITION_MESS
    ann.flush()
    found = ann.receive()
    assert sp.Is_caused_network_mess(found.service_type)
    assert found.groups == ("#ann#a",)
    cluster.start("b")
    cluster.settle()


def test_nothing_is_sent_behind_a_leave(pair: tuple[Member, Member]) -> None:
    """Others begin their next view somewhere behind the leave: it would come in different views."""
    ann, bob = pair
    fl.FL_leave(ann.mbox, ann.group)
    with pytest.raises(sp.SpreadError) as caught:
        ann.send(b"too late")
    assert caught.value.code == fl.ILLEGAL_STATE
    assert sp.Is_self_leave(ann.receive().service_type)
    bob.flush()
    assert views(bob) == [("#bob#b",)]
    fl.FL_join(ann.mbox, ann.group)
    bob.flush()
    assert views(ann, bob) == [("#bob#b", "#ann#a")] * 2
    ann.send(b"again")
    assert bob.receive().message == b"again"


def test_a_mailbox_is_readable_while_the_layer_keeps_something_back(
    pair: tuple[Member, Member],
) -> None:
    """Messages that came before their view are delivered after it, one by one."""
    ann, _ = pair
    layer = fl._layers[ann.mbox]
    place = Position(ViewId(99, "b", 1), 5, 0, 0, 0)
    info = sp.membership_info(sp.group_id(place), "#cid#b", (("#cid#b",),), 0)
    coming = sp.Received_message(
        sp.REG_MEMB_MESS | sp.CAUSED_BY_JOIN, ann.group, ("#ann#a", "#cid#b"), 0, False, b"", info
    )
    layer._accept(coming)
    ann.flush()
    for text in (b"1", b"2"):
        data = flush_layer._HEAD.pack(flush_layer._DATA, flush_layer._key(info), 0) + text
        layer._accept(sp.Received_message(sp.FIFO_MESS, "#cid#b", (ann.group,), 0, False, data))
    data = flush_layer._HEAD.pack(flush_layer._FLUSHED, flush_layer._key(info), 0)
    for member in coming.groups:
        layer._accept(sp.Received_message(sp.AGREED_MESS, member, (ann.group,), 0, False, data))
    assert sp.Is_reg_memb_mess(ann.receive().service_type)
    for text in (b"1", b"2"):
        assert select.select([ann.mbox], [], [], 0)[0] == [ann.mbox]
        found = fl.FL_receive(ann.mbox, 0)
        assert found is not None
        assert found.message == text
    end = time.monotonic() + WAIT_S
    while select.select([ann.mbox], [], [], 0)[0]:  # its own flush may arrive meanwhile
        assert fl.FL_receive(ann.mbox, 0) is None
        assert time.monotonic() < end


def test_calls_at_the_wrong_time_are_refused(pair: tuple[Member, Member]) -> None:
    ann, _ = pair
    with pytest.raises(sp.SpreadError) as caught:
        fl.FL_flush(ann.mbox, ann.group)
    assert caught.value.code == fl.ILLEGAL_STATE
    with pytest.raises(sp.SpreadError) as caught:
        fl.FL_multicast(ann.mbox, sp.SAFE_MESS, "not joined", 0, b"")
    assert caught.value.code == fl.ILLEGAL_STATE
    with pytest.raises(sp.SpreadError) as caught:
        fl.FL_receive(99_999)
    assert caught.value.code == fl.ILLEGAL_PARAM
