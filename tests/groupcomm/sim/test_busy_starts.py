"""Starts and ends of daemons while a member stalls, at every moment of the change.

No member is silent for half a token timeout, so none may be parted from another one. The real
machine is in tests/verification/campaigns/busy_starts.py.
"""

from collections.abc import Callable
from math import inf

import pytest

from groupcomm.membership import late
from groupcomm.membership.late import LateMembers
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import microseconds
from groupcomm.trace.events import Conf, TraceEvent
from tests.verification.campaigns.busy_starts import Parting, find_partings

STALLS_S = 0.28
"""Less than half a token timeout: the daemon does not take it for a pause."""

MOMENTS = [0.0005 * step for step in range(1, 8)]
COMER = 3


def change(sites: int, do: Callable[[Cluster], None], stalls: int, after_s: float) -> list[Parting]:
    """Return the partings when a member stalls so long after the beginning of a change."""
    traces: list[list[TraceEvent]] = [[]]
    settings = plain_settings(daemons=4, sites=sites, delay_s=0.01)
    cluster = Cluster(settings, traces[0].append, start=False)
    for host in cluster.daemons[:COMER]:
        host.boot()
    cluster.run(2.5)
    do(cluster)
    cluster.run(after_s)
    process = cluster.daemons[stalls].process
    assert process is not None
    process.pause(cluster.loop.now + microseconds(STALLS_S))
    cluster.run(2.0)
    events = traces[0]
    assert any(isinstance(event, Conf) and event.kind == "T" for event in events)
    ended = {f"{cluster.daemons[COMER].name}/1": 0}
    return find_partings(traces, ended)[1]


def starts(cluster: Cluster) -> None:
    cluster.daemons[COMER].boot()


@pytest.mark.parametrize(("sites", "stalls"), [(1, 0), (1, 2), (2, 2)])
def test_a_start_parts_no_member_that_stalls_at_any_moment_of_it(sites: int, stalls: int) -> None:
    assert [p for at in MOMENTS for p in change(sites, starts, stalls, at)] == []


def test_without_the_wait_for_late_members_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def until(self: LateMembers, *_: object) -> float:
        return -inf

    monkeypatch.setattr(late.LateMembers, "until", until)
    assert [p for at in MOMENTS for p in change(1, starts, 2, at)]
