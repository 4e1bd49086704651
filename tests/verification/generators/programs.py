"""Programs of generated histories: clients that do anything at any time."""

from collections.abc import Sequence
from random import Random

import msgspec

from groupcomm.trace.events import Accept, Ask, Member, Send
from tests.verification.generators.daemon import Daemon
from tests.verification.generators.records import (
    AGREED,
    CONNECT,
    DISCONNECT,
    FRAGMENT,
    JOIN,
    LEAVE,
    LINE,
    MESSAGES,
    Bundle,
    Log,
    Program,
    Sent,
    Session,
)

GROUPS = ("red", "green", "red/green")


class Programs:
    """The programs of one run, and the queues between them and their daemons.

    Args:
        rng: the source of all decisions.
        clients: the number of programs at a time.

    Attributes:
        log: the trace.
    """

    def __init__(self, rng: Random, clients: int) -> None:
        self._rng = rng
        self.log = Log()
        self._clients = clients
        self._connections = 0
        self._programs: list[Program] = []
        self._groups: tuple[str, ...] = GROUPS  # the groups that they join, some of them more often

    # ---- daemons ----

    def _hosts(self) -> Sequence[Daemon]:
        """Return the daemons that accept new clients."""
        raise NotImplementedError

    def _home(self, session: Session) -> Daemon:
        raise NotImplementedError

    def _order(self, bundle: Bundle) -> None:
        """Give a client's bundle to its daemon, to be ordered or sent as UNRELIABLE."""
        raise NotImplementedError

    # ---- acts of programs ----

    def _connect(self) -> None:
        rng = self._rng
        daemon = rng.choice(self._hosts())
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
        elif lot < 0.21:
            self._request(program, LINE, "line", "")
        else:
            for _ in range(self._rng.choice((1, 1, 2, 4))):
                self._send(program)

    def _crash(self, program: Program) -> None:
        """Crash a program: bytes in the kernel are still sent; a message in fragments may be
        cut."""
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
        group = self._rng.choice(self._groups)
        if group in program.asked and group not in program.inside:
            return  # the program has asked, and has no answer yet
        kind = LEAVE if group in program.asked else JOIN
        if kind == LEAVE:
            program.inside.remove(group)
        program.asked.add(group)
        self._request(program, kind, "join" if kind == JOIN else "leave", group)

    def _request(self, program: Program, kind: int, what: str, group: str) -> None:
        program.number += 1
        program.up.append((kind, group, program.number))
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

    # ---- input of daemons ----

    def _accept(self, program: Program) -> None:
        """Accept the next bundle of a client at its daemon."""
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
            if kind == LINE:  # its daemon orders another one, without a number
                self._queue(session, kind, group, 0)
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
        self._record_accept(session, bundle.first, bundle.last)
        names, message = self._home(session).desk.names, bundle.messages[0]
        if bundle.index == 0:
            message.targets = [(name, names.get(name)) for name in message.to if name[0] == "#"]
        bundle.targets = message.targets
        self._order(bundle)

    def _record_accept(self, session: Session, first: int, last: int) -> None:
        self.log.add(Accept(self.log.tick(), session.home, session.identity, first, last))

    def _queue(self, session: Session, kind: int, group: str, number: int) -> None:
        """Let a request wait for its number."""
        bundle = Bundle(session, kind, AGREED)
        bundle.group = group
        bundle.first = bundle.last = number
        self._order(bundle)

    # ---- output of daemons ----

    def _notify(self, program: Program) -> None:
        """Deliver one event to a client."""
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
    """Return whether two messages may share a bundle."""
    return (one.to, one.level, one.discard) == (other.to, other.level, other.discard) and not (
        one.ordered or other.ordered
    )
