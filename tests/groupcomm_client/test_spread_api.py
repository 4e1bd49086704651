"""Spread's interface, as programs written for Spread use it."""

import select
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import cast

import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, DaemonView, Event, GroupView, MemberId, Transition
from groupcomm_client import spread_api as sp
from groupcomm_client.blocking import BlockingConnection
from groupcomm_client.spread_api import flush, functions
from groupcomm_client.spread_api.mailbox import Mailbox
from groupcomm_tools.running_cluster import RunningCluster
from tests.sources import ROOT

WAIT_S = 20.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("ab") as running:
        yield running


class Boxes:
    """Mailboxes that are closed after the test."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.cluster = cluster
        self.open: list[int] = []

    def connect(self, daemon: str, user: str = "", membership: bool = True) -> tuple[int, str]:
        mbox, name = sp.SP_connect(self.cluster.address(daemon), user, 0, membership)
        self.open.append(mbox)
        return mbox, name

    def close(self) -> None:
        for mbox in self.open:
            with suppress(sp.SpreadError):  # the test itself has closed it
                sp.SP_disconnect(mbox)


@pytest.fixture
def boxes(cluster: RunningCluster) -> Iterator[Boxes]:
    with closing(Boxes(cluster)) as made:
        yield made


def receive(mbox: int) -> sp.Received_message:
    found = sp.SP_receive(mbox, WAIT_S)
    assert found is not None, "nothing comes"
    return found


def regular(mbox: int) -> sp.Received_message:
    """The next message that is none of membership."""
    while sp.Is_membership_mess((found := receive(mbox)).service_type):
        continue
    return found


def test_every_level_comes_with_its_service_type(boxes: Boxes) -> None:
    ann, name = boxes.connect("a", "ann")
    bob, _ = boxes.connect("b", "bob")
    assert name == "#ann#a"
    sp.SP_join(bob, "g")
    assert sp.Is_reg_memb_mess(receive(bob).service_type)
    services = [1 << bit for bit in range(6)]
    for service in services:
        assert sp.SP_multicast(ann, service, "g", service, b"text") == 4
    got = [regular(bob) for _ in services]
    assert sorted(found.service_type for found in got) == services
    for found in got:
        assert (found.sender, found.groups, found.message) == (name, ("g",), b"text")
        assert (found.mess_type, found.endian_mismatch) == (found.service_type, False)
    assert sp.Is_safe_mess(sp.SAFE_MESS)
    assert not sp.Is_agreed_mess(sp.SAFE_MESS)


def test_membership_messages_tell_who_and_why(boxes: Boxes) -> None:
    ann, a_name = boxes.connect("a")
    bob, b_name = boxes.connect("b")
    sp.SP_join(ann, "team")
    sp.SP_join(ann, "team")  # a second join does nothing
    alone = receive(ann)
    sp.SP_join(bob, "team")
    both, same = receive(ann), receive(bob)
    assert (alone.groups, both.groups) == ((a_name,), (a_name, b_name))
    assert (both.sender, both.mess_type, same.mess_type) == ("team", 0, 1)
    assert sp.Is_caused_join_mess(both.service_type)
    info = sp.SP_get_memb_info(both)
    assert (info.changed_member, info.vs_sets) == (b_name, ((b_name,),))
    assert sp.SP_equal_group_ids(info.gid, sp.SP_get_memb_info(same).gid)
    assert not sp.SP_equal_group_ids(info.gid, sp.SP_get_memb_info(alone).gid)
    assert sp.SP_get_vs_set_members(both, 0) == (b_name,)
    sp.SP_leave(bob, "team")
    left, self_leave = receive(ann), receive(bob)
    assert sp.Is_caused_leave_mess(left.service_type)
    assert not sp.Is_self_leave(left.service_type)
    assert sp.Is_self_leave(self_leave.service_type)
    sp.SP_join(bob, "team")
    receive(ann)
    sp.SP_disconnect(bob)
    assert sp.Is_caused_disconnect_mess(receive(ann).service_type)


def test_a_network_change_comes_behind_a_transition(boxes: Boxes) -> None:
    ann, a_name = boxes.connect("a")
    bob, b_name = boxes.connect("b")
    for mbox in (ann, bob):
        sp.SP_join(mbox, "net")
    while set(receive(ann).groups) != {a_name, b_name}:
        continue
    boxes.cluster.kill("b")
    transition, after = receive(ann), receive(ann)
    assert (transition.service_type, transition.sender) == (sp.TRANSITION_MESS, "net")
    assert sp.Is_caused_network_mess(after.service_type)
    assert after.groups == (a_name,)
    assert sp.SP_get_vs_sets_info(after) == (((a_name,),), 0)
    with pytest.raises(sp.SpreadError) as caught:
        regular(bob)
    assert caught.value.code == sp.CONNECTION_CLOSED
    boxes.cluster.start("b")
    boxes.cluster.settle()


class Scripted:
    """A connection whose events stand in a script."""

    member = MemberId("#ann#a", 1)

    def __init__(self, events: list[Event]) -> None:
        self._events = deque(events)

    def receive(self, _timeout_s: float | None) -> Event:
        if not self._events:
            raise TimeoutError
        return self._events.popleft()

    def keep_back(self, _more: bool) -> None:
        """The script needs no descriptor."""


def network(
    group: str, time: int, *members: str, along: int, unchanged: bool = False, joins: bool = False
) -> GroupView:
    """A view of which the first members came along with ann; of the others c and d together."""
    found = tuple(MemberId(f"#{each}", 1) for each in members)
    return GroupView(
        group=group,
        id=Position(ViewId(time, "a", 1), 0, 0, 0, 0),
        members=found,
        cause=Cause.JOIN if joins else Cause.NETWORK,
        changed=found[-1:] if joins else (),
        vs_set=found[:along],
        own=False,
        unchanged=unchanged,
        others=(("b",), ("c", "d")),
    )


def test_only_groups_that_lose_or_gain_members_tell_of_a_change_of_daemons() -> None:
    """And who came together from another view stands in one set."""
    far = ("ann#a", "bob#b", "cat#c", "dan#d")
    over = Transition(ViewId(1, "a", 1), ("a", "b"))
    script: list[Event] = [
        *(network(group, 1, "ann#a", "bob#b", along=2, joins=True) for group in ("near", "grows")),
        network("far", 1, *far, along=4, joins=True),
        over,
        network("far", 2, "ann#a", "bob#b", along=2),
        network("near", 2, "ann#a", "bob#b", along=2, unchanged=True),
        network("grows", 2, "ann#a", "bob#b", along=2, unchanged=True),
        network("grows", 3, *far, along=1),
        network("near", 3, "ann#a", "bob#b", along=2, unchanged=True),
        Transition(ViewId(3, "a", 1), ("a",)),
        network("near", 4, "ann#a", "bob#b", along=2, unchanged=True),
    ]
    box = Mailbox(cast("BlockingConnection", Scripted(script)), membership=True)
    told = []
    while (found := box.receive(0.0)) is not None:
        assert found.info is not None
        told.append((found.service_type & 0x3F00, found.sender, found.info.vs_sets))
    assert told == [
        *((0x1100, group, (("#bob#b",),)) for group in ("near", "grows")),
        (0x1100, "far", (("#dan#d",),)),
        (0x2000, "far", ()),
        (0x1800, "far", (("#ann#a", "#bob#b"),)),
        (0x2000, "grows", ()),  # bob was lost meanwhile, and is back
        (0x1800, "grows", (("#ann#a",), ("#bob#b",), ("#cat#c", "#dan#d"))),
        *((0x2000, group, ()) for group in ("near", "grows", "far")),
        (0x1800, "near", (("#ann#a", "#bob#b"),)),
    ]


def test_a_member_that_joins_last_of_a_lost_daemon_is_told_to_be_lost() -> None:
    script: list[Event] = [
        network("room", 1, "ann#a", along=1, joins=True),
        Transition(ViewId(1, "a", 1), ("a", "b")),
        network("room", 1, "ann#a", "bob#b", along=2, joins=True),
        network("room", 1, "ann#a", "bob#b", "cat#c", along=3, joins=True),
        DaemonView(id=ViewId(2, "a", 1), daemons=("a", "b"), majority=True),
        network("room", 2, "ann#a", "bob#b", along=2),
        network("room", 2, "ann#a", "bob#b", "cat#c", along=3, joins=True),
    ]
    box = Mailbox(cast("BlockingConnection", Scripted(script)), membership=True)
    told = []
    while (found := box.receive(0.0)) is not None:
        told.append(found.service_type & 0x3F00)
    assert told == [0x1100, 0x1100, 0x1100, 0x2000, 0x1800, 0x1100]


def test_a_loss_of_daemons_that_part_after_all_is_told_before_the_view_without_them() -> None:
    script: list[Event] = [
        network("room", 1, "ann#a", "bob#b", along=2, joins=True),
        Transition(ViewId(1, "a", 1), ("a", "b")),
        DaemonView(id=ViewId(2, "a", 1), daemons=("a",), majority=False),
        network("room", 2, "ann#a", along=1),
    ]
    box = Mailbox(cast("BlockingConnection", Scripted(script)), membership=True)
    told = [found.service_type & 0x3F00 for found in iter(lambda: box.receive(0.0), None)]
    assert told == [0x1100, 0x2000, 0x1800]


def test_without_membership_only_messages_come(boxes: Boxes) -> None:
    ann, _ = boxes.connect("a", membership=False)
    sp.SP_join(ann, "quiet")
    sp.SP_multicast(ann, sp.AGREED_MESS, "quiet", 0, b"only this")
    assert receive(ann).message == b"only this"


def test_many_groups_scattered_data_and_discarded_copies(boxes: Boxes) -> None:
    ann, _ = boxes.connect("a", membership=False)
    bob, _ = boxes.connect("b", membership=False)
    for mbox in (ann, bob):
        for group in ("g1", "g2"):
            sp.SP_join(mbox, group)
        sp.SP_multicast(mbox, sp.AGREED_MESS, "g2", 0, b"I have joined")
        assert receive(mbox).message == b"I have joined"
    assert receive(ann).message == b"I have joined", "of bob"
    service = sp.FIFO_MESS | sp.SELF_DISCARD
    sp.SP_multigroup_scat_multicast(ann, service, ["g1", "g2"], -1, [b"one ", b"and ", b"two"])
    found = sp.SP_scat_receive(bob, [4, 100], WAIT_S)
    assert found is not None
    message, pieces = found
    assert (pieces, message.groups, message.mess_type) == (
        (b"one ", b"and two"),
        ("g1", "g2"),
        65535,
    )
    sp.SP_multicast(bob, sp.AGREED_MESS, "g1", 0, b"next")
    assert receive(ann).message == b"next", "its own was discarded"


def test_poll_and_select_tell_of_what_waits(boxes: Boxes) -> None:
    ann, _ = boxes.connect("a", membership=False)
    assert sp.SP_poll(ann) == 0
    sp.SP_join(ann, "polled")
    for text in (b"12345", b""):
        sp.SP_multicast(ann, sp.AGREED_MESS, "polled", 0, text)
    while not sp.SP_poll(ann):
        select.select([ann], [], [], WAIT_S)
    assert sp.SP_poll(ann) == 5
    assert select.select([ann], [], [], 0)[0] == [ann]
    assert receive(ann).message == b"12345"
    while not sp.SP_poll(ann):
        select.select([ann], [], [], WAIT_S)
    assert (sp.SP_poll(ann), receive(ann).message) == (1, b"")


def test_a_thread_that_waits_for_a_place_is_notified_by_the_one_that_reads(boxes: Boxes) -> None:
    ann, _ = boxes.connect("a", membership=False)
    connection = functions._mailboxes[ann].connection
    places: list[object] = []

    def order() -> None:
        places.extend(connection.multicast_ordered("other", b"x") for _ in range(20))

    sender = threading.Thread(target=order)
    sender.start()
    while sender.is_alive():
        assert sp.SP_receive(ann, 0.01) is None
    assert len(set(places)) == 20


def test_a_mailbox_is_killed_while_a_thread_waits_in_it(boxes: Boxes) -> None:
    ann, _ = boxes.connect("a", membership=False)
    codes: list[int] = []

    def listen() -> None:
        try:
            sp.SP_receive(ann)
        except sp.SpreadError as error:
            codes.append(error.code)

    listener = threading.Thread(target=listen)
    listener.start()
    listener.join(0.2)
    sp.SP_kill(ann)
    listener.join(WAIT_S)
    assert codes == [sp.CONNECTION_CLOSED]


def test_one_thread_receives_while_another_sends(boxes: Boxes) -> None:
    ann, _ = boxes.connect("a", membership=False)
    sp.SP_join(ann, "threads")
    got: list[bytes] = []

    def listen() -> None:
        while len(got) < 500:
            got.append(receive(ann).message)

    listener = threading.Thread(target=listen)
    listener.start()
    for number in range(500):
        sp.SP_multicast(ann, sp.FIFO_MESS, "threads", 0, b"%d" % number)
    listener.join(WAIT_S)
    assert got == [b"%d" % number for number in range(500)]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda box: sp.SP_connect("x@", "ann"), sp.ILLEGAL_SPREAD),
        (lambda box: sp.SP_connect("1@127.0.0.1"), sp.COULD_NOT_CONNECT),
        (lambda box: sp.SP_multicast(box, 0, "g", 0, b""), sp.ILLEGAL_SERVICE),
        (lambda box: sp.SP_multicast(box, sp.SAFE_MESS | 1, "g", 0, b""), sp.ILLEGAL_SERVICE),
        (lambda box: sp.SP_multicast(box, sp.SAFE_MESS, "", 0, b""), sp.ILLEGAL_GROUP),
        (lambda box: sp.SP_multicast(box, sp.SAFE_MESS, "g", 70_000, b""), sp.ILLEGAL_MESSAGE),
        (lambda box: sp.SP_multicast(box, 4, "g", 0, bytes(2**26 + 1)), sp.MESSAGE_TOO_LONG),
        (lambda box: sp.SP_join(box, "#private"), sp.ILLEGAL_GROUP),
        (lambda box: sp.SP_receive(12345), sp.ILLEGAL_SESSION),
        (lambda box: sp.SP_disconnect(12345), sp.ILLEGAL_SESSION),
    ],
)
def test_errors_have_spreads_numbers(boxes: Boxes, call: object, code: int) -> None:
    box, _ = boxes.connect("a")
    assert callable(call)
    with pytest.raises(sp.SpreadError) as caught:
        call(box)
    assert caught.value.code == code
    assert sp.ERRORS[code] in str(caught.value)


def test_a_name_is_taken_once_and_may_not_be_anything(boxes: Boxes) -> None:
    boxes.connect("a", "max")
    for user, code in (("max", sp.REJECT_NOT_UNIQUE), ("a#b", sp.REJECT_ILLEGAL_NAME)):
        with pytest.raises(sp.SpreadError) as caught:
            boxes.connect("a", user)
        assert caught.value.code == code


FACTS = [
    line.split()
    for line in (Path(__file__).parent / "spread_header/names.txt").read_text().splitlines()[1:]
]
"""Names of Spread's headers, each with its value if it is a number, or with the word type."""

