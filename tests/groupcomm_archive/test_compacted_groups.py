"""Real archives compact a group: who begins gets the last message of each key, and is told so."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupcomm.errors import LocalProtocolError
from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm_client.blocking import BlockingConnection, connect
from groupcomm_client.history import EARLIEST, CaughtUp, Compacted, Gap
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.history.archives import STEADY, ArchiveProcess
from tests.groupcomm_client.kinds import PATIENCE_S
from tests.groupcomm_tools.shell import tell

GROUP = "prices"
PAPERS = 5


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("ab", settings=STEADY) as running:
        yield running


def state(connection: BlockingConnection, last: bytes) -> tuple[dict[str, int], int, int]:
    """Return the last price of each paper, and the numbers of messages and of compacted parts."""
    prices: dict[str, int] = {}
    messages = parts = 0
    is_at_end = is_caught_up = False
    with connection.subscribe(GROUP, start=EARLIEST, compacted=True) as reading:
        while not (is_at_end and is_caught_up):
            event = reading.receive(PATIENCE_S)
            assert not isinstance(event, Gap)
            parts += isinstance(event, Compacted)
            is_caught_up |= isinstance(event, CaughtUp)
            if isinstance(event, Message):
                is_at_end |= event.data == last
                found = json.loads(event.data)
                prices[found["paper"]] = found["price"]
                messages += 1
    return prices, messages, parts


def test_a_group_is_compacted_and_read(cluster: RunningCluster, tmp_path: Path) -> None:
    def archive(name: str) -> ArchiveProcess:
        more = ("--compact", f"{GROUP}=json:paper", "--seal-s", "1")
        return ArchiveProcess(cluster.address(name), tmp_path / name, [GROUP], *more)

    expected: dict[str, int] = {}
    with archive("a") as first, connect(cluster.address("b")) as sender:
        first.until_live()
        number = 0
        limit = time.monotonic() + 60
        while sum(each["event"] == "compacted" for each in first.reported) < 2:
            assert time.monotonic() < limit, first.reported
            for _ in range(20):
                paper, number = f"paper {number % PAPERS}", number + 1
                expected[paper] = number
                data = json.dumps({"paper": paper, "price": number}).encode()
                sender.multicast_ordered(GROUP, data, level=ServiceLevel.SAFE)
            time.sleep(0.3)
        last = json.dumps({"paper": "last", "price": 0}).encode()
        expected["last"] = 0
        sender.multicast_ordered(GROUP, last, level=ServiceLevel.SAFE)
        with connect(cluster.address("b")) as reader:
            prices, messages, parts = state(reader, last)
        assert prices == expected
        assert parts >= 1
        assert messages < number, "nothing was compacted"
        with archive("b") as second:
            second.until_live()
            assert first.end() == 0
            with connect(cluster.address("b")) as reader:
                prices, _, parts = state(reader, last)
            assert prices == expected
            assert parts >= 1
            words = ("--compacted", "--json", "--until", "now", "--address", cluster.address("b"))
            status, output, _ = tell("history", "read", GROUP, *words)
            assert status == 0
            events = [json.loads(line) for line in output.splitlines()]
            assert [each["event"] for each in events].count("compacted") >= 1
            assert second.end() == 0


def test_several_groups_have_no_common_compacted_part(cluster: RunningCluster) -> None:
    with (
        connect(cluster.address("a")) as connection,
        pytest.raises(LocalProtocolError, match="one group"),
        connection.subscribe(["a", "b"], start=EARLIEST, compacted=True),
    ):
        raise AssertionError("it was subscribed to")
