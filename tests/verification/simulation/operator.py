"""An operator who changes the roster of a simulated cluster, whatever else goes wrong."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import reduce
from random import Random
from typing import Final

from groupcomm.config.core import shortest_paths
from groupcomm.config.roster import (
    AddDaemon,
    MoveDaemon,
    RemoveDaemon,
    RemoveLinks,
    Roster,
    RosterChange,
    RosterRecord,
    SetLinks,
)
from groupcomm.config.site_links import pair_of_sites
from groupcomm.config.votes import Policy, SetPolicy, SetVotes
from groupcomm.engine import ChangeRoster
from groupcomm.errors import LocalProtocolError
from groupcomm.sim.network.links import SimulatedLink, joined
from groupcomm.sim.virtual_time import SECOND, Loop, microseconds
from tests.verification.simulation.forgotten_rosters import ForgottenRosters
from tests.verification.simulation.host import VerificationHost

CHANGE_US: Final = 2 * SECOND // 3
"""The mean time between two changes, microseconds."""

LOOK_US: Final = SECOND // 20
"""The time after which an operator looks whether a daemon was added, and starts it."""

MOVE_SHARE: Final = 0.15

VOTES_SHARE: Final = 0.5
"""The share of changes that concern votes and policy, in runs with such changes."""

STOP_SHARE: Final = 0.4
"""The share of times at which the operator stops a daemon in order instead, in such runs."""

STOPPED_US: Final = 2 * SECOND
"""The longest time for which it is stopped, microseconds."""

LINK_SHARE: Final = 0.2
"""The share of changes that concern links, where there are several sites."""

FORGETFUL_SHARE: Final = 0.1
"""The share of daemons in a new site for which the operator gives no link; the core refuses."""

FORCING_SHARE: Final = 0.4
"""The share of runs in which the operator forces changes without a majority."""

LONGER: Final = 1.5
"""The operator gives links at most so many times the delay that they have."""

DISTURBED_SHARE: Final = 0.6
"""The share of changes that a fault follows before they can be over, in runs with such faults."""

DISTURBED_US: Final = SECOND // 5
"""The time within which it follows, microseconds: about as long as the slowest write."""

OUTAGE_SHARE: Final = 0.15
"""The share of rosters at whose first use all other daemons lose their power, in such runs."""

OUTAGE_US: Final = 3 * SECOND
"""The time for which the daemon that has used the roster is paused then, microseconds."""

BACK_US: Final = SECOND // 10
"""The time after which the others start again."""

LEAST: Final = 2
"""The operator removes no daemon of a roster that has no more than this number."""


class Operator:
    """One operator.

    In runs with forced changes one daemon is never removed: two parts that removed each other
    would not hear each other any more.

    Args:
        loop: virtual time.
        rng: the random source of times and changes.
        hosts: all hosts, spare ones included.
        links: the links that the sites really have.
        faults: each causes a fault that breaks views; a change is a good moment for one.
        first: the names of the daemons that configuration files list.
        votes: whether votes and policy change, too; then nothing is forced.

    Attributes:
        asked: the number of changes that a daemon has accepted.
        refused: the number of those that it has not.
        forced: the number of accepted ones that needed no majority.
        given_up: the ids of rosters that no running daemon could learn any more.
    """

    def __init__(
        self,
        loop: Loop,
        rng: Random,
        hosts: Sequence[VerificationHost],
        links: Sequence[SimulatedLink],
        faults: Sequence[Callable[[], None]],
        first: Sequence[str],
        *,
        votes: bool = False,
    ) -> None:
        self._loop = loop
        self._faults = faults
        self._rng, self._votes = rng, votes
        self._hosts = hosts
        self._by_name = {host.name: host for host in hosts}
        self._pairs = [link.sites for link in links]
        lengths = {link.sites: link.delay_s + link.jitter_s for link in links}
        self._ways = shortest_paths(sorted({host.site for host in hosts}), lengths)
        self._forces = rng.random() < FORCING_SHARE and not votes
        self._stays = next(host.name for host in hosts if not host.is_spare)
        self._running = self._looking = False
        self.asked = self.refused = self.forced = 0
        self.given_up = set[bytes]()
        self._forgotten = ForgottenRosters(hosts, first)
        for host in hosts:
            host.on_forgotten = self._forgotten.restore

    def start(self, faults: Sequence[Callable[[], None]] | None = None) -> None:
        """Change the roster again and again from now on.

        Args:
            faults: what to do at good moments for a fault from now on; None for what it was.
        """
        if faults is not None:
            self._faults = faults
        self._running = True
        self._loop.at(self._loop.now + self._rng.randrange(2 * CHANGE_US), self._change)
        if not self._looking:
            self._looking = True
            self._look(None)

    def stop(self) -> None:
        """Change nothing any more; daemons that are added late are still started."""
        self._running = False

    def rest(self) -> None:
        """Do nothing at all until the next start: all daemons that were added run."""
        self._running = self._looking = False

    # ---- changes ----

    def _change(self, _: object) -> None:
        if not self._running:
            return
        self._loop.at(self._loop.now + 1 + self._rng.randrange(2 * CHANGE_US), self._change)
        self._change_once(None)

    def _change_once(self, _: object) -> None:
        up = [host for host in self._hosts if host.is_up]
        host = self._rng.choice(up) if up and self._running else None
        if self._forgotten.is_waiting:
            return
        if host is None or host.process is None:
            return
        if self._votes and self._rng.random() < STOP_SHARE:
            host.process.leave()
            back_us = self._loop.now + 1 + self._rng.randrange(STOPPED_US)
            self._loop.at(back_us, lambda _: None if host.is_spare else host.boot())
            return
        wanted = self._draw(host.core.config.roster)
        if wanted is None:
            return
        may_force = self._forces and wanted != RemoveDaemon(host.name)
        if not self._ask(host, ChangeRoster(change=wanted)) and not (
            may_force and self._ask(host, ChangeRoster(change=wanted, forced=True))
        ):
            self.refused += 1
            return
        self.asked += 1
        host.process.wake()
        if self._faults and self._rng.random() < DISTURBED_SHARE:
            soon = self._loop.now + 1 + self._rng.randrange(DISTURBED_US)
            self._loop.at(soon, self._disturb)

    def _ask(self, host: VerificationHost, command: ChangeRoster) -> bool:
        try:
            host.core.command(command)
        except LocalProtocolError:
            return False
        self.forced += command.forced
        return True

    def _disturb(self, _: object) -> None:
        if self._running:
            self._rng.choice(self._faults)()

    def _draw(self, roster: Roster) -> RosterChange | None:
        rng = self._rng
        if self._votes and rng.random() < VOTES_SHARE:
            return self._draw_votes(roster)
        if len(roster.sites) > 1 and rng.random() < LINK_SHARE:
            return self._draw_links(roster)
        absent = [host for host in self._hosts if roster.entry(host.name) is None]
        removable = [name for name in roster.names if self._may_remove(name, roster)]
        if rng.random() < MOVE_SHARE:
            name = rng.choice(roster.names)
            return MoveDaemon(name, (f"{name}.example:{rng.randrange(1, 65536)}",))
        if absent and (rng.random() < 0.5 or not removable):
            return self._draw_addition(rng.choice(absent), roster)
        if removable and len(roster.names) > LEAST:
            return RemoveDaemon(rng.choice(removable))
        return None

    def _may_remove(self, name: str, roster: Roster) -> bool:
        """Return whether the sites still reach each other without a daemon."""
        left = {self._by_name[other].site for other in roster.names if other != name}
        if not left or (self._forces and name == self._stays):
            return False
        return joined(left, self._pairs, min(left)) == left

    def _draw_addition(self, host: VerificationHost, roster: Roster) -> AddDaemon:
        site = str(host.site + 1)
        links: list[tuple[str, int]] = []
        if site not in roster.sites and self._rng.random() >= FORGETFUL_SHARE:
            others = list(roster.sites)
            for other in self._rng.sample(others, self._rng.randint(1, len(others))):
                links.append((other, self._draw_delay_us(site, other)))
        return AddDaemon(name=host.name, site=site, links=tuple(links))

    def _draw_votes(self, roster: Roster) -> RosterChange:
        """Return a change of votes or policy."""
        rng = self._rng
        if roster.policy != Policy() and rng.random() < 0.7:
            return SetVotes(rng.choice(roster.names), rng.choice((0, 1, 1, 1, 2, 3)))
        breaker = rng.choice(("", *roster.names))
        return SetPolicy(Policy(orderly=rng.random() < 0.9, tie_breaker=breaker))

    def _draw_links(self, roster: Roster) -> RosterChange:
        """Return a change of links; the core refuses to remove one that is needed."""
        if len(roster.links) > 1 and self._rng.random() < 0.5:
            return RemoveLinks((self._rng.choice(roster.links)[:2],))
        pair = pair_of_sites(*self._rng.sample(list(roster.sites), 2))
        return SetLinks(((*pair, self._draw_delay_us(*pair)),))

    def _draw_delay_us(self, one: str, other: str) -> int:
        """Return a delay that is not below the real one: daemons wait that long for answers."""
        real_s = self._ways[int(one) - 1, int(other) - 1]
        return 1 + microseconds(real_s * self._rng.uniform(1.0, LONGER))

    # ---- the first use of a roster ----

    def on_first_use(self, process: str) -> None:
        """Sometimes have all other daemons lose their power as soon as one daemon uses a roster.

        They have to complete the change although that daemon is not heard for a while.
        """
        if self._running and self._faults and self._rng.random() < OUTAGE_SHARE:
            self._loop.at(self._loop.now, self._begin_outage, process)

    def _begin_outage(self, process: str) -> None:
        alone = self._by_name[process.partition("/")[0]]
        if alone.process is None or alone.process.name != process:
            return
        alone.process.pause(self._loop.now + OUTAGE_US)
        for host in self._hosts:
            if host is not alone and not host.is_idle:
                host.kill()
                self._loop.at(self._loop.now + BACK_US, host.boot_now)
        for share in (2, 3):
            self._loop.at(self._loop.now + OUTAGE_US * share // 4, self._change_once)

    # ---- daemons that were added ----

    def help_strangers(self) -> None:
        """Help daemons that cannot learn the roster of the others any more.

        All that such a daemon knew were removed, while it was away or by forced changes, so it and
        the others do not hear each other. If the roster of the others has it, it starts again with
        that one; else it is stopped. After forced changes the others may have forgotten a daemon
        that knows them, or list one that has ended: its disk says that it was removed, by a change
        that they have lost. Only then are these helped, too.
        """
        if any(host.process is None and not host.is_idle for host in self._hosts):
            return  # it may be the one that another daemon knows
        latest = self._commonest() if self.forced else _latest(self._used())
        if latest is None:
            return
        lost = self._lost(latest)
        for host in self._hosts:
            listed = latest.entry(host.name) is not None
            if host.process is None:
                roster = host.disk.rosters.agreed
                is_strange = self.forced and listed and host.is_spare and host.is_idle
            else:
                roster = host.core.config.roster
                is_strange = host.name in lost or (self.forced and not listed)
            if is_strange:
                self._help(host, roster, latest if listed else None)

    def _lost(self, latest: Roster) -> set[str]:
        """Return the running daemons that no running daemon can tell a roster, also over others.

        A daemon sends to those of its roster, and hears these and former ones: they may have to
        learn from it. But none of a site that is no neighbour, whatever links a roster has.
        """
        running = {host.name: host.core.config for host in self._hosts if host.process is not None}
        hears = {
            (name, other)
            for name, config in running.items()
            for other, sender in running.items()
            if self._reach(name, other) and name in sender.daemons
            if other in config.daemons or other in config.former
        }
        known = {
            name: {other for other in running if {(name, other), (other, name)} & hears}
            for name in running
        }
        lost = {name for name, config in running.items() if config.roster.id != latest.id}
        while reached := {name for name in lost if known[name] & (running.keys() - lost)}:
            lost -= reached
        return lost

    def _reach(self, one: str, other: str) -> bool:
        """Return whether two daemons are in one site or in neighbouring ones."""
        sites = sorted({self._by_name[one].site, self._by_name[other].site})
        return len(sites) == 1 or tuple(sites) in self._pairs

    def _help(self, host: VerificationHost, roster: Roster | None, better: Roster | None) -> None:
        """Give up the roster of a daemon: it starts with a better one, or is stopped."""
        if roster is not None:
            self.given_up.add(roster.id)
        if host.process is not None:
            host.kill()
        if better is not None:
            self._start_with(host, better)
        else:
            host.is_spare = True

    def _start_with(self, host: VerificationHost, roster: Roster) -> None:
        """Start a daemon whose disk has this roster from now on."""
        host.is_spare, host.disk.rosters = False, RosterRecord(agreed=roster)
        host.boot()

    def _used(self) -> list[Roster]:
        """Return the roster of each running daemon."""
        return [host.core.config.roster for host in self._hosts if host.process is not None]

    def _commonest(self) -> Roster | None:
        """Return the roster that most running daemons use, or None; of several the latest."""
        rosters = self._used()
        counts = Counter(roster.id for roster in rosters)
        most = max(counts.values(), default=0)
        return _latest([roster for roster in rosters if counts[roster.id] == most])

    def _look(self, _: object) -> None:
        """Start the daemons that were added, each with a roster that has it.

        Its disk holds that roster unless it holds a later one: a daemon that was removed there.
        """
        if not self._looking:
            return
        self._loop.at(self._loop.now + LOOK_US, self._look)
        latest = _latest(self._used())
        if latest is None:
            return
        for name in latest.names:
            added = self._by_name[name]
            known = added.disk.rosters.agreed
            if not (added.is_spare and added.is_idle):
                continue
            if known is None or known.id == latest.id or latest.supersedes(known):
                self._start_with(added, latest)


def _latest(rosters: Sequence[Roster]) -> Roster | None:
    """Return the roster that supersedes all others; None if there is none at all."""
    if not rosters:
        return None
    return reduce(lambda one, other: other if other.supersedes(one) else one, rosters)
