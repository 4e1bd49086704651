"""Programs of Spread in the simulator, under all its faults, judged like those of real daemons.

Each is a client's bytes behind the translation of its session, at a simulated daemon. They send as
`traffic` draws it; they leave and join, crash and begin again. In the end all faults end, and what
is sent then must arrive: to groups, and to the names of programs that have just been admitted.

    python -m tests.verification.campaigns history_seeds --seeds 1:200 --crowd spread
"""

from collections.abc import Callable
from typing import Final

from groupcomm.session.spread.handshake import Handshake
from groupcomm.session.spread.session import SpreadSession
from groupcomm.session.spread.views import SharedChanges
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.cluster.connections import Pipe
from groupcomm.sim.cluster.host import SimulatedHost
from groupcomm.sim.virtual_time import SECOND, random_for
from tests.groupcomm_client.all_faults import settings_for
from tests.groupcommd.spread_client import JOIN, LEAVE, SELF_DISCARD, Received, Wire
from tests.verification.campaigns.spread.checker import SpreadChecker, numbered
from tests.verification.campaigns.spread.traffic import (
    draw_groups,
    draw_message,
    group_name,
)
from tests.verification.simulation.attackers.roles import POLITE

GROUPS: Final = 5
AWAY: Final = 0.2
"""The share of acts in which a program leaves its group, until its next act."""

EACH: Final = 2
"""The programs of a daemon, besides those that have just come."""

REST_S: Final = 30.0
CALM_S: Final = 5.0


class SpreadProgram:
    """A program, and the translation of its session.

    Attributes:
        number: of the session, as the checker knows it.
        name: its private name; "" until it is admitted.
        alive: its connection is open.
    """

    principal = ""

    def __init__(
        self, number: int, checker: SpreadChecker, shared: SharedChanges, *, views: bool = True
    ) -> None:
        user = b"u%d" % number
        handshake = Handshake()
        handshake.receive_untrusted(bytes((4, 4, 0, views, len(user))) + user)
        handshake.receive_untrusted(b"NULL".ljust(90, b"\0"))
        self._session = SpreadSession(handshake, user.decode(), shared)
        self._checker = checker
        self._wire = Wire(big_endian=number % 2 == 0)
        self._waiting = bytearray()  # frames for the daemon
        self._up: Pipe | None = None
        self._down: Pipe | None = None
        self.number = number
        self.group = number % GROUPS
        self.alive = self._is_member = False

    @property
    def name(self) -> str:
        return self._wire.name

    def send(self, type_: int, groups: list[str], data: bytes = b"", tag: int = 0) -> None:
        """Send a message of Spread's protocol."""
        heard = self._wire.message(type_, groups, data, tag)
        while True:
            self._waiting += self._session.receive_untrusted(heard)
            self._session.pop_spent()
            heard = b""
            if not self._session.ahead:
                break
        self.flush()

    def join(self) -> None:
        """Join its group, if it is not in it."""
        if not self._is_member:
            self._is_member = True
            self.send(JOIN, [group_name(self.group)])

    def leave(self) -> None:
        """Leave its group."""
        self._is_member = False
        self.send(LEAVE, [group_name(self.group)])

    def crash(self) -> None:
        """End without a word."""
        assert self._up is not None
        self._up.close()
        self._end()

    # ---- calls of its daemon and connection ----

    def attach(self, up: Pipe, down: Pipe, connection: int) -> None:
        self._up, self._down, self.alive = up, down, True
        self._waiting += self._session.hello()
        self.flush()

    def flush(self) -> None:
        up = self._up
        while self._waiting and up is not None and (room := up.room()):
            up.write(bytes(self._waiting[:room]))
            del self._waiting[:room]

    def receive(self, data: bytes) -> None:
        told = self._session.translate(data)
        assert not self._session.malformed
        if not self.name and told:
            assert told[0] == 1, f"the daemon refuses {told!r}"
            end = 5 + told[4]
            self._wire.name, told = told[5:end].decode(), told[end:]
            self.join()
        self._wire.feed(told)
        while (found := self._wire.pop()) is not None:
            self._checker.see(self.number, self.name, found)

    def ended(self) -> None:
        self._end()

    def _end(self) -> None:
        self.alive = False
        assert self._down is not None
        self._down.break_off()


