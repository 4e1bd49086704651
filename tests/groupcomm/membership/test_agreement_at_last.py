"""Everything at once: cuts, losses and restarts; all agree once they are over."""

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from groupcomm.membership.states import MembershipState
from groupcomm.wire.membership import ControlKind
from tests.examples import examples
from tests.groupcomm.membership.stage import Daemon, Stage

GATHER, COMMIT, RECOVERED, OPERATIONAL, LEFT = MembershipState
STEPS = {
    (GATHER, GATHER),
    (GATHER, COMMIT),
    (COMMIT, COMMIT),
    (COMMIT, GATHER),
    (COMMIT, RECOVERED),
    (RECOVERED, GATHER),
    (RECOVERED, OPERATIONAL),
    (OPERATIONAL, GATHER),
}
"""Above all there is no way from RECOVERED to another proposal but through GATHER."""


def disturbed(seed: int) -> Stage:
    """Five daemons after some seconds of cuts, losses and restarts; nothing is lost any more."""
    random = Random(seed)
    stage = Stage(*random.choice([("abcde",), ("abc", "de"), ("ab", "c", "de")]))
    stage.start("abcde")
    for _ in range(6):
        stage.run(random.uniform(0.0, 0.9))
        pairs = [(one, two) for one in "abcde" for two in "abcde"]
        stage.cut = {pair for pair in pairs if random.random() < random.choice([0.1, 0.5])}
        stage.drop = {(random.choice("abcde"), random.choice(list(ControlKind)))}
        if random.random() < 0.3:
            name = random.choice("abcde")
            restarts = stage.daemons[name].start.incarnation.restarts + 1
            stage.start(name, restarts=restarts, random_id=random.getrandbits(60))
        for daemon in stage.daemons.values():
            if daemon.machine.state is OPERATIONAL:
                daemon.host.held |= {random.randint(1, 9) for _ in range(3)}
    stage.cut, stage.drop = set(), set()
    return stage


def check_way(daemon: Daemon) -> None:
    """Each view is installed after freezing, and is bound to before if there was an old one."""
    assert set(pairwise(daemon.machine.states)) <= STEPS
    log, views = daemon.host.log, daemon.host.installed
    ends = [index for index, told in enumerate(log) if told == "install"]
    for (_, recovered_set, _), end in zip(views, ends, strict=True):
        assert log[end - 1] == ("freeze" if recovered_set is None else "end")
    assert not [1 for one, two in pairwise(log) if (one, two) == ("install", "bind")]


def check_unions(stage: Stage) -> None:
    """All who come from one view to another one have united the same."""
    ends: dict[tuple[bytes, bytes], list[object]] = {}
    for daemon in stage.daemons.values():
        before = b""
        for view, recovered_set, fellows in daemon.host.installed:
            if recovered_set is not None:
                end = (
                    recovered_set.spans,
                    recovered_set.forgotten,
                    recovered_set.obligation,
                    fellows,
                )
                ends.setdefault((before, view.key), []).append(end)
            before = view.key
    for same in ends.values():
        assert all(end == same[0] for end in same)


@examples(6)
@given(st.integers(0, 2**32 - 1))
def test_after_any_cuts_and_losses_all_agree_once_they_are_over(seed: int) -> None:
    """Whoever installs a view of some id installs the same view, with counters that rise."""
    stage = disturbed(seed)
    stage.run(3.0)
    assert stage.members == ["abcde"] * 5
    views = {
        daemon.name: [view for view, _, _ in daemon.host.installed]
        for daemon in stage.daemons.values()
    }
    by_id = {view.id: view for row in views.values() for view in row}
    for name, row in views.items():
        assert all(by_id[view.id] == view for view in row)
        counters = [view.id.counter for view in row]
        assert counters == sorted(set(counters)), name
        check_way(stage.daemons[name])
    check_unions(stage)
