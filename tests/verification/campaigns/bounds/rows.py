"""The rows: what honest and rude programs do that must cost only what it has to."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs
import trio

from groupcomm_tools.local_cluster import LocalCluster
from tests.verification.campaigns.bounds.spread_daemons import open_spread
from tests.verification.campaigns.bounds.stage import (
    KILLED,
    NAMES,
    PATIENCE_S,
    STAY,
    Crowd,
    Stage,
    prefer,
)
from tests.verification.campaigns.peers import spread

QUIET_S: Final = 10.0
FIRST_GROUP: Final = "g000000"
MESSAGES: Final = 5
SPREAD_CPU_S: Final = 0.48
"""Processor seconds of Spread 4.4 when 300 programs join one group, on the reference machine.

Where Spread's daemon is installed (SPREAD_DAEMON names it) it is measured in the same run.
"""

MANY_CONNECTIONS: Final = "quotas = {connections = 16000}\n"
"""All programs of a row belong to one user."""

NO_RIGHT: Final = """
[[access]]
who = "unix:*"
may = ["join", "send", "see-members", "admin"]

[[access]]
who = "spread:*"
may = []
names = ["u*"]
"""
"""Programs of Spread may have a name, and do nothing else."""


async def joins(stage: Stage) -> None:
    """1,000 programs join one group within 5 s."""
    count = stage.scaled(1000)
    crowd = await stage.crowd("own", count, stage.addresses())
    await stage.stay_quiet(stage.seconds(QUIET_S))
    async with stage.loaded():
        joined = await crowd.ask("join", groups=1, over_s=stage.seconds(5.0))
        await trio.sleep(1.0)  # changes of large groups are written together a little later
    await crowd.ask("totals")
    stage.figures["joined_s"] = joined["seconds"]
    stage.bar("names_a_member_to_n", crowd.counts["names"] / count / count, 3.0)
    assert stage.load is not None
    stage.bar("p99_ms", stage.load.p99, 20.0)


async def crash(stage: Stage) -> None:
    """5,000 programs in 500 groups; one daemon is killed, and its programs connect to others."""
    crowd = await stage.crowd("own", stage.scaled(5000), stage.addresses())
    await crowd.ask("join", groups=stage.scaled(500), over_s=stage.seconds(5.0))
    await stage.stay_quiet(stage.seconds(QUIET_S))
    async with stage.loaded(views_due=1):
        view_s, served_s = await _kill(stage, crowd)
    stage.bar("view_s", view_s, 1.0)
    stage.bar("served_s", served_s, 3.0)


async def groups(stage: Stage) -> None:
    """100,000 groups of 100 sessions; one daemon is killed and comes back."""
    sessions = max(4, stage.scaled(100))
    each = stage.scaled(100_000) // sessions
    crowd = await stage.crowd("own", sessions, stage.addresses())
    before = stage.resident()
    joined = await crowd.ask("join", groups=each * sessions, each=each)
    after = stage.resident()
    await stage.stay_quiet(stage.seconds(QUIET_S))
    async with stage.loaded(views_due=2):
        view_s, served_s = await _kill(stage, crowd)
        await stage.cluster[KILLED].start()
        prefer(stage.cluster[KILLED])
        await stage.cluster.settle(NAMES, PATIENCE_S)
        await trio.sleep(stage.seconds(5.0))
    stage.figures |= {"joined_s": joined["seconds"], "view_s": view_s, "served_s": served_s}
    grown = max(after[name] - before[name] for name in NAMES)
    stage.bar("bytes_a_group", grown / each / sessions, 1024)
    assert stage.load is not None
    stage.bar("silence_ms", stage.load.silence, 1000.0)


async def churn(stage: Stage) -> None:
    """One member of 1,000 leaves its group and joins it, again and again."""
    crowd = await stage.crowd("own", stage.scaled(1000), stage.addresses())
    await crowd.ask("join", groups=1, over_s=stage.seconds(5.0))
    await stage.stay_quiet(stage.seconds(QUIET_S))
    async with stage.loaded():
        await crowd.ask("churn")
        await trio.sleep(stage.seconds(QUIET_S))
    await crowd.ask("totals")
    _p95_below_twice_quiet(stage)


async def spread_joins(stage: Stage) -> None:
    """300 programs of Spread join one group, and get a message."""
    count = stage.scaled(300)
    crowd = await stage.crowd("spread", count, stage.spread_addresses())
    await stage.stay_quiet(stage.seconds(QUIET_S))
    async with stage.loaded():
        joined = await crowd.ask("join", groups=1)
        sent = await crowd.ask("send", group=FIRST_GROUP)
    stage.figures |= {"joined_s": joined["seconds"], "sent_s": sent["seconds"]}
    stage.bar("not_received", count - crowd.counts["received"], 0)
    spread_s = SPREAD_CPU_S * count / 300
    if spread.daemon():
        spread_s = stage.figures["spread_cpu_s"] = await _spread_joins_s(stage, count)
    stage.bar("cpu_to_spread", stage.figures["cpu_s"] / spread_s, 2.0)
    assert stage.load is not None
    stage.bar("worst_ms", stage.load.worst, 300.0)


async def _spread_joins_s(stage: Stage, count: int) -> float:
    """Return the processor seconds that the same takes at Spread's own daemons."""
    await stage.end()
    async with open_spread() as daemons:
        crowd = await stage.crowd("spread", count, daemons.addresses)
        await trio.sleep(QUIET_S)
        before = daemons.cpu_s()
        await crowd.ask("join", groups=1)
        await crowd.ask("send", group=FIRST_GROUP)
        await trio.sleep(1.0)
        return daemons.cpu_s() - before


