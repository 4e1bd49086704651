"""Mutations that no check can notice, as they change nothing that anybody promises.

Each is named by `Mutation.key`: module, function, operator, and changed text.
"""

from typing import Final

EQUIVALENT: Final[dict[str, str]] = {}
"""The reason why nothing changes that anybody could see."""

COSTS_ONLY: Final[dict[str, str]] = {}
"""What it costs: the results are the same, but they take more time, memory or packets."""
