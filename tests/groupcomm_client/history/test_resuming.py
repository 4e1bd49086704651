"""Connections that resume, on real daemons, in three loops."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groupcomm.errors import LocalProtocolError
from groupcomm.events import GroupView, Message
from groupcomm_client import ConnectOptions, SharedSecret
from groupcomm_client.blocking import connect
from groupcomm_client.events import Reconnected
from groupcomm_client.filters.compressing import compression
from groupcomm_client.history import LATEST, CaughtUp, Gap
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.history.archives import STEADY, ArchiveProcess, key_of
from tests.groupcomm_client.kinds import PATIENCE_S, Kind


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("abc", settings=STEADY) as running:
        yield running


@pytest.fixture(scope="module")
def archive(
    cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ArchiveProcess]:
    store = tmp_path_factory.mktemp("archive") / "log"
    with ArchiveProcess(cluster.address("a"), store, ("trio", "asyncio", "blocking")) as running:
        running.until_live()
        yield running


def test_what_was_missed_comes_once_and_in_order(
    kind: Kind, cluster: RunningCluster, archive: ArchiveProcess
) -> None:
    """Break sessions off while messages are sent; an observer sees all that is ordered."""
    group = kind.name
    addresses = f"{cluster.address('b')},{cluster.address('c')}"
    given: list[Any] = []
    observed: list[Any] = []

    async def scenario(kind: Kind) -> None:
        async with (
            kind.connect(cluster.address("a")) as observer,
            kind.connect(addresses, reconnect=True, resume=True) as connection,
        ):
            await observer.join(group)
            await connection.join(group)
            for turn in range(3):
                await observer.multicast_many(group, [b"%d.%d" % (turn, n) for n in range(100)])
                while not any(getattr(each, "data", b"") == b"%d.30" % turn for each in given):
                    given.append(await connection.receive(PATIENCE_S))
                awaited(connection)._session.stream.close()
                await observer.multicast_many(group, [b"%d.missed" % turn] * 50)
            await observer.multicast_ordered(group, b"last")
            while not (
                any(getattr(each, "data", b"") == b"last" for each in given)
                and any(isinstance(each, CaughtUp) for each in given)
            ):
                given.extend(await connection.receive_batch(PATIENCE_S))
            while not any(getattr(each, "data", b"") == b"last" for each in observed):
                observed.extend(await observer.receive_batch(PATIENCE_S))

    kind.run(scenario)
    assert not [each for each in given if isinstance(each, Gap)]
    assert len([each for each in given if isinstance(each, Reconnected)]) == 3
    keys = [key for each in given if (key := key_of(each)) is not None]
    expected = [key for each in observed if (key := key_of(each)) is not None]
    expected = expected[expected.index(keys[0]) :]
    both = min(len(keys), len(expected))  # either may have read a view behind the last message
    assert keys[:both] == expected[:both]
    assert len([each for each in given if isinstance(each, Message)]) == 3 * 150 + 1
    assert len([each for each in given if isinstance(each, GroupView)]) >= 5, "views, too"


def awaited(connection: Any) -> Any:
    return connection.wrapped.awaited if hasattr(connection, "wrapped") else connection


def test_iteration_gives_messages_of_the_past_too(
    cluster: RunningCluster, archive: ArchiveProcess
) -> None:
    with (
        connect(cluster.address("a")) as sender,
        connect(cluster.address("b"), reconnect=True, resume=["trio"]) as connection,
    ):
        connection.join("trio")
        connection.awaited._session.stream.close()
        sender.multicast_many("trio", [b"1", b"2", b"3"])
        messages = connection.messages()
        assert [next(messages).data for _ in range(3)] == [b"1", b"2", b"3"]
        assert connection.pop_waiting() is not None


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"resume": True}, "needs reconnect=True"),
        ({"resume": "g", "reconnect": True}, "list of the names"),
        ({"resume": [7], "reconnect": True}, "list of the names"),
        (
            {
                "resume": True,
                "reconnect": True,
                "options": ConnectOptions(filters=[compression]),
            },
            "no filters",
        ),
    ],
)
def test_what_cannot_be_resumed_is_refused(
    cluster: RunningCluster, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(LocalProtocolError, match=why), connect(cluster.address("a"), **options):
        pass


def test_a_group_with_a_secret_is_not_resumed(cluster: RunningCluster, tmp_path: Path) -> None:
    secret = SharedSecret(b"x" * 32)
    with connect(cluster.address("a"), reconnect=True, resume=["g"]) as connection:
        with pytest.raises(LocalProtocolError, match="cannot be resumed"):
            connection.join("g", secret=secret)
        assert connection.join("h", secret=secret).members
        with pytest.raises(LocalProtocolError, match="no filters"):
            connection.set_filters([])
        with pytest.raises(LocalProtocolError, match="no subscriptions"):
            connection.awaited.subscribe("g", start=LATEST)
        with pytest.raises(LocalProtocolError, match="not for coordination"):
            connection.awaited.work("g", name="w")
