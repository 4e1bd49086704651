"""Evictions: an operator says it once, all daemons follow at one place of the order, for good."""

from typing import Final

import pytest

from groupcomm.engine.keys import KeyManager
from groupcomm.errors import LocalProtocolError
from groupcomm.security.identity import Roll, identity_fingerprint
from tests.groupcomm.engine.key_managers import Daemons, ring, roll_of

ROLL: Final = roll_of("abc")
WITHOUT_C: Final = ROLL.without([identity_fingerprint(ROLL.daemons["c"])])


def three(members: str = "abc", **rolls: Roll) -> Daemons:
    """Return three daemons with identities, of which these are in a view."""
    found = {name: rolls.get(name, ROLL) for name in "abc"}
    return Daemons(ring(1, active=1), members, configured="abc", rolls=found)


def trusted(daemons: Daemons, name: str) -> str:
    """Return the daemons that a daemon trusts."""
    roll = daemons.managers[name].roll
    assert roll is not None
    return "".join(each for each in sorted(roll.daemons) if roll.is_trusted(each))


def store(manager: KeyManager) -> None:
    assert manager.roll is not None
    manager.roll_stored(manager.roll)


def test_nobody_trusts_an_evicted_daemon_from_one_place_of_the_order_on() -> None:
    daemons = three()
    a = daemons.managers["a"]
    assert (daemons.is_woken(), a.unstored, a.to_store()) == (False, False, (None, None))
    a.evict("c")
    assert daemons.is_woken()
    assert trusted(daemons, "a") == "abc", "the report has not come yet"
    daemons.order()
    assert [trusted(daemons, name) for name in "abc"] == ["ab"] * 3
    for name in "ab":
        roll = daemons.protections[name].roll
        assert roll is not None
        assert not roll.is_trusted("c"), "datagrams are opened by the same identities"


def test_an_eviction_is_written_to_the_file_of_each_daemon() -> None:
    daemons = three()
    a = daemons.managers["a"]
    before = a.roll
    a.evict("c")
    daemons.order()
    assert a.unstored
    assert a.to_store() == (None, WITHOUT_C)
    assert before is not None
    a.roll_stored(before)
    assert (a.unstored, a.to_store()) == (True, (None, WITHOUT_C)), "that is not what it lacks"
    store(a)
    assert (a.unstored, a.to_store()) == (False, (None, None))


def test_keys_and_evictions_are_written_each_in_its_time() -> None:
    daemons = three()
    a = daemons.managers["a"]
    for manager in daemons.managers.values():
        manager.load(ring(1, 2, active=1))
    daemons.order()
    assert a.to_store() == (None, None), "an operator has written that file"
    a.promote(2)
    a.evict("c")
    daemons.order()
    assert a.keys is not None
    assert a.to_store() == (a.keys, WITHOUT_C)
    store(a)
    assert (a.unstored, a.to_store()) == (True, (a.keys, None))
    a.keys_stored(a.keys)
    assert not a.unstored


def test_a_daemon_that_is_evicted_ends_once_its_own_file_says_so() -> None:
    daemons = three()
    daemons.managers["a"].evict("c")
    daemons.order()
    c = daemons.managers["c"]
    assert not c.is_evicted
    for manager in daemons.managers.values():
        store(manager)
    assert [manager.is_evicted for manager in daemons.managers.values()] == [False, False, True]


def test_a_daemon_that_was_away_learns_of_an_eviction_in_the_next_view() -> None:
    daemons = three("a")
    daemons.managers["a"].evict("c")
    daemons.order()
    assert trusted(daemons, "b") == "abc"
    daemons.begin_view("ab")
    assert trusted(daemons, "b") == "ab"


def test_an_eviction_is_passed_on_by_daemons_that_have_only_heard_of_it() -> None:
    daemons = three("ab")
    daemons.managers["a"].evict("c")
    daemons.order()
    daemons.begin_view("bc")
    assert trusted(daemons, "c") == "ab"


def test_a_daemon_that_starts_with_an_eviction_in_its_file_tells_the_others() -> None:
    daemons = three("ab", a=WITHOUT_C)
    assert trusted(daemons, "b") == "ab"
    assert not daemons.managers["a"].unstored, "its own file says so already"
    assert daemons.managers["b"].unstored


def test_an_eviction_is_told_once_and_not_again() -> None:
    daemons = three("ab")
    daemons.managers["a"].evict("c")
    daemons.order()
    store(daemons.managers["b"])
    daemons.begin_view("ab")
    assert not daemons.managers["b"].unstored, "b has nothing new to write"


def test_an_eviction_that_is_impossible_is_refused_with_the_reason() -> None:
    daemons = three()
    a = daemons.managers["a"]
    with pytest.raises(LocalProtocolError, match="a is this daemon"):
        a.evict("a")
    with pytest.raises(LocalProtocolError, match="d has no identity; known are a, b, c"):
        a.evict("d")
    a.evict("c")
    daemons.order()
    with pytest.raises(LocalProtocolError, match="c is evicted already"):
        a.evict("c")


# ---- files that have changed ----


def test_a_changed_file_adds_identities_and_takes_no_eviction_back() -> None:
    daemons = three("ab")
    a = daemons.managers["a"]
    a.evict("c")
    daemons.order()
    a.load(ring(1, active=1), roll_of("abcd"))
    daemons.order()
    assert trusted(daemons, "a") == "abd"
    assert daemons.protections["a"].roll is a.roll
    assert trusted(daemons, "b") == "ab", "each daemon has its own file"


def test_an_eviction_in_a_changed_file_is_told_to_the_others() -> None:
    daemons = three("ab")
    daemons.managers["a"].load(ring(1, active=1), WITHOUT_C)
    daemons.order()
    assert [trusted(daemons, name) for name in "ab"] == ["ab", "ab"]


def test_a_file_without_the_identity_of_this_daemon_is_refused_and_its_keys_too() -> None:
    daemons = three("ab")
    a = daemons.managers["a"]
    for wrong in (roll_of("bc"), Roll({**ROLL.daemons, "a": roll_of("z").daemons["z"]})):
        with pytest.raises(LocalProtocolError, match="do not list a, this daemon"):
            a.load(ring(1, 2, active=1), wrong)
    assert a.roll == ROLL
    assert daemons.known()[0] == ["1"]


def test_a_file_with_wrong_keys_is_refused_and_its_identities_too() -> None:
    a = three("ab").managers["a"]
    with pytest.raises(LocalProtocolError, match="key 1 seals"):
        a.load(ring(2, active=2), roll_of("abcd"))
    assert a.roll == ROLL


def test_identities_are_not_loaded_where_daemons_have_none() -> None:
    daemons = Daemons(ring(1, active=1))
    with pytest.raises(LocalProtocolError, match="needs one to evict another"):
        daemons.managers["a"].load(ring(1, 2, active=1), ROLL)
    assert daemons.known()[0] == ["1"]


def test_operators_see_the_identities_that_count_and_those_that_are_evicted() -> None:
    daemons = three()
    daemons.managers["a"].evict("c")
    daemons.order()
    prints = {name: identity_fingerprint(ROLL.daemons[name]).hex() for name in "abc"}
    assert daemons.describe("b")["identities"] == {
        "daemons": {"a": prints["a"], "b": prints["b"]},
        "evicted": {prints["c"]: "c"},
        "await": [],
    }
