"""All forms of the mutex: never two are in while nothing parts the network, and all get in."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from groupcomm.events import Connected, DaemonView, Event, MemberId
from groupcomm.sim.virtual_time import microseconds
from groupcomm_client.coordination.mutex.acknowledged import AcknowledgedForm
from groupcomm_client.coordination.mutex.agreed import AgreedForm
from groupcomm_client.coordination.mutex.form import Form, Send
from groupcomm_client.coordination.mutex.lamport import LamportForm
from tests.groupcomm_client.coordination.crowd import GROUP, Crowd, Seat

MakeForm = Callable[[MemberId, str], Form]

FORMS: dict[str, MakeForm] = {
    "agreed": AgreedForm,
    "acknowledged": AcknowledgedForm,
    "lamport": LamportForm,
}


class Competitor:
    """Asks again and again, and stays in for a while."""

    def __init__(self, arena: "Arena", seat: Seat, me: MemberId) -> None:
        self.me = me
        self.form = arena.make_form(me, GROUP)
        self._arena = arena
        self._seat = seat
        self._wants = False
        self.losses = 0

    def take(self, event: Event) -> None:
        assert not isinstance(event, Connected)
        held = self.form.holds
        self.carry_out(lambda: self.form.handle(event))  # type: ignore[arg-type]
        lost = held and not self.form.holds
        self.losses += lost
        assert self._arena.parts or not lost, f"{self.me} has lost it, and nothing was parted"

    def carry_out(self, step: Callable[[], Sequence[Send]]) -> None:
        before = self.form.holds
        for send in step():
            to = GROUP if send.to is None else send.to.name
            self._seat.send(send.data, send.level, to)
        if self.form.holds != before:
            self._arena.changed(self)

    def act(self) -> None:
        """The next thing to do: ask, or give back after having been in."""
        if not self._wants:
            self._wants = True
            self.carry_out(self.form.request)
        elif self.form.holds or self._arena.crowd.rng.random() < 0.01:  # sometimes: give up
            self._wants = False
            self.carry_out(self.form.release)


def act(seat: Seat) -> None:
    assert isinstance(seat.program, Competitor)
    seat.program.act()


class Arena:
    """Competitors, and who of them is in."""

    def __init__(self, seed: int, make_form: MakeForm, *, parts: bool, loss: float = 0.0) -> None:
        self.make_form = make_form
        self.inside: dict[int, Competitor] = {}
        self.grants: Counter[int] = Counter()
        self.parts = parts
        self.crowd = Crowd(seed, 3, lambda seat, me: Competitor(self, seat, me), loss=loss)
        self.crowd.gone = self.gone
        if not parts:
            self.crowd.part = lambda: None  # type: ignore[method-assign]

    def gone(self, seat: Seat) -> None:
        self.inside.pop(seat.daemon, None)

    def changed(self, competitor: Competitor) -> None:
        daemon = competitor._seat.daemon
        if competitor.form.holds:
            self.grants[daemon] += 1
            self.inside[daemon] = competitor
            if not self.parts:
                names = [str(each.me) for each in self.inside.values()]
                assert len(names) == 1, f"{' and '.join(names)} are in"
        else:
            del self.inside[daemon]

    def competitors(self) -> list[Competitor]:
        found = [seat.program for seat in self.crowd.seats]
        return [each for each in found if isinstance(each, Competitor)]

    def all_there(self) -> bool:
        everybody = self.competitors()
        return len(everybody) == 3 and len({c.form.queue for c in everybody}) == 1

    def run(self, seconds: float) -> None:
        self.crowd.until(self.all_there)
        self.crowd.run(seconds, act, 3.0)
        self.everybody_gets_in()

    def everybody_gets_in(self) -> None:
        """In peace all get in, one at a time, in the order of the queue."""
        before = self.grants.copy()

        def all_were_in() -> bool:
            for each in self.competitors():
                if each.form.holds or not each._wants:
                    each.act()
            assert self.parts or len(self.inside) <= 1
            return all(self.grants[daemon] >= before[daemon] + 3 for daemon in range(3))

        self.crowd.until(all_were_in)
        assert len(self.inside) <= 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))]
)
def test_never_two_are_in_through_crashes_and_loss(form: str, seed: int) -> None:
    arena = Arena(seed, FORMS[form], parts=False, loss=0.03 * (seed % 3))
    arena.run(5.0)
    assert sum(arena.grants.values()) > 20


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_after_partitions_one_is_in_and_all_get_in(form: str, seed: int) -> None:
    arena = Arena(seed, FORMS[form], parts=True)
    arena.run(5.0)
    assert arena.crowd.parted > 0 or seed


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_holder_whose_daemon_stood_still_is_told_so_by_the_view_that_unites_all(
    form: str, *, released: bool
) -> None:
    """It has seen no view of its own part. Meanwhile another one was let in, who stays in."""
    arena = Arena(0, FORMS[form], parts=True)
    arena.crowd.until(arena.all_there)
    first, second, _ = arena.competitors()
    first.act()
    arena.crowd.until(lambda: first.form.holds)
    second.act()
    daemon = arena.crowd.cluster.daemons[0].process
    assert daemon is not None
    daemon.pause(arena.crowd.cluster.loop.now + microseconds(60.0))
    arena.crowd.until(lambda: second.form.holds)
    if released:
        second.act()
    views: list[tuple[int, bool]] = []
    seen = first.take

    def take(event: Event) -> None:
        seen(event)
        if isinstance(event, DaemonView):
            views.append((len(event.daemons), first.form.holds))

    first.take = take  # type: ignore[method-assign]
    daemon.resume()
    arena.crowd.until(lambda: bool(views))
    assert views == [(3, False)]
    assert first.losses == 1
    arena.crowd.until(arena.all_there)
    assert second.losses == 0
    assert second.form.holds is not released
    heads = {each.form.queue[0] for each in arena.competitors()}  # a resource admits nobody else
    assert heads == {first.me if released else second.me}
