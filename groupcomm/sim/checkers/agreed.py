"""The agreed order: O1, O4 as it goes on; O6 and MG1 at the end, where they can fail."""

from bisect import bisect_left
from collections import deque
from heapq import heappop, heappush
from itertools import combinations, pairwise
from typing import Final

from groupcomm.sim.checkers.records import Bundle, Client, Item, Position
from groupcomm.sim.checkers.report import Report
from groupcomm.sim.checkers.views import Stay, View
from groupcomm.sim.checkers.world import World
from groupcomm.trace.events import Deliver, Member, Release

KEPT: Final = 50_000
"""So many bundles that all daemons of a view have released are remembered."""


class AgreedOrder:
    """Checks agreed bundles at daemons, AGREED and SAFE messages and views at clients."""

    def __init__(self, report: Report, world: World) -> None:
        self._report = report
        self._world = world

    def released(self, stay: Stay, bundle: Bundle, event: Release) -> None:
        """O1 and O4 at a daemon: in the regular part all daemons release one sequence."""
        view = stay.view
        if not stay.part.regular:
            self._released_late(stay, bundle, event)
            return
        log, index = view.log, stay.agreed
        if bundle < stay.last and bundle[:3] < stay.last[:3]:
            self._report.add("O1", f"{stay} releases {bundle} after {stay.last}", event)
            self._report.add("O4", f"{stay} has released {stay.last} before {bundle}", event)
        else:
            stay.last = bundle
        if index == len(log):
            log.append(bundle)
            if view.beyond:
                self._pass(stay, bundle, event)
        elif log[index] != bundle:
            self._report.add(
                "O4", f"{stay} releases {bundle} where others released {log[index]}", event
            )
        stay.agreed = index + 1
        if len(log) > 2 * KEPT:
            _forget(view)

    def _pass(self, stay: Stay, bundle: Bundle, event: Release) -> None:
        """What others have released below, in transitional parts, is missing here."""
        beyond = stay.view.beyond
        while beyond and beyond[0] <= bundle:
            other = heappop(beyond)
            if other[:3] < bundle[:3]:
                text = f"{stay} releases {bundle}, and others have released {other}"
                self._report.add("O4", text, event)

    def _released_late(self, stay: Stay, bundle: Bundle, event: Release) -> None:
        """In the transitional part there may be holes, as long as nobody passes them before it."""
        view = stay.view
        log, index = view.log, stay.agreed
        if bundle < stay.last and bundle[:3] < stay.last[:3]:
            self._report.add("O1", f"{stay} releases {bundle} after {stay.last}", event)
        else:
            stay.last = bundle
        if index < len(log) and log[index] == bundle:
            stay.agreed = index + 1
        elif not log or bundle[:3] > log[-1][:3]:
            if bundle not in view.known_beyond:
                view.known_beyond.add(bundle)
                heappush(view.beyond, bundle)
        else:
            at = bisect_left(log, bundle)
            if (at == len(log) or log[at] != bundle) and bundle[:3] < log[-1][:3]:
                text = f"{stay} releases {bundle}, which others have passed"
                self._report.add("O4", text, event)

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


def _forget(view: View) -> None:
    """Drop the oldest bundles of the log that every daemon has released."""
    count = min(KEPT, *(stay.agreed for stay in view.stays.values()))
    del view.log[:count]
    for stay in view.stays.values():
        stay.agreed -= count


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
