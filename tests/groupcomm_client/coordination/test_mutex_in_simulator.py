"""All forms of the mutex: never two are in while nothing parts the network, and all get in."""

import pytest

from groupcomm.events import DaemonView
from groupcomm.sim.virtual_time import microseconds
from groupcomm_client.coordination.mutex import FORMS
from tests.groupcomm_client.coordination.arena import VARIANTS, Arena, play


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))]
)
def test_never_two_are_in_through_lost_sessions_and_datagrams(form: str, seed: int) -> None:
    arena = Arena(seed, form, parts=False, loss=0.03 * (seed % 3))
    arena.run(5.0)
    assert sum(arena.grants.values()) > 20
    assert len(arena.sound) > 20


@pytest.mark.parametrize(
    "seed",
    [
        *range(len(VARIANTS)),
        *(pytest.param(seed, marks=pytest.mark.long) for seed in range(len(VARIANTS), 80)),
    ],
)
def test_who_leaves_normally_was_alone_and_tokens_rise_through_partitions_and_stops(
    seed: int,
) -> None:
    """Daemons and programs stand still, and programs go on with new sessions."""
    arena = play(seed)
    assert arena.crowd.parted or arena.crowd.crashed or arena.stops
    assert len(arena.sound) > 10


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_holder_whose_daemon_stood_still_is_told_so_by_the_view_that_unites_all(
    form: str, *, released: bool
) -> None:
    """It has seen no view of its own part. Meanwhile another one was let in, who stays in."""
    arena = Arena(0, form, parts=True)
    arena.crowd.until(arena.all_there)
    first, second, _ = arena.competitors()
    first.act()
    arena.crowd.until(lambda: first.contender.holds)
    second.act()
    daemon = arena.crowd.cluster.daemons[0].process
    assert daemon is not None
    daemon.pause(arena.now + microseconds(60.0))
    arena.crowd.until(lambda: second.contender.holds)
    if released:
        second.act()
    views: list[tuple[int, bool]] = []
    seen = first.seat.client.on_event  # type: ignore[union-attr]

    def take(event: object) -> None:
        seen(event)  # type: ignore[arg-type]
        if isinstance(event, DaemonView):
            views.append((len(event.daemons), first.contender.holds))

    first.seat.client.on_event = take  # type: ignore[union-attr]
    daemon.resume()
    arena.crowd.until(lambda: bool(views))
    assert views == [(3, False)]
    assert first.losses == 1
    arena.crowd.until(arena.all_there)
    assert second.losses == 0
    assert second.contender.holds is not released
    heads = {each.contender.queue[0] for each in arena.competitors()}  # a resource admits only it
    assert heads == {first.me if released else second.me}


@pytest.mark.parametrize("form", FORMS)
def test_a_holder_that_stood_still_with_its_daemon_cannot_leave_as_if_it_had_held(
    form: str,
) -> None:
    """Its whole host stood still. It leaves before it has read anything; another was in."""
    arena = Arena(0, form, parts=True)
    arena.crowd.until(arena.all_there)
    first, second, _ = arena.competitors()
    first.act()
    arena.crowd.until(lambda: first.contender.holds)
    mine = first.contender.token
    second.act()
    daemon = arena.crowd.cluster.daemons[0].process
    assert daemon is not None
    first.stop(arena.now + 1)
    daemon.pause(arena.now + microseconds(60.0))
    arena.crowd.until(lambda: second.contender.holds)
    theirs = second.contender.token
    second.leave()
    arena.crowd.until(lambda: second.tenure is None)
    first.wake()
    daemon.resume()
    arena.crowd.until(lambda: first.tenure is None)
    assert (first.losses, second.losses, len(arena.sound)) == (1, 0, 1)
    assert mine is not None
    assert theirs is not None
    assert mine < theirs


@pytest.mark.parametrize(("form", "programs"), VARIANTS)
def test_a_newcomer_of_a_minority_does_not_take_the_mutex_from_its_holder(
    form: str, programs: int | None
) -> None:
    """The minority's view is later than that of the holder, but nobody could hold it there."""
    arena = Arena(0, form, programs, parts=True)
    arena.crowd.until(arena.all_there)
    first, _, last = arena.competitors()
    network = arena.crowd.cluster.network
    first.act()
    arena.crowd.until(lambda: first.contender.holds)
    pairs = ((0, 2), (1, 2), (2, 0), (2, 1))
    network.cut(pairs)
    arena.crowd.cluster.run(2.0)
    last.seat.crash()
    arena.crowd.cluster.run(0.1)
    last.seat.sit()
    arena.crowd.cluster.run(0.5)
    assert last.joined
    last.act()
    arena.crowd.cluster.run(0.5)
    assert not last.contender.holds
    network.mend(pairs)
    arena.crowd.until(arena.all_there)
    arena.crowd.cluster.run(0.5)
    assert first.contender.holds
    assert not last.contender.holds
    first.act()
    arena.crowd.until(lambda: last.contender.holds)
    assert (first.losses, first.tenure) == (0, None)
