"""Records of members of a flushed group, and the check of the layer's guarantees.

A *passage* of a member is a view, its messages in it, and the next view.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from groupcomm_client.spread_api import AGREED_MESS, SAFE_MESS

Event = Mapping[str, Any]
Name = tuple[str, int]
"""A message: its sender, and its number there."""


@attrs.define
class Passage:
    """One view at one member.

    Attributes:
        view: the identity of the view.
        members: all its members, in order.
        together: the members that came to it from the previous view with this member.
        before: the view that this member came from; empty if it has just joined.
        got: the received messages, in order.
        agreed: the messages among them that have an agreed order.
        sent: the numbers of its own messages.
        after: the view that it came to from here; empty if it has seen none.
    """

    view: str
    members: tuple[str, ...]
    together: frozenset[str]
    before: str = ""
    got: list[Name] = attrs.field(factory=list)
    agreed: list[Name] = attrs.field(factory=list)
    sent: list[int] = attrs.field(factory=list)
    after: str = ""


class Checker:
    """Checks the records of all members.

    Attributes:
        violations: the violations, as sentences.
        passages: the passages of each member, by view.
    """

    def __init__(self, records: Mapping[str, Sequence[Event]]) -> None:
        """Check.

        Args:
            records: the records of each member, by its private name; no two members use one name.
        """
        self.violations: list[str] = []
        self.passages: dict[str, dict[str, Passage]] = {}
        for name, events in records.items():
            self.passages[name] = self._follow(name, events)
        for view, here in self._views().items():
            self._check_view(view, here)

    @property
    def views(self) -> int:
        """Return the number of different views."""
        return len(self._views())

    @property
    def deliveries(self) -> int:
        """Return the number of messages, at all members."""
        return sum(len(p.got) for seen in self.passages.values() for p in seen.values())

    def _views(self) -> dict[str, dict[str, Passage]]:
        found: dict[str, dict[str, Passage]] = defaultdict(dict)
        for name, seen in self.passages.items():
            for view, passage in seen.items():
                found[view][name] = passage
        return found

    # ---- one member ----

    def _follow(self, name: str, events: Iterable[Event]) -> dict[str, Passage]:
        """Return its passages; whether each message came in the view in which it was sent, and
        once."""
        found: dict[str, Passage] = {}
        now: Passage | None = None
        times: Counter[Name] = Counter()
        for event in events:
            if event["what"] == "view":
                before = now
                now = Passage(event["view"], tuple(event["members"]), frozenset(event["together"]))
                self._check(now.view not in found, f"{name} came to view {now.view} twice")
                found[now.view] = now
                if before is not None:
                    before.after, now.before = now.view, before.view
                self._check(name in now.together, f"{name} is not together with itself in {now}")
            elif event["what"] == "left":
                now = None
            elif event["what"] == "sent":
                found[event["view"]].sent.append(event["number"])
            else:
                self._got(name, now, event)
                times[event["sender"], event["number"]] += 1
        self._check_all(f"{name} got {m} {n} times" for m, n in times.items() if n > 1)
        return found

    def _got(self, name: str, now: Passage | None, event: Event) -> None:
        message = event["sender"], event["number"]
        here = now.view if now is not None else "no view"
        self._check(
            now is not None and event["view"] == now.view,
            f"{name} got {message} in {here}; it was sent in {event['view']}",
        )
        if now is not None:
            now.got.append(message)
            if event["level"] in (AGREED_MESS, SAFE_MESS):
                now.agreed.append(message)

    # ---- one view, at all its members ----

    def _check_view(self, view: str, here: Mapping[str, Passage]) -> None:
        same = {passage.members for passage in here.values()}
        self._check(len(same) == 1, f"view {view} has different members: {same}")
        for name, passage in here.items():
            self._check_senders(name, passage, here)
        for (one, first), (other, second) in itertools.combinations(here.items(), 2):
            self._check_order(one, first, other, second)
            if first.after and first.after == second.after:
                self._check_together(one, first, other, second)

    def _check_senders(self, name: str, passage: Passage, here: Mapping[str, Passage]) -> None:
        """Check that each member's messages have no gap, and that all its own are there if it goes
        on."""
        numbers: dict[str, list[int]] = defaultdict(list)
        for sender, number in passage.got:
            numbers[sender].append(number)
        for sender, got in numbers.items():
            sent = here[sender].sent if sender in here else []
            self._check(
                got == sent[: len(got)],
                f"{name} got {got} of {sender} in {passage.view}, which sent {sent}",
            )
        own = numbers[name]
        self._check(
            not passage.after or own == passage.sent,
            f"{name} went on from {passage.view} with {own} of its own {passage.sent}",
        )

    def _check_together(self, one: str, first: Passage, other: str, second: Passage) -> None:
        """Both went on to the same view: if together they got the same, and both know of it.

        Daemons that lose each other and meet again within one change come to the same view by
        different transitional ones (Moser et al. 1994), and their members are not together.
        """
        after = first.after
        knows = [
            peer in self.passages[name][after].together
            for name, peer in ((one, other), (other, one))
        ]
        if not any(knows):
            return
        self._check(
            all(knows),
            f"of {one} and {other}, only one came to {after} without the other one",
        )
        odd = sorted(set(first.got) ^ set(second.got))
        self._check(not odd, f"of {one} and {other}, only one got {odd} in {first.view}")

    def _check_order(self, one: str, first: Passage, other: str, second: Passage) -> None:
        both = set(first.agreed) & set(second.agreed)
        a = [message for message in first.agreed if message in both]
        b = [message for message in second.agreed if message in both]
        self._check(a == b, f"{one} and {other} disagree about the order in {first.view}")

    # ---- inside ----

    def _check(self, good: bool, otherwise: str) -> None:
        if not good:
            self.violations.append(otherwise)

    def _check_all(self, violations: Iterable[str]) -> None:
        self.violations += violations
