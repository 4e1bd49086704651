"""Programs that compete for a mutex at simulated daemons, each through all of its sessions.

Daemons are parted, killed, or stand still; programs lose their sessions, or stand still and go on
where they were. Checked: nobody holds the mutex after its session; grants have rising tokens; and
whoever has left its block normally was alone in it, by the time of the simulation.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import attrs

from groupcomm.events import Connected, Event, GroupView, MemberId
from groupcomm.sim.virtual_time import microseconds
from groupcomm_client.coordination.mutex import FORMS
from groupcomm_client.coordination.mutex.contender import Contender, Phase
from groupcomm_client.coordination.mutex.form import Send
from groupcomm_client.coordination.mutex.mutex import make_contender
from tests.groupcomm_client.coordination.crowd import GROUP, Crowd, Seat

PROGRAMS: Final = 3

VARIANTS: Final = (*((form, None) for form in FORMS), ("agreed", PROGRAMS))
"""The forms, and the number of programs of which more than half must be together."""

LATE_JOIN_S: Final = 0.7
"""A program joins up to so long after it has connected: a daemon that was started has met the
others meanwhile."""

STOPS: Final = 0.3
"""The chance that a trouble is a daemon or a program that stands still for a while."""


@attrs.define
class Tenure:
    """One grant, until its program has released the mutex."""

    token: int
    began: int
    ended: int = 0


class Competitor:
    """Asks again and again, and stays in for a while; one for a seat, through all its sessions."""

    def __init__(self, arena: "Arena", seat: Seat) -> None:
        self.seat = seat
        self.losses = 0
        self.stopped_until = 0
        self.wants = False
        self.tenure: Tenure | None = None
        self._arena = arena

    def begin(self, me: MemberId) -> None:
        self.me = me
        self.contender = self._arena.make_contender(me)
        self.joined = False  # only then it may send to the group

    def lose(self) -> None:
        self.contender.lose()
        assert not self.contender.holds, f"it holds the mutex after its session: {self.me}"
        self.note()

    def take(self, event: Event) -> None:
        assert not isinstance(event, Connected)
        self.send(self.contender.handle(event))  # type: ignore[arg-type]
        if isinstance(event, GroupView) and event.own:
            self.joined = True
            if self.wants:
                self.send(self.contender.request())

    def send(self, sends: Sequence[Send]) -> None:
        for send in sends:
            self.seat.send(send.data, send.level, GROUP if send.to is None else send.to.name)
        self.note()

    def note(self) -> None:
        """Note whether a tenure has begun, or has ended."""
        contender = self.contender
        if self.tenure is None and contender.holds:
            assert contender.token is not None
            self.tenure = self._arena.granted(self, contender.token)
        elif self.tenure is not None and contender.was_lost:
            self.losses += 1
            self._arena.ended(self)
            self.tenure = None
        elif self.tenure is not None and contender.phase is Phase.OUT and self.tenure.ended:
            self._arena.confirmed(self.tenure)
            self.tenure = None

    def act(self) -> None:
        """The next thing to do: ask, or give back after having been in."""
        if not self.joined:
            return
        if self.contender.phase in (Phase.OUT, Phase.LOST):
            if self.contender.phase is Phase.LOST:
                self.send(self.contender.release())
            self.wants = True
            self.send(self.contender.request())
        elif self.contender.holds:
            self.leave()
        elif self.contender.phase is Phase.ASKED and self._arena.crowd.rng.random() < 0.01:
            self.wants = False
            self.send(self.contender.release())  # sometimes: give up

    def leave(self) -> None:
        """Be at the end of the block, though the program may not know yet what has happened."""
        assert self.tenure is not None
        self.tenure.ended = self._arena.now
        self.wants = False
        self._arena.ended(self)
        self.send(self.contender.release())

    def stop(self, until: int) -> None:
        client = self.seat.client
        if client is not None and client.alive:
            self.stopped_until = until
            client.set_reading(False)

    def wake(self) -> None:
        """Go on where it was: it acts before it reads what has come meanwhile."""
        self.stopped_until = 0
        if self.contender.holds:
            self.leave()
        client = self.seat.client
        if client is not None and client.alive:
            client.set_reading(True)


class Arena:
    """Competitors, and who of them is in.

    Args:
        seed: the seed of all random choices.
        form, programs: the rules.
        parts: whether the network is parted, and daemons and programs stand still; if not, two are
            never in at once, whatever they know.
        loss: the chance that a datagram is lost.
    """

    def __init__(
        self, seed: int, form: str, programs: int | None = None, *, parts: bool, loss: float = 0.0
    ) -> None:
        self._rules = form, programs
        self.parts = parts
        self.inside: dict[int, Competitor] = {}
        self.grants: Counter[int] = Counter()
        self.tokens: list[Tenure] = []
        self.sound: list[Tenure] = []
        self.stops = 0
        self._known: dict[int, Competitor] = {}
        self.crowd = Crowd(seed, PROGRAMS, self.make, loss=loss)
        self.crowd.gone = self.gone
        if not parts:
            self.crowd.part = lambda: None  # type: ignore[method-assign]

    @property
    def now(self) -> int:
        return self.crowd.cluster.loop.now

    # ---- programs ----

    def make_contender(self, me: MemberId) -> Contender:
        form, programs = self._rules
        return make_contender(form, me, GROUP, programs, None)

    def make(self, seat: Seat, me: MemberId) -> Competitor:
        competitor = self._known.setdefault(seat.daemon, Competitor(self, seat))
        competitor.begin(me)
        return competitor

    def gone(self, seat: Seat) -> None:
        if seat.daemon in self._known:
            self._known[seat.daemon].lose()

    def competitors(self) -> list[Competitor]:
        """Return those that have a session."""
        found = [seat.program for seat in self.crowd.seats]
        return [each for each in found if isinstance(each, Competitor)]

    # ---- tenures ----

    def granted(self, competitor: Competitor, token: int) -> Tenure:
        daemon = competitor.seat.daemon
        self.grants[daemon] += 1
        self.inside[daemon] = competitor
        names = [str(each.me) for each in self.inside.values()]
        assert self.parts or len(names) == 1, f"{' and '.join(names)} are in"
        tenure = Tenure(token, self.now)
        self.tokens.append(tenure)
        return tenure

    def ended(self, competitor: Competitor) -> None:
        self.inside.pop(competitor.seat.daemon, None)

    def confirmed(self, tenure: Tenure) -> None:
        self.sound.append(tenure)

    def check(self) -> None:
        """Raise AssertionError for what does not hold of the tenures."""
        tokens = [tenure.token for tenure in self.tokens]
        assert len(set(tokens)) == len(tokens), "two grants have one token"
        for before, after in pairwise(sorted(self.sound, key=lambda each: each.began)):
            assert before.ended <= after.began, "two were in and both have left normally"
        for tenure in self.sound:
            earlier = (each.token for each in self.tokens if each.began < tenure.began)
            assert max(earlier, default=-1) < tenure.token, "a token does not rise"

    # ---- what happens ----

    def trouble(self) -> None:
        """Something happens: daemons and programs stand still, too."""
        if self.parts and self.crowd.rng.random() < STOPS:
            self.stops += 1
            competitor = self.crowd.rng.choice(list(self._known.values()))
            until = self.now + microseconds(self.crowd.rng.uniform(0.05, 1.5))
            daemon = self.crowd.cluster.daemons[competitor.seat.daemon].process
            if daemon is not None and self.crowd.rng.random() < 0.6:
                daemon.pause(until)
            if self.crowd.rng.random() < 0.6:
                competitor.stop(until)
        else:
            Crowd.trouble(self.crowd)

    def act(self, seat: Seat) -> None:
        """A program does something, unless it stands still."""
        competitor = seat.program
        assert isinstance(competitor, Competitor)
        if not competitor.stopped_until:
            competitor.act()
        elif self.now >= competitor.stopped_until:
            competitor.wake()

    def wake_all(self) -> None:
        for each in self._known.values():
            if each.stopped_until and self.now >= each.stopped_until:
                each.wake()

    def all_there(self) -> bool:
        self.wake_all()
        everybody = self.competitors()
        return len(everybody) == PROGRAMS and len({c.contender.queue for c in everybody}) == 1

    def run(self, seconds: float) -> None:
        """Run it, then have everybody get in once more, and check."""
        self.crowd.until(self.all_there)
        self.crowd.trouble = self.trouble  # type: ignore[method-assign]
        self.crowd.late_join_s = LATE_JOIN_S
        self.crowd.run(seconds, self.act, 3.0)
        self.crowd.until(self.all_there)
        self.everybody_gets_in()
        self.check()

    def everybody_gets_in(self) -> None:
        """In peace all get in, one at a time, in the order of the queue."""
        before = self.grants.copy()

        def all_were_in() -> bool:
            self.wake_all()
            for each in self.competitors():
                if each.contender.phase is not Phase.ASKED:
                    each.act()
            assert self.parts or len(self.inside) <= 1
            return all(self.grants[daemon] >= before[daemon] + 3 for daemon in range(PROGRAMS))

        self.crowd.until(all_were_in)
        assert len(self.inside) <= 1


def play(seed: int) -> Arena:
    """Run one seed, with the rules that belong to it; raise AssertionError for what is wrong."""
    form, programs = VARIANTS[seed % len(VARIANTS)]
    arena = Arena(seed, form, programs, parts=True, loss=0.03 * (seed % 3))
    arena.run(6.0)
    return arena
