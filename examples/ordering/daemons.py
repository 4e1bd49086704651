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
            found.append((f"{event.sender.user}{event.number}", regular))
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
    """anna and ben send at the same time, each at a daemon of another site. Neither message can
    have caused the other. So each daemon delivers the message of its own program first, as CAUSAL
    allows."""
    return _crossed(ServiceLevel.CAUSAL)


@story("agreed-daemons", "AGREED: the same, and one order")
def agreed_daemons() -> Run:
    """The sites and the messages are the same. One of the two messages waits until its daemon knows
    that the other site sends nothing lower. So both daemons deliver in one order."""
    return _crossed(ServiceLevel.AGREED)


def _killed(level: ServiceLevel) -> Run:
    """Play: the daemons that have the message die, and cleo's daemon continues alone."""
    site = Site(level)
    site.kill(ANNA, BEN)
    return site.end([CLEO])


@story("reliable-not-safe", "RELIABLE: delivered, and lost with the daemons that have it")
def reliable_not_safe() -> Run:
    """ben gets anna's message as soon as his daemon has it, and may act on it. Then both daemons
    die before cleo's daemon has the message. No program that is left knows what ben has
    received."""
    return _killed(ServiceLevel.RELIABLE)


@story(
    "agreed-not-safe",
    "AGREED: lost as well, for order does not promise that all daemons have it",
)
def agreed_not_safe() -> Run:
    """AGREED waits until nothing lower can come, but not until all daemons hold the message. ben
    gets the message at its place in the order, and the message is lost all the same."""
    return _killed(ServiceLevel.AGREED)


@story("safe", "SAFE: no daemon delivers before every daemon has it")
def safe() -> Run:
    """The network is the same. cleo's daemon does not report that it has the message, so ben's
    daemon holds the message without a delivery. Then it dies: nobody has acted on a message that is
    lost."""
    return _killed(ServiceLevel.SAFE)


@story("safe-cut-off", "SAFE: the daemons that are left deliver after the signal")
def safe_cut_off() -> Run:
    """Here cleo's daemon is cut off instead. The other daemons cannot know whether it has the
    message. They end the regular view, tell their programs so, and deliver the message in the
    transitional view, which is among those daemons only."""
    site = Site(ServiceLevel.SAFE)
    site.cut_off([(CLEO, ANNA), (CLEO, BEN)])
    return site.end([ANNA, BEN], [CLEO])
