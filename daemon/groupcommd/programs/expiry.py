"""Expiry: the sessions of programs whose token or certificate is not valid any more end."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import trio

from groupcomm.engine import ClientDismissed
from groupcomm.errors import Code
from groupcomm.host.tls import PeerCertificate
from groupcommd.programs.connections import Connections
from groupcommd.programs.credentials import TlsCredentials
from groupcommd.programs.listeners import TlsListener

TOKENS_INTERVAL_S: Final = 1.0
"""Between looks at the file of tokens; each program that shows a token causes another one."""

_TOKEN: Final = "the token of this program was revoked or has expired"
_CERTIFICATE: Final = (
    "the certificate of this program was revoked or has ended, or its authority is not "
    "trusted any more"
)


def now() -> datetime:
    """Return the time of the wall clock."""
    return datetime.now(UTC)


class Expiry:
    """Ends the sessions of programs whose token or certificate is not valid any more.

    Args:
        clients: the connections of one daemon, with their principals and certificates.
        listener: accepts the programs; None if the daemon has no TLS listener.
    """

    def __init__(self, clients: Connections, listener: TlsListener | None) -> None:
        self._clients = clients
        self._listener = listener

    def end_expired(self) -> bool:
        """End the sessions whose token or certificate is invalid; return whether there were any."""
        if self._listener is None:
            return False
        time = now()
        expired = self._listener.credentials.expired_tokens()
        any_ended = bool(expired) and self._end_tokens(expired.__contains__)
        return self._end_certificates(lambda shown: shown.ends <= time) or any_ended

    async def watch_tokens(self) -> None:
        """Look each second, in a thread, whether the file of tokens has changed."""
        while True:
            await trio.sleep(TOKENS_INTERVAL_S)
            if self._listener is not None:
                refresh = self._listener.credentials.refresh
                await trio.to_thread.run_sync(refresh, abandon_on_cancel=True)

    def renew(self, credentials: TlsCredentials | None) -> None:
        """Replace the credentials, and end the sessions that the new ones do not allow.

        Args:
            credentials: read anew; None if only the file of tokens was read.
        """
        listener = self._listener
        if listener is None:
            return
        old, new = listener.credentials, credentials or listener.credentials
        listener.credentials = new
        self._end_tokens(lambda name: not new.accepts_token(name))
        self._end_certificates(lambda shown: not new.still_trusts(shown, old))

    def _end_tokens(self, is_over: Callable[[str], bool]) -> bool:
        over = []
        for number, principal in self._clients.principals():
            kind, _, name = principal.partition(":")
            if kind == "token" and is_over(name):
                over.append(number)
        return self._dismiss(over, _TOKEN)

    def _end_certificates(self, is_over: Callable[[PeerCertificate], bool]) -> bool:
        shown = self._clients.certificates()
        return self._dismiss([n for n, each in shown.items() if is_over(each)], _CERTIFICATE)

    def _dismiss(self, connections: list[int], reason: str) -> bool:
        """Have the next step end sessions; return whether there are any."""
        inputs = self._clients.inputs
        inputs += [ClientDismissed(number, Code.REJECT_AUTH, reason) for number in connections]
        return bool(connections)
