"""Messages that are values of a type, for three loops."""

from collections.abc import Iterator
from math import nan
from typing import Any

import attrs
import msgspec
import pytest

import groupcomm_client
from groupcomm.errors import LocalProtocolError
from groupcomm.events import DaemonView, GroupView
from groupcomm.level import ServiceLevel
from groupcomm_client import TypedMessage, WrongValue
from groupcomm_client.blocking import connect
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.kinds import PATIENCE_S, Kind, played


class Reading(msgspec.Struct, tag=True, frozen=True):
    sensor: str
    degrees: float


class Alarm(msgspec.Struct, tag=True, frozen=True):
    text: str


@attrs.frozen
class Price:
    paper: str
    price: int


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with RunningCluster("a") as cluster:
        yield cluster.address("a")


@played
async def test_values_come_as_they_were_sent_beside_bytes_and_others(
    kind: Kind, address: str
) -> None:
    async with kind.connect(address) as connection:
        typed, prices = connection.typed(Reading | Alarm), connection.typed(Price)
        await connection.join(f"hall-{kind.name}")
        hall = f"hall-{kind.name}"
        await typed.multicast(hall, Reading("north", 21.5), level=ServiceLevel.SAFE, type=7)
        await prices.multicast_ordered(hall, Price("a", 3))
        await connection.multicast(hall, b"bytes")
        await typed.multicast_ordered(hall, Alarm("fire"))
        views, found = [await typed.receive(PATIENCE_S) for _ in range(2)], []
        for _ in range(4):
            found.append(await typed.receive(PATIENCE_S))
    assert [type(view) for view in views] == [DaemonView, GroupView]
    first, price, data, last = found
    assert (first.value, first.sender) == (Reading("north", 21.5), connection.member)
    assert (first.message.level, first.message.type) == (ServiceLevel.SAFE, 7)
    for other in (price, data):
        with pytest.raises(WrongValue, match=f"of {connection.name} is no .*Reading"):
            other.value
    assert last.value == Alarm("fire")


HOT: Any = "hot"


@pytest.mark.parametrize(
    ("model", "value", "why"),
    [
        (Reading, Alarm("x"), "a message is of type Alarm; write .*Reading"),
        (Reading, Reading("north", nan), "this Reading cannot be sent as JSON, or not be read"),
        (Reading, Reading("north", HOT), "Expected `float`, got `str`"),
        (Price, Price("\ud800", 1), "cannot be sent as JSON"),
        (list[int], ["x"], "Expected `int`, got `str`"),
        (Reading, Reading("x" * (64 << 20), 1.0), "64 MiB|67,?108,?864"),
    ],
)
def test_what_no_receiver_could_read_is_an_error_at_the_call(
    address: str, model: Any, value: Any, why: str
) -> None:
    with connect(address) as connection:
        typed: Any = connection.typed(model)
        with pytest.raises(LocalProtocolError, match=why):
            typed.multicast("hall", value)
        with pytest.raises(LocalProtocolError, match=why):
            typed.multicast_ordered("hall", value)
        connection.multicast_ordered("hall", b"the session goes on")


def test_a_type_without_a_form_in_json_is_refused(address: str) -> None:
    with (
        connect(address) as connection,
        pytest.raises(LocalProtocolError, match="is no type of messages"),
    ):
        connection.typed(object())  # type: ignore[arg-type]


async def test_messages_end_with_their_connection(address: str) -> None:
    async with groupcomm_client.connect(address) as connection, connection.group("ends"):
        typed = connection.typed(Price)
        await typed.multicast_ordered("ends", Price("a", 1))
        values = []
        async for message in typed.messages():
            values.append(message.value)
            await connection.aclose()
    assert values == [Price("a", 1)]
    with connect(address) as blocking, blocking.group("ends"):
        of_thread = blocking.typed(Price)
        of_thread.multicast_ordered("ends", Price("b", 2))
        for found in of_thread.messages():
            assert found.value == Price("b", 2)
            blocking.close()


def test_a_message_is_compared_and_shown_without_its_decoder(address: str) -> None:
    with connect(address) as connection, connection.group("alike"):
        typed = connection.typed(Price)
        typed.multicast("alike", Price("a", 1))
        message = next(typed.messages())
        assert typed.read(message.message) == message
    assert message.value == Price("a", 1)
    assert message == TypedMessage(message.message, msgspec.json.Decoder(Price))
    assert "decoder" not in repr(message)
