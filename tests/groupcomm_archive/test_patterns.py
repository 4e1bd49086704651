"""A real archive of groups by pattern: it begins with each as it appears."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm_client.blocking import BlockingConnection, connect
from groupcomm_client.history import EARLIEST, CaughtUp, Gap
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.history.archives import STEADY, ArchiveProcess
from tests.groupcomm_client.kinds import PATIENCE_S

PLANTS = ["plant.a", "plant.b"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("ab", settings=STEADY) as running:
        yield running


def history(
    connection: BlockingConnection, groups: list[str], last: bytes, gaps: int = 0
) -> list[bytes]:
    """Return the data of all messages up to one, and check the number of gaps."""
    found: list[bytes] = []
    with connection.subscribe(groups, start=EARLIEST, gap_wait_s=0) as reading:
        while last not in found:
            event = reading.receive(PATIENCE_S)
            gaps -= isinstance(event, Gap)
            if isinstance(event, Message):
                found.append(event.data)
    assert gaps == 0
    return found


def test_groups_are_recorded_as_they_appear(cluster: RunningCluster, tmp_path: Path) -> None:
    def archive() -> ArchiveProcess:
        return ArchiveProcess(
            cluster.address("a"), tmp_path / "log", ["fixed", "plant.*"], "--keep-s", "plant.b=900"
        )

    with connect(cluster.address("b")) as sender, connect(cluster.address("b")) as reader:
        with archive() as running:
            running.until_live()
            for group in PLANTS:  # nobody has been a member of these before
                with reader.subscribe(group, start=EARLIEST) as reading:
                    sender.multicast_ordered(group, b"first of %b" % group.encode())
                    while not isinstance(reading.receive(PATIENCE_S), CaughtUp):
                        pass
            expected = []
            for number in range(20):
                groups = [["fixed"], ["plant.a"], ["plant.b"], ["fixed", *PLANTS]][number % 4]
                expected.append(b"%d" % number)
                sender.multicast_ordered(groups, expected[-1], level=ServiceLevel.SAFE)
            for groups in (PLANTS, ["fixed", "plant.b"], ["fixed", *PLANTS]):
                found = history(reader, groups, expected[-1])
                found = [each for each in found if not each.startswith(b"first")]
                wanted = [
                    each
                    for number, each in enumerate(expected)
                    if number % 4 == 3 or ["fixed", *PLANTS][number % 4] in groups
                ]
                assert found == wanted
            assert running.end() == 0
        with archive() as running:
            running.until_live()
            sender.multicast_ordered("plant.a", b"later")
            found = history(reader, ["plant.a"], b"later", gaps=1)  # nothing ran in between
            wanted = [each for number, each in enumerate(expected) if number % 4 in (1, 3)]
            assert [each for each in found if not each.startswith(b"first")] == [*wanted, b"later"]
            assert running.end() == 0
