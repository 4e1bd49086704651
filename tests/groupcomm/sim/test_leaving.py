"""A daemon that is told to leave ends within its bound, in every state."""

from collections.abc import Callable
from itertools import permutations
from typing import Any, Final, cast

import attrs
import pytest

from groupcomm.membership.membership import Membership
from groupcomm.membership.reservation import Reservation
from groupcomm.membership.states import MembershipState
from groupcomm.sim.checkers import Checkers
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.cluster.host import SimulatedHost
from groupcomm.sim.cluster.process import LINGER_US, SimulatedProcess
from groupcomm.sim.run import make_workload
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import SECOND
from groupcomm.trace.events import Fail, Left, TraceEvent

TIMEOUT_S: Final = 1.5
MARGIN_S: Final = 0.1
"""Four goodbyes, 2 ms apart, and a step in which a slow disk or a member is noticed."""

LOOK_S: Final = 0.00002


class Stage:
    """Four daemons with programs that send; one of the daemons is to leave.

    Attributes:
        cluster: the cluster of the daemons.
        trace: the trace of the run.
        host: the host of the daemon that leaves.
    """

    def __init__(self, *, sites: int = 1, timeout_s: float = TIMEOUT_S) -> None:
        self.trace: list[TraceEvent] = []
        self.checkers = Checkers()
        self.cluster = Cluster(plain_settings(daemons=4, sites=sites), self.record, start=False)
        self.cluster.config = attrs.evolve(self.cluster.config, leave_timeout_s=timeout_s)
        self._workload = make_workload(self.cluster)

    def record(self, event: TraceEvent) -> None:
        self.trace.append(event)
        self.checkers.feed(event)

    def form(self) -> None:
        """All daemons are in one view, and programs send."""
        self.cluster.start()
        self._workload.start()
        self.cluster.run(1.0)

    @property
    def host(self) -> SimulatedHost:
        return self.cluster.daemons[1]

    @property
    def process(self) -> SimulatedProcess:
        assert self.host.process is not None
        return self.host.process

    def until(self, there: Callable[[], bool]) -> None:
        """Let time pass until something is so."""
        limit = self.cluster.loop.now + 5 * SECOND
        while not there():
            assert self.cluster.loop.now < limit, "it never comes"
            self.cluster.run(LOOK_S)

    def cut_off(self) -> None:
        """Nobody hears the daemon, nor it anybody."""
        pairs = [(1, other) for other in (0, 2, 3)]
        self.cluster.network.cut([*pairs, *[(b, a) for a, b in pairs]])

    def flap(self, _: object = None) -> None:
        """Now these paths carry nothing, then others: no view lasts."""
        paths = list(permutations(range(4), 2))
        lost = paths[:: 2 + self.cluster.loop.now // 100_000 % 3]
        self.cluster.network.cut(lost)
        at = self.cluster.loop.now + 100_000
        self.cluster.loop.at(at, lambda _: self.cluster.network.mend(lost))
        self.cluster.loop.at(at, self.flap)

    def hang_disk(self, index: int = 1) -> None:
        """No write of a daemon is durable from now on; so it agrees to no view."""
        host = self.cluster.daemons[index]
        host.disk.crash()
        host.disk.write = lambda record, done, failed: None  # type: ignore[method-assign]
        host.core.reservation.mark = 0


class Unwilling:
    """Stands for a reservation that takes a moment: so that a commit is not over at once."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._real = membership._reservation
        self._asked = 0

    def may_use(self, counter: int, now: float) -> bool:
        self._asked += self._membership.state is MembershipState.COMMIT
        return not 0 < self._asked <= 3 and self._real.may_use(counter, now)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def first_gather(stage: Stage) -> None:
    stage.host.boot()
    stage.until(lambda: stage.host.process is not None)


def before_its_first_view_with_programs(stage: Stage) -> None:
    first_gather(stage)
    stage.hang_disk()
    stage.cluster.connect("anna", 1)
    stage.cluster.run(3.0)
    assert stage.process.core.view_state is None


def alone(stage: Stage) -> None:
    first_gather(stage)
    stage.cluster.run(1.0)


def idle(stage: Stage) -> None:
    stage.cluster.start()
    stage.cluster.run(1.0)


def under_load(stage: Stage) -> None:
    stage.form()


def in_state(state: MembershipState) -> Callable[[Stage], None]:
    def reach(stage: Stage) -> None:
        stage.form()
        if state is MembershipState.RECOVERED:
            stage.hang_disk(0)  # the leave is not over at once
        if state is MembershipState.COMMIT:
            membership = stage.process.core.membership
            membership._reservation = cast("Reservation", Unwilling(membership))
        stage.cluster.daemons[3].kill()
        stage.until(lambda: stage.process.core.state is state)

    reach.__name__ = f"in_{state.name.lower()}"
    return reach


in_gather, in_commit, in_recovered = map(
    in_state, (MembershipState.GATHER, MembershipState.COMMIT, MembershipState.RECOVERED)
)


def in_a_view_that_is_not_complete(stage: Stage) -> None:
    stage.form()
    stage.cluster.daemons[3].kill()

    def new() -> bool:
        operation = stage.process.core.view_state
        return operation is not None and not operation.delivery.complete

    stage.until(new)


def without_the_token(stage: Stage) -> None:
    stage.form()
    stage.cut_off()
    stage.cluster.run(0.3)


def cut_off(stage: Stage) -> None:
    without_the_token(stage)
    stage.cluster.run(3.0)


def beside_a_fellow_that_hangs(stage: Stage) -> None:
    stage.form()
    other = stage.cluster.daemons[0].process
    assert other is not None
    other.pause(stage.cluster.loop.now + 60 * SECOND)


def in_a_storm_of_views(stage: Stage) -> None:
    stage.form()
    stage.flap()
    stage.cluster.run(2.0)


def with_a_disk_that_hangs(stage: Stage) -> None:
    stage.form()
    stage.hang_disk()
    stage.cluster.daemons[3].kill()
    stage.cluster.run(3.0)
    assert stage.process.core.state is not MembershipState.OPERATIONAL


def with_other_settings(stage: Stage) -> None:
    other = attrs.evolve(stage.cluster.config, packet_limit=1000)
    stage.host.other_config = other
    for host in stage.cluster.daemons:
        host.boot()
    stage.cluster.run(3.0)


def as_it_leaves_already(stage: Stage) -> None:
    in_a_storm_of_views(stage)
    stage.process.leave()
    stage.cluster.run(0.5)


IN_ORDER = (
    first_gather,
    before_its_first_view_with_programs,
    alone,
    idle,
    under_load,
    in_gather,
    in_commit,
    in_a_view_that_is_not_complete,
    without_the_token,
    cut_off,
    beside_a_fellow_that_hangs,
    with_other_settings,
)
"""Nothing is missing anywhere then; with some a view without others has to come first."""

CUT_SHORT = (in_a_storm_of_views, as_it_leaves_already)
"""No view lasts, so messages of its programs are not handed over to all."""

EITHER = (in_recovered, with_a_disk_that_hangs)


def name_of(reach: Callable[[Stage], None]) -> str:
    return reach.__name__


BETWEEN_SITES = (in_commit, without_the_token, in_a_storm_of_views)


@pytest.mark.parametrize("reach", [*IN_ORDER, *CUT_SHORT, *EITHER], ids=name_of)
def test_it_ends_in_time_in_every_state(reach: Callable[[Stage], None]) -> None:
    leave(Stage(), reach)


@pytest.mark.parametrize(
    "reach",
    [
        BETWEEN_SITES[0],
        *(pytest.param(reach, marks=pytest.mark.long) for reach in BETWEEN_SITES[1:]),
    ],
    ids=name_of,
)
def test_it_ends_in_time_also_where_others_are_far(reach: Callable[[Stage], None]) -> None:
    leave(Stage(sites=2), reach)


def leave(stage: Stage, reach: Callable[[Stage], None]) -> None:
    """Have a daemon leave in a state; it ends in time, and says how."""
    reach(stage)
    process, began = stage.process, stage.cluster.loop.now
    stage.process.leave()
    bound_s = TIMEOUT_S + MARGIN_S
    limit = began + int((bound_s + LINGER_US / SECOND) * SECOND)
    while process.alive and stage.cluster.loop.now < limit:
        stage.cluster.run(0.01)
    assert not process.alive
    last = [event for event in stage.trace if isinstance(event, Left | Fail)][-1]
    assert last.p == process.name
    if reach in IN_ORDER:
        assert process.core.leaving.unfinished == ""
        assert isinstance(last, Left)
    elif reach in CUT_SHORT:
        assert process.core.leaving.unfinished
        assert isinstance(last, Fail)
    assert stage.checkers.violations == []


def test_a_daemon_without_programs_leaves_at_once_between_two_views() -> None:
    stage = Stage()
    idle(stage)
    stage.cluster.daemons[3].kill()
    stage.until(lambda: stage.process.core.state is MembershipState.GATHER)
    process = stage.process
    process.leave()
    stage.cluster.run(0.02)
    assert not process.alive
    assert process.core.leaving.unfinished == ""


def test_those_that_stay_have_a_view_at_once_also_if_it_could_not_hand_over() -> None:
    stage = Stage()
    with_a_disk_that_hangs(stage)
    process = stage.process
    process.leave()
    stage.until(lambda: process.core.state is MembershipState.LEFT)
    took_s = stage.cluster.form([0, 2])
    assert took_s < 0.1, "no token timeout"


def test_no_time_to_leave_means_at_once() -> None:
    stage = Stage(timeout_s=0.0)
    under_load(stage)
    process = stage.process
    process.leave()
    stage.until(lambda: process.core.state is MembershipState.LEFT)
    assert process.core.leaving.unfinished
