"""A call may be cancelled wherever it waits: nothing is lost, doubled, or taken for another."""

from collections.abc import Coroutine
from itertools import count
from typing import Any

import pytest

from groupcomm.events import Message
from groupcomm_client.connection import Connection
from groupcomm_client.events import Received
from tests.groupcomm_client.scripted_daemon import CHAT, ScriptedDaemon
from tests.groupcomm_client.virtual_kinds import AsyncioTime, Time, TrioTime, talking

LARGE_BYTES = 40_000
"""More than the socket takes at once, and than the daemon says in one step."""

CASES = [
    pytest.param(time, way, alone, id=f"{time.name}, {way}, {'alone' if alone else 'shared'}")
    for time in (TrioTime(), AsyncioTime())
    for way in time.ways
    for alone in (True, False)
]
cases = pytest.mark.parametrize(("time", "way", "alone"), CASES)


POINTS = 4
"""The least number of points at which each call must wait, or the test tests nothing."""


class Listener:
    """Receives all events, for any caller."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.events: list[Received] = []

    async def for_ever(self) -> None:
        """Receive until cancelled."""
        while True:
            self.events += await self.connection.receive_batch()

    async def until_data(self, data: bytes) -> None:
        """Receive until a message with this data has come."""
        while all(getattr(event, "data", None) != data for event in self.events):
            self.events += await self.connection.receive_batch()

    async def have_all(self, daemon: ScriptedDaemon) -> None:
        """Receive all that the daemon had told by now, and compare."""
        told = list(daemon.told)
        while len(self.events) < len(told):
            self.events += await self.connection.receive_batch()
        assert self.events == daemon.told[: len(self.events)]


@cases
def test_a_cancelled_receive_loses_nothing(time: Time, way: str, alone: bool) -> None:
    async def scenario() -> None:
        async with talking(time, seed=1, crumb_bytes=20) as (connection, daemon):
            events: list[Received] = []
            points = asked = 0

            async def ask_for_ever() -> None:
                nonlocal asked
                while True:
                    question = f"question {asked}"
                    assert await connection.ask(question) == {"asked": question}
                    asked += 1
                    await time.loop.sleep(0.02)

            await connection.join(CHAT)
            async with time.meanwhile(*([] if alone else [ask_for_ever])):
                while len(events) < 60:
                    for at in count(1):
                        one = await time.attempt(connection.receive(), at, way)
                        if one.done:
                            events.append(one.value)
                            break
                    points = max(points, at)
                    for at in count(1):
                        some = await time.attempt(connection.receive_batch(), at, way)
                        if some.done:
                            events += some.value
                            break
                    points = max(points, at)
            assert events == daemon.told[: len(events)]
            assert points >= POINTS
            assert alone or asked > 10

    time.run(scenario)


@cases
def test_a_cancelled_join_is_not_taken_for_the_next(time: Time, way: str, alone: bool) -> None:
    async def scenario() -> None:
        async with talking(time, seed=2, crumb_bytes=20) as (connection, daemon):
            listener = Listener(connection)
            async with time.meanwhile(*([] if alone else [listener.for_ever])):
                for at in count(1):
                    group = f"group {at}"
                    outcome = await time.attempt(connection.join(group), at, way)
                    if outcome.done:
                        assert outcome.value == daemon.joined[group][0]
                        break
                    await connection.leave(group)
                    assert group not in connection.groups
                    assert await connection.join(group) == daemon.joined[group][1]
            assert at >= POINTS
            await listener.have_all(daemon)

    time.run(scenario)


@cases
def test_a_cancelled_leave_is_not_taken_for_the_next(time: Time, way: str, alone: bool) -> None:
    async def scenario() -> None:
        async with talking(time, seed=3, crumb_bytes=20) as (connection, daemon):
            listener = Listener(connection)
            async with time.meanwhile(*([] if alone else [listener.for_ever])):
                for at in count(1):
                    group = f"group {at}"
                    await connection.join(group)
                    if (await time.attempt(connection.leave(group), at, way)).done:
                        assert group not in connection.groups
                        break
                    assert await connection.join(group) == daemon.joined[group][1]
                    assert connection.groups[group] == daemon.joined[group][1]
            assert at >= POINTS
            await listener.have_all(daemon)

    time.run(scenario)


@cases
@pytest.mark.parametrize("ordered", [False, True], ids=["plain", "ordered"])
def test_a_cancelled_message_is_sent_once_and_its_place_is_its_own(
    time: Time, way: str, alone: bool, ordered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A smaller message would be left to be written, and its call would not wait.
    monkeypatch.setattr("groupcomm_client.basic_connection.PART_BYTES", LARGE_BYTES)

    async def scenario() -> None:
        async with talking(time, seed=4, crumb_bytes=4000, gulp_bytes=4000) as (
            connection,
            daemon,
        ):
            await connection.join("g")
            listener = Listener(connection)
            sent: list[bytes] = []
            async with time.meanwhile(*([] if alone else [listener.for_ever])):
                for at in count(1):
                    sent.append(b"%d of many " % at + bytes(LARGE_BYTES))
                    send = connection.multicast_ordered if ordered else connection.multicast
                    call: Coroutine[Any, Any, Any] = send("g", sent[-1])
                    outcome = await time.attempt(call, at, way)
                    if outcome.done:
                        if ordered:
                            assert outcome.value.position == daemon.places[outcome.value.number]
                        break
                    if alone and at % 2:  # no other message is sent, and this one still comes back
                        await listener.until_data(sent[-1])
                    else:
                        sent.append(b"the next one")
                        place = await connection.multicast_ordered("g", sent[-1])
                        assert place.position == daemon.places[place.number]
                sent.append(b"the last one")
                await connection.multicast_ordered("g", sent[-1])
            assert at >= POINTS
            await listener.have_all(daemon)
            messages = [event for event in listener.events if isinstance(event, Message)]
            assert [message.data for message in messages] == sent
            assert [message.number for message in messages] == daemon.taken

    time.run(scenario)


@cases
def test_a_cancelled_question_does_not_take_the_answer_to_the_next(
    time: Time, way: str, alone: bool
) -> None:
    async def scenario() -> None:
        async with talking(time, seed=5, crumb_bytes=10) as (connection, daemon):
            listener = Listener(connection)
            await connection.join(CHAT)
            async with time.meanwhile(*([] if alone else [listener.for_ever])):
                for at in count(1):
                    outcome = await time.attempt(connection.ask(f"question {at}"), at, way)
                    if outcome.done:
                        assert outcome.value == {"asked": f"question {at}"}
                        break
                    if at % 2:
                        assert await connection.ask("between") == {"asked": "between"}
            assert at >= POINTS
            await listener.have_all(daemon)

    time.run(scenario)


@pytest.mark.parametrize(
    ("time", "way"),
    [
        pytest.param(time, way, id=f"{time.name}, {way}")
        for time in (TrioTime(), AsyncioTime())
        for way in time.ways
    ],
)
def test_a_cancelled_close_closes_the_socket_all_the_same(time: Time, way: str) -> None:
    async def scenario() -> None:
        for at in count(1):
            async with talking(time, seed=6, crumb_bytes=20) as (connection, daemon):
                outcome = await time.attempt(connection.aclose(), at, way)
                # In trio what closes it is shielded; who cancels a task of asyncio is told.
                assert outcome.done != (at == 1 and time.name == "asyncio")
                await time.loop.sleep(0.01)
                assert daemon.gone, f"its socket is open after suspension {at}"
            if outcome.done:
                break

    time.run(scenario)
