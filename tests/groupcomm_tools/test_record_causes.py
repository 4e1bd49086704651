"""Recorders of real daemons write causes, from which a log shows that causal order was kept."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio

from groupcomm.clocks.stamp import Position, Stamp, ViewId
from groupcomm.events import CausalContext, DaemonView, MemberId, Message
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm_client import Connection
from groupcomm_log.reader import LogReader
from tests.groupcomm_tools.recorders import recorded_pair
from tests.verification.simulation.contexts import Contexts

VIEW = ViewId(1, "a", 2)
SENDER = MemberId("#ann#a", 1)
Row = dict[str, Any]


def read(folder: Path) -> list[Row]:
    rows = [row for batch in LogReader(folder).batches() for row in batch.to_pylist()]
    return [row for row in rows if row["kind"] in ("message", "daemons")]


def contexts_of(rows: Sequence[Row]) -> Contexts:
    """Return the findings of the columns alone, as docs/recorder.md describes."""
    contexts = Contexts()
    for row in rows:
        if row["kind"] == "daemons":
            contexts.received(DaemonView(id=VIEW, daemons=("a",), majority=None))
            continue
        place, causes = None, None
        if row["stamp"] is not None:
            place = Position(VIEW, row["stamp"], row["ring"], row["bundle"], 0)
            packet, *rest = row["causal_context"]
            agreed = Stamp(rest[0], rest[1]) if rest else None
            causes = CausalContext(packet, agreed, tuple(rest[2:]))
        level = ServiceLevel[row["level"]]
        index = row["message"] or 0
        contexts.received(Message(SENDER, 1, ("g",), level, 0, b"", place, index, causes))
    return contexts


async def talk(*connections: Connection) -> None:
    """Have all send at all levels, each also after its deliveries."""

    async def send(connection: Connection) -> None:
        for number in range(25):
            for level in LEVELS:
                await connection.multicast("g", b"%d" % number, level=level)
            await trio.sleep(0.002)
        await connection.multicast("g", bytes(100_000), level=ServiceLevel.CAUSAL)
        await connection.multicast_ordered("g", b"over")

    async with trio.open_nursery() as nursery:
        for connection in connections:
            nursery.start_soon(send, connection)


@pytest.mark.long
async def test_a_log_shows_that_causal_order_was_kept_also_through_a_partition(
    tmp_path: Path,
) -> None:
    async with recorded_pair(tmp_path) as (cluster, one, other):
        await talk(one, other)
        cluster.partition("a", "b")
        await talk(one, other)
        cluster.heal()
        cluster.settle()
        await talk(one, other)
    for name in "ab":
        check(read(tmp_path / name))


def check(rows: list[Row]) -> None:
    """Every row has the causes of its level, in their order; rows that change places are found."""
    lengths = {level.name: set[int]() for level in LEVELS}
    views = sum(row["kind"] == "daemons" for row in rows)
    for row in rows:
        if row["kind"] == "message":
            lengths[row["level"]].add(len(row["causal_context"] or ()))
    assert lengths.pop("UNRELIABLE") == {0}
    assert lengths.pop("RELIABLE") == lengths.pop("FIFO") == {1}
    assert all(length == {4} for length in lengths.values()), "one packet, A, V of one ring"
    assert views >= 3
    contexts = contexts_of(rows)
    assert (contexts.violations, contexts.missing) == ([], 0)
    assert contexts.contexts > 300
    found = [bool(contexts_of(log).violations) for log in changed_places(rows)]
    assert sum(found) >= 2, "in a short view all may be numbered before any of it is delivered"


def changed_places(rows: list[Row]) -> list[list[Row]]:
    """The log with the last CAUSAL message of a view before the first message of it; each view."""
    begins = [at for at, row in enumerate(rows) if row["kind"] == "daemons"]
    found = []
    for begin, end in pairwise([*begins, len(rows)]):
        causal = [at for at in range(begin, end) if rows[at]["level"] == "CAUSAL"]
        if len(causal) > 1:
            first, last = rows[begin + 1], rows[causal[-1]]
            changed = [*rows]
            changed[begin + 1], changed[causal[-1]] = last, first
            found.append(changed)
    return found
