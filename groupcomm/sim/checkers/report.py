"""What the checkers found."""

import attrs

from groupcomm.trace.events import TraceEvent

MAX_VIOLATIONS = 100
"""A run that breaks one promise breaks many; the first ones tell the story."""


@attrs.frozen
class Violation:
    """One property that does not hold.

    Attributes:
        property: its id in docs/properties.md.
        text: what is wrong, in one sentence.
        events: the events that prove it, the last one first.
    """

    property: str
    text: str
    events: tuple[TraceEvent, ...] = ()

    def __str__(self) -> str:
        return f"{self.property}: {self.text}"


class Report:
    """Collects violations.

    Attributes:
        violations: the first MAX_VIOLATIONS, in the order in which they were found.
        ids: the ids of all properties that were violated.
    """

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.ids: set[str] = set()

    def add(self, property_id: str, text: str, *events: TraceEvent) -> None:
        """Note one violation; the first of each property is always kept."""
        if property_id not in self.ids or len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(Violation(property_id, text, events))
        self.ids.add(property_id)
