"""A resolved configuration as plain values, without secrets."""

from typing import Any, Final

import attrs

from groupcomm.host.addresses import Address
from groupcomm.security.layout import SUITE_NONE
from groupcommd.config_file import DaemonConfig

_LEFT_OUT: Final = frozenset(("keys", "identity", "roll", "starts"))
"""Secrets, and what has commands of its own or is for tests."""


def describe(config: DaemonConfig) -> dict[str, Any]:
    """What JSON can hold of a configuration; ``sealed`` says whether there are keys."""
    found: dict[str, Any] = _plain(config)
    return {**found, "sealed": config.core.suite != SUITE_NONE}


def _plain(value: Any) -> Any:
    if attrs.has(type(value)) and not isinstance(value, Address):
        names = [name for name in attrs.fields_dict(type(value)) if not name.startswith("_")]
        return {n: _plain(getattr(value, n)) for n in names if n not in _LEFT_OUT}
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, frozenset):
        return [verb.word for verb in sorted(value)]  # of a rule
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, int | float | bool | None) else str(value)
