"""Marks: WIDE before a right can be granted, NARROW once nobody of another ring has one."""

from hypothesis import example, given
from hypothesis import strategies as st

from groupcomm.groups.marks import Marks, ReportedFrontier
from groupcomm.order.horizons import Blocks
from groupcomm.wire.bundle import Bundle, BundleKind

RING, NAMES = (0, 1), ["a", "c", "b", "d"]
CLOCK = 5
HELD = 2**40
"""Up to this time the daemon itself holds everything."""


class First:
    """The first daemon of a ring; what it submits gets a number when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Bundle] = []
        self.stream: list[tuple[int, str]] = []
        self.marks = Marks(RING, NAMES, self.waiting.append, CLOCK)
        blocks = Blocks(1, CLOCK, lambda *_: None)
        blocks.announce(0, HELD, 0, 0)
        self.reported = ReportedFrontier(blocks, self.marks)
        assert self.reported.least == CLOCK, "what it does not know yet may demand a mark"
        self.marks.begin()

    def number(self) -> None:
        one = self.waiting.pop(0)
        self.stream.append((one.kind, one.groups[0]))
        if one.kind == BundleKind.WIDE:
            self.marks.numbered()

    def is_wide(self, name: str) -> bool:
        """Return whether a name is wide, by the stream."""
        marks = [kind for kind, other in self.stream if other == name]
        return bool(marks) and marks[-1] == BundleKind.WIDE


ASKS = st.tuples(st.just("ask"), st.integers(0, 3), st.sampled_from(["g", "h", "#u#a", "#u#b"]))
ENDS = st.tuples(st.just("end"), st.integers(0, 3), st.sampled_from(["g", "h", "#u#a", "#u#b"]))
NUMBERS = st.tuples(st.just("number"), st.just(0), st.just(""))


@given(st.lists(st.one_of(ASKS, ENDS, NUMBERS), max_size=30))
@example(
    [
        ("ask", 2, "g"),
        ("ask", 0, "g"),
        ("number", 0, ""),
        ("ask", 3, "g"),
        ("end", 2, "g"),
        ("number", 0, ""),
    ]
)
def test_no_frontier_passes_a_request_before_the_mark_that_it_demands_has_a_number(
    steps: list[tuple[str, int, str]],
) -> None:
    first = First()
    rights: dict[str, dict[int, int]] = {}  # by name and daemon, the stamp that asks for it
    for time, (what, daemon, name) in enumerate(steps, CLOCK + 1):
        if what == "ask":
            rights.setdefault(name, {}).setdefault(daemon, time)
            first.marks.subscribe(daemon, name, time)
        elif what == "end":
            rights.setdefault(name, {}).pop(daemon, None)
            first.marks.unsubscribe(daemon, name)
        elif first.waiting:
            first.number()
        for other, stamps in rights.items():
            has = any(one in RING for one in stamps) or other == "#u#a"
            outside = [one for one in stamps if one not in RING]
            if has and outside and not first.is_wide(other):
                latest = max(stamps.values())
                assert first.reported.least < latest, f"{other} may be granted without a mark"
    while first.waiting:
        first.number()
    assert first.reported.least == HELD, "nothing is owed"
    for name, stamps in rights.items():
        if all(one in RING for one in stamps):
            assert not first.is_wide(name), f"{name} stays wide though no other ring has a right"