OTHERS = {"MAX_GROUP_NAME": 255, "MAX_PRIVATE_NAME": 255, "MAX_PROC_NAME": 255}
"""Numbers that are others here: names are longer."""


def test_all_names_of_spreads_headers_are_here_or_on_the_page() -> None:
    page = (ROOT / "docs" / "spread-api.md").read_text()
    for name, *value in FACTS:
        found = getattr(sp, name, None) or getattr(flush, name, None)
        if value == ["type"]:
            assert isinstance(found, type) or f"`{name}`" in page, name
        elif value:
            expected = OTHERS.get(name, int(value[0]))
            assert getattr(sp, name, getattr(flush, name, None)) == expected, name
        else:
            assert callable(found), name
            assert found.__doc__, name


def test_what_is_said_of_functions_is_said_of_one_alone() -> None:
    names = [name for name, *value in FACTS if not value]
    docs = [getattr(sp, name, getattr(flush, name, None)).__doc__ for name in names]
    shared = {doc for doc in docs if docs.count(doc) > 1}
    assert shared == {"Return whether a message has this level."}


def test_what_is_scattered_tells_the_same_of_a_view(boxes: Boxes) -> None:
    ann, name = boxes.connect("a")
    sp.SP_join(ann, "alone")
    found = sp.SP_scat_receive(ann, [1], WAIT_S)
    assert found is not None
    assert sp.SP_scat_get_memb_info(found).changed_member == name
    assert sp.SP_scat_get_vs_sets_info(found) == (((name,),), 0)
    assert sp.SP_scat_get_vs_set_members(found, 0) == (name,)


