"""Valid histories without a core: clients that do anything at any time, abstract daemons.

`make_history` gives the trace of such a run, equal for equal seeds. It is meant for tests of the
oracles: every property holds in it. Messages overtake each other wherever a level allows it, and
queues are served in a random order, some of the time.
"""

from random import Random

import msgspec

from groupcomm.sim.histories.daemon import Daemon
from groupcomm.sim.histories.records import (
    AGREED,
    CONNECT,
    DISCONNECT,
    FIFO,
    FRAGMENT,
    JOIN,
    LEAVE,
    MESSAGES,
    Bundle,
    Log,
    Notice,
    Packet,
    Program,
    Sent,
    Session,
)
from groupcomm.sim.trace import (
    Accept,
    Ask,
    Conf,
    Horizon,
    Member,
    Quiet,
    Rejects,
    Send,
    TraceEvent,
)

VIEW = "7.alfa.2a"
NAMES = ("alfa", "bravo", "charlie", "delta", "echo")
GROUPS = ("red", "green", "red/green")
WINDOW = 4
"""So many packets may overtake each other on the way to one daemon."""


class History:
    """One run; `play` and `settle` make its trace.

    Args:
        seed: of everything random.
        daemons: how many, 1 to 5.
        rings: over how many rings they are spread, at most as many.
        clients: how many programs are there at a time.

    Attributes:
        log: the trace.
    """

    def __init__(self, seed: int, *, daemons: int, rings: int, clients: int) -> None:
        self._rng = Random(seed)
        self.log = Log()
        self._clients = clients
        self._connections = 0
        self._programs: list[Program] = []
        start = self._rng.choice((0, 0, 2**31 - 3, 2**63 - 3))
        self._last = [start] * rings  # packet numbers
        self._high = [1000] * rings  # stamps and horizons
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
        """Let so many rounds pass; in each, everybody may do something."""
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
        """Move what waits in every queue; all that is there now, or some of it."""
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
                self._tell(program)

    # ---- what programs do ----

    def _connect(self) -> None:
        rng = self._rng
        daemon = rng.choice(self._daemons)
        self._connections += 1
        user = rng.choice(("ann", "bob"))
        desk = daemon.desk
        if any(s.name == f"#{user}#{daemon.name}" for s in desk.sessions - desk.gone):
            user = f"user{self._connections}"
        session = Session(f"#{user}#{daemon.name}/{self._connections}", daemon.identity)
        desk.sessions.add(session)
        self._programs.append(Program(session))
        self.log.add(Ask(self.log.tick(), session.identity, "connect", "", 0))
        self._queue(session, CONNECT, "", 0)

    def _act(self, program: Program) -> None:
        lot = self._rng.random()
        if lot < 0.015 and not program.crashed:
            self._crash(program)
        elif not program.open:
            return
        elif lot < 0.03:
            program.open, program.silent = False, True
            program.up.append((DISCONNECT, "", 0))
            self.log.add(Ask(self.log.tick(), program.session.identity, "disconnect", "", 0))
        elif lot < 0.2 or not program.asked:
            self._join_or_leave(program)
        else:
            for _ in range(self._rng.choice((1, 1, 2, 4))):
                self._send(program)

    def _crash(self, program: Program) -> None:
        """What the kernel has is still sent; a message in fragments may be cut."""
        program.open, program.silent, program.crashed = False, True, True
        program.session.ended = True
        program.session.down.clear()
        self.log.add(Ask(self.log.tick(), program.session.identity, "crash", "", 0))
        leaving = (DISCONNECT, "", 0) in program.up
        for _ in range(self._rng.randint(0, len(program.up))):
            leaving &= program.up.pop() != (DISCONNECT, "", 0)
        if not leaving and program.session not in self._home(program.session).desk.left:
            program.up.append((DISCONNECT, "", 0))

    def _join_or_leave(self, program: Program) -> None:
        group = self._rng.choice(GROUPS)
        if group in program.asked and group not in program.inside:
            return  # asked for, and not yet answered
        kind = LEAVE if group in program.asked else JOIN
        if kind == LEAVE:
            program.inside.remove(group)
        program.asked.add(group)
        program.number += 1
        program.up.append((kind, group, program.number))
        what = "join" if kind == JOIN else "leave"
        self.log.add(Ask(self.log.tick(), program.session.identity, what, group, program.number))

    def _send(self, program: Program) -> None:
        rng = self._rng
        program.number += 1
        level = rng.randrange(6)
        message = Sent(
            program.number,
            level,
            self._destination(),
            rng.getrandbits(32),
            discard=rng.random() < 0.1,
            ordered=level >= AGREED and rng.random() < 0.3,
            parts=rng.choice((2, 3)) if rng.random() < 0.08 else 1,
        )
        program.up.append(message)
        self.log.add(
            Send(
                self.log.tick(),
                program.session.identity,
                message.number,
                level,
                message.to,
                message.digest,
                message.discard,
                message.ordered,
            )
        )

    def _destination(self) -> tuple[str, ...]:
        lot = self._rng.random()
        if lot < 0.7:
            return (self._rng.choice(GROUPS),)
        if lot < 0.8:
            return tuple(self._rng.sample(GROUPS, 2))
        if lot < 0.84:
            return ("#nobody#alfa",)
        name = self._rng.choice(self._programs).session.name
        return (name,) if lot < 0.95 else (name, self._rng.choice(GROUPS))

    # ---- what daemons do ----

    def _home(self, session: Session) -> Daemon:
        return next(daemon for daemon in self._daemons if daemon.identity == session.home)

    def _accept(self, program: Program) -> None:
        """A daemon takes the next bundle of a client."""
        if not program.up:
            return
        session, request = program.session, program.up[0]
        if isinstance(request, tuple):
            kind, group, number = program.up.popleft()  # type: ignore[misc]
            if kind == DISCONNECT:
                self._home(session).desk.left.add(session)
            else:
                self._record_accept(session, number, number)
            self._queue(session, kind, group, number)
        elif request.parts > 1:
            self._accept_fragment(program, request)
        else:
            self._accept_messages(program)

    def _accept_fragment(self, program: Program, message: Sent) -> None:
        bundle = Bundle(program.session, FRAGMENT, message.level)
        bundle.messages = [message]
        bundle.first = bundle.last = message.number
        bundle.index = program.part
        program.part += 1
        if program.part == message.parts:
            program.part = 0
            program.up.popleft()
        self._submit(bundle)

    def _accept_messages(self, program: Program) -> None:
        """Small messages that agree in everything share a bundle."""
        bundle = Bundle(program.session, MESSAGES, 0)
        while program.up:
            message = program.up[0]
            if isinstance(message, tuple) or message.parts > 1:
                break
            if bundle.messages and not _alike(message, bundle.messages[0]):
                break
            bundle.messages.append(message)
            program.up.popleft()
        bundle.level = bundle.messages[0].level
        bundle.first, bundle.last = bundle.messages[0].number, bundle.messages[-1].number
        self._submit(bundle)

    def _submit(self, bundle: Bundle) -> None:
        session = bundle.client
        daemon = self._home(session)
        self._record_accept(session, bundle.first, bundle.last)
        names, message = daemon.desk.names, bundle.messages[0]
        if bundle.index == 0:
            message.targets = [(name, names.get(name)) for name in message.to if name[0] == "#"]
        bundle.targets = message.targets
        if bundle.level == 0:
            daemon.take_unreliable(bundle)
            for other in self._daemons:
                if other is not daemon and self._rng.random() < 0.8:
                    other.inbox.append(bundle)
            return
        if bundle.level >= FIFO:
            session.ranks += 1
            bundle.rank = session.ranks
        daemon.waiting.append(bundle)

    def _record_accept(self, session: Session, first: int, last: int) -> None:
        self.log.add(Accept(self.log.tick(), session.home, session.identity, first, last))

    def _queue(self, session: Session, kind: int, group: str, number: int) -> None:
        """Let a request wait for its number."""
        bundle = Bundle(session, kind, AGREED)
        bundle.group = group
        bundle.first = bundle.last = number
        session.ranks += 1
        bundle.rank = session.ranks
        self._home(session).waiting.append(bundle)

    def _number(self, daemon: Daemon) -> None:
        """A daemon makes a packet of what waits, and sends it."""
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
        """Some daemon of a ring promises that nothing lower follows."""
        daemon = self._rng.choice([daemon for daemon in self._daemons if daemon.ring == ring])
        if daemon.prefix[ring] < self._last[ring]:
            return  # as the holder of a token it would know all packets
        value = max([self._high[ring], *(other.held for other in self._daemons)])
        value += self._rng.randint(0, 20)
        self._high[ring] = value
        upto = self._last[ring]
        self.log.add(Horizon(self.log.tick(), daemon.identity, VIEW, ring, value, upto))
        notice = Notice(ring, value, upto)
        daemon.hear(notice)
        daemon.release_all()
        self._spread(daemon, notice)

    def _spread(self, daemon: Daemon, item: Packet | Notice) -> None:
        for other in self._daemons:
            if other is not daemon:
                other.inbox.append(item)

    def _arrive(self, daemon: Daemon) -> None:
        """One of the next few things on the way to a daemon arrives."""
        item = daemon.inbox.pop(self._rng.randrange(min(WINDOW, len(daemon.inbox))))
        if isinstance(item, Packet):
            daemon.hold(item)
        elif isinstance(item, Notice):
            daemon.hear(item)
        else:
            daemon.take_unreliable(item)
        daemon.release_all()

    def _tell(self, program: Program) -> None:
        """A client receives one thing."""
        event = program.session.down.popleft()
        if program.crashed:
            return
        if event is None:
            program.open = not program.silent
            return
        self.log.add(msgspec.structs.replace(event, t=self.log.tick()))
        if isinstance(event, Member) and event.changed == (program.session.identity,):
            if event.cause == "join":
                program.inside.add(event.group)
            else:
                program.asked.discard(event.group)


def _alike(one: Sent, other: Sent) -> bool:
    """Whether two messages may share a bundle."""
    return (one.to, one.level, one.discard) == (other.to, other.level, other.discard) and not (
        one.ordered or other.ordered
    )


def make_history(seed: int, rounds: int = 10) -> list[TraceEvent]:
    """A valid trace of some hundred events; equal for equal arguments."""
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
