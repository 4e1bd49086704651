"""Sessions that came by a token: they are over once it counts no more."""

from collections.abc import Callable

from groupcomm.core.desk import Desk
from groupcomm.session.codes import Code
from groupcommd.doors import TlsDoor


class TokenSessions:
    """The sessions of one daemon that have come by tokens."""

    def __init__(self, desk: Desk, door: TlsDoor | None) -> None:
        self._desk = desk
        self._door = door

    def end_revoked(self) -> None:
        """End the sessions of tokens that were removed."""
        door = self._door
        if door is not None:
            self._end(lambda name: not door.admits_token(name))

    def end_expired(self) -> bool:
        """End the sessions of tokens that have expired; return whether there were any."""
        expired = frozenset() if self._door is None else self._door.expired_tokens()
        return bool(expired) and self._end(expired.__contains__)

    def _end(self, is_over: Callable[[str], bool]) -> bool:
        any_ended = False
        for number in list(self._desk.sessions):
            kind, _, name = self._desk.principal_of(number).partition(":")
            if kind == "token" and is_over(name):
                reason = "its token was revoked or has expired"
                self._desk.dismiss(number, Code.REJECT_AUTH, reason)
                any_ended = True
        return any_ended
