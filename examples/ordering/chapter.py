"""All stories, in the order of the chapter."""

from examples.ordering import clocks, unicast, causal, total  # isort: skip - this order
from examples.ordering.story import STORIES

PARTS = clocks, unicast, causal, total

__all__ = ["PARTS", "STORIES"]
