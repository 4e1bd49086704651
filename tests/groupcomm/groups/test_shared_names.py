"""Rings have to do with each other by the groups of several of them, and by rights to send."""

from groupcomm.groups.pruning import SharedNames
from tests.groupcomm.looked_at import LookedAt
from tests.groupcomm.ring.harness import make_view

HERE, BESIDE, THERE = 0, 1, 2


def shared() -> SharedNames:
    return SharedNames(make_view((HERE, BESIDE), (THERE, 3)))


def test_a_group_of_one_ring_is_not_shared_however_many_want_it() -> None:
    names = shared()
    for daemon in (HERE, BESIDE, HERE):
        names.add(daemon, "g")
    names.add(THERE, "h")
    assert not names.any


def test_a_group_is_shared_until_only_one_ring_wants_it() -> None:
    names = shared()
    names.add(HERE, "g")
    names.add(THERE, "g")
    names.add(3, "g")
    assert names.any
    names.remove(THERE, "g")
    assert names.any
    names.remove(3, "g")
    names.remove(3, "g")
    assert not names.any
    names.remove(HERE, "g")
    assert (names._daemons, names._rings) == ({}, {})


def test_who_may_send_to_a_program_of_another_ring_shares_its_name() -> None:
    names, daemons = shared(), [each.name for each in make_view((0, 1), (2, 3)).daemons]
    names.add(HERE, f"#u#{daemons[BESIDE]}")
    assert not names.any
    names.add(HERE, f"#u#{daemons[THERE]}")
    assert names.any
    names.remove(HERE, f"#u#{daemons[THERE]}")
    assert not names.any


def test_no_name_costs_a_look_at_all() -> None:
    names = shared()
    names._daemons = daemons = LookedAt[str, set[int]]()
    for number in range(100):
        names.add(HERE, f"g{number}")
        names.add(THERE, f"g{number}")
        names.remove(HERE, f"g{number}")
    assert (daemons.looks, names.any) == (0, False)
