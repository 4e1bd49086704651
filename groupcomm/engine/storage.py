"""Storage: the writes of a core to its disk, one of each kind at a time.

Pure. A disk may take seconds. While a write is in progress a newer value waits, and no value is
written twice. The parts that need a value on disk wait for it themselves.
"""

from groupcomm.engine.keys import KeyManager
from groupcomm.engine.output import Store, StoreKeys, StoreMark, StoreRoll
from groupcomm.membership.reservation import Reservation
from groupcomm.security.identity import Roll
from groupcomm.security.keys import KeyRing


class Storage:
    """The writes of one start of a daemon.

    Args:
        reservation: wants marks of view counters stored.
        key_manager: wants keys and identities stored.
    """

    __slots__ = ("_key_manager", "_keys", "_mark", "_reservation", "_roll")

    def __init__(self, reservation: Reservation, key_manager: KeyManager) -> None:
        self._reservation = reservation
        self._key_manager = key_manager
        self._mark = self._keys = self._roll = False  # whether a write of each kind is in progress

    @property
    def may_begin(self) -> bool:
        """Return whether no write of keys or identities is under way."""
        return not (self._keys or self._roll)

    def begin(self) -> list[Store]:
        """Return the writes that begin now."""
        found: list[Store] = []
        mark, keys, roll = self._reservation.to_store, *self._key_manager.to_store()
        if mark is not None and not self._mark:
            self._mark = True
            found.append(StoreMark(mark))
        if keys is not None and not self._keys:
            self._keys = True
            found.append(StoreKeys(keys))
        if roll is not None and not self._roll:
            self._roll = True
            found.append(StoreRoll(roll))
        return found

    def mark_stored(self, mark: int, now: float) -> None:
        """Note that the disk holds a mark."""
        self._mark = False
        self._reservation.stored(mark, now)

    def mark_not_stored(self, reason: str, now: float) -> None:
        """Note that the disk does not hold the mark; the write is repeated later."""
        self._mark = False
        self._reservation.failed(reason, now)

    def keys_stored(self, keys: KeyRing) -> None:
        """Note that the key file holds these keys."""
        self._keys = False
        self._key_manager.keys_stored(keys)

    def roll_stored(self, roll: Roll) -> None:
        """Note that the identities' file holds these identities."""
        self._roll = False
        self._key_manager.roll_stored(roll)
