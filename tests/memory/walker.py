"""The objects reachable from one object, counted by place: a growing container has a name.

A place is the class and the attribute that lead to an object, with ``[]`` for the contents of a
container: ``UserNames._queues[]``. So a million entries are one row, and a row says where to look.
"""

import enum
import types
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any, Final

SHORT_BYTES: Final = 64
"""The length of keys, names and secrets; they are counted where they are held."""

_ONE_BY_ONE: Final = (list, tuple, set, frozenset, deque)
_BYTES: Final = (bytes, bytearray, memoryview)
_NO_STATE: Final = (str, int, float, complex, type(None), enum.Enum, type)
_CODE: Final = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType)


def sizes(*roots: Any, besides: tuple[type, ...] = ()) -> Counter[str]:
    """Return the counts at each place: entries, long bytes, objects of a class.

    Args:
        roots: the objects to begin with.
        besides: classes of objects that are not searched.
    """
    found: Counter[str] = Counter()
    seen: set[int] = set()
    waiting = deque((type(root).__name__, root) for root in roots)
    while waiting:
        place, thing = waiting.popleft()
        if isinstance(thing, (*_NO_STATE, *_CODE, *besides)) or id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, _BYTES):
            found[place] += len(thing) if len(thing) > SHORT_BYTES else 0
        elif isinstance(thing, (*_ONE_BY_ONE, dict)):
            found[place] += len(thing)
            waiting.extend((f"{place}[]", held) for held in _held(thing))
        else:
            name = type(thing).__name__
            found[f"objects of {name}"] += 1
            waiting.extend((f"{name}.{attribute}", held) for attribute, held in _state(thing))
    return found


def _held(container: Any) -> Iterator[Any]:
    if isinstance(container, dict):
        yield from container
        yield from container.values()
    else:
        yield from container


def _state(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object, of whatever kind its class is."""
    names = dict.fromkeys(getattr(thing, "__dict__", ()))
    names |= dict.fromkeys(getattr(thing, "__struct_fields__", ()))
    for cls in type(thing).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        names |= dict.fromkeys((slots,) if isinstance(slots, str) else slots)
    for name in names:
        held = getattr(thing, name, None)
        if held is not None:
            yield name, held


def grown(before: Counter[str], after: Counter[str]) -> dict[str, tuple[int, int]]:
    """Return the places where there is more than before, with both sizes."""
    return {place: (before[place], size) for place, size in after.items() if size > before[place]}
