"""The keys of a group with which a member can still read."""

from typing import Final

from groupcomm_client.end_to_end.keys import GroupKey

LINGER_S: Final = 60.0
"""The longest time for which an old key is kept; usually until all members have moved on."""


class Keyring:
    """Keys by id: the latest of the present view, and old ones for a while.

    Attributes:
        latest: the last key given in the present view; None before the first. This member may not
            have got it.
    """

    def __init__(self) -> None:
        self.latest: GroupKey | None = None
        self._keys: dict[bytes, GroupKey] = {}
        self._expiry: dict[bytes, float] = {}  # the expiry of old keys

    def get(self, identifier: bytes) -> GroupKey | None:
        """Return the key with this id."""
        return self._keys.get(identifier)

    def all(self) -> list[GroupKey]:
        """Return every key."""
        return list(self._keys.values())

    def add(self, key: GroupKey, now: float) -> None:
        """Add a key as the latest one."""
        self.retire(now)
        self._keys[key.id] = self.latest = key

    def retire(self, now: float) -> None:
        """Keep the latest key for messages in flight; it is not the latest any more."""
        if self.latest is not None:
            self._expiry[self.latest.id] = now + LINGER_S
            self.latest = None

    def keep(self, key: GroupKey) -> None:
        """Erase all keys but some."""
        self._keys = {key.id: key}
        self._expiry.clear()

    def erase(self, now: float) -> None:
        """Erase the expired keys."""
        for identifier in [one for one, until in self._expiry.items() if until <= now]:
            del self._expiry[identifier], self._keys[identifier]

    @property
    def deadline(self) -> float | None:
        """Return the time at which `erase` is to be called."""
        return min(self._expiry.values(), default=None)
