"""The key manager: operators' wishes go to all daemons, and count at their place in the order."""

from collections.abc import Callable
from typing import Final

import pytest

from groupcomm.config.core import CoreConfig
from groupcomm.errors import LocalProtocolError
from groupcomm.security.keys import KeyRing, fingerprint_of
from groupcomm.wire.bundle import keys_bundle
from groupcomm.wire.keys import KeyReport
from tests.groupcomm.engine.key_managers import SECRETS, Daemons, ring
from tests.groupcomm.engine.test_protection import LONG, gate, refused

LIFETIME_S: Final = CoreConfig().rekeying.lifetime_s


def load(daemons: Daemons, names: str, keys: KeyRing) -> None:
    for name in names:
        daemons.managers[name].load(keys)
    daemons.order()


def test_a_key_is_loaded_promoted_and_retired_at_all_daemons() -> None:
    daemons = Daemons(ring(1, active=1))
    a, b = daemons.managers.values()
    assert not daemons.is_woken(), "one key: there is nothing to report"
    load(daemons, "a", ring(1, 2, active=1))
    with pytest.raises(LocalProtocolError, match="not known at b"):
        a.promote(2)
    load(daemons, "b", ring(1, 2, active=1))
    assert daemons.active() == [1, 1]
    assert daemons.is_woken()
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
        b.retire(1, daemons.config, without_missing=False)
    daemons.begin_step(7.0 + 2 * LIFETIME_S - 0.5)
    with pytest.raises(LocalProtocolError, match="still be on their way"):
        b.retire(1, daemons.config, without_missing=False)
    daemons.begin_step(7.0 + 2 * LIFETIME_S)
    b.retire(1, daemons.config, without_missing=False)
    daemons.order()
    assert daemons.known() == [["2"], ["2"]]


def test_a_key_that_never_sealed_here_is_retired_without_a_wait() -> None:
    daemons = Daemons(ring(1, 2, active=2))
    daemons.managers["a"].retire(1, daemons.config, without_missing=False)
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
    assert daemons.describe("a")["missing"] == ["b"]
    with pytest.raises(LocalProtocolError, match="b would be locked out"):
        a.retire(1, daemons.config, without_missing=False)
    a.retire(1, daemons.config, without_missing=True)
    daemons.order()
    assert daemons.known() == [["2"]]


def test_each_daemon_reports_in_each_view_and_all_know_the_keys_of_all() -> None:
    daemons = Daemons(ring(1, 2, active=1))
    for manager in daemons.managers.values():
        members = manager.describe("ab")["members"]
        assert list(members) == ["a", "b"]
        assert members["a"] == members["b"]
        assert list(members["b"]["keys"]) == ["1", "2"]
        assert members["b"]["active"] == 1
        assert manager.describe("ab")["identities"] is None


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


def test_datagrams_are_opened_with_a_key_once_it_is_loaded_and_sealed_with_it_once_promoted() -> (
    None
):
    daemons = Daemons(ring(1, active=1))
    a = daemons.protections["a"]
    newer = gate("c", keys=ring(2, active=2))
    assert refused(a, newer.seal(None, LONG)) == "key"
    load(daemons, "ab", ring(1, 2, active=1))
    assert refused(a, newer.seal(None, LONG)) == "unlisted", "it is opened, and c is no daemon here"
    assert refused(newer, a.seal(None, LONG)) == "key"
    daemons.managers["a"].promote(2)
    daemons.order()
    assert refused(newer, a.seal(None, LONG)) == "unproven", "it is opened"


def test_daemons_without_identities_do_nothing_about_evictions() -> None:
    daemons = Daemons(ring(1, active=1))
    a = daemons.managers["a"]
    prints = ((1, fingerprint_of(SECRETS[1])),)
    report = KeyReport(active=1, wish=1, retires=None, prints=prints, evicted=(bytes(8),))
    a.on_report(1, keys_bundle(report.encode()))
    assert (a.roll, a.unstored, a.to_store()) == (None, False, (None, None))
    assert not daemons.counters.violations
