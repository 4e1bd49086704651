"""Sessions that end because what has let them in counts no more: their token or certificate."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from groupcomm.engine import ClientDismissed
from groupcomm.host.shown_certificate import ShownCertificate
from groupcomm.session.codes import Code
from groupcommd.clients import Clients
from groupcommd.doors import Keeper, TlsDoor

_TOKEN: Final = "its token was revoked or has expired"
_CERTIFICATE: Final = "its certificate was revoked or has ended, or its authority is gone"


def now() -> datetime:
    """Return the time by the wall clock."""
    return datetime.now(UTC)


class Expiry:
    """Of the programs of one daemon.

    Args:
        clients: know whose each is, and what it has shown.
        door: by which they came; None if there is none.
    """

    def __init__(self, clients: Clients, door: TlsDoor | None) -> None:
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
        over = []
        for number, principal in self._clients.principals():
            kind, _, name = principal.partition(":")
            if kind == "token" and is_over(name):
                over.append(number)
        return self._dismiss(over, _TOKEN)

    def _end_certificates(self, is_over: Callable[[ShownCertificate], bool]) -> bool:
        shown = self._clients.certificates()
        return self._dismiss([n for n, one in shown.items() if is_over(one)], _CERTIFICATE)

    def _dismiss(self, connections: list[int], why: str) -> bool:
        """Have the next step end sessions; tell whether there are any."""
        inputs = self._clients.inputs
        inputs += [ClientDismissed(number, Code.REJECT_AUTH, why) for number in connections]
        return bool(connections)