class SpreadCrowd:
    """A cluster with programs of Spread, and all that happens to them."""

    def __init__(self, seed: int, faults: str, duration_s: float) -> None:
        settings = settings_for(seed, faults, duration_s, small_caps=False)
        self.cluster = Cluster(settings, start=False)
        self.cluster.start(form=not settings.faults.cold_s)
        self.rng = random_for(seed, "programs of Spread")
        self.checker = SpreadChecker()
        self.sent = self.count = 0
        self._duration_s = duration_s
        self._is_calm = False
        self._programs: list[list[SpreadProgram]] = [[] for _ in self.cluster.daemons]
        self._shared: dict[int, tuple[object, SharedChanges]] = {}

    @property
    def programs(self) -> list[SpreadProgram]:
        """Return those that are admitted."""
        return [each for at in self._programs for each in at if each.alive and each.name]

    def play(self) -> None:
        """Run load and faults, then end all faults, and see that everything arrives."""
        loop = self.cluster.loop
        until = loop.now + int(self._duration_s * SECOND)
        while loop.now < until:
            self._step()
        self.cluster.end_faults()
        self._until(self._is_settled, REST_S)
        self._is_calm = True
        for at in range(len(self._programs)):
            self._connect(at)
        for _ in range(20):
            self._step()
        self._until(lambda: not any(self.checker.owed.values()), CALM_S)

    def check(self) -> None:
        """Raise AssertionError for the first violation."""
        self.checker.finish()
        assert not self.checker.violations, self.checker.violations[0]

    @property
    def simulated_s(self) -> float:
        return self.cluster.loop.now / SECOND

    def summary(self) -> dict[str, int]:
        """Return how much has happened."""
        return {
            "programs": self.count,
            "messages": self.checker.messages,
            "views": self.checker.views,
            "compared": self.checker.compared,
        }

    def _step(self) -> None:
        """Let a moment pass in which programs come, go and send."""
        self.cluster.run(self.rng.uniform(0.001, 0.03))
        self._fill()
        for program in self.programs:
            draw = self.rng.random()
            if draw < 0.3:
                self._act(program)
            elif draw < 0.303 and not self._is_calm:
                program.crash()

    def _fill(self) -> None:
        for at, programs in enumerate(self._programs):
            programs[:] = [each for each in programs if each.alive]
            if len(programs) < EACH:
                self._connect(at)

    def _connect(self, at: int) -> None:
        """Connect a program to a daemon, if it runs; others send to it as soon as it can know."""
        host = self.cluster.daemons[at]
        if not host.is_up:
            return
        self.count += 1
        program = SpreadProgram(self.count, self.checker, self._shared_of(host))
        program.principal = POLITE if self.cluster.access.restricts else ""
        self._programs[at].append(program)
        host.accept(program)
        if self._is_calm:
            self._until(lambda: bool(program.name), CALM_S)
            for sender in self.rng.sample(self.programs, 3):
                self._send(sender, [program.name], program)

    def _shared_of(self, host: SimulatedHost) -> SharedChanges:
        """Return what the sessions of one start of a daemon share."""
        process = host.process
        known, shared = self._shared.get(id(host), (None, SharedChanges()))
        if known is not process:
            shared = SharedChanges()
        self._shared[id(host)] = process, shared
        return shared

    def _act(self, program: SpreadProgram) -> None:
        program.join()
        self._send(program, draw_groups(self.rng, program.group, GROUPS), program)
        if self.rng.random() < AWAY:
            program.leave()

    def _send(self, sender: SpreadProgram, groups: list[str], receiver: SpreadProgram) -> None:
        draft = draw_message(self.rng, groups)
        self.sent += 1
        data = numbered(self.sent, draft.padding)
        self.checker.send(
            Received(
                type=draft.service,
                sender=sender.name,
                groups=tuple(groups),
                tag=draft.tag,
                mismatch=False,
                data=data,
            )
        )
        is_discarded = draft.service & SELF_DISCARD and receiver is sender
        if self._is_calm and not is_discarded:
            self.checker.owed[receiver.number].add(self.sent)
        sender.send(draft.service, groups, data, draft.tag)

    def _is_settled(self) -> bool:
        """Return whether the daemons are in one view, all programs are there, and the members of
        each group are in one view."""
        hosts = range(len(self.cluster.daemons))
        if not all(host.is_up for host in self.cluster.daemons) or not self.cluster.agree(hosts):
            return False  # of parts that meet soon each may have settled for itself
        self._fill()
        programs = self.programs
        for each in programs:
            each.join()
        if len(programs) < EACH * len(self._programs):
            return False
        for group in range(GROUPS):
            members = [each.number for each in programs if each.group == group]
            views = self.checker.members_now(members, group_name(group))
            if members and [len(found) for found in views.values()] != [len(members)]:
                return False
        return True

    def _until(self, ready: Callable[[], bool], limit_s: float) -> None:
        loop = self.cluster.loop
        limit = loop.now + int(limit_s * SECOND)
        while not ready():
            if loop.now >= limit:
                self.check()  # what is wrong says more than that it takes long
                raise AssertionError("the programs do not come to rest")
            self.cluster.run(0.02)


def play(seed: int, faults: str = "all", duration_s: float = 4.0) -> SpreadCrowd:
    """Run one seed, and check it."""
    crowd = SpreadCrowd(seed, faults, duration_s)
    crowd.play()
    crowd.check()
    return crowd
