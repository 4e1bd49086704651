"""Programs that `import spread`, as they were written for Spread's own module."""

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
import spread
import trio

from groupcomm.session.spread import layout
from groupcomm_tools.local_cluster import LocalCluster


@pytest.fixture(scope="module")
def where() -> Iterator[str]:
    with closing(LocalCluster("a", clients="spread = true")) as cluster:
        trio.run(cluster.__aenter__)
        host, _, port = cluster["a"].spread_tcp.rpartition(":")
        yield f"{port}@{host}"


def regular(mbox: spread.MailboxType) -> spread.RegularMsgType:
    """The next message that is none of membership."""
    while not isinstance(found := mbox.receive(), spread.RegularMsgType):
        continue
    return found


def view(mbox: spread.MailboxType) -> spread.MembershipMsgType:
    found = mbox.receive()
    assert isinstance(found, spread.MembershipMsgType), found
    return found


def test_members_learn_of_each_other_and_talk(where: str) -> None:
    ann, ben = spread.connect(where, "ann"), spread.connect(daemon=where, name="ben", priority=1)
    assert (ann.private_group, ben.private_group) == ("#ann#a", "#ben#a")
    ann.join("room")
    alone = view(ann)
    ben.join("room")
    both, same = view(ann), view(ben)
    assert (both.reason, both.group, both.extra) == (spread.CAUSED_BY_JOIN, "room", ("#ben#a",))
    assert both.members == same.members == ("#ann#a", "#ben#a")
    assert both.group_id == same.group_id != alone.group_id
    assert repr(both.group_id).startswith("<group_id ")
    assert ann.multicast(spread.SAFE_MESS | spread.SELF_DISCARD, "room", "hello", -7) == 5
    assert select.select([ben], [], [], 20.0)[0] == [ben]
    assert ben.poll() > 5
    assert ben.receive() == ("#ann#a", ("room",), -7, 0, b"hello")
    sent = ben.multigroup_multicast(spread.AGREED_MESS, ("room", "#ann#a"), b"\0" * 100_000)
    found = regular(ann)
    assert (sent, found.groups, len(found.message)) == (100_000, ("room", "#ann#a"), 100_000)
    assert regular(ben) == found
    ann.leave("room")
    assert view(ann) == (spread.CAUSED_BY_LEAVE, "room", None, (), ())
    assert view(ben).extra == ("#ann#a",)
    ben.disconnect()
    ann.disconnect()


def test_a_session_without_membership_messages_gets_the_others(where: str) -> None:
    mbox = spread.connect(where, "quiet", membership=0)
    mbox.join("hall")
    mbox.multicast(spread.FIFO_MESS, "hall", b"x", msg_type=3)
    assert mbox.receive() == ("#quiet#a", ("hall",), 3, 0, b"x")
    mbox.disconnect()


def failing(mbox: spread.MailboxType, where: str) -> dict[int, Callable[[], object]]:
    many = tuple(f"g{number}" for number in range(101))
    return {
        spread.ILLEGAL_SPREAD: lambda: spread.connect("nowhere"),
        spread.COULD_NOT_CONNECT: lambda: spread.connect("1@127.0.0.1"),
        spread.REJECT_ILLEGAL_NAME: lambda: spread.connect(where, "#"),
        spread.REJECT_NOT_UNIQUE: lambda: spread.connect(where, "eve"),
        spread.ILLEGAL_GROUP: lambda: mbox.join("a name"),
        spread.ILLEGAL_SERVICE: lambda: mbox.multicast(spread.SELF_DISCARD, "g", b""),
        spread.ILLEGAL_MESSAGE: lambda: mbox.multigroup_multicast(spread.SAFE_MESS, many, b""),
        spread.MESSAGE_TOO_LONG: lambda: mbox.multicast(spread.SAFE_MESS, "g", bytes(144_000)),
    }


def test_errors_have_spreads_numbers_and_a_meaning(where: str) -> None:
    mbox = spread.connect(where, "eve")
    for code, fail in failing(mbox, where).items():
        with pytest.raises(spread.error) as caught:
            fail()
        assert caught.value.args[0] == code
        assert "unknown" not in caught.value.args[1]
    wrong: list[tuple[type[Exception], tuple[Any, ...]]] = [
        (ValueError, (spread.REG_MEMB_MESS, ("g",), b"")),
        (ValueError, (spread.SAFE_MESS, (), b"")),
        (TypeError, (spread.SAFE_MESS, ["g"], b"")),
    ]
    for kind, arguments in wrong:
        with pytest.raises(kind):
            mbox.multigroup_multicast(*arguments)
    mbox.disconnect()
    mbox.disconnect()
    calls: list[Callable[[], object]] = [
        *(mbox.receive, mbox.poll, mbox.fileno),
        *(lambda: mbox.join("g"), lambda: mbox.multicast(1, "g", b"")),
    ]
    for call in calls:
        with pytest.raises(spread.error, match=r"\(\) called on closed mbox"):
            call()


def big_endian(kind: int, name: bytes, groups: list[bytes], tag: int, data: bytes) -> bytes:
    """A message as a big-endian daemon writes it."""
    head = kind.to_bytes(4, "big") + name.ljust(32, b"\0") + len(groups).to_bytes(4, "big")
    head += (tag << 8).to_bytes(4, "big") + len(data).to_bytes(4, "big")
    return head + layout.encode_names(groups) + data


def test_a_daemon_may_write_in_the_other_byte_order_and_go_at_any_time() -> None:
    """The bytes are those of Spread's daemon: a network view of two sets, and half a message."""
    members = [b"#ann#a", b"#ben#b", b"#cat#c"]
    sets = [(1).to_bytes(4, "big") + layout.encode_names(members[1:2])]
    sets += [(2).to_bytes(4, "big") + layout.encode_names([members[0], members[2]])]
    numbers = b"".join(number.to_bytes(4, "big") for number in (1, 2, 3, 2, len(sets[0])))
    told = [
        big_endian(0x2000, b"room", [], 0, numbers[:12]),
        big_endian(0x1800, b"room", members, 0, numbers + b"".join(sets)),
        big_endian(0x10, b"#ben#b", [b"room"], 5, b"hello"),
        big_endian(0x10, b"#ben#b", [b"room"], 5, b"hello")[:60],
    ]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        heard = b""

        def serve() -> None:
            nonlocal heard
            end, _ = listening.accept()
            with end:
                heard += end.recv(100)
                end.sendall(b"\x05NULL ")
                heard += end.recv(100)
                end.sendall(b"\x01\x04\x04\x00\x06#ann#a" + b"".join(told))

        thread = threading.Thread(target=serve)
        thread.start()
        mbox = spread.connect("{1}@{0}".format(*listening.getsockname()), "ann")
        thread.join()
    assert heard == b"\x05\x00\x01\x01\x03ann" + b"NULL".ljust(90, b"\0")
    over, shown = view(mbox), view(mbox)
    assert (over.reason, over.members, over.group_id) == (0, (), shown.group_id)
    assert shown.reason == spread.CAUSED_BY_NETWORK
    assert (shown.members, shown.extra) == (("#ann#a", "#ben#b", "#cat#c"), ("#ann#a", "#cat#c"))
    assert mbox.receive() == ("#ben#b", ("room",), 5, 1, b"hello")
    with pytest.raises(spread.error) as caught:
        mbox.receive()
    assert caught.value.args[0] == spread.CONNECTION_CLOSED
