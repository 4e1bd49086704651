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
from operator import attrgetter
from typing import Any, Final, TypeAlias

from groupcomm.engine.counters import Counters
from groupcomm.engine.news_collector import TokenWatch, ViewHistory
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
        identity = id(value)
        known = self._constants.get(identity)
        if known is not None:
            self._put(("constant", known))
            return
        number = self._seen.get(identity)
        if number is not None:
            self._put(("seen", number))
            return
        if kind not in _WAYS:
            _WAYS[kind] = _way_of(kind)
        way = _WAYS[kind]
        if way is not _Walk.add_enum:  # members are the same wherever they are met
            self._seen[identity] = len(self._kept)
            self._kept.append(value)
        way(self, value, kind)

    # ---- ways to add an object, by its kind ----

    def add_enum(self, value: enum.Enum, kind: type) -> None:
        """Add a member of an enumeration."""
        self._put((kind.__name__, value.name))

    def add_dict(self, value: dict[Any, Any], kind: type) -> None:
        """Add a dictionary, in its order."""
        self._put((kind.__name__, len(value)))
        for key, each in value.items():
            self.add(key)
            self.add(each)

    def add_set(self, value: Any, _: type) -> None:
        """Add a set, whatever its order."""
        self._put(("set", *sorted(map(repr, value))))

    def add_sequence(self, value: Any, kind: type) -> None:
        """Add a list, a tuple or a queue."""
        self._put((kind.__name__, len(value)))
        for each in value:
            self.add(each)

    def add_bytes(self, value: Any, _: type) -> None:
        """Add bytes that can change, or a part of others."""
        self._put(bytes(value))

    def add_plain(self, value: Any, kind: type) -> None:
        """Add a number or a text of a kind of its own."""
        self._put((kind.__name__, repr(value)))

    def add_function(self, value: Any, _: type) -> None:
        """Add a function or a class."""
        self._put(("function", value.__qualname__))
        owner = getattr(value, "__self__", None)  # of a method of a built-in type
        if owner is not None and not isinstance(owner, types.ModuleType):
            self.add(owner)

    def add_method(self, value: types.MethodType, _: type) -> None:
        """Add a method with its object."""
        self._put(("method", value.__func__.__qualname__))
        self.add(value.__self__)

    def add_partial(self, value: Any, _: type) -> None:
        """Add a function with some of its arguments."""
        self._put("partial")
        self.add((value.func, value.args, tuple(value.keywords.items())))

    def add_name(self, _: Any, kind: type) -> None:
        """Add an object whose content does not count."""
        self._put(kind.__qualname__)

    def add_attributes(self, value: Any, kind: type) -> None:
        """Add an object with its attributes: those in slots, and all others."""
        self._put(kind.__qualname__)
        names, get = _slots_of(kind)
        if get is not None:
            try:
                values = get(value)
            except AttributeError:  # some are not set
                values = tuple(getattr(value, name, _UNSET) for name in names)
            for each in values:
                self.add(each)
        for name, each in getattr(value, "__dict__", {}).items():
            self._put(name)
            self.add(each)


_Way: TypeAlias = Callable[[_Walk, Any, type], None]

_UNSET: Final = ("unset",)

_WAYS: dict[type, _Way] = {}

_KINDS: Final[tuple[tuple[Any, _Way], ...]] = (
    (enum.Enum, _Walk.add_enum),
    (dict, _Walk.add_dict),
    (set | frozenset, _Walk.add_set),
    (list | tuple | deque, _Walk.add_sequence),
    (bytearray | memoryview, _Walk.add_bytes),
    (int | str, _Walk.add_plain),
    (types.FunctionType | types.BuiltinFunctionType | type, _Walk.add_function),
    (types.MethodType, _Walk.add_method),
    (functools.partial, _Walk.add_partial),
    (_IGNORED, _Walk.add_name),
)


def _way_of(kind: type) -> _Way:
    return next((way for base, way in _KINDS if issubclass(kind, base)), _Walk.add_attributes)


@functools.cache
def _slots_of(kind: type) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]] | None]:
    """Return the names of the slots of a class and of those it is derived from, and their getter.

    There is no getter without any.
    """
    names: list[str] = []
    for each in kind.__mro__:
        slots = each.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name in ("__weakref__", "__dict__"):
                continue
            hidden = name.startswith("__") and not name.endswith("__")
            names.append(f"_{each.__name__.lstrip('_')}{name}" if hidden else name)
    if not names:
        return (), None
    get = attrgetter(*names)
    return tuple(names), get if len(names) > 1 else lambda value: (get(value),)
