"""Whose turn it is, and whose connection gives way: nobody keeps others from being answered."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio
import trio.testing

from groupcommd.http import server as server_module
from groupcommd.http.connection import ConnectionState, HttpConnection
from groupcommd.http.places import GRACE_S, Places
from groupcommd.http.turns import Asker, Peer, Turns, network_of
from groupcommd.http.work_share import WorkShare
from tests.groupcommd.http.browser import ask, connect, read_answer, request
from tests.groupcommd.virtual import virtual_clock, virtual_daemons

WAITING, ANSWERING, STREAMING = ConnectionState


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


# ---- turns ----


def test_peers_take_turns_and_a_new_connection_of_a_peer_is_first() -> None:
    turns, many, few = Turns(), Peer(), Peer()
    old = [Asker(many) for _ in range(50)]
    for asker in old:
        turns.add(asker)
        assert turns.next() is not None  # each has had a turn, and asks again
        turns.add(asker)
    new, other = Asker(many), [Asker(few), Asker(few)]
    for asker in (new, *other):
        turns.add(asker)
    called = [ticket.asker for ticket in iter(turns.next, None)]
    assert called[:5] == [other[0], new, other[1], *old[:2]]
    assert len(called) == 53


def test_who_waits_no_more_has_no_turn() -> None:
    turns, peer = Turns(), Peer()
    tickets = [turns.add(Asker(peer)) for _ in range(3)]
    tickets[0].is_void = True
    assert list(iter(turns.next, None)) == tickets[1:]


async def test_a_cancelled_wait_passes_the_turn_on(autojump_clock: trio.testing.MockClock) -> None:
    share, done = WorkShare(lambda: 0.0), []

    async def work(name: str, patience_s: float) -> None:
        with trio.move_on_after(patience_s):
            async with share.of(Asker(Peer())):
                await trio.sleep(1.0)  # elsewhere, a piece waits for nothing
                done.append(name)

    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(work, f"patient {number}", 100.0)
            nursery.start_soon(work, f"impatient {number}", 0.5)
    assert sorted(done) == [f"patient {number}" for number in range(6)]
    async with share:  # nobody has kept the turn
        pass


@pytest.mark.parametrize(
    ("host", "peer"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%lo", "fe80::/64"),
    ],
)
def test_a_peer_of_another_host_is_its_network(host: str, peer: str) -> None:
    assert network_of(host) == peer


# ---- places ----


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [end for _ in range(9) for end in map(stack.enter_context, socket.socketpair())]


@pytest.mark.parametrize(
    ("there", "gives_way"),
    [
        ("aw bw aw aw", "aw"),
        ("bw aa aa aa", "aa"),
        ("bw cw as as", "as"),
        ("as aa aw bw", "aw"),
        ("aw bw cw", "aw"),
    ],
)
async def test_the_peer_with_most_connections_gives_way(
    there: str,
    gives_way: str,
    sockets: list[socket.socket],
    autojump_clock: trio.testing.MockClock,
) -> None:
    share = WorkShare(lambda: 0.0)
    places = Places(len(there.split()), share, share)
    made: dict[HttpConnection, str] = {}
    for place, end in zip(there.split(), sockets, strict=False):
        connection = places.open(place[0], end)
        connection.state = {"w": WAITING, "a": ANSWERING, "s": STREAMING}[place[1]]
        made[connection] = place
    closed: list[str] = []

    async def serve(connection: HttpConnection, place: str) -> None:
        with connection.scope:
            await trio.sleep_forever()
        closed.append(place)
        places.leave(place[0], connection)

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for connection, place in made.items():
            nursery.start_soon(serve, connection, place)
        await places.wait_for_room()
        nursery.cancel_scope.cancel()
        assert closed == [gives_way]
    assert trio.current_time() >= began + GRACE_S
    assert places.refused == 1


async def test_who_reads_nothing_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    users = {True: 65534, False: 1000}
    is_rude = True
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 8)
    monkeypatch.setattr(server_module, "tcp_user", lambda _: users[is_rude])
    head = '[http]\nlisten = "127.0.0.1:0"\n'
    async with virtual_daemons(tmp_path, "a", head=head) as daemons:
        at = daemons["a"].http
        unread = [await connect(at) for _ in range(20)]
        for each in unread:
            await each.send_all(request("/livez") * 3)
        await trio.sleep(1.0)
        is_rude = False
        with trio.fail_after(2 * GRACE_S):
            good = await connect(at)
            for _ in range(3):
                assert (await ask(at, "/livez")).status == 200
        await good.send_all(request("/livez"))
        is_rude = True
        more = [await connect(at) for _ in range(20)]
        await trio.sleep(10 * GRACE_S)
        assert (await read_answer(good)).status == 200, "its connection was not closed for theirs"
        counts = daemons["a"].http_server.counts()
        assert counts["connections"] <= 8
        assert counts["refused"]["full"] >= 12
        for each in (*unread, *more, good):
            await each.aclose()
