"""Mutations that no check can notice, as they change nothing that anybody promises."""

from typing import Final

EXPLAINED: Final[dict[tuple[str, str, str], str]] = {}
"""The reason, by module, function and changed text."""
