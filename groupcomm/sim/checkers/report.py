"""The report of the checkers: violations."""

import attrs

from groupcomm.trace.events import TraceEvent

MAX_VIOLATIONS = 100
"""The most violations that are kept: the first ones show the cause of all."""


@attrs.frozen
class Violation:
    """A property that does not hold.

    Attributes:
        property: its id in docs/properties.md.
        text: the fault, in one sentence.
        events: the events that prove it, the last one first.
    """

    property: str
    text: str
    events: tuple[TraceEvent, ...] = ()

    def __str__(self) -> str:
        return f"{self.property}: {self.text}"


class Report:
    """A collection of violations.

    Attributes:
        violations: the first MAX_VIOLATIONS, in the order in which they were found.
        ids: the ids of all properties that were violated.
    """

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.ids: set[str] = set()

    def add(self, property_id: str, text: str, *events: TraceEvent) -> None:
        """Add a violation; the first one of each property is always kept."""
        if property_id not in self.ids or len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(Violation(property_id, text, events))
        self.ids.add(property_id)
