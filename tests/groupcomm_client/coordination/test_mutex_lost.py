"""A mutex whose holder was cut off, event by event, as a connection would give them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Message, Transition
from groupcomm_client.coordination import Mutex, MutexLost, use
from groupcomm_client.coordination.mutex import FORMS
from groupcomm_client.coordination.mutex.mutex import make_contender
from groupcomm_client.coordination.mutex.resource import decode_use_untrusted
from groupcomm_client.events import Received
from groupcomm_client.trio_loop import TrioLoop

ANN, BOB = MemberId("#ann#a", 1), MemberId("#bob#b", 1)


class Alone:
    """Ann's side of a mutex, in a group of herself alone; the daemons are a, b and c."""

    def __init__(self, form: str) -> None:
        self.time = 0
        self.counter = 7
        self.used: list[bytes] = []
        before = self.daemons(7, "abc", "abc")
        protocol = SimpleNamespace(
            is_open=True, has_view_waiting=False, views=True, check_own=lambda: None
        )
        connection: Any = SimpleNamespace(
            member=ANN, view=before, loop=TrioLoop(), protocol=protocol, read_ready=lambda: None
        )
        connection.present_session = lambda: connection
        contender = make_contender(form, ANN, "press", None, before)
        self.mutex = Mutex(connection, "press", lambda session: contender)
        self.accept(self.group(Cause.JOIN, ANN))
        self.deliver()

    def place(self) -> Position:
        self.time += 1
        return Position(ViewId(self.counter, "a", 1), self.time, 0, 0, 0)

    def daemons(self, counter: int, names: str, together: str) -> DaemonView:
        self.counter = counter
        return DaemonView(
            id=ViewId(counter, "a", 1),
            daemons=tuple(names),
            majority=len(names) > 1,
            together=tuple(together),
        )

    def group(self, cause: Cause, *members: MemberId) -> GroupView:
        return GroupView(
            group="press",
            id=self.place(),
            members=members,
            cause=cause,
            changed=(),
            vs_set=(ANN,),
            own=cause is Cause.JOIN,
        )

    def end(self) -> Transition:
        return Transition(ViewId(self.counter, "a", 1))

    def accept(self, *batch: Received) -> None:
        """Some events that the program receives at once."""
        for event in batch:
            self.mutex.accept(event)
        self.mutex.driver.notify()

    def deliver(self) -> None:
        """What Ann has sent comes back."""
        outgoing = self.mutex.driver._outgoing
        while outgoing:
            to, data, level = outgoing.popleft()
            groups = (to,) if isinstance(to, str) else (ANN.name,)
            used = decode_use_untrusted(data)
            self.used += [] if used is None else [used.data]
            self.accept(Message(ANN, 1, groups, level, 0, data, self.place()))


@asynccontextmanager
async def answered(alone: Alone) -> AsyncIterator[None]:
    """Answer what is sent, while the program waits for something."""

    async def answer() -> None:
        while True:
            alone.deliver()
            await trio.lowlevel.checkpoint()

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            yield
            nursery.cancel_scope.cancel()


async def hold(alone: Alone, *batch: Received) -> None:
    """Enter, and receive some events at once."""
    async with alone.mutex:
        alone.accept(*batch)
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("form", FORMS)
async def test_a_holder_that_stood_still_loses_it_though_nobody_else_is_in_the_group_now(
    form: str,
) -> None:
    """Another one may have come and gone meanwhile; so only the daemons show it."""
    alone = Alone(form)
    united = alone.end(), alone.daemons(9, "abc", "a"), alone.group(Cause.NETWORK, ANN)
    async with answered(alone):
        with pytest.raises(MutexLost):
            await hold(alone, *united)
        await hold(alone)  # she gets it again


async def test_a_block_that_has_lost_the_mutex_uses_nothing() -> None:
    """The mutex is requested anew at once: a late use would be ordered behind that request."""
    alone = Alone("agreed")
    united = alone.end(), alone.daemons(9, "abc", "a"), alone.group(Cause.NETWORK, ANN, BOB)
    async with answered(alone):
        with pytest.raises(MutexLost):
            await use_before_and_after(alone, *united)
        assert alone.used == [b"in time"]


async def use_before_and_after(alone: Alone, *batch: Received) -> None:
    async with alone.mutex:
        await use(alone.mutex, b"in time")
        alone.accept(*batch)
        with pytest.raises(MutexLost):
            await use(alone.mutex, b"late")


@pytest.mark.parametrize("form", FORMS)
async def test_a_part_of_its_own_and_its_end_in_one_batch_are_noticed(form: str) -> None:
    """A slow program receives both views of daemons at once, and has a majority again by then."""
    alone = Alone(form)
    parted = alone.end(), alone.daemons(8, "a", "a"), alone.group(Cause.NETWORK, ANN)
    united = alone.end(), alone.daemons(9, "abc", "a"), alone.group(Cause.NETWORK, ANN, BOB)
    async with answered(alone):
        with pytest.raises(MutexLost):
            await hold(alone, *parted, *united)


@pytest.mark.parametrize("form", FORMS)
async def test_a_holder_whose_daemons_stay_together_keeps_it(form: str) -> None:
    alone = Alone(form)
    lesser = alone.end(), alone.daemons(12, "ab", "ab"), alone.group(Cause.NETWORK, ANN)
    back = alone.end(), alone.daemons(900, "abc", "ab"), alone.group(Cause.NETWORK, ANN)
    async with answered(alone):
        await hold(alone, *lesser, *back)
