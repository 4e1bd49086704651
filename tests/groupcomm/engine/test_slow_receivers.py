"""Programs for which all senders wait: each is cut off in time, whatever the others do."""

from math import inf

from groupcomm.engine.session_output import SlowReceivers
from groupcomm.session.daemon_session import DaemonSession, SessionLimits

LIMIT_S = 10.0
FULL = (bytes(200),)


def session(number: int) -> DaemonSession:
    """A session with more output than senders may go on with."""
    found = DaemonSession(number, limits=SessionLimits(block_bytes=100))
    found.push(*FULL)
    assert found.blocks
    return found


def test_each_is_late_in_its_turn() -> None:
    blocking = SlowReceivers()
    blocking.add(session(1), 0.0, LIMIT_S)
    blocking.add(session(2), 5.0, LIMIT_S)
    assert blocking.due == 10.0
    assert blocking.pop_overdue(10.0, LIMIT_S) == [1]
    assert blocking.due == 15.0, "nothing more need come of the second"
    assert blocking.pop_overdue(15.0, LIMIT_S) == [1, 2], "who is still there"


def test_who_has_read_has_all_its_time_again() -> None:
    blocking, slow = SlowReceivers(), session(1)
    blocking.add(slow, 0.0, LIMIT_S)
    slow.pop_output(1000)
    assert not blocking
    slow.push(*FULL)
    blocking.add(slow, 9.0, LIMIT_S)
    assert blocking.pop_overdue(10.0, LIMIT_S) == []
    assert blocking.due == 19.0
    slow.pop_output(1000)
    assert blocking.pop_overdue(19.0, LIMIT_S) == []
    assert blocking.due == inf
