"""The parts of a member's identity."""

import pytest

from groupcomm.events import MemberId
from groupcomm.names import private_name


@pytest.mark.parametrize(("user", "daemon"), [("ann", "local"), ("a/1", "hall 2"), ("ü", "/")])
def test_user_and_daemon_are_the_parts_of_the_private_name(user: str, daemon: str) -> None:
    member = MemberId(private_name(user, daemon), 7)
    assert (member.user, member.daemon) == (user, daemon)


def test_a_session_that_was_not_admitted_has_neither() -> None:
    member = MemberId("", 0)
    assert (member.user, member.daemon) == ("", "")
