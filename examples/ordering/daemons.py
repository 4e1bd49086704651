"""Daemons: the guarantees of a delivered message, and of a safe one."""

from examples.ordering.story import Run, story
from groupcomm.events import Message, Transition
from groupcomm.level import ServiceLevel
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings
from groupcomm.trace.events import TraceEvent

GROUP = "room"
SETTLE_S = 0.03
"""The virtual time in which two daemons that are 2 ms apart agree."""
ANNA, BEN, CLEO = range(3)


class Site:
    """Three daemons of a site, with a program at each; all are members of one group.

    Args:
        level: the level of anna's message, which does not come to cleo's daemon.
    """

    def __init__(self, level: ServiceLevel) -> None:
        self._events: list[TraceEvent] = []
        self.cluster = Cluster(plain_settings(daemons=3), self._events.append)
        self._users = [
            self.cluster.connect(user, daemon)
            for daemon, user in enumerate(("anna", "ben", "cleo"))
        ]
        self.cluster.run(0.01)
        for user in reversed(self._users):  # so that the token rests with anna's daemon
            user.join(GROUP)
            self.cluster.run(0.01)
        self.cut_off([(ANNA, CLEO), (BEN, CLEO)])
        self._sent_at = self.cluster.loop.now
        self._users[ANNA].multicast([GROUP], b"the valve is open", level=level)
        self.cluster.run(0.005)

    def cut_off(self, ways: list[tuple[int, int]]) -> None:
        """Cut these paths."""
        self.cluster.network.cut(ways)

    def kill(self, *daemons: int) -> None:
        """Kill these daemons at once, with their programs' connections."""
        for daemon in daemons:
            self.cluster.daemons[daemon].kill()

    def end(self, *parts: list[int]) -> Run:
        """Let each of these parts of the site agree on its view; return the run.

        `sent_at` is the time at which anna sends; a figure may leave out earlier events.
        """
        for part in parts:
            self.cluster.form(part)
        self.cluster.run(0.01)
        told = {user.user: _told(user) for user in self._users}
        return Run(
            events=self._events,
            delivered={name: [each for each, _ in messages] for name, messages in told.items()},
            seen={
                "regular": [name for name, messages in told.items() if ("anna2", True) in messages],
                "transitional": [
                    name for name, messages in told.items() if ("anna2", False) in messages
                ],
                "sent_at": self._sent_at,
            },
        )


def _told(user: SimulatedClient) -> list[tuple[str, bool]]:
    """Return a program's messages, and whether each came in the regular view."""
    regular, found = True, []
    for event in user.events:
        if isinstance(event, Message):
            found.append((f"{event.sender.name.split('#')[1]}{event.number}", regular))
        elif isinstance(event, Transition):
            regular = False
    return found


def _crossed(level: ServiceLevel) -> Run:
    """Play: anna and ben send at the same time, over slow paths between their daemons."""
    events: list[TraceEvent] = []
    cluster = Cluster(plain_settings(daemons=2, sites=2, delay_s=0.002), events.append)
    users = [cluster.connect(user, at) for at, user in enumerate(("anna", "ben"))]
    cluster.run(SETTLE_S)
    for user in users:
        user.join(GROUP)
        cluster.run(SETTLE_S)
    sent_at = cluster.loop.now
    for user in users:
        user.multicast([GROUP], user.user.encode(), level=level)
    cluster.run(SETTLE_S)
    told = {user.user: [each for each, _ in _told(user)] for user in users}
    return Run(events=events, delivered=told, seen={"sent_at": sent_at})


@story("causal-daemons", "CAUSAL: two daemons of two sites, two orders")
def causal_daemons() -> Run:
    """anna and ben send at once, each at a daemon of a site of its own. Neither message can have
    caused the other, so each daemon delivers its own program's message first, as CAUSAL allows."""
    return _crossed(ServiceLevel.CAUSAL)


@story("agreed-daemons", "AGREED: the same, and one order")
def agreed_daemons() -> Run:
    """The same sites and the same sendings. One of the two waits until its daemon knows that the
    other site sends nothing lower: both deliver in one order."""
    return _crossed(ServiceLevel.AGREED)


def _killed(level: ServiceLevel) -> Run:
    """Play: the daemons that have the message die, and cleo's daemon continues alone."""
    site = Site(level)
    site.kill(ANNA, BEN)
    return site.end([CLEO])


@story("reliable-not-safe", "RELIABLE: delivered, and lost with those who have it")
def reliable_not_safe() -> Run:
    """ben gets anna's message as soon as his daemon has it, and may act on it. Then both daemons
    die before cleo's has it: nobody who is left knows what ben was told."""
    return _killed(ServiceLevel.RELIABLE)


@story("agreed-not-safe", "AGREED: the same, for order is no promise that others have it")
def agreed_not_safe() -> Run:
    """AGREED waits until nothing lower can come, not until all hold it. ben gets the message in
    its place in the order, and it is lost all the same."""
    return _killed(ServiceLevel.AGREED)


@story("safe", "SAFE: nobody is told before everybody has it")
def safe() -> Run:
    """The same network. cleo's daemon does not say that it has the message, so ben's daemon holds
    it and does not deliver. It dies untold: nobody has acted on what is lost."""
    return _killed(ServiceLevel.SAFE)


@story("safe-cut-off", "SAFE: who is cut off delivers behind the signal")
def safe_cut_off() -> Run:
    """cleo's daemon is cut off instead. The others cannot know whether it has the message: they
    end the regular view, say so, and deliver in the transitional one, among those who are left."""
    site = Site(ServiceLevel.SAFE)
    site.cut_off([(CLEO, ANNA), (CLEO, BEN)])
    return site.end([ANNA, BEN], [CLEO])
