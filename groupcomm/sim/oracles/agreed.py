"""The agreed order: O1, O4 as it goes on; O6 and MG1 at the end, where they can fail."""

from collections import deque
from itertools import combinations, pairwise

from groupcomm.sim.oracles.report import Report
from groupcomm.sim.oracles.world import KEPT, Bundle, Client, Daemon, Item, Position, World
from groupcomm.sim.trace import Deliver, Member, Release


class AgreedOrder:
    """Judges agreed bundles at daemons, AGREED and SAFE messages and views at clients."""

    def __init__(self, report: Report, world: World) -> None:
        self._report = report
        self._world = world
        self._log: list[Bundle] = []  # in the order of their first release

    def released(self, daemon: Daemon, bundle: Bundle, event: Release) -> None:
        """O1 and O4 at a daemon: all daemons release one sequence."""
        log, index = self._log, daemon.agreed
        if bundle < daemon.last and bundle[:3] < daemon.last[:3]:
            self._report.add("O1", f"{daemon} releases {bundle} after {daemon.last}", event)
            self._report.add("O4", f"{daemon} has released {daemon.last} before {bundle}", event)
        else:
            daemon.last = bundle
        if index == len(log):
            log.append(bundle)
        elif log[index] != bundle:
            self._report.add(
                "O4", f"{daemon} releases {bundle} where others released {log[index]}", event
            )
        daemon.agreed = index + 1
        if len(log) > 2 * KEPT:
            self._forget()

    def _forget(self) -> None:
        """Drop the oldest bundles of the log that every daemon has released."""
        daemons = self._world.daemons.values()
        count = min(KEPT, *(daemon.agreed for daemon in daemons))
        del self._log[:count]
        for daemon in daemons:
            daemon.agreed -= count

    def delivered(self, client: Client, item: Item, position: Position, event: Deliver) -> None:
        """O1 at a client, for a message."""
        if position <= client.last_agreed or position <= client.last_view:
            self._report.add(
                "O1",
                f"{client} gets {item} at {position}, after"
                f" {max(client.last_agreed, client.last_view)}",
                event,
            )
        client.last_agreed = position
        client.agreed.append(item)

    def viewed(self, client: Client, position: Position, event: Member) -> None:
        """O1 at a client, for a group view; several groups may change at one position."""
        if position < client.last_agreed or position < client.last_view:
            self._report.add(
                "O1",
                f"{client} gets a view at {position}, after"
                f" {max(client.last_agreed, client.last_view)}",
                event,
            )
        client.last_view = position

    def finish(self) -> None:
        """Positions that rise everywhere, and are the same everywhere, leave no cycle."""
        if self._report.ids.isdisjoint(("O1", "O3")):
            return
        sequences = [
            list(dict.fromkeys(c.agreed)) for c in self._world.clients.values() if c.agreed
        ]
        for one, other in combinations(sequences, 2):
            if not _same_order(one, other):
                self._report.add(
                    "MG1", f"two clients get messages in opposite orders: {one[0]}, {other[0]} ..."
                )
                break
        if _has_cycle(sequences):
            self._report.add("O6", "the clients' orders of AGREED and SAFE messages form a cycle")


def _same_order(one: list[Item], other: list[Item]) -> bool:
    ranks = {item: rank for rank, item in enumerate(one)}
    common = [ranks[item] for item in other if item in ranks]
    return all(before < after for before, after in pairwise(common))


def _has_cycle(sequences: list[list[Item]]) -> bool:
    """Kahn's algorithm over the edges "delivered immediately before"."""
    followers: dict[Item, set[Item]] = {}
    incoming: dict[Item, int] = {}
    for sequence in sequences:
        for item in sequence:
            followers.setdefault(item, set())
            incoming.setdefault(item, 0)
        for before, after in pairwise(sequence):
            if after not in followers[before]:
                followers[before].add(after)
                incoming[after] += 1
    free = deque(item for item, count in incoming.items() if count == 0)
    sorted_items = 0
    while free:
        sorted_items += 1
        for follower in followers[free.popleft()]:
            incoming[follower] -= 1
            if incoming[follower] == 0:
                free.append(follower)
    return sorted_items < len(incoming)
