"""Programs move to another daemon when theirs is about to stop: all three kinds, real daemons."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing, suppress
from typing import Any, Final

import pytest
import trio

from groupcomm.errors import CannotConnect, SessionEnded
from groupcomm.events import DaemonStopping, GroupView, Message
from groupcomm.level import ServiceLevel
from groupcomm_client import Reconnected, blocking
from groupcomm_tools.local_cluster import LocalCluster
from tests.groupcomm_client.kinds import KINDS, Kind, next_of, played

PATIENCE_S: Final = 20.0
PROGRAMS: Final = 20
BEFORE: Final = 20
AFTERWARDS: Final = 10
AGREED = ServiceLevel.AGREED


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with closing(LocalCluster("ab")) as running:
        yield running


@pytest.fixture
def daemons(cluster: LocalCluster) -> LocalCluster:
    """Both daemons run, in one view; those that an earlier test has stopped are started again."""

    async def start() -> None:
        for daemon in cluster.daemons.values():
            if not daemon.running:
                await daemon.start()
        await cluster.settle("ab")

    trio.run(start)
    return cluster


class Drain:
    """The operator of one daemon, as `groupcomm drain`: its session lasts until the daemon leaves.

    Args:
        cluster: the daemons.
        name: the daemon to stop.
        within_s: the seconds that its programs have.
    """

    def __init__(self, cluster: LocalCluster, name: str, within_s: float = PATIENCE_S) -> None:
        self._daemon = cluster[name]
        self._connecting = blocking.connect(str(self._daemon.unix), user="operator")
        self._connection = self._connecting.__enter__()
        self._within_s = within_s

    def begin(self) -> None:
        """Begin the drain."""
        answer = self._connection.ask(f"drain {self._within_s} operator")
        assert "error" not in answer, answer

    def end(self) -> dict[str, Any]:
        """Wait until the daemon has left in order; return its last word about its programs."""
        with suppress(SessionEnded):
            while True:
                self._connection.receive(PATIENCE_S)
        self._connecting.__exit__(None, None, None)
        statuses: list[int] = []

        async def ended() -> None:
            statuses.append(await self._daemon.ended())

        thread = threading.Thread(target=trio.run, args=(ended,))
        thread.start()
        thread.join()
        assert statuses == [0], self._daemon.last_words
        return next(line for line in reversed(self._daemon.lines()) if "staying" in line)


def both(cluster: LocalCluster, first: str = "a") -> str:
    """Return the addresses of both daemons, beginning with one."""
    other = "b" if first == "a" else "a"
    return f"{cluster[first].unix},{cluster[other].unix}"


@played
async def test_a_program_moves_with_its_groups_and_nothing_is_in_doubt(
    kind: Kind, daemons: LocalCluster
) -> None:
    async with (
        kind.connect(both(daemons), "ann", reconnect=True) as ann,
        kind.connect(str(daemons["b"].unix), "bob") as bob,
    ):
        await ann.join("g")
        await ann.multicast("g", b"before")
        await bob.join("g")
        drain = Drain(daemons, "a")
        drain.begin()
        notice = await next_of(kind, ann, DaemonStopping)
        assert 0 < notice.within_s <= PATIENCE_S
        told = await next_of(kind, ann, Reconnected)
        assert (told.moved, told.in_doubt, told.member.name) == (True, 0, "#ann#b")
        assert told.last is not None
        assert "about to stop" in told.why
        assert told.member in (await next_of(kind, ann, GroupView)).members
        await bob.multicast("g", b"after")
        assert (await next_of(kind, ann, Message)).data == b"after"
        assert drain.end()["staying"] == []


@played
async def test_calls_that_wait_for_answers_have_them_from_the_old_daemon(
    kind: Kind, daemons: LocalCluster
) -> None:
    """`multicast_ordered` never raises OrderUnknown because of a move."""
    async with kind.connect(both(daemons), "ann", reconnect=True) as ann:
        drain, sent = Drain(daemons, "a"), []

        async def send() -> None:
            while not ann.name.endswith("#b"):
                sent.append(await ann.multicast_ordered("g", b"x", level=ServiceLevel.SAFE))
                if len(sent) == 3:
                    drain.begin()

        async def ask() -> None:
            while not ann.name.endswith("#b"):
                assert (await ann.ask("status"))["daemon"] in ("a", "b")

        await kind.together(send, send, ask)
        assert drain.end()["staying"] == []
        assert len(sent) > 3


@played
async def test_a_program_that_only_sends_moves_too(kind: Kind, daemons: LocalCluster) -> None:
    async with kind.connect(both(daemons), "ann", reconnect=True) as ann:
        drain = Drain(daemons, "a")
        drain.begin()
        while not ann.name.endswith("#b"):
            await ann.multicast("g", b"x")
            await trio_sleep(kind)
        assert ann.in_doubt <= 1
        assert drain.end()["staying"] == []


@played
async def test_a_program_that_polls_moves_step_by_step(kind: Kind, daemons: LocalCluster) -> None:
    """Each call is given up after some milliseconds; the next one goes on with the move."""
    async with kind.connect(both(daemons), "ann", reconnect=True) as ann:
        await ann.join("g")
        drain = Drain(daemons, "a")
        drain.begin()
        events: list[Any] = []
        wait_s = 0.004
        while not any(isinstance(event, Reconnected) for event in events):
            events.append(await kind.receive(ann, wait_s))
            wait_s = min(1.0, 1.05 * wait_s)  # to open a session takes its time
        assert events[-1].moved
        await ann.multicast("g", b"here")
        assert (await next_of(kind, ann, Message)).data == b"here"
        assert drain.end()["staying"] == []


def test_a_daemon_where_the_name_is_in_use_is_passed_over(daemons: LocalCluster) -> None:
    async def scenario(kind: Kind) -> None:
        other = str(daemons["b"].unix)
        async with (
            kind.connect(f"{daemons['a'].unix},{other},{other}", "ann", reconnect=True) as ann,
            kind.connect(other, "ann") as namesake,
        ):
            drain = Drain(daemons, "a")
            drain.begin()
            await next_of(kind, ann, DaemonStopping)
            assert (await ann.ask("status"))["daemon"] == "a"
            await namesake.aclose()
            assert (await next_of(kind, ann, Reconnected)).member.name == "#ann#b"
            assert drain.end()["staying"] == []

    KINDS[0].run(scenario)


async def trio_sleep(kind: Kind) -> None:
    """Pause as a program of this kind does."""
    if kind.name == "asyncio":
        import asyncio  # noqa: PLC0415 - for one kind

        await asyncio.sleep(0.01)
    else:
        await trio.sleep(0.01)


def test_who_has_no_other_address_stays_and_is_told(daemons: LocalCluster) -> None:
    async def scenario(kind: Kind) -> None:
        only = str(daemons["a"].unix)
        async with (
            kind.connect(only, "ann", reconnect=True) as ann,
            kind.connect(only, "bob") as bob,
        ):
            drain = Drain(daemons, "a", 0.5)
            drain.begin()
            for program in (ann, bob):
                await next_of(kind, program, DaemonStopping)
            with pytest.raises(CannotConnect, match="about to stop"):
                async with kind.connect(only):
                    pass
            await ann.join("g")  # it is served as before
            with pytest.raises(SessionEnded):
                await next_of(kind, bob, Message)
            assert drain.end()["staying"] == ["ann", "bob"]

    KINDS[0].run(scenario)


def test_twenty_programs_move_under_load_and_no_agreed_message_is_lost_or_doubled(
    daemons: LocalCluster,
) -> None:
    """A receiver that stays gets each sender's messages once, and in the order of their sending."""
    got: defaultdict[str, list[int]] = defaultdict(list)
    sent: dict[str, int] = {}
    moves: list[Reconnected] = []

    async def receive(connection: Any) -> None:
        while len(sent) < PROGRAMS or any(sent[user] - 1 not in got[user] for user in sent):
            message = await next_of(KINDS[0], connection, Message)
            user, _, number = message.data.decode().partition(" ")
            got[user].append(int(number))

    async def send(connection: Any, user: str, begun: trio.Event) -> None:
        number = left = 0
        while left < AFTERWARDS:
            if number == BEFORE:
                begun.set()
            left += connection.name.endswith("#b")
            await connection.multicast("g", f"{user} {number}".encode(), level=AGREED)
            number += 1
            await trio.sleep(0.002)
        sent[user] = number + 1  # counted before the last message, with which the receiver may end
        await connection.multicast("g", f"{user} {number}".encode(), level=AGREED)

    async def watch(connection: Any) -> None:
        moves.append(await next_of(KINDS[0], connection, Reconnected))

    async def scenario(kind: Kind) -> None:
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            receiver = await enter(kind.connect(str(daemons["b"].unix), "reader"))
            await receiver.join("g")
            drain, begun = Drain(daemons, "a"), trio.Event()
            with trio.fail_after(2 * PATIENCE_S):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(receive, receiver)
                    for n in range(PROGRAMS):
                        user = f"u{n}"
                        program = await enter(kind.connect(both(daemons), user, reconnect=True))
                        nursery.start_soon(send, program, user, begun)
                        if n % 2:  # the other users only send
                            nursery.start_soon(watch, program)
                    await begun.wait()
                    await trio.to_thread.run_sync(drain.begin)
                last = await trio.to_thread.run_sync(drain.end)
            assert (last["staying"], last["gone"]) == ([], PROGRAMS)

    KINDS[0].run(scenario)
    assert got == {user: list(range(count)) for user, count in sent.items()}
    assert len(moves) == PROGRAMS // 2
    assert all(move.moved and move.in_doubt == 0 for move in moves)
