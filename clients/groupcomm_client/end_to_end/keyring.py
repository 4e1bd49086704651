"""The keys of a group that a member can still read with."""

from typing import Final

from groupcomm_client.end_to_end.keys import GroupKey

LINGER_S: Final = 60.0
"""So long an old key is kept at most; usually until all members have moved on."""


class Keyring:
    """Keys by id: the latest of the present view, and old ones for a while.

    Attributes:
        latest: the key that was given last in the present view; None before the first. This
            member may not have got it.
    """

    def __init__(self) -> None:
        self.latest: GroupKey | None = None
        self._keys: dict[bytes, GroupKey] = {}
        self._expiry: dict[bytes, float] = {}  # of old ones

    def get(self, identifier: bytes) -> GroupKey | None:
        """Return the key of this id."""
        return self._keys.get(identifier)

    def all(self) -> list[GroupKey]:
        """Return every key."""
        return list(self._keys.values())

    def add(self, key: GroupKey, now: float) -> None:
        """Have a new latest one."""
        self.retire(now)
        self._keys[key.id] = self.latest = key

    def retire(self, now: float) -> None:
        """Keep the latest key for what is still on its way: it is the latest no more."""
        if self.latest is not None:
            self._expiry[self.latest.id] = now + LINGER_S
            self.latest = None

    def keep(self, key: GroupKey) -> None:
        """Erase all others."""
        self._keys = {key.id: key}
        self._expiry.clear()

    def erase(self, now: float) -> None:
        """Erase those whose time has come."""
        for identifier in [one for one, until in self._expiry.items() if until <= now]:
            del self._expiry[identifier], self._keys[identifier]

    @property
    def deadline(self) -> float | None:
        """When `erase` is to be called."""
        return min(self._expiry.values(), default=None)
