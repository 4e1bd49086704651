"""The socket of a client of Spread, used like one of our own clients.

What is read from it are frames of our protocol, and so is what is written to it; the bytes below
are Spread's. It keeps the rules of `groupcomm.host.tls.TlsSocket`: `recv` leaves nothing
behind that it could give, and who was told to come back by `sendmsg` comes back with the same data.
"""

import logging
import socket
from collections.abc import Sequence

from groupcomm.errors import BadDatagram
from groupcomm.session.spread.session import SpreadSession
from groupcomm.wire.packet import Raw

_log = logging.getLogger("groupcommd")


class SpreadSocket:
    """One end of a connection.

    Args:
        socket_: connected, non-blocking; its handshake has come as far as the client's choice.
        session: translates.
    """

    def __init__(self, socket_: socket.socket, session: SpreadSession) -> None:
        self._socket = socket_
        self._session = session
        self._unsent = memoryview(b"")
        self._owed = 0  # bytes of the frames that these are

    def fileno(self) -> int:
        """Return that of the socket below."""
        return self._socket.fileno()

    def recv(self, size: int) -> bytes:
        """Return frames that the client asks for with about so many bytes; b"" at the end.

        Raises:
            BlockingIOError: nothing is there, or no whole message.
            OSError: the connection is broken, or the client breaks the protocol.
        """
        raw = self._socket.recv(size)
        if not raw:
            return b""
        try:
            frames = self._session.receive_untrusted(raw)
        except BadDatagram as error:
            _log.info("a client of Spread is cut off: %s", error)
            raise ConnectionAbortedError(str(error)) from None
        if not frames:
            raise BlockingIOError
        return frames

    def send(self, data: Raw) -> int:
        """Send all of some frames.

        Raises:
            BlockingIOError: come back with the same data.
            OSError: the connection is broken, or the client cannot be told what it is to be told.
        """
        return self.sendmsg((data,))

    def sendmsg(self, parts: Sequence[Raw]) -> int:
        """Send all of several parts; see `send`."""
        if not self._owed:
            data = b"".join(parts)
            try:
                self._unsent = memoryview(self._session.translate(data))
            except BadDatagram as error:
                _log.info("a client of Spread is cut off: %s", error)
                raise ConnectionAbortedError(str(error)) from None
            self._owed = len(data)
        while self._unsent:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        sent, self._owed = self._owed, 0
        return sent

    def shutdown(self, how: int) -> None:
        """Say that nothing follows."""
        self._socket.shutdown(how)

    def close(self) -> None:
        """Close the socket below."""
        self._socket.close()
