"""User names of sessions: held by one, waited for in order, and not for ever."""

from math import inf

from groupcomm.engine.admission import NAME_WAIT_S, UserNames


def test_a_name_has_one_holder_until_it_is_free() -> None:
    names = UserNames()
    assert names.holder("ann") is None
    names.assign("ann", 1)
    assert names.holder("ann") == 1
    assert names.free("ann") is None
    assert names.holder("ann") is None


def test_those_that_wait_for_a_name_get_it_in_their_order() -> None:
    names = UserNames()
    names.assign("ann", 1)
    for connection in (2, 3, 4):
        names.queue("ann", connection)
    names.unqueue("ann", 3)
    names.unqueue("ann", 9)
    names.unqueue("bob", 2)
    assert names.free("ann") == 2
    names.assign("ann", 2)
    assert names.free("ann") == 4
    names.assign("ann", 4)
    assert names.free("ann") is None


def test_those_in_doubt_wait_for_a_time_each() -> None:
    names = UserNames()
    assert (names.due, names.pop_overdue(100.0)) == (inf, [])
    for connection, now in ((1, 0.0), (2, 0.25), (3, 0.5)):
        names.queue_in_doubt(connection, now)
    assert names.due == NAME_WAIT_S
    assert names.pop_overdue(NAME_WAIT_S - 1e-6) == []
    assert names.pop_overdue(NAME_WAIT_S) == [1]
    assert names.due == NAME_WAIT_S + 0.25
    assert names.pop_overdue(NAME_WAIT_S + 0.5) == [2, 3]
    assert names.due == inf
