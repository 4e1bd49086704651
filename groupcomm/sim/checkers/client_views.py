"""What clients that come along with each other get between two views of a group: V2."""

from collections import deque
from typing import Final

from groupcomm.sim.checkers.records import Client, Item, Position
from groupcomm.sim.checkers.report import Report
from groupcomm.trace.events import Member

KEPT: Final = 50_000
"""So many pairs of views are remembered."""

_CAUSAL, _AGREED = 3, 4

Key = tuple[str, Position, Position, str]
"""Group, the positions of two views of it that follow each other somewhere, and the view of daemons
behind the transitional part in which the second was shown; empty if that was in a regular part."""

Entry = tuple[str, int, int]
"""A client, and hashes over the agreed and the CAUSAL messages that it got between the views."""


class ClientViews:
    """Checks what clients get from one view of a group to the next, by hashes over sets."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._entries: dict[Key, dict[tuple[str, ...], tuple[frozenset[str], list[Entry]]]] = {}
        self._order: deque[Key] = deque()

    def sent(self, client: Client, item: Item) -> None:
        """Note of a CAUSAL message which views its sender has seen."""
        if item.level == _CAUSAL:
            group_at = client.group_at
            item.seen = tuple([group_at.get(group) for group in item.to])

    def delivered(self, client: Client, item: Item) -> None:
        """A client gets a message at CAUSAL or above that it is owed."""
        if item.discard or item.count > 1:
            return
        if item.level >= _AGREED:
            since = client.since
            for group in item.to:
                if group in since:
                    since[group] ^= item.mark
        elif item.seen is not None:
            group_at = client.group_at
            for group, seen in zip(item.to, item.seen, strict=True):
                if seen is not None and group_at.get(group) == seen:
                    client.causal_since[group] = client.causal_since.get(group, 0) ^ item.mark

    def viewed(self, client: Client, position: Position, event: Member) -> None:
        """A client is shown a group."""
        group = event.group
        before = client.group_at.get(group)
        agreed = client.since.get(group, 0)
        causal = client.causal_since.pop(group, 0)
        client.group_at[group] = position
        client.since[group] = 0
        if before is None or client.identity not in event.vs:
            return
        if event.cause != "network":
            causal = 0
        stage = client.stage
        next_ = "" if stage is None or stage.regular else stage.stay.next
        key = (group, before, position, next_)
        classes = self._entries.get(key)
        if classes is None:
            classes = self._entries[key] = {}
            self._order.append(key)
            if len(self._order) > KEPT:
                del self._entries[self._order.popleft()]
        own = classes.get(event.vs)
        if own is None:
            own = classes[event.vs] = (frozenset(event.vs), [])
        entry = (client.identity, agreed, causal)
        self._compare(entry, own[0], classes, event)
        own[1].append(entry)

    def _compare(
        self,
        entry: Entry,
        vs: frozenset[str],
        classes: dict[tuple[str, ...], tuple[frozenset[str], list[Entry]]],
        event: Member,
    ) -> None:
        for theirs, entries in classes.values():
            if entry[0] not in theirs:
                continue
            others = entries[:1] if theirs is vs else entries
            for other in others:
                if other[0] in vs and other[1:] != entry[1:]:
                    text = f"{entry[0]} and {other[0]} got different messages before this view"
                    self._report.add("V2", text, event)
                    return
