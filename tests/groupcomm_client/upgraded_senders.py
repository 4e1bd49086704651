"""Senders whose messages come exactly once, while daemons change their release, in the simulator.

An earlier release knows no lines: a sender passes over its daemons, and no daemon of a view with
one lets a line go on. `play_upgrade` starts all daemons with it, and replaces one after the other,
as operators do; `play_mixed` goes to and fro, which loses the table of lines.
"""

import attrs

from groupcomm.config.core import CoreConfig
from groupcomm.config.roster import Roster
from groupcomm.config.versions import CARRIED, CROWDS, LINES, LOCALITY, PAUSES, SPOKEN, Versions
from groupcomm.events import MemberId
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.cluster.host import SimulatedHost
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import random_for
from groupcomm.trace.events import Boot, Conf, Release, TraceEvent
from groupcomm.wire.bundle import BundleKind
from tests.groupcomm_client.senders import REST_S, Senders, Session

EARLIER = (
    attrs.evolve(SPOKEN, features=SPOKEN.features & ~LINES),
    attrs.evolve(SPOKEN, features=SPOKEN.features & ~(LINES | LOCALITY | PAUSES | CROWDS)),
    attrs.evolve(SPOKEN, features=SPOKEN.features & ~(LINES | CARRIED)),
    Versions(lowest=SPOKEN.lowest, highest=SPOKEN.lowest),
)
SITES = (2, 2, 1)


class Host(SimulatedHost):
    """A host whose daemons are of a release from their next start on."""

    release = SPOKEN

    @property
    def differs(self) -> bool:
        """Return False: daemons of two releases have the same settings."""
        return False

    def config_of(self, name: str, agreed: Roster | None) -> CoreConfig:
        """Return the configuration of a start, with what its release speaks."""
        return attrs.evolve(super().config_of(name, agreed), versions=self.release)

    @property
    def knows_lines(self) -> bool:
        """Return whether the daemon that runs here is of a release with lines."""
        return bool(self.core.config.versions.features & LINES)


class Upgraded(Cluster):
    """A cluster of such hosts, all of an earlier release at first."""

    def make_host(self, index: int, name: str, site: int) -> SimulatedHost:
        """Return a host."""
        host = Host(self, index, name, site)
        host.release = earlier_of(self.settings.seed)
        return host


def earlier_of(seed: int) -> Versions:
    """Return a release without lines."""
    return random_for(seed, "release").choice(EARLIER)


class PassingSession(Session):
    """A session that ends at a daemon of an earlier release, whose WELCOME has no LINES."""

    def begin(self, me: MemberId) -> None:
        crowd = self.sender.crowd
        assert isinstance(crowd, UpgradedSenders)
        knows = crowd.hosts[self.daemon].knows_lines
        crowd.asked[knows] += 1
        if knows and crowd.rng.random() < 0.05:  # a rude one: an earlier release cannot read that
            self.client.give_up(self.sender.line.id)
        elif knows:
            super().begin(me)
        else:
            self.kill()


class UpgradedSenders(Senders):
    """A cluster with senders and observers whose daemons change their release.

    Attributes:
        asked: how often sessions have begun at daemons without lines, and with them.
    """

    CLUSTER = Upgraded
    SESSION = PassingSession

    def __init__(self, seed: int) -> None:
        self._with_lines: dict[str, bool] = {}  # by the identity of a start
        self._lineless: dict[str, bool] = {}  # by identity: its view has a daemon without lines
        self.asked = [0, 0]
        self._unread = 0
        sites = random_for(seed, "sites").choice(([3], [4], SITES))
        super().__init__(seed, settings=plain_settings(daemons=sites, seed=seed))
        self.run(1.0, 0.0, "none", sends=0.7)

    def record(self, event: TraceEvent) -> None:
        """Check an event, and count lines that daemons of an earlier release could not read."""
        super().record(event)
        if isinstance(event, Boot):
            (host,) = [h for h in self.hosts if h.name == event.p.rpartition("/")[0]]
            self._with_lines[event.p] = bool(host.release.features & LINES)
        elif isinstance(event, Conf) and event.kind == "R":
            members = [member for ring in event.rings for member in ring]
            self._lineless[event.p] = not all(self._with_lines[member] for member in members)
        elif isinstance(event, Release) and event.kind == BundleKind.LINE:
            self._unread += self._lineless[event.p]

    @property
    def hosts(self) -> list[Host]:
        """Return the hosts."""
        return [host for host in self.cluster.daemons if isinstance(host, Host)]

    def change(self, host: Host, release: Versions) -> None:
        """Replace the daemon of a host, which leaves or is killed, by one of a release."""
        if host.process is not None and self.rng.random() < 0.5:
            host.process.leave()
            while not host.is_idle:
                self.run(0.05, 0.0, "none", sends=0.7)
        host.kill()
        host.release = release
        host.boot()

    def until_whole(self) -> None:
        """Send until all daemons are in one view."""
        limit = REST_S
        while not self._is_whole:
            assert limit > 0, "the daemons do not come together"
            self.run(0.05, 0.0, "none", sends=0.7)
            limit -= 0.05

    def check(self) -> int:
        """Wait for all answers, and check what came; return the number of messages."""
        self.finish()
        assert not self._unread, f"an earlier release gets lines: {self._unread}"
        count = self.check_line()
        self.check_observers()
        self.check_trace()
        return count


def play_upgrade(seed: int) -> UpgradedSenders:
    """Replace the daemons of an earlier release one after the other, and then some once more.

    No line goes on before the last one is replaced, whatever sessions ask, and none is in doubt
    then.
    """
    senders = UpgradedSenders(seed)
    for host in senders.rng.sample(senders.hosts, len(senders.hosts)):
        assert not any(sender.sent for sender in senders.senders), "a line goes on too soon"
        senders.change(host, SPOKEN)
        senders.until_whole()
        senders.run(1.0, 2.0, "session cut", sends=0.7)
    assert all(senders.asked), "no daemon without lines was asked, or none with them"
    for host in senders.rng.choices(senders.hosts, k=3):
        senders.change(host, SPOKEN)
        senders.until_whole()
        senders.run(1.0, 2.0, "session cut", sends=0.7)
    assert senders.check() > 20
    assert all(sender.doubt is None for sender in senders.senders)
    return senders


def play_mixed(seed: int) -> UpgradedSenders:
    """Replace daemons by such of any of both releases, while the network is parted."""
    senders, earlier = UpgradedSenders(seed), earlier_of(seed)
    for host in senders.hosts:
        senders.change(host, SPOKEN)
    senders.until_whole()
    for _ in range(8):
        host = senders.rng.choice(senders.hosts)
        senders.change(host, senders.rng.choice((earlier, SPOKEN, SPOKEN)))
        senders.run(1.0, 3.0, "part mend mend session cut", sends=0.7)
    senders.mend()
    for host in senders.hosts:
        if not (host.is_up and host.knows_lines):
            senders.change(host, SPOKEN)
            senders.until_whole()
    senders.check()
    return senders


def play_one_way(seed: int) -> UpgradedSenders:
    """Run one seed of either, in turn."""
    return play_upgrade(seed) if seed % 2 else play_mixed(seed)
