"""News for the log: a token that is late is reported once, and views with what has changed."""

from collections import Counter
from types import SimpleNamespace
from typing import cast

import pytest

from groupcomm.engine.news import TokenLate
from groupcomm.engine.news_collector import TokenWatch, ViewHistory
from groupcomm.membership.states import GatherReason
from groupcomm.ring.ring import Ring
from groupcomm.ring.states import TokenState
from groupcomm.security.layout import HEAD_BYTES
from groupcomm.wire.packet import PacketKind
from tests.groupcomm.engine.cluster import Cluster
from tests.groupcomm.membership.histories import make_view

TIMEOUT_S = 2.0


def ring(heard_at: float, state: TokenState = TokenState.AWAY) -> Ring:
    found = SimpleNamespace(monitor=SimpleNamespace(heard_at=heard_at), state=state)
    return cast(Ring, found)


def test_a_token_that_is_late_is_reported_once_until_it_is_heard_again() -> None:
    watch = TokenWatch(TIMEOUT_S)
    assert watch.check(ring(10.0), 11.0) == [], "half of the time is no delay"
    assert not watch.is_late
    assert watch.check(ring(10.0), 11.5) == [TokenLate(silent_s=1.5, timeout_s=TIMEOUT_S)]
    assert watch.is_late
    assert watch.check(ring(10.0), 11.9) == []
    assert watch.check(ring(11.75), 12.0) == []
    assert not watch.is_late
    assert watch.check(ring(11.75), 13.25) == [TokenLate(silent_s=1.5, timeout_s=TIMEOUT_S)]


def test_a_token_that_is_late_from_the_first_is_reported() -> None:
    assert len(TokenWatch(TIMEOUT_S).check(ring(10.0), 11.5)) == 1


@pytest.mark.parametrize("state", [state for state in TokenState if state is not TokenState.AWAY])
def test_a_token_that_is_here_is_never_late(state: TokenState) -> None:
    watch = TokenWatch(TIMEOUT_S)
    assert watch.check(ring(10.0, state), 100.0) == []
    assert not watch.is_late


def test_the_log_says_that_the_token_is_late_before_the_view_ends() -> None:
    cluster = Cluster("ab")
    cluster.start("ab")
    cluster.run(1.0)
    timeout_s = cluster.cores["a"].config.timing.token_timeout_s
    ring_only = (PacketKind.TOKEN, PacketKind.REST, PacketKind.REQUEST)
    cluster.lost = lambda datagram: datagram[HEAD_BYTES] in ring_only
    away = next(name for name in "ab" if not is_here(cluster, name))
    shell = cluster.shells[away]
    shell.news.clear()
    cluster.run(0.9 * timeout_s)
    late = [each for each in shell.news if isinstance(each, TokenLate)]
    assert len(late) == 1
    assert late[0].timeout_s == timeout_s
    assert timeout_s / 2 < late[0].silent_s < timeout_s


def is_here(cluster: Cluster, name: str) -> bool:
    state = cluster.cores[name].view_state
    assert state is not None
    return state.ring.state is not TokenState.AWAY


def test_a_view_is_reported_with_who_came_and_left_and_why() -> None:
    history = ViewHistory(1.0)
    reasons = Counter({GatherReason.STARTED: 1})
    history.installed = two = make_view(1, 2)
    first = history.report(reasons, (), 3.5)
    assert (first.view, first.came, first.left) == (two, ("d0", "d1"), ())
    assert (first.causes, first.took_s) == ((GatherReason.STARTED,), 2.5)
    assert history.installed is None
    history.stop(10.0)
    reasons[GatherReason.TOKEN_LOST] += 2
    history.installed = make_view(1, 1)
    second = history.report(reasons, (), 10.5)
    assert (second.came, second.left, second.took_s) == ((), ("d1",), 0.5)
    assert second.causes == (GatherReason.TOKEN_LOST,)
    history.installed = two
    assert history.report(reasons, (), 11.0).causes == (), "the same reasons are told once"
