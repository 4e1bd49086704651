"""Sessions that end because what has let them in counts no more: their token or certificate."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from groupcomm.core import DaemonCore
from groupcomm.session.codes import Code
from groupcommd.clients import Clients
from groupcommd.doors import Keeper, TlsDoor
from groupcommd.shown_certificate import ShownCertificate

_TOKEN: Final = "its token was revoked or has expired"
_CERTIFICATE: Final = "its certificate was revoked or has ended, or its authority is gone"


def now() -> datetime:
    """Return the time by the wall clock."""
    return datetime.now(UTC)


class Expiry:
    """Of the programs of one daemon.

    Args:
        core: has the sessions.
        clients: know what each has shown.
        door: by which they came; None if there is none.
    """

    def __init__(self, core: DaemonCore, clients: Clients, door: TlsDoor | None) -> None:
        self._desk = core.desk
        self._clients = clients
        self._door = door

    def look(self) -> bool:
        """End sessions whose token or certificate has ended; tell whether there were any."""
        if self._door is None:
            return False
        time = now()
        expired = self._door.expired_tokens()
        any_ended = bool(expired) and self._end_tokens(expired.__contains__)
        return self._end_certificates(lambda one: one.ends <= time) or any_ended

    def renew(self, keeper: Keeper | None) -> None:
        """Have what files hold now count, and end the sessions of what does not any more.

        Args:
            keeper: of what was read again; None if nothing but tokens was.
        """
        door = self._door
        if door is None:
            return
        old, door.keeper = door.keeper, keeper or door.keeper
        new, distrusts = door.keeper, door.keeper.ca != old.ca
        self._end_tokens(lambda name: not door.admits_token(name))
        self._end_certificates(
            lambda one: new.revoked.has(one) or (distrusts and not one.is_signed_by(new.ca))
        )

    def _end_tokens(self, is_over: Callable[[str], bool]) -> bool:
        any_ended = False
        for number in list(self._desk.sessions):
            kind, _, name = self._desk.principal_of(number).partition(":")
            if kind == "token" and is_over(name):
                self._desk.dismiss(number, Code.REJECT_AUTH, _TOKEN)
                any_ended = True
        return any_ended

    def _end_certificates(self, is_over: Callable[[ShownCertificate], bool]) -> bool:
        over = [number for number, shown in self._clients.certificates().items() if is_over(shown)]
        for number in over:
            self._desk.dismiss(number, Code.REJECT_AUTH, _CERTIFICATE)
        return bool(over)