def test_null_is_the_one_method_of_authentication() -> None:
    sp.SP_set_auth_method("NULL", None, None)
    with pytest.raises(sp.SpreadError, match="'IP': NULL is the one method") as caught:
        sp.SP_set_auth_methods(["NULL", "IP"], [None, None], [None, None])
    assert caught.value.code == sp.REJECT_AUTH


def test_numbers_have_meanings_and_bytes_another_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert sp.SP_strerror(sp.ILLEGAL_GROUP) == sp.ERRORS[sp.ILLEGAL_GROUP]
    assert sp.SP_strerror(7) == "unknown error"
    flush.FL_error(flush.ILLEGAL_RECEIVERS)
    assert capsys.readouterr().err == (
        "FL_error: (-28) the receivers are not all members of the group\n"
    )
    assert sp.Flip_int16(0x1234) == 0x3412
    assert sp.Flip_int32(0x12345678) == 0x78563412
    assert sp.SP_version() == (5, 0, 1)


def test_a_killed_mailbox_is_none_any_more(
    boxes: Boxes, capsys: pytest.CaptureFixture[str]
) -> None:
    ann, _ = boxes.connect("a")
    sp.SP_kill(ann)
    with pytest.raises(sp.SpreadError) as caught:
        sp.SP_multicast(ann, sp.SAFE_MESS, "g", 0, b"")
    sp.SP_error(caught.value.code)
    assert capsys.readouterr().err == "SP_error: (-11) there is no such mailbox\n"
