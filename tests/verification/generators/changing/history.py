"""Histories in which daemons crash, start, leave, lose and find each other."""

from random import Random

from groupcomm.trace.events import Heal, Left, Quiet, Rejects, TraceEvent
from tests.verification.generators.changing.attempt import Attempt, Phase
from tests.verification.generators.changing.daemon import ChangingDaemon
from tests.verification.generators.changing.network import CORE, Network
from tests.verification.generators.records import DISCONNECT, Program


class ChangingHistory(Network):
    """One run.

    Args:
        seed: the seed of all random choices.
        daemons: the number of names, 1 to 5.
        clients: the number of programs at a time.
        unrest: the probability of an event at daemons in a round, 0 to 1.
    """

    def __init__(self, seed: int, *, daemons: int, clients: int, unrest: float) -> None:
        super().__init__(seed, daemons=daemons, clients=clients)
        self._unrest = unrest
        self._attempts: list[Attempt] = []
        for name in self._names:
            self._boot(name)

    # ---- events at daemons ----

    def _disturb(self) -> None:
        rng, lot = self._rng, self._rng.random()
        down = [n for n in self._names if n not in {d.name for d in self._daemons}]
        if lot < 0.45:
            self._split()
        elif lot < 0.6 and self._daemons:
            self._fail(rng.choice(self._daemons))
        elif lot < 0.7 and len(self._daemons) > 1:
            self._begin_leaving(rng.choice(self._daemons))
        elif lot < 0.9 and down:
            self._boot(rng.choice(down))
        elif self._daemons:
            self._attempt()

    def _begin_leaving(self, daemon: ChangingDaemon) -> None:
        if daemon.leaving:
            return
        daemon.leaving = True
        for program in self._programs:
            if program.session.home == daemon.identity:
                self._dismiss(program, daemon)

    def _dismiss(self, program: Program, daemon: ChangingDaemon) -> None:
        """End a session of a leaving daemon, which accepts nothing more from it."""
        program.open, program.silent = False, True
        program.up.clear()
        if program.session not in daemon.desk.left:
            daemon.desk.left.add(program.session)
            self._queue(program.session, DISCONNECT, "", 0)

    def _finish_leaving(self, daemon: ChangingDaemon) -> None:
        """End a daemon once its sessions have ended and all of its view hold its packets."""
        if not daemon.whole or daemon.waiting or daemon.config is None:
            return
        own = [p for p in self._programs if p.session.home == daemon.identity]
        if any(not p.session.ended or (p.session.down and not p.crashed) for p in own):
            return
        members = self.members_of(daemon.config)
        packets = [key for key, packet in daemon.packets.items() if packet.daemon is daemon]
        if all(d.config is daemon.config and set(packets) <= set(d.packets) for d in members):
            self.log.add(Left(self.log.tick(), daemon.identity))
            self._end(daemon)

    def _attempt(self, members: list[ChangingDaemon] | None = None) -> None:
        """Some that hear each other try to form a view."""
        rng = self._rng
        if members is None:
            one = rng.choice(self._daemons)
            members = [d for d in self._daemons if self.connected(one, d)]
            if rng.random() < 0.15:
                members = rng.sample(members, rng.randint(1, len(members)))
        for attempt in self._attempts:
            if set(attempt.members) & set(members):
                attempt.give_up()
        bystanders = len(self._names) - len(members)
        self._attempts.append(Attempt(rng, members, bystanders, self.connected))

    def _look_after_views(self) -> None:
        """Have daemons without a view, or with lost or new daemons, make an attempt sooner or
        later."""
        busy = {daemon for attempt in self._attempts for daemon in attempt.members}
        for daemon in self._daemons:
            heard = [other for other in self._daemons if self.connected(daemon, other)]
            view = daemon.config.daemons if daemon.config is not None else []
            if daemon in busy or (set(view) == set(heard) and not daemon.frozen):
                continue
            if self._rng.random() < 0.3:
                self._attempt(heard)
                return

    # ---- the run ----

    def play(self, rounds: int) -> None:
        """Let this number of rounds pass."""
        for _ in range(rounds):
            if self._hosts():
                while sum(not program.silent for program in self._programs) < self._clients:
                    self._connect()
            for program in self._programs:
                for _ in range(self._rng.randint(0, 2)):
                    self._act(program)
            if self._rng.random() < self._unrest:
                self._disturb()
            if self._daemons:
                self._look_after_views()
            self._serve(0.6)
            self._tidy()

    def _tidy(self) -> None:
        self._attempts = [a for a in self._attempts if a.phase is not Phase.OVER]
        self._programs = [p for p in self._programs if p.up or not p.silent or p.session.down]

    def _serve(self, share: float) -> None:
        """Move waiting items of every queue: all if `share` is 1, or some of them."""
        rng = self._rng
        for program in rng.sample(self._programs, len(self._programs)):
            for _ in self._some(len(program.up), share):
                self._accept(program)
        for daemon in rng.sample(self._daemons, len(self._daemons)):
            self._operate(daemon, share)
        for daemon in list(self._daemons):
            daemon.release_all()
            if daemon.leaving:
                self._finish_leaving(daemon)
        for attempt in self._attempts:
            attempt.step()
        for program in rng.sample(self._programs, len(self._programs)):
            for _ in self._some(len(program.session.down), share):
                self._notify(program)

    # ---- the end ----

    def settle(self) -> None:
        """Let the faults end, and everything settle among some of the daemons."""
        rng = self._rng
        able = [daemon for daemon in self._daemons if not daemon.leaving]
        if not able:
            down = [n for n in self._names if n not in {d.name for d in self._daemons}]
            if not down:
                return
            self._boot(rng.choice(down))
            able = [self._daemons[-1]]
        core = able if rng.random() < 0.5 else rng.sample(able, rng.randint(1, len(able)))
        self._loss = 0.0
        for name in self._names:
            self._side[name] = CORE + rng.randint(1, 2)
        for daemon in core:
            self._side[daemon.name] = CORE
        self._cut_flying()
        for daemon in [d for d in self._daemons if d not in core and rng.random() < 0.3]:
            self._fail(daemon)
        self.log.add(Heal(self.log.tick(), tuple(sorted(daemon.identity for daemon in core))))
        self._form(core)
        before = -1
        while before != len(self.log.events):
            before = len(self.log.events)
            for _ in range(3):
                self._serve(1)
            self._tidy()
        for daemon in self._daemons:
            bad = rng.randrange(3)
            self.log.add(Rejects(self.log.tick(), daemon.identity, bad, bad))
        self.log.add(Quiet(self.log.tick()))

    def _form(self, core: list[ChangingDaemon]) -> None:
        """Form one view of exactly these daemons."""
        for attempt in self._attempts:
            if set(attempt.members) & set(core):
                attempt.give_up()
        while not all(self._is_formed(daemon, core) for daemon in core):
            if all(attempt.phase is Phase.OVER for attempt in self._attempts):
                self._attempt(core)
            self._serve(0.6)

    def _is_formed(self, daemon: ChangingDaemon, core: list[ChangingDaemon]) -> bool:
        view = daemon.config
        return daemon.operates and view is not None and view.daemons == _by_name(core)


def _by_name(daemons: list[ChangingDaemon]) -> list[ChangingDaemon]:
    return sorted(daemons, key=lambda daemon: daemon.name)


def make_changing_history(seed: int, rounds: int = 40) -> list[TraceEvent]:
    """Return a valid trace with changing views; equal for equal arguments."""
    rng = Random(f"changing {seed}")
    history = ChangingHistory(
        seed,
        daemons=rng.choice((1, 2, 3, 3, 4, 4, 5)),
        clients=rng.randint(3, 6),
        unrest=rng.choice((0.05, 0.2, 0.4)),
    )
    history.play(rng.randint(rounds // 2, rounds))
    if rng.random() < 0.8:
        history.settle()
    return history.log.events
