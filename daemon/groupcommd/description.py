"""A resolved configuration as plain values, without secrets."""

from typing import Any

import attrs

from groupcommd.addresses import Address
from groupcommd.config_file import DaemonConfig


def describe(config: DaemonConfig) -> dict[str, Any]:
    """What JSON can hold of a configuration; ``sealed`` says whether there are keys."""
    found: dict[str, Any] = _plain(config)
    return {**found, "sealed": config.keys is not None}


def _plain(value: Any) -> Any:
    if attrs.has(type(value)) and not isinstance(value, Address):
        names = attrs.fields_dict(type(value))
        return {n: _plain(getattr(value, n)) for n in names if n not in ("keys", "starts")}
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, frozenset):
        return [verb.word for verb in sorted(value)]  # of a rule
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, int | float | bool | None) else str(value)
