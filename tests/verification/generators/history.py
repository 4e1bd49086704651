"""Valid histories without a core: clients that do anything at any time, abstract daemons.

`make_history` gives the trace of such a run, equal for equal seeds. It is meant for tests of the
checkers: every property holds in it. Messages overtake each other wherever a level allows it, and
queues are served in a random order, some of the time.
"""

from random import Random

from groupcomm.trace.events import (
    Conf,
    Horizon,
    Quiet,
    Rejects,
    TraceEvent,
)
from tests.verification.generators.daemon import Daemon
from tests.verification.generators.programs import Programs
from tests.verification.generators.records import (
    FIFO,
    Bundle,
    Notice,
    Packet,
    Session,
)

VIEW = "7.alfa.2a"
NAMES = ("alfa", "bravo", "charlie", "delta", "echo")
WINDOW = 4
"""The packets that may overtake each other on the way to one daemon."""


class History(Programs):
    """One run; `play` and `settle` make its trace.

    Args:
        seed: the seed of all random choices.
        daemons: the number of daemons, 1 to 5.
        rings: the number of rings over which they are spread, at most as many.
        clients: the number of programs at a time.

    Attributes:
        log: the trace.
    """

    def __init__(self, seed: int, *, daemons: int, rings: int, clients: int) -> None:
        super().__init__(Random(seed), clients)
        start = self._rng.choice((0, 0, 2**31 - 3, 2**63 - 3))
        self._last = [start] * rings  # the last packet numbers
        self._high = [1000] * rings  # the highest stamps and horizons
        self._daemons = [
            Daemon(f"{NAMES[index]}/{1 + index % 3}", index * rings // daemons, VIEW, self.log)
            for index in range(daemons)
        ]
        shape = tuple(
            tuple(daemon.identity for daemon in self._daemons if daemon.ring == ring)
            for ring in range(rings)
        )
        for daemon in self._daemons:
            daemon.join_view(self._daemons, rings, start)
            self.log.add(Conf(self.log.tick(), daemon.identity, "R", VIEW, shape))

    # ---- the run ----

    def play(self, rounds: int) -> None:
        """Let this number of rounds pass; in each, every participant may act."""
        for _ in range(rounds):
            while sum(not program.silent for program in self._programs) < self._clients:
                self._connect()
            for program in self._programs:
                for _ in range(self._rng.randint(0, 2)):
                    self._act(program)
            self._serve(all_of_it=False)
            for ring in range(len(self._last)):
                if self._rng.random() < 0.7:
                    self._announce(ring)
            self._programs = [p for p in self._programs if p.up or not p.silent or p.session.down]

    def settle(self) -> None:
        """Let everything arrive, then record that nothing is missing."""
        before = -1
        while before != len(self.log.events):
            before = len(self.log.events)
            self._serve(all_of_it=True)
            if any(daemon.agreed or daemon.answers or daemon.checks for daemon in self._daemons):
                for ring in range(len(self._last)):
                    self._announce(ring)
        for daemon in self._daemons:
            bad = self._rng.randrange(3)
            self.log.add(Rejects(self.log.tick(), daemon.identity, bad, bad))
        self.log.add(Quiet(self.log.tick()))

    def _serve(self, *, all_of_it: bool) -> None:
        """Move waiting items of every queue: all present ones, or some of them."""
        rng = self._rng

        def share(count: int) -> range:
            return range(count if all_of_it else rng.randint(0, count))

        for program in rng.sample(self._programs, len(self._programs)):
            for _ in share(len(program.up)):
                self._accept(program)
        for daemon in rng.sample(self._daemons, len(self._daemons)):
            for _ in share(len(daemon.waiting)):
                self._number(daemon)
            for _ in share(len(daemon.inbox)):
                self._arrive(daemon)
        for daemon in self._daemons:
            daemon.release_all()
        for program in rng.sample(self._programs, len(self._programs)):
            for _ in share(len(program.session.down)):
                self._notify(program)

    # ---- acts of daemons ----

    def _hosts(self) -> list[Daemon]:
        return self._daemons

    def _home(self, session: Session) -> Daemon:
        return next(daemon for daemon in self._daemons if daemon.identity == session.home)

    def _order(self, bundle: Bundle) -> None:
        daemon = self._home(bundle.client)
        if bundle.level == 0:
            daemon.accept_unreliable(bundle)
            for other in self._daemons:
                if other is not daemon and self._rng.random() < 0.8:
                    other.inbox.append(bundle)
            return
        if bundle.level >= FIFO:
            bundle.client.ranks += 1
            bundle.rank = bundle.client.ranks
        daemon.waiting.append(bundle)

    def _number(self, daemon: Daemon) -> None:
        """Number the bundles that wait at a daemon as a packet, and send it."""
        if not daemon.waiting:
            return
        ring = daemon.ring
        count = min(len(daemon.waiting), self._rng.choice((1, 1, 2, 3)))
        bundles = [daemon.waiting.popleft() for _ in range(count)]
        self._last[ring] += 1
        self._high[ring] = max(self._high[ring], daemon.held) + self._rng.randint(1, 30)
        packet = Packet(ring, self._last[ring], self._high[ring], bundles)
        daemon.number(packet)
        daemon.hold(packet)
        daemon.release_all()
        self._spread(daemon, packet)

    def _announce(self, ring: int) -> None:
        """Announce a horizon of a ring: nothing lower follows."""
        daemon = self._rng.choice([daemon for daemon in self._daemons if daemon.ring == ring])
        if daemon.prefix[ring] < self._last[ring]:
            return  # the holder of a token knows all packets
        value = max([self._high[ring], *(other.held for other in self._daemons)])
        value += self._rng.randint(0, 20)
        self._high[ring] = value
        upto = self._last[ring]
        self.log.add(Horizon(self.log.tick(), daemon.identity, VIEW, ring, value, upto))
        notice = Notice(ring, value, upto)
        daemon.receive_notice(notice)
        daemon.release_all()
        self._spread(daemon, notice)

    def _spread(self, daemon: Daemon, item: Packet | Notice) -> None:
        for other in self._daemons:
            if other is not daemon:
                other.inbox.append(item)

    def _arrive(self, daemon: Daemon) -> None:
        """Deliver one of the next few items in flight to a daemon."""
        item = daemon.inbox.pop(self._rng.randrange(min(WINDOW, len(daemon.inbox))))
        if isinstance(item, Packet):
            daemon.hold(item)
        elif isinstance(item, Notice):
            daemon.receive_notice(item)
        else:
            daemon.accept_unreliable(item)
        daemon.release_all()


def make_history(seed: int, rounds: int = 10) -> list[TraceEvent]:
    """Return a valid trace of some hundred events; equal for equal arguments."""
    rng = Random(seed)
    daemons = rng.randint(1, 4)
    history = History(
        seed,
        daemons=daemons,
        rings=rng.randint(1, min(3, daemons)),
        clients=rng.randint(2, 4),
    )
    history.play(rounds)
    history.settle()
    return history.log.events
