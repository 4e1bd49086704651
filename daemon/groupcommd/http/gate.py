"""The gate: authenticates requests. Whether the rules allow an answer, the daemon decides.

A request has a principal, like a session of a program: the user at the other end, as the system
reports it; the name of a token; or that of a certificate. Everybody who can connect may ask for
health. All other answers show names of groups and members. Without rules they are for all users who
may connect to the daemon, and for holders of a token or certificate for it; with rules for
principals that a rule allows ``admin``, like the same questions of a session.

A page of another site, in the browser of an admitted user, must learn nothing. It can send
requests to loopback addresses, and with a name of its own that leads there (DNS rebinding) even
read the answers. So where the user alone counts, the request must name the daemon by an address or
as localhost; and a request that the browser marks as coming from another site gets no answer.
"""

import base64
import binascii
import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from groupcomm.errors import GroupCommError
from groupcommd.programs.token_file import TokenBook

MAX_TOKEN_BYTES: Final = 256


class Refusal(GroupCommError):
    """A request that is not answered; the text names the fault and the remedy.

    Attributes:
        status: the status code of HTTP.
        reason: one word for the counters.
    """

    def __init__(self, status: int, reason: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason


class Gate:
    """The rules by which requests are admitted.

    Args:
        tokens: the valid tokens; None if no token is valid.
    """

    def __init__(self, tokens: TokenBook | None) -> None:
        self.tokens = tokens

    def identify(self, headers: Mapping[bytes, bytes], principal: str | None) -> str:
        """Return the principal of a request, for which rules may allow an answer.

        Args:
            headers: the headers of the request, names in lower case.
            principal: the principal of the connection; None if it has none.

        Raises:
            Refusal: it may not.
        """
        site, mode = headers.get(b"sec-fetch-site"), headers.get(b"sec-fetch-mode")
        if site in (b"cross-site", b"same-site") and mode != b"navigate":
            raise Refusal(403, "site", "a page of another site may not ask this daemon")
        authorization = headers.get(b"authorization")
        if authorization is not None:
            principal = self._by_token(authorization)
        elif principal is None:
            raise Refusal(401, "token", self._how_to_prove)
        elif principal.startswith(("unix:", "uid:")) and not is_own_name(headers.get(b"host")):
            raise Refusal(
                421, "host", "name the daemon by its address or as localhost, or bring a token"
            )
        return principal

    def still_admits(self, principal: str) -> bool:
        """Return whether a principal that was identified may go on: its token is valid."""
        kind, _, name = principal.partition(":")
        if kind != "token":
            return True
        return self.tokens is not None and self.tokens.knows(name, datetime.now(UTC))

    @property
    def _how_to_prove(self) -> str:
        if self.tokens is None:
            return (
                "this user may not ask: clients.unix_for says who may; others need a token, and"
                " http.tokens is not set"
            )
        return "a token is needed: Authorization: Bearer NAME:SECRET, or as name and password"

    def _by_token(self, authorization: bytes) -> str:
        token = read_authorization_untrusted(authorization)
        if token is None or self.tokens is None:
            raise Refusal(401, "token", self._how_to_prove)
        name = self.tokens.name_of(token, datetime.now(UTC))
        if name is None:
            raise Refusal(401, "token", "the token is wrong, was revoked or has expired")
        return f"token:{name}"


def read_authorization_untrusted(value: bytes) -> str | None:
    """Return the token of an Authorization header, by Bearer or Basic; None if there is none."""
    kind, _, rest = value.strip().partition(b" ")
    rest = rest.strip()
    if len(rest) > 2 * MAX_TOKEN_BYTES:
        return None
    try:
        if kind.lower() == b"basic":
            rest = base64.b64decode(rest, validate=True)
        elif kind.lower() != b"bearer":
            return None
        return rest.decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def is_own_name(host: bytes | None) -> bool:
    """Return whether a Host header names a host by an address, or as localhost."""
    if host is None:
        return True  # HTTP/1.0, which no browser uses
    text = host.decode("ascii", "replace").lower()
    name = text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
