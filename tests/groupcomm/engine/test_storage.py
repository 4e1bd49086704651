"""Writes to the disk of a daemon: one of each kind at a time, and what comes of each."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from groupcomm.engine import (
    KeysStored,
    MarkNotStored,
    MarkStored,
    RollStored,
    RosterNotStored,
    RosterStored,
    StoreKeys,
    StoreMark,
    StoreRoll,
    StoreRoster,
)
from groupcomm.engine.storage import Storage

NOW = 5.0


class Disk:
    """What a storage has to write, and what its parts were told.

    Attributes:
        told: the parts that were told of the end of a write, and of which.
    """

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        told = self.told
        self.reservation = SimpleNamespace(
            to_store=None,
            stored=lambda *args: told.append(("mark stored", *args)),
            failed=lambda *args: told.append(("mark failed", *args)),
        )
        self.keys: list[Any] = [None, None]
        self.roster: Any = None
        self.storage = Storage(
            cast(Any, self.reservation),
            cast(
                Any,
                SimpleNamespace(
                    unstored=True,
                    to_store=lambda: tuple(self.keys),
                    keys_stored=lambda *args: told.append(("keys stored", *args)),
                    roll_stored=lambda *args: told.append(("roll stored", *args)),
                ),
            ),
            cast(
                Any,
                SimpleNamespace(
                    to_store=lambda now: self.roster if now == NOW else None,
                    stored=lambda *args: told.append(("roster stored", *args)),
                    not_stored=lambda *args: told.append(("roster failed", *args)),
                ),
            ),
        )

    def want(self, kind: str, value: Any) -> None:
        """Have one part want a value on disk; the others want none."""
        self.reservation.to_store = value if kind == "mark" else None
        self.keys[:] = [value if kind == "keys" else None, value if kind == "roll" else None]
        self.roster = value if kind == "roster" else None


KINDS: list[tuple[str, Any, Any]] = [
    ("mark", StoreMark, MarkStored),
    ("keys", StoreKeys, KeysStored),
    ("roll", StoreRoll, RollStored),
    ("roster", StoreRoster, RosterStored),
]
each_kind = pytest.mark.parametrize(
    ("kind", "store", "stored"), KINDS, ids=[kind for kind, *_ in KINDS]
)


@each_kind
def test_a_newer_value_waits_for_the_end_of_the_write_before_it(
    kind: str, store: Any, stored: Any
) -> None:
    disk = Disk()
    assert disk.storage.begin(NOW) == []
    disk.want(kind, 1)
    assert disk.storage.begin(NOW) == [store(1)]
    disk.want(kind, 2)
    assert disk.storage.begin(NOW) == []
    took_s = [0.25] if kind == "mark" else []
    disk.storage.accept(stored(1, *took_s), NOW)
    assert disk.told == [(f"{kind} stored", 1, NOW, *took_s) if took_s else (f"{kind} stored", 1)]
    assert disk.storage.begin(NOW) == [store(2)]


@pytest.mark.parametrize(
    ("kind", "store", "failed"),
    [("mark", StoreMark, MarkNotStored), ("roster", StoreRoster, RosterNotStored)],
)
def test_a_write_that_has_failed_may_begin_again(kind: str, store: Any, failed: Any) -> None:
    disk = Disk()
    disk.want(kind, 1)
    disk.storage.begin(NOW)
    disk.storage.accept(failed("No space left on device"), NOW)
    assert disk.told == [(f"{kind} failed", "No space left on device", NOW)]
    assert disk.storage.begin(NOW) == [store(1)]


@each_kind
def test_a_write_of_one_kind_does_not_hold_up_another(kind: str, store: Any, stored: Any) -> None:
    disk = Disk()
    assert disk.storage.is_due(NOW)
    disk.want(kind, 1)
    disk.storage.begin(NOW)
    assert disk.storage.is_due(NOW) == (kind == "mark"), "marks are not waited for"
    for other, other_store, _ in KINDS:
        if other != kind:
            disk.want(other, 7)
            assert disk.storage.begin(NOW) == [other_store(7)]
    disk.storage.accept(stored(1), NOW)
    assert not disk.storage.is_due(NOW)


def test_all_that_is_wanted_is_written_in_one_step() -> None:
    disk = Disk()
    disk.reservation.to_store, disk.keys[:], disk.roster = 1, [2, 3], 4
    kinds = [store for _, store, _ in KINDS]
    assert disk.storage.begin(NOW) == [store(at) for at, store in enumerate(kinds, 1)]
