"""Rights: the names of other rings to which a daemon may send, without a subscription of its own.

Pure bookkeeping, each event in constant time: a view may end the rights of thousands of sessions at
once, which then all wait for new ones. docs/locality.md says what a right is for.
"""

from collections import OrderedDict
from collections.abc import Iterable

from groupcomm.config.core import RightLimits


class OwnRights:
    """The rights only to send of one daemon in one view, and the sessions that wait for names.

    A right is *fresh* until a message has got a number with it, and *idle* when it is neither fresh
    nor waited for: then it may be given back.

    Args:
        limits: how many are kept, and for how long.

    Attributes:
        held: the names of those that it has.
        asked: the names of those that are asked for.
    """

    __slots__ = ("_fresh", "_idle", "_limits", "_used", "_waiting", "asked", "held")

    def __init__(self, limits: RightLimits) -> None:
        self._limits = limits
        self.held: dict[str, None] = {}
        self.asked: set[str] = set()
        self._fresh: set[str] = set()
        self._used: set[str] = set()  # since the last review
        self._idle = OrderedDict[str, None]()  # the first one has been idle for longest
        # By name, the sessions whose first waiting bundle goes to it.
        self._waiting: dict[str, dict[int, None]] = {}

    def __len__(self) -> int:
        return len(self.held) + len(self.asked)

    @property
    def is_full(self) -> bool:
        """Return whether there are as many as are kept while no message waits for them."""
        return len(self) >= self._limits.most

    # ---- sessions that wait ----

    def wait(self, session: int, names: Iterable[str]) -> None:
        """Note that a session waits, with a bundle to these names."""
        for name in names:
            self._waiting.setdefault(name, {})[session] = None
            self._idle.pop(name, None)

    def go_on(self, session: int, names: Iterable[str]) -> None:
        """Note that a session waits no more with this bundle."""
        for name in names:
            sessions = self._waiting.get(name)
            if sessions is not None and sessions.pop(session, self) is None and not sessions:
                del self._waiting[name]
                self._look_whether_idle(name)

    def waiting_for(self, name: str) -> list[int]:
        """Return the sessions that wait with a bundle to a name."""
        return list(self._waiting.get(name, ()))

    # ---- a right ----

    def grant(self, name: str) -> None:
        """Note that a right is granted."""
        self.asked.discard(name)
        self.held[name] = None
        self._used.add(name)
        self._fresh.add(name)

    def wish(self, name: str) -> bool:
        """Return whether there is a right to a name; it is not given back in the next review."""
        if name not in self.held:
            return False
        self._used.add(name)
        return True

    def use(self, names: Iterable[str]) -> None:
        """Note that a message to these names gets its number."""
        if self._fresh:
            for name in names:
                if name in self._fresh:
                    self._fresh.discard(name)
                    self._look_whether_idle(name)

    def drop(self, name: str) -> None:
        """Note that a right is given back, or that a subscription of this daemon has ended it."""
        self.held.pop(name, None)
        self._fresh.discard(name)
        self._idle.pop(name, None)

    def _look_whether_idle(self, name: str) -> None:
        if name in self.held and name not in self._fresh and name not in self._waiting:
            self._idle[name] = None

    # ---- rights to give back ----

    def oldest_idle(self) -> str | None:
        """Return the name of the right that has been idle for longest; None if none is."""
        return next(iter(self._idle), None)

    def pop_unused(self) -> list[str]:
        """Return the names of the idle rights that nobody has wished since the last call."""
        unused = [name for name in self._idle if name not in self._used]
        self._used.clear()
        fresh, self._fresh = self._fresh, set()
        for name in fresh:
            self._look_whether_idle(name)
        return unused
