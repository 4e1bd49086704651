"""The names of users who connect, from the system's name service, for which the loop never waits.

The service may be a file, or a directory on another host that is down. Threads ask it. While it
does not answer, users keep the names that they had.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import trio

from groupcomm.errors import Code, GroupCommError
from groupcommd.programs.local_users import Admits, known_principal, unix_principal

ANSWER_S: Final = 2.0
"""The time that the name service has to answer."""

_ASKING: Final = trio.CapacityLimiter(4)  # threads; those that wait for the disk are others

_Found = TypeVar("_Found")


class PeerRefused(GroupCommError):
    """A listener does not accept a program.

    Attributes:
        reason: one word for the counters.
        code: the code that the program gets, if it can get an answer.
    """

    def __init__(self, reason: str, text: str, code: Code = Code.REJECT_AUTH) -> None:
        super().__init__(text)
        self.reason = reason
        self.code = code


async def principal_of(uid: int) -> str:
    """Return the principal of a user: see `groupcommd.programs.local_users.unix_principal`.

    Raises:
        PeerRefused: the name service does not answer, and the name was never read.
        OSError: there is no descriptor, and the name was never read.
    """
    known = known_principal(uid) or await _ask(unix_principal, uid)
    known = known or known_principal(uid, of_any_age=True)
    if known is None:
        raise _unanswered(uid)
    return known


async def admitted_principal(admits: Admits, uid: int) -> str:
    """Return the principal of a user who connects by TCP.

    Args:
        admits: returns whether a user may connect.
        uid: the user.

    Raises:
        PeerRefused: the user may not connect, or see `principal_of`.
        OSError: see `principal_of`.
    """
    is_admitted = await _ask(admits, uid)
    if is_admitted is None:
        raise _unanswered(uid)
    if not is_admitted:
        text = f"user {uid} may not connect to this daemon: its clients.unix_for says who may"
        raise PeerRefused("user", text)
    return await principal_of(uid)


async def _ask(question: Callable[[int], _Found], uid: int) -> _Found | None:
    """Return the answer of a function that may wait; None if it waits too long."""
    with trio.move_on_after(ANSWER_S):
        return await trio.to_thread.run_sync(question, uid, abandon_on_cancel=True, limiter=_ASKING)
    return None


def _unanswered(uid: int) -> PeerRefused:
    return PeerRefused(
        "user",
        f"the name of user {uid} is not known, as the name service of this host has not answered"
        f" for {ANSWER_S:g} s: examine it with getent passwd {uid}, and try again",
    )
