"""Handshake of Spread's protocol: how a client and its daemon begin.

Pure and without time; docs/spread-clients.md has the table of states. ::

    client  major u8, minor u8, patch u8 (after 3.14), flags u8, length u8, private name
    daemon  length u8, names of methods of authentication: from 3.16 on
    client  three fields of 30 bytes: the methods it chooses
    daemon  1, its version, length u8, private group name; or a code below 0, and the end

A length of the daemon's that is below 0 is a code, too. The client's bytes may come in any pieces.
"""

import enum
from typing import Final

from groupcomm.errors import Code, SessionError
from groupcomm.session.spread.names import user_fault

METHODS: Final = b"NULL "
"""The name of no authentication: the daemon knows the program by other means, or not at all."""

VERSION: Final = (5, 0, 1)
"""The newest release of Spread whose clients are supported."""

OLDEST: Final = (3, 1, 0)
_HAS_PATCH: Final = (3, 14)  # versions above this one
_HAS_METHODS: Final = (3, 16)  # this version and later ones
_METHOD_BYTES: Final = 30
_CHOSEN_BYTES: Final = 3 * _METHOD_BYTES
_ACCEPTED: Final = b"\x01"
_WANTS_VIEWS: Final = 0x01
_MAX_USER: Final = 10

REJECTED: Final = frozenset(
    (
        *(Code.REJECT_QUOTA, Code.REJECT_NAME, Code.REJECT_NOT_UNIQUE),
        *(Code.REJECT_VERSION, Code.REJECT_AUTH),
    )
)
"""Codes that a client of Spread may get instead of an answer."""


class State(enum.Enum):
    """The stage of a handshake."""

    VERSION = enum.auto()  # the client has not sent all of its first message
    METHODS = enum.auto()  # the client was sent the methods, and has not chosen one
    DONE = enum.auto()  # the client has sent everything; `accept` or `reject` ends the handshake


class Handshake:
    """The daemon's side of one handshake.

    Attributes:
        state: the stage of the handshake.
        version: the version of the client's library; empty before it is known.
        user: the name that the client asks for; "" for any.
        wants_views: whether it asks for views.
    """

    __slots__ = ("_heard", "state", "user", "version", "wants_views")

    def __init__(self) -> None:
        self.state = State.VERSION
        self.version: tuple[int, ...] = ()
        self.user = ""
        self.wants_views = False
        self._heard = bytearray()

    def receive_untrusted(self, data: bytes) -> bytes:
        """Accept bytes of the client; return the reply to send now.

        Raises:
            SessionError: the client is refused; `reject` sends it the code. No other exception,
                whatever the bytes.
        """
        self._heard += data
        answer = b""
        if self.state is State.VERSION and self._receive_version():
            if self.version >= _HAS_METHODS:
                self.state = State.METHODS
                answer = bytes((len(METHODS),)) + METHODS
            else:
                self.state = State.DONE
        if self.state is State.METHODS and len(self._heard) >= _CHOSEN_BYTES:
            self._receive_methods()
            self.state = State.DONE
        if self.state is State.DONE and self._heard:
            raise SessionError(Code.ILLEGAL_SESSION, "more comes before the handshake is over")
        return answer

    def _receive_version(self) -> bool:
        """Return whether the client's first message is whole; accept it then."""
        heard = self._heard
        if len(heard) < 2:
            return False
        head = 3 if tuple(heard[:2]) > _HAS_PATCH else 2
        if len(heard) >= head:
            version = (*heard[:head], 0)[:3]
            if version < OLDEST:
                text = f"its library is of version {'.'.join(map(str, version))}; 3.1.0 will do"
                raise SessionError(Code.REJECT_VERSION, text)
        if len(heard) < head + 2:
            return False
        flags, size = heard[head : head + 2]
        start, end = head + 2, head + 2 + size
        if size > _MAX_USER:
            raise SessionError(Code.REJECT_NAME, user_fault(bytes(size)))
        if len(heard) < end:
            return False
        raw = bytes(heard[start:end])
        if fault := user_fault(raw):
            raise SessionError(Code.REJECT_NAME, fault)
        self.version = version
        self.user = raw.decode("ascii")
        self.wants_views = bool(flags & _WANTS_VIEWS)
        del heard[:end]
        return True

    def _receive_methods(self) -> None:
        chosen = []
        for start in range(0, _CHOSEN_BYTES, _METHOD_BYTES):
            name = bytes(self._heard[start : start + _METHOD_BYTES]).partition(b"\0")[0]
            if not name:
                break
            chosen.append(name)
        del self._heard[:_CHOSEN_BYTES]
        if not chosen or any(name + b" " != METHODS for name in chosen):
            raise SessionError(Code.REJECT_AUTH, f"it chooses {chosen!r}; NULL is the one method")

    def accept(self, private_name: bytes) -> bytes:
        """Return the answer to a client that is admitted; it wants it in one piece."""
        own = VERSION[:2] if self.version[:2] <= _HAS_PATCH else VERSION
        return b"%b%b%c%b" % (_ACCEPTED, bytes(own), len(private_name), private_name)

    def reject(self, code: int) -> bytes:
        """Return the answer to a client that is not; empty if Spread has no code for the reason."""
        return (code & 0xFF).to_bytes(1, "big") if code in REJECTED else b""
