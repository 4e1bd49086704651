"""The canonical digest of a daemon: equal for two daemons that behave alike from now on.

It covers every object that can be reached from a core, but not counts that only operators read.
Times are taken relative to the present: `TICK` has the form that makes this exact. Nothing else is
left out, and orders of lists and dictionaries count, so two daemons with one digest do behave
alike.
"""

import enum
import functools
import hashlib
import marshal
import types
from collections import deque
from collections.abc import Callable, Mapping
from math import isinf
from typing import Any, Final

from groupcomm.engine.counters import Counters
from groupcomm.engine.news import TokenWatch, ViewHistory
from groupcomm.ring.counts import RingCounts
from groupcomm.security.layout import ReplayWindow
from groupcomm.security.plain import PlainSealer

TICK: Final = 2.0**-20
"""The unit of time, in seconds. Multiples of it are exact in a float, so no timer is missed by a
rounding error."""

EPOCH: Final = 2.0**20
"""The time at which exploration begins, in seconds: all times are above it, all durations below."""

_IGNORED: Final = (Counters, RingCounts, ViewHistory, TokenWatch, ReplayWindow, PlainSealer)
"""Counts for operators, and the counters of datagrams, which exploration replaces."""

_PLAIN: Final = frozenset((int, str, bytes, bool, type(None)))


def digest_of(root: object, now: float, constants: Mapping[int, str]) -> bytes:
    """Return the digest of an object and all that it refers to.

    Args:
        root: the object.
        now: the present, in seconds.
        constants: names of objects that never change, by their id.
    """
    parts: list[Any] = []
    _Walk(now, constants, parts.append).add(root)
    return hashlib.blake2b(marshal.dumps(parts, 2), digest_size=16).digest()


class _Walk:
    """One walk over an object and all that it refers to."""

    def __init__(
        self, now: float, constants: Mapping[int, str], put: Callable[[Any], None]
    ) -> None:
        self._now = now
        self._constants = constants
        self._put = put
        self._seen: dict[int, int] = {}
        self._kept: list[object] = []  # so that no id is used twice

    def add(self, value: Any) -> None:
        """Put an object, and all that it refers to, into the digest."""
        kind = type(value)
        if kind in _PLAIN:
            self._put(value)
        elif kind is float:
            is_time = value > EPOCH / 2 and not isinf(value)
            self._put(("@", round((value - self._now) / TICK * 16)) if is_time else value)
        elif kind is tuple:
            self._put(("(", len(value)))
            for each in value:
                self.add(each)
        else:
            self._add_object(value, kind)

    def _add_object(self, value: Any, kind: type) -> None:
        known = self._constants.get(id(value))
        number = self._seen.get(id(value))
        if known is not None:
            self._put(("constant", known))
        elif number is not None:
            self._put(("seen", number))
        elif isinstance(value, enum.Enum):
            self._put((kind.__name__, value.name))
        else:
            self._seen[id(value)] = len(self._kept)
            self._kept.append(value)
            if not self._add_collection(value, kind):
                self._add_other(value, kind)

    def _add_collection(self, value: Any, kind: type) -> bool:
        if isinstance(value, dict):
            self._put((kind.__name__, len(value)))
            for key, each in value.items():
                self.add(key)
                self.add(each)
        elif isinstance(value, set | frozenset):
            self._put(("set", *sorted(map(repr, value))))
        elif isinstance(value, list | tuple | deque):
            self._put((kind.__name__, len(value)))
            for each in value:
                self.add(each)
        else:
            return False
        return True

    def _add_other(self, value: Any, kind: type) -> None:
        if isinstance(value, bytearray | memoryview):
            self._put(bytes(value))
        elif isinstance(value, int | str):
            self._put((kind.__name__, repr(value)))
        elif isinstance(value, types.FunctionType | types.BuiltinFunctionType | type):
            self._add_function(value)
        elif isinstance(value, types.MethodType):
            self._put(("method", value.__func__.__qualname__))
            self.add(value.__self__)
        elif isinstance(value, functools.partial):
            self._put("partial")
            self.add((value.func, value.args, tuple(value.keywords.items())))
        else:
            self._add_attributes(value, kind)

    def _add_function(self, value: Any) -> None:
        self._put(("function", value.__qualname__))
        owner = getattr(value, "__self__", None)  # of a method of a built-in type
        if owner is not None and not isinstance(owner, types.ModuleType):
            self.add(owner)

    def _add_attributes(self, value: Any, kind: type) -> None:
        self._put(kind.__qualname__)
        if isinstance(value, _IGNORED):
            return
        for name in _slots_of(kind):
            if hasattr(value, name):
                self._put(name)
                self.add(getattr(value, name))
        for name, each in getattr(value, "__dict__", {}).items():
            self._put(name)
            self.add(each)


@functools.cache
def _slots_of(kind: type) -> tuple[str, ...]:
    """Return the names of the slots of a class and of those it is derived from."""
    names: list[str] = []
    for each in kind.__mro__:
        slots = each.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name in ("__weakref__", "__dict__"):
                continue
            hidden = name.startswith("__") and not name.endswith("__")
            names.append(f"_{each.__name__.lstrip('_')}{name}" if hidden else name)
    return tuple(names)
