"""The key manager: operators' wishes go to all daemons, and count at their place in the order."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import Incarnation, Start
from groupcomm.engine.counters import Counters
from groupcomm.engine.keys import KeyManager
from groupcomm.engine.protection import SealedProtection
from groupcomm.errors import LocalProtocolError
from groupcomm.security.keys import KeyRing
from groupcomm.wire.bundle import keys_bundle

SECRETS: Final = {number: bytes((number,)) * 32 for number in (1, 2, 3)}
CONFIG: Final = CoreConfig(sites=(("a", "b"),))
LIFETIME_S: Final = CONFIG.rekeying.lifetime_s


def ring(*numbers: int, active: int) -> KeyRing:
    return KeyRing({number: SECRETS[number] for number in numbers}, active)


class Daemons:
    """The key managers of the daemons a and b, whose reports all come to both, in one order.

    Attributes:
        woken: how often a daemon was told that something waits.
    """

    def __init__(self, keys: KeyRing | None, members: str = "ab") -> None:
        self.members = members
        self.woken = 0
        self.counters = Counters()
        self._backlogs: dict[str, list[Any]] = {}
        self.protections: dict[str, SealedProtection] = {}
        self.managers: dict[str, KeyManager] = {}
        for name in members:
            start = Start(name=name, incarnation=Incarnation(1, ord(name)))
            self._backlogs[name] = []
            self.protections[name] = SealedProtection(CONFIG, start, keys or ring(1, active=1), 0.0)
            core = SimpleNamespace(
                config=CONFIG,
                start=start,
                counters=self.counters,
                sessions=SimpleNamespace(backlog=self._backlogs[name]),
                wake=self._wake,
            )
            self.managers[name] = KeyManager(cast(Any, core), self.protections[name], keys)
        for manager in self.managers.values():
            manager.begin_view(list(members))
        self.order()

    def _wake(self) -> None:
        self.woken += 1

    def order(self) -> None:
        """Have all reports come to all daemons."""
        while any(self._backlogs.values()):
            for sender, name in enumerate(self.members):
                taken, self._backlogs[name][:] = list(self._backlogs[name]), []
                for bundle in taken:
                    for manager in self.managers.values():
                        manager.on_report(sender, bundle)

    def begin_step(self, now: float) -> None:
        for protection in self.protections.values():
            protection.begin_step(now)

    def active(self) -> list[int]:
        return [manager.describe()["active"] for manager in self.managers.values()]

    def known(self) -> list[list[str]]:
        return [list(manager.describe()["keys"]) for manager in self.managers.values()]


def load(daemons: Daemons, names: str, keys: KeyRing) -> None:
    for name in names:
        daemons.managers[name].load(keys)
    daemons.order()


def test_a_key_is_loaded_promoted_and_retired_at_all_daemons() -> None:
    daemons = Daemons(ring(1, active=1))
    a, b = daemons.managers.values()
    assert daemons.woken == 0, "one key: there is nothing to report"
    load(daemons, "a", ring(1, 2, active=1))
    with pytest.raises(LocalProtocolError, match="not known at b"):
        a.promote(2)
    load(daemons, "b", ring(1, 2, active=1))
    assert daemons.active() == [1, 1]
    assert daemons.woken > 0
    daemons.begin_step(7.0)
    a.promote(2)
    daemons.order()
    assert daemons.active() == [2, 2]
    for manager in (a, b):
        assert manager.unstored
        keys, roll = manager.to_store()
        assert keys is manager.keys
        assert roll is None
    with pytest.raises(LocalProtocolError, match=f"wait {2 * LIFETIME_S:.0f} s"):
        b.retire(1, without_missing=False)
    daemons.begin_step(7.0 + 2 * LIFETIME_S - 0.5)
    with pytest.raises(LocalProtocolError, match="still be on their way"):
        b.retire(1, without_missing=False)
    daemons.begin_step(7.0 + 2 * LIFETIME_S)
    b.retire(1, without_missing=False)
    daemons.order()
    assert daemons.known() == [["2"], ["2"]]


def test_a_key_that_never_sealed_here_is_retired_without_a_wait() -> None:
    daemons = Daemons(ring(1, 2, active=2))
    daemons.managers["a"].retire(1, without_missing=False)
    daemons.order()
    assert daemons.known() == [["2"], ["2"]]


def test_only_the_file_that_has_the_present_keys_is_up_to_date() -> None:
    daemons = Daemons(ring(1, 2, active=1))
    a = daemons.managers["a"]
    assert (a.unstored, a.to_store()) == (False, (None, None))
    old = a.keys
    assert old is not None
    a.promote(2)
    daemons.order()
    a.keys_stored(old)
    assert a.unstored
    assert a.keys is not None
    a.keys_stored(a.keys)
    assert (a.unstored, a.to_store()) == (False, (None, None))


def test_a_daemon_that_is_not_there_is_locked_out_only_if_the_operator_says_so() -> None:
    daemons = Daemons(ring(1, 2, active=2), "a")
    a = daemons.managers["a"]
    assert a.describe()["missing"] == ["b"]
    with pytest.raises(LocalProtocolError, match="b would be locked out"):
        a.retire(1, without_missing=False)
    a.retire(1, without_missing=True)
    daemons.order()
    assert daemons.known() == [["2"]]


def test_each_daemon_reports_in_each_view_and_all_know_the_keys_of_all() -> None:
    daemons = Daemons(ring(1, 2, active=1))
    for manager in daemons.managers.values():
        members = manager.describe()["members"]
        assert list(members) == ["a", "b"]
        assert members["a"] == members["b"]
        assert list(members["b"]["keys"]) == ["1", "2"]
        assert members["b"]["active"] == 1
        assert manager.describe()["identities"] is None


def test_reports_that_do_not_decode_are_counted_and_those_of_no_member_are_not_read() -> None:
    daemons = Daemons(ring(1, 2, active=1))
    a = daemons.managers["a"]
    a.on_report(1, keys_bundle(b"\xff"))
    assert daemons.counters.violations == {"keys": 1}
    a.on_report(2, keys_bundle(b"\xff"))
    assert daemons.counters.violations == {"keys": 1}


def test_without_a_key_file_nothing_is_sealed_and_nothing_can_change() -> None:
    daemons = Daemons(None)
    a = daemons.managers["a"]
    assert a.keys is None
    assert a.to_store() == (None, None)
    acts: list[Callable[[], None]] = [
        lambda: a.promote(2),
        lambda: a.evict("b"),
        lambda: a.load(ring(1, active=1)),
    ]
    for act in acts:
        with pytest.raises(LocalProtocolError, match="no key_file"):
            act()
    a.on_report(1, keys_bundle(b"\xff"))
    assert not daemons.counters.violations


def test_without_identities_nobody_is_evicted() -> None:
    daemons = Daemons(ring(1, active=1))
    with pytest.raises(LocalProtocolError, match="no identity"):
        daemons.managers["a"].evict("b")
    assert not daemons.managers["a"].is_evicted
