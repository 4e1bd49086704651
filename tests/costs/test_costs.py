"""A change that makes a message dearer is seen, on whatever machine."""

import attrs
import pytest

from groupcomm.level import ServiceLevel
from tests.costs.lone import Touched, touched_by
from tests.costs.measure import Load, measure
from tests.costs.table import KEPT, PYTHON, name_of, python_recorded, read_recorded

PART = 0.05
"""The deviation from the record that a figure may have, as a share."""

LEAST = 0.05
"""The deviation in steps or datagrams that is always allowed: some happen once in a while."""


MANY = 1000
"""To count the calls of more messages a second takes seconds; fewer take the same way."""


@pytest.mark.parametrize(
    "load",
    [pytest.param(load, marks=[pytest.mark.long] * (load.rate > MANY)) for load in KEPT],
    ids=name_of,
)
def test_a_message_costs_what_is_written_down(load: Load) -> None:
    """After a change that is meant: `python -m tests.costs.table --record`."""
    found, recorded = attrs.asdict(measure(load)), attrs.asdict(read_recorded()[name_of(load)])
    if python_recorded() != PYTHON:
        del recorded["calls"]  # the calls differ from release to release
    for name, value in recorded.items():
        assert found[name] == pytest.approx(value, rel=PART, abs=LEAST), name


def test_what_is_written_down_is_what_is_looked_at() -> None:
    assert list(read_recorded()) == [name_of(load) for load in KEPT]


def test_a_lone_message_finds_little_to_do() -> None:
    """What is at rest costs nothing: a bound for what every later feature adds to each message."""
    found = touched_by(ServiceLevel.AGREED)
    most = Touched(calls=640, functions=225, modules=40)
    for name, value in attrs.asdict(found).items():
        assert value <= getattr(most, name), name


@pytest.mark.parametrize("rate", [200, 2000])
def test_who_sends_alone_needs_hardly_more_than_a_datagram_to_each_fellow(rate: int) -> None:
    cost = read_recorded()[name_of(Load(3, 1, ServiceLevel.AGREED, rate))]
    assert cost.steps <= 3.5
    assert cost.datagrams <= 2.5


@pytest.mark.long
def test_the_same_load_costs_the_same_again() -> None:
    load = Load(3, 1, ServiceLevel.AGREED, 200)
    first, again = (attrs.evolve(measure(load), calls=0.0) for _ in range(2))
    assert first == again  # the interpreter chooses when it calls some finalizers


def test_a_message_to_many_groups_takes_no_more_steps_than_to_one() -> None:
    """Its frame is all that a session may have done in a step, and nothing waits behind it."""
    load = Load(3, 1, ServiceLevel.AGREED, 200, groups=10)
    one, ten = (measure(attrs.evolve(load, targets=targets)).steps for targets in (1, 10))
    assert ten == pytest.approx(one, abs=0.2)