async def free_senders(stage: Stage) -> None:
    """100 programs of Spread without a right send what asks for nothing, as fast as they can."""
    crowd = await stage.crowd("spread", stage.scaled(100), stage.spread_addresses())
    await stage.stay_quiet(stage.seconds(QUIET_S))
    async with stage.loaded():
        await crowd.ask("flood")
        await trio.sleep(stage.seconds(QUIET_S))
    await crowd.ask("totals")
    _p95_below_twice_quiet(stage)


async def message(stage: Stage) -> None:
    """10,000 programs of one daemon get one message, five times."""
    count = stage.scaled(10_000)
    crowd = await stage.crowd("own", count, stage.addresses(STAY[:1]))
    await crowd.ask("join", groups=1, views=False)
    await stage.stay_quiet(stage.seconds(QUIET_S))
    async with stage.loaded():
        found = []
        for _ in range(MESSAGES):
            found.append(await crowd.ask("send", group=FIRST_GROUP))
            await trio.sleep(0.5)
    stage.figures["first_s"] = max(each["first_s"] for each in found)
    stage.figures["last_s"] = max(each["seconds"] for each in found)
    stage.bar("not_received", MESSAGES * count - crowd.counts["received"], 0)


async def closing(stage: Stage) -> None:
    """All sockets of 5,000 programs are closed at once."""
    crowd = await stage.crowd("own", stage.scaled(5000), stage.addresses())
    await crowd.ask("join", groups=stage.scaled(500), over_s=stage.seconds(5.0))
    await stage.stay_quiet(stage.seconds(QUIET_S))
    async with stage.loaded():
        await crowd.kill()
        await trio.sleep(stage.seconds(QUIET_S))


async def _kill(stage: Stage, crowd: Crowd) -> tuple[float, float]:
    """Kill a daemon; return when others had a view, and when all its programs were served."""
    (address,) = stage.addresses(KILLED)
    stage.cluster[KILLED].kill()
    began = trio.current_time()
    await stage.cluster.settle(STAY, PATIENCE_S)
    view_s = trio.current_time() - began
    return view_s, (await crowd.ask("left", address=address))["seconds"]


def _p95_below_twice_quiet(stage: Stage) -> None:
    assert stage.load is not None
    assert stage.quiet is not None
    stage.bar("p95_to_quiet", stage.load.p95 / stage.quiet.p95, 2.0)


@attrs.frozen
class Row:
    """One row.

    Attributes:
        play: puts the load on a stage.
        clients: TOML for the daemons' table of programs, and for what follows it.
    """

    play: Callable[[Stage], Awaitable[None]]
    clients: str = MANY_CONNECTIONS


ROWS: Final = {
    "joins": Row(joins),
    "crash": Row(crash),
    "groups": Row(groups),
    "churn": Row(churn),
    "spread-joins": Row(spread_joins),
    "free-senders": Row(free_senders, MANY_CONNECTIONS + NO_RIGHT),
    "message": Row(message),
    "closing": Row(closing),
}
"""All rows, by name."""


async def measure(name: str, scale: float) -> dict[str, Any]:
    """Return what one row has measured at a scale; 1 is that of the bars."""
    row = ROWS[name]
    async with LocalCluster(NAMES, clients=row.clients) as cluster, trio.open_nursery() as nursery:
        await cluster.settle(NAMES)
        stage = Stage(cluster, scale, nursery)
        stage.figures["nice"] = max(map(prefer, cluster.daemons.values()))
        try:
            await row.play(stage)
        finally:
            with trio.CancelScope(shield=True):
                await stage.end()
            nursery.cancel_scope.cancel()
    return {"row": name, **stage.result()}
