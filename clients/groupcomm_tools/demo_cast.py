"""The programs of the demo: they send, note what they receive, and compare it in the end."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import trio

from groupcomm.clocks.stamp import Position
from groupcomm.errors import SessionError
from groupcomm.events import DaemonView, Message
from groupcomm.level import ServiceLevel
from groupcomm_client.connecting import connect
from groupcomm_client.connection import Connection
from groupcomm_tools.local_cluster import LocalDaemon

GROUP: Final = "demo"
AGREED_LEVELS: Final = (ServiceLevel.AGREED, ServiceLevel.SAFE)
LOOK_S: Final = 0.005
QUIET_S: Final = 0.3
"""Who has heard nothing new for so long has heard all that was sent before."""


class Actor:
    """One program at one daemon.

    Attributes:
        user: its name.
        daemon: the name of its daemon.
        heard: all messages, in the order in which they came.
        sent: how many it has sent, by level.
        view: the daemons of the latest view that it was told of.
        present: whether its daemon lives.
    """

    def __init__(self, user: str, daemon: str, connection: Connection) -> None:
        self.user = user
        self.daemon = daemon
        self.heard: list[Message] = []
        self.sent: Counter[ServiceLevel] = Counter()
        self.view: tuple[str, ...] = ()
        self.present = True
        self.heard_at = trio.current_time()
        self._connection = connection

    async def send(self, level: ServiceLevel, data: bytes) -> None:
        """Send one message to the group."""
        self.sent[level] += 1
        await self._connection.multicast(GROUP, data, level=level)

    async def listen(self) -> None:
        """Note everything that comes."""
        async for event in self._connection:
            if isinstance(event, Message):
                self.heard.append(event)
                self.heard_at = trio.current_time()
            elif isinstance(event, DaemonView):
                self.view = event.daemons

    @property
    def agreed(self) -> list[Position]:
        """Where what it has heard of the agreed order stands."""
        return [m.position for m in self.heard if m.level in AGREED_LEVELS and m.position]


class Cast:
    """All actors, also those whose daemon has died.

    Attributes:
        all: in the order of their entries.
    """

    def __init__(self, say: Callable[[str], None], nursery: trio.Nursery) -> None:
        self._say = say
        self._nursery = nursery
        self._done = trio.Event()
        self.all: list[Actor] = []

    async def enter(self, daemon: LocalDaemon) -> Actor:
        """Connect one more actor, a member of the group."""
        actor: Actor = await self._nursery.start(self._act, daemon)
        self.all.append(actor)
        return actor

    async def _act(
        self, daemon: LocalDaemon, task_status: trio.TaskStatus[Actor] = trio.TASK_STATUS_IGNORED
    ) -> None:
        user = f"{daemon.name[0]}{len(self.all) + 1}"
        try:
            async with connect(str(daemon.unix), user=user) as connection:
                await connection.join(GROUP)
                actor = Actor(user, daemon.name, connection)
                task_status.started(actor)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(actor.listen)
                    await self._done.wait()
                    nursery.cancel_scope.cancel()
        except* SessionError:
            self._say(f"the program at {daemon.name} has lost its daemon, and knows it")

    def exit(self, daemon: str) -> None:
        """A daemon is dead, and so are its connections."""
        for actor in self.all:
            if actor.daemon == daemon:
                actor.present = False

    async def agree(self, daemons: Sequence[str]) -> None:
        """Wait until all who are present are told of one view with these daemons."""
        while any(a.present and a.view != tuple(sorted(daemons)) for a in self.all):
            await trio.sleep(LOOK_S)

    async def hear_all(self) -> None:
        """Wait until nobody hears anything new, for QUIET_S at least."""
        asked_at = trio.current_time()
        while any(
            trio.current_time() - max(actor.heard_at, asked_at) < QUIET_S
            for actor in self.all
            if actor.present
        ):
            await trio.sleep(LOOK_S)

    async def leave(self) -> None:
        """All disconnect in order."""
        self._done.set()
        await trio.sleep(LOOK_S)

    # ---- the judgement ----

    @property
    def order(self) -> list[Position]:
        """The agreed order, as all together have seen it."""
        return sorted({position for actor in self.all for position in actor.agreed})

    def wrong(self) -> list[str]:
        """What should not be: something out of order, twice, or missing."""
        found: list[str] = []
        for actor in self.all:
            names = Counter((m.sender, m.number) for m in actor.heard)
            found += [f"{actor.user} got {name} twice" for name, n in names.items() if n > 1]
            if actor.agreed != sorted(actor.agreed):
                found.append(f"{actor.user} saw another order")
        stayed = [actor for actor in self.all if actor.present]
        first = [a for a in stayed if a.agreed and a.agreed[0] == self.order[0]]
        found += [
            f"{actor.user} has not got all that {first[0].user} has"
            for actor in first[1:]
            if actor.agreed != first[0].agreed
        ]
        return found
