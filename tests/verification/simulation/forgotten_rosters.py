"""Rosters that a damaged disk may forget, and how long operators wait then.

A daemon promises to keep a roster, so the roster relies on disks (docs/roster.md): after one was
lost, the daemon has to meet the others before anybody changes the roster again. A simulated disk
therefore forgets rosters only while none is under way and no other disk has forgotten any, and the
operator changes nothing until its daemon has the roster again. At other moments the file of the
rosters survives, and only the record of starts is damaged.
"""

from collections.abc import Sequence
from typing import Final

from groupcomm.config.roster import Roster, RosterRecord
from tests.verification.simulation.host import VerificationHost

LEAST_COUNTED: Final = 2
"""The fewest daemons that count in a roster that a disk may go back to: a daemon alone must have no
majority by it."""


class ForgottenRosters:
    """The watch over disks that forget rosters.

    Args:
        hosts: all hosts.
        first: the names of the daemons that configuration files list.
    """

    def __init__(self, hosts: Sequence[VerificationHost], first: Sequence[str]) -> None:
        self._hosts = hosts
        self._first = first
        self._forgetful: VerificationHost | None = None  # its disk has forgotten the latest roster
        self._latest: Roster | None = None

    def restore(self, host: VerificationHost, kept: RosterRecord) -> None:
        """Give a damaged disk its rosters back, unless it may forget them.

        Args:
            host: a host without a daemon, whose disk was damaged just now.
            kept: the rosters that the disk held before.
        """
        latest = kept.agreed
        if latest is not None and self._may_forget(host, kept, latest):
            self._forgetful, self._latest = host, latest
        else:
            host.disk.rosters = kept

    def _may_forget(self, host: VerificationHost, kept: RosterRecord, latest: Roster) -> bool:
        left = host.disk.rosters
        if left == kept or self.is_waiting or not self._is_settled(kept):
            return False
        if left.agreed is None:
            return self._may_start_with_file(host, latest)
        return _may_go_back(host, left.agreed)

    @property
    def is_waiting(self) -> bool:
        """Return whether a daemon has not learned again what its disk has forgotten."""
        host, latest = self._forgetful, self._latest
        if host is not None and latest is not None:
            agreed = host.disk.rosters.agreed
            if agreed is not None and (agreed.id == latest.id or agreed.supersedes(latest)):
                self._forgetful = None
        return self._forgetful is not None

    def _is_settled(self, kept: RosterRecord) -> bool:
        """Return whether all disks hold the same roster, without a change under way."""
        latest = kept.agreed
        if latest is None or not all(entry.counts for entry in latest.entries):
            return False
        listed = [host for host in self._hosts if latest.entry(host.name) is not None]
        stored = (kept, *(host.disk.rosters for host in listed if host.process is not None))
        if any(record.pending is not None or record.agreed != latest for record in stored):
            return False
        up = [host for host in self._hosts if host.process is not None]
        return len(up) == len(listed) - 1 and not any(
            host.core.roster_manager.is_changing for host in up
        )

    def _may_start_with_file(self, host: VerificationHost, latest: Roster) -> bool:
        """Return whether its configuration file lists it, and another one that can tell it."""
        known = {name for name in self._first if name != host.name and latest.entry(name)}
        return host.name in self._first and bool(known)


def _may_go_back(host: VerificationHost, old: Roster) -> bool:
    counted = sum(entry.counts for entry in old.entries)
    return old.entry(host.name) is not None and counted >= LEAST_COUNTED
