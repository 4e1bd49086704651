"""All stories, in the order of the chapter."""

from examples.ordering import clocks, unicast, causal, total, daemons, mutex, bus, restarts  # isort: skip - this order
from examples.ordering.story import STORIES

PARTS = clocks, unicast, causal, total, daemons, mutex, bus, restarts

__all__ = ["PARTS", "STORIES"]
