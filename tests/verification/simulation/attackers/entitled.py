"""Programs with a small right, which do as much as it allows: they join, come and go, and send.

They are programs like those of the run, with the library's session, and the checkers see all that
they ask for and get. What they achieve is work: it may cost nobody a view.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import ClassVar, Final

from groupcomm.sim.cluster.clients import SimulatedClient
from tests.verification.simulation.attackers.attack import Attack, AttackContext

MOST_PROGRAMS: Final = 12
AT_ONCE: Final = 60
"""The most requests of one act, or pairs of requests."""

MOST_GROUPS: Final = 40
"""The groups that a program stays in: each change of a table is checked as a whole."""

MOST_REQUESTS: Final = 600
"""The most requests of a run: what they cause takes long to simulate."""

CROWD: Final = "x.crowd"
NOBODY: Final = [f"x.{number:x}" for number in range(160)]
"""Groups without members, as many as fit the names of a small packet: they are work to look up."""


class Entitled(Attack):
    """An attack by admitted programs, most of the time all at one daemon.

    Attributes:
        PRINCIPAL: their principal, whose name they have.
        requests: the number of their requests, or pairs of requests.
    """

    PRINCIPAL: ClassVar[str]

    def __init__(self, stage: AttackContext, rng: Random) -> None:
        super().__init__(stage, rng)
        self._programs: list[SimulatedClient] = []
        self._at = -1  # the index of the daemon
        self._started = 0
        self.requests = 0

    def on_settle(self) -> None:
        """Stop: each act notifies programs, so the cluster would never settle."""
        self.stop()

    def act(self) -> None:
        """Connect some programs, or have one of them do something."""
        self._programs = [each for each in self._programs if each.alive]
        up = [host.index for host in self._stage.hosts if host.is_up]
        if self._at not in up and up:
            self._at = self._rng.choice(up)
        if up and len(self._programs) < MOST_PROGRAMS:
            for _ in range(self._rng.choice((1, 3, MOST_PROGRAMS - len(self._programs)))):
                self._connect(self._at)
        ready = [each for each in self._programs if each.connected and each.writable]
        if ready and self.requests < MOST_REQUESTS:
            self.act_with(self._rng.choice(ready))
        if ready and self._rng.random() < 0.1:
            self._rng.choice((SimulatedClient.crash, SimulatedClient.disconnect))(ready[0])

    def _connect(self, daemon: int) -> None:
        self._started += 1
        name = self.PRINCIPAL.partition(":")[2]
        host, stage = self._stage.hosts[daemon], self._stage
        program = SimulatedClient(
            stage.loop, stage.record, f"{name}/{self._started}", daemon, host.name
        )
        program.principal = self.PRINCIPAL
        program.on_event = lambda event: None
        host.accept(program)
        self._programs.append(program)

    def act_with(self, program: SimulatedClient) -> None:
        """Have a program do what it may, many times at once."""
        raise NotImplementedError

    def _many(self, act: Callable[[], object]) -> None:
        for _ in range(self._rng.randint(1, AT_ONCE)):
            self.requests += 1
            act()


class Joiner(Entitled):
    """Programs that may join ``x.*``: each joins many groups, and leaves most of them at once."""

    PRINCIPAL = "token:joiner"

    def act_with(self, program: SimulatedClient) -> None:
        """See Entitled."""
        self._many(lambda: self._join(program))

    def _join(self, program: SimulatedClient) -> None:
        group = f"x.{self.requests}"
        program.join(group)
        if len(program.asked) > MOST_GROUPS:
            program.leave(group)


class Crowd(Entitled):
    """Programs that may join one group, all of them: they come and go, and send to all."""

    PRINCIPAL = "token:crowd"

    def act_with(self, program: SimulatedClient) -> None:
        """See Entitled."""
        for each in self._programs:
            if each.connected and CROWD not in each.asked:
                each.join(CROWD)
        if self._rng.random() < 0.5:
            self._many(lambda: program.multicast([CROWD], b"to all"))
        else:
            self._many(lambda: self._come_and_go(program))

    def _come_and_go(self, program: SimulatedClient) -> None:
        program.leave(CROWD)
        program.join(CROWD)


class FreeSender(Entitled):
    """Programs that may send to ``x.*``, where nobody is."""

    PRINCIPAL = "token:free-sender"

    def act_with(self, program: SimulatedClient) -> None:
        """See Entitled."""
        for each in self._programs:
            if each.connected and each.writable:
                self._many(partial(each.multicast, NOBODY, b"to nobody"))
