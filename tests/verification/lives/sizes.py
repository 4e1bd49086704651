"""The sizes of all tables of a core, by attribute, and the search for those that grow.

A daemon that lives long must not keep anything for each former view, session, message or daemon.
Which of its tables would is not guessed here: all of them are measured, wherever they are.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from groupcomm.membership.flood import MAX_UNFINISHED
from groupcomm.security.opening import MAX_PEERS

_SKIPPED: Final = ("groupcomm.sim", "groupcomm.trace", "groupcomm.config")
"""The packages whose objects are not measured: they observe a core, or never change."""

_TABLES: Final = (dict, list, set, frozenset, tuple, deque)

MANY: Final = 40
"""A table that has grown by fewer entries counts as noise."""

BOUNDED: Final = {
    "TrustedStart.lanes": 6 * MAX_PEERS,
    "Opener._peers": MAX_PEERS,
    "SecretOpener._peers": MAX_PEERS,
    "SecretOpener._turns": MAX_PEERS,
    "SecretOpener._turns[]": 3 * MAX_PEERS,
    "SecretOpener._turns[][]": 6 * MAX_PEERS,
    "Flood._parts": MAX_UNFINISHED,
    "Flood._parts[]": 2 * MAX_UNFINISHED,
    "Flood._parts[][]": 8 * MAX_UNFINISHED,
}
"""The tables that are meant to fill up in days, and the entries at which they are full: a daemon
remembers this many earlier starts of others, so that it takes no replay of theirs; and this many
control messages, in up to about eight parts, of which a part was lost."""

FEWEST: Final = 12
"""The fewest measurements of one start of a daemon that say anything."""


def sizes_of(root: Any) -> Counter[str]:
    """Return the numbers of entries in all tables that an object holds, by class and attribute.

    Tables of the same attribute in several objects of a class are added up, and so are tables
    inside a table, whose name is that of the outer one with ``[]``.
    """
    found: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [("", root)]
    while waiting:
        name, value = waiting.pop()
        kind = type(value)
        if isinstance(value, _TABLES):
            if id(value) in seen and not _may_be_cached(value):
                continue
            seen.add(id(value))
            found[name] += len(value)
            inner = name + "[]"
            values = value.values() if isinstance(value, dict) else value
            waiting += [(inner, each) for each in values if _is_measured(each)]
        elif isinstance(value, bytearray):
            found[name] += len(value)
        elif _is_measured(value) and (id(value) not in seen or _may_be_cached(value)):
            seen.add(id(value))
            waiting += [(f"{kind.__name__}.{at}", each) for at, each in _attributes(value)]
    return found


def _may_be_cached(value: Any) -> bool:
    """Return whether equal values may be one object, by a cache of the process, or several."""
    if isinstance(value, tuple | frozenset):
        return True
    return isinstance(value, msgspec.Struct) and value.__struct_config__.frozen


def _is_measured(value: Any) -> bool:
    if isinstance(value, (*_TABLES, bytearray)):
        return True
    module = type(value).__module__
    return module.startswith("groupcomm") and not module.startswith(_SKIPPED)


def _attributes(value: Any) -> list[tuple[str, Any]]:
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    found = {name: getattr(value, name) for name in names if hasattr(value, name)}
    return [*(found | getattr(value, "__dict__", {})).items()]


def growing(samples: Sequence[Mapping[str, int]]) -> dict[str, tuple[int, int]]:
    """Return the tables that grow from one moment of rest to the next, with early and late sizes.

    A table grows if its median doubles from the second sixth of the samples to the last one, by
    MANY entries at least, and its least size of the last third is above its greatest of the first
    third. So one that fills up to a bound in the first third does not, nor one that varies.

    Args:
        samples: sizes at moments of rest, in their order; fewer than FEWEST say nothing.
    """
    if len(samples) < FEWEST:
        return {}
    sixth, third = len(samples) // 6, len(samples) // 3
    found = {}
    for name in samples[-1]:
        sizes = [sample.get(name, 0) for sample in samples]
        early, late = _median(sizes[sixth:third]), _median(sizes[-sixth:])
        rises = min(sizes[-third:]) > max(sizes[:third])
        if late <= BOUNDED.get(name, 0):
            continue
        if rises and late >= 2 * early and late - early >= MANY:
            found[name] = (early, late)
    return found


def _median(sizes: Sequence[int]) -> int:
    return sorted(sizes)[len(sizes) // 2]
