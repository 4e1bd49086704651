"""Daemons that work in views, and the paths between them, as far as there are any.

Items in flight between two daemons that lose each other are lost, and so may be those of a crashed
daemon: so views end with packets that only some daemons hold, or none.
"""

from random import Random
from typing import Final

from groupcomm.trace.events import Boot, Fail, Horizon
from tests.verification.generators.changing.daemon import ChangingDaemon
from tests.verification.generators.changing.records import Token, View, ViewPacket
from tests.verification.generators.programs import GROUPS, Programs
from tests.verification.generators.records import Bundle, Notice, Session

NAMES: Final = ("alfa", "bravo", "charlie", "delta", "echo")
WINDOW: Final = 4
"""The packets that may overtake each other on the way to one daemon."""

CORE: Final = 7
"""The side of the daemons that hear each other in the end."""

Item = ViewPacket | Notice | Bundle


class Network(Programs):
    """The running daemons, the pairs that hear each other, and the items in flight.

    Args:
        seed: the seed of all random choices.
        daemons: the number of names, 1 to 5.
        clients: the number of programs at a time.
    """

    def __init__(self, seed: int, *, daemons: int, clients: int) -> None:
        super().__init__(Random(seed), clients)
        self._groups = ("red", "red", "red", *GROUPS)
        self._loss = self._rng.choice((0.05, 0.3, 0.6))
        self._repair = self._rng.choice((0.1, 0.3, 1.0))
        self._names = NAMES[:daemons]
        self._starts = dict.fromkeys(self._names, 0)
        self._restarts = dict.fromkeys(self._names, 0)
        self._counters = dict.fromkeys(self._names, 1)
        self._side = dict.fromkeys(self._names, 0)  # daemons on one side hear each other
        self._daemons: list[ChangingDaemon] = []  # the running daemons
        self._by_identity: dict[str, ChangingDaemon] = {}
        self._flying: dict[str, list[tuple[ChangingDaemon, View, Item]]] = {}

    # ---- daemons and paths ----

    def _boot(self, name: str) -> None:
        """Start a daemon; now and then its disk is lost, and with it everything that it knew."""
        if self._starts[name] and self._rng.random() < 0.15:
            self._restarts[name], self._counters[name] = 0, 1
        self._starts[name] += 1
        self._restarts[name] += 1
        random_id = f"{self._rng.getrandbits(64):x}"
        identity = f"{name}/{self._starts[name]}"
        daemon = ChangingDaemon(identity, random_id, self._counters[name], self.log)
        self._daemons.append(daemon)
        self._by_identity[identity] = daemon
        self._flying[identity] = []
        self.log.add(Boot(self.log.tick(), identity, f"{self._restarts[name]}.{random_id}"))

    def connected(self, one: ChangingDaemon, other: ChangingDaemon) -> bool:
        """Return whether two daemons hear each other."""
        return one.alive and other.alive and self._side[one.name] == self._side[other.name]

    def members_of(self, view: View) -> list[ChangingDaemon]:
        """Return the daemons of a view by name."""
        return [self._by_identity[daemon.identity] for daemon in view.daemons]

    def _receivable_from(self, daemon: ChangingDaemon) -> list[ChangingDaemon]:
        """Return the heard daemons that take part in the same view, itself included."""
        return [
            other
            for other in self._daemons
            if other.operates and other.config is daemon.config and self.connected(daemon, other)
        ]

    def _end(self, daemon: ChangingDaemon) -> None:
        daemon.alive = False
        self._daemons.remove(daemon)
        self._counters[daemon.name] = max(self._counters[daemon.name], daemon.counter)
        for program in self._programs:
            if program.session.home == daemon.identity:
                program.open, program.silent, program.crashed = False, True, True
                program.session.ended = True
                program.session.down.clear()
                program.up.clear()

    def _fail(self, daemon: ChangingDaemon) -> None:
        self.log.add(Fail(self.log.tick(), daemon.identity))
        self._end(daemon)
        for flying in self._flying.values():
            flying[:] = [x for x in flying if x[0] is not daemon or self._rng.random() < 0.5]

    def _split(self) -> None:
        """Change the pairs that hear each other; items in flight between others are lost."""
        apart = len(set(self._side.values())) > 1
        sides = self._rng.choice((1, 1, 1, 2) if apart else (2, 2, 3))
        for name in self._names:
            self._side[name] = self._rng.randrange(sides)
        self._cut_flying()

    def _cut_flying(self) -> None:
        for identity, flying in self._flying.items():
            name = self._by_identity[identity].name
            flying[:] = [x for x in flying if self._side[x[0].name] == self._side[name]]

    # ---- input of daemons ----

    def _hosts(self) -> list[ChangingDaemon]:
        return [daemon for daemon in self._daemons if not daemon.leaving]

    def _home(self, session: Session) -> ChangingDaemon:
        return self._by_identity[session.home]

    def _order(self, bundle: Bundle) -> None:
        daemon = self._home(bundle.client)
        (daemon.waiting if bundle.level else daemon.unreliable).append(bundle)

    def _token(self, daemon: ChangingDaemon) -> Token | None:
        """Return the token of its ring, if it can get it."""
        if not daemon.operates or daemon.config is None:
            return None
        token = daemon.config.tokens[daemon.ring]
        return token if token.holder in self._receivable_from(daemon) else None

    def _number(self, daemon: ChangingDaemon) -> None:
        token = self._token(daemon)
        if token is None or not daemon.wants_number:
            return
        token.holder = daemon
        token.last += 1
        token.high = max(token.high, daemon.held) + self._rng.randint(1, 30)
        count = self._rng.choice((1, 1, 2, 3))
        self._spread(daemon, daemon.make_packet(count, token.last, token.high))
        daemon.release_all()

    def _announce(self, daemon: ChangingDaemon) -> None:
        """Announce a horizon of its ring: nothing lower follows."""
        token = self._token(daemon)
        if token is None or daemon.config is None:
            return
        token.holder = daemon
        others = [other.held for other in self._receivable_from(daemon)]
        token.high = max(token.high, *others) + self._rng.randint(0, 20)
        ring, value, upto = daemon.ring, token.high, token.last
        notice = Notice(ring, value, upto)
        self.log.add(Horizon(self.log.tick(), daemon.identity, daemon.view, ring, value, upto))
        daemon.receive_notice(notice)
        daemon.release_all()
        self._spread(daemon, notice)

    def _send_unreliable(self, daemon: ChangingDaemon) -> None:
        while daemon.whole and daemon.unreliable:
            bundle = daemon.unreliable.popleft()
            bundle.ring = daemon.ring
            daemon.accept_unreliable(bundle)
            self._spread(daemon, bundle)

    def _spread(self, daemon: ChangingDaemon, item: Item) -> None:
        view = daemon.config
        assert view is not None
        for other in self.members_of(view):
            arrives = self.connected(daemon, other) and self._rng.random() >= self._loss
            if arrives and other is not daemon:
                self._flying[other.identity].append((daemon, view, item))

    def _arrive(self, daemon: ChangingDaemon) -> None:
        """Deliver one of the next few items in flight to a daemon."""
        flying = self._flying[daemon.identity]
        if not flying:
            return
        _, view, item = flying.pop(self._rng.randrange(min(WINDOW, len(flying))))
        if daemon.config is not view or not daemon.operates:
            return
        if isinstance(item, ViewPacket):
            daemon.receive(item)
        elif isinstance(item, Notice):
            daemon.receive_notice(item)
        else:
            daemon.accept_unreliable(item)
        daemon.release_all()

    def _learn(self, daemon: ChangingDaemon, share: float) -> None:
        """Get missing packets from others, and their frontiers."""
        if not daemon.operates or daemon.config is None:
            return
        heard = self._receivable_from(daemon)
        for other in heard:
            if share == 1 or self._rng.random() < self._repair:
                for key in sorted(set(other.packets) - set(daemon.packets))[:2]:
                    daemon.receive(other.packets[key])
            daemon.frontiers = list(map(max, daemon.frontiers, other.frontiers))
        for ring, members in enumerate(daemon.config.rings):
            if all(member in heard for member in members):
                least = min(member.least for member in members)
                daemon.frontiers[ring] = max(daemon.frontiers[ring], least)
        daemon.release_all()

    # ---- acts of daemons ----

    def _some(self, count: int, share: float) -> range:
        return range(count if share == 1 else self._rng.randint(0, count))

    def _operate(self, daemon: ChangingDaemon, share: float) -> None:
        for _ in self._some(1 + len(daemon.waiting), share):
            self._number(daemon)
        self._send_unreliable(daemon)
        for _ in self._some(len(self._flying[daemon.identity]), share):
            self._arrive(daemon)
        if self._rng.random() < share:
            self._learn(daemon, share)
            if share < 1 or self._core_waits(daemon):
                self._announce(daemon)

    def _core_waits(self, daemon: ChangingDaemon) -> bool:
        """Return whether the core waits for horizons, and this daemon is in it."""
        return self._side[daemon.name] == CORE and any(
            other.agreed or other.answers or other.checks for other in self._receivable_from(daemon)
        )
