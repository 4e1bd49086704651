"""The window against datagrams that come twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.security.layout import WINDOW, ReplayWindow

EDGES = [2**31, 2**32, 2**63, 2**64 - 1]


class Model:
    """The same window by definition: all accepted counters, and the distance back."""

    def __init__(self) -> None:
        self.taken: set[int] = set()

    def check(self, counter: int) -> bool:
        return counter not in self.taken and counter > max(self.taken, default=0) - WINDOW

    def accept(self, counter: int) -> None:
        self.taken.add(counter)


NEAR = st.one_of(
    st.integers(0, 3 * WINDOW),
    st.integers(0, 40),
    *[st.integers(edge - 2 * WINDOW, edge) for edge in EDGES],
)


@given(counters=st.lists(NEAR, max_size=40), first=NEAR)
def test_each_counter_is_taken_once(counters: list[int], first: int) -> None:
    window, model = ReplayWindow(), Model()
    for counter in [first, *counters, first + 1, *counters]:
        assert window.check(counter) == model.check(counter)
        if model.check(counter):
            window.accept(counter)
            model.accept(counter)


@pytest.mark.parametrize("start", [0, 1, WINDOW, *EDGES[:3]])
def test_the_window_is_exactly_so_long(start: int) -> None:
    window = ReplayWindow()
    highest = start + WINDOW
    window.accept(highest)
    assert window.check(highest - WINDOW + 1)
    assert not window.check(highest - WINDOW)
    assert not window.check(highest)
    assert window.check(highest + 1)


@pytest.mark.parametrize("step", [1, 2, WINDOW - 1, WINDOW, WINDOW + 1, 2**40])
def test_a_step_ahead_forgets_only_what_falls_out(step: int) -> None:
    window = ReplayWindow()
    window.accept(10_000)
    window.accept(10_000 + step)
    assert not window.check(10_000)
    assert not window.check(10_000 + step)
    assert window.check(10_000 + step - 1) == (step > 1)


def test_a_check_changes_nothing() -> None:
    window = ReplayWindow()
    window.accept(5)
    assert window.check(2**64 - 1)
    assert window.check(6)
    window.accept(6)
    assert window.check(4)


def test_the_window_does_not_grow() -> None:
    window = ReplayWindow()
    for counter in range(0, 20 * WINDOW, WINDOW - 1):
        window.accept(counter)
    assert window._seen.bit_length() <= WINDOW
