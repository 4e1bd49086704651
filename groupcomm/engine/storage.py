"""Storage: the writes of a core to its disk, one of each kind at a time.

Pure. ``now`` is in seconds. A disk may take seconds. While a write is in progress a newer value
waits, and no value is written twice. The parts that need a value on disk wait for it themselves.
"""

from groupcomm.engine.inputs import (
    KeysStored,
    MarkNotStored,
    MarkStored,
    RollStored,
    RosterNotStored,
    RosterStored,
    StorageAnswer,
)
from groupcomm.engine.keys import KeyManager
from groupcomm.engine.output import Store, StoreKeys, StoreMark, StoreRoll, StoreRoster
from groupcomm.engine.roster import RosterManager
from groupcomm.membership.reservation import Reservation


class Storage:
    """The writes of one start of a daemon.

    Args:
        reservation: wants marks of view counters stored.
        key_manager: wants keys and identities stored.
        roster_manager: wants rosters stored.
    """

    __slots__ = (
        "_key_manager",
        "_keys",
        "_mark",
        "_reservation",
        "_roll",
        "_roster",
        "_roster_manager",
    )

    def __init__(
        self, reservation: Reservation, key_manager: KeyManager, roster_manager: RosterManager
    ) -> None:
        self._reservation = reservation
        self._key_manager = key_manager
        self._roster_manager = roster_manager
        # Whether a write of each kind is in progress.
        self._mark = self._keys = self._roll = self._roster = False

    def step(self, now: float, *, left: bool) -> None:
        """Have the parts want the writes that are due; a daemon that has left needs no marks."""
        if now >= self._reservation.due and not left:
            self._reservation.step(now)
        if now >= self._roster_manager.due:
            self._roster_manager.step(now)

    def is_due(self, now: float) -> bool:
        """Return whether keys, identities or a roster have to be stored, and can be at once."""
        if self._keys or self._roll or self._roster:
            return False
        rosters = self._roster_manager
        return self._key_manager.unstored or (
            rosters.unstored and rosters.to_store(now) is not None
        )

    def begin(self, now: float) -> list[Store]:
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
        record = self._roster_manager.to_store(now)
        if record is not None and not self._roster:
            self._roster = True
            found.append(StoreRoster(record))
        return found

    def accept(self, answer: StorageAnswer, now: float) -> None:
        """Process the end of a write; one that has failed is begun again later."""
        match answer:
            case MarkStored(mark, took_s):
                self._mark = False
                self._reservation.stored(mark, now, took_s)
            case MarkNotStored(reason):
                self._mark = False
                self._reservation.failed(reason, now)
            case KeysStored(keys):
                self._keys = False
                self._key_manager.keys_stored(keys)
            case RollStored(roll):
                self._roll = False
                self._key_manager.roll_stored(roll)
            case RosterStored(record):
                self._roster = False
                self._roster_manager.stored(record)
            case RosterNotStored(reason):
                self._roster = False
                self._roster_manager.not_stored(reason, now)
