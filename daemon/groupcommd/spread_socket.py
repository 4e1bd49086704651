"""The socket of a client of Spread, used like the socket of one of groupcomm's own clients.

It reads and writes frames of groupcomm's protocol, and translates them from and to the bytes of
Spread's. It keeps the rules of `groupcomm.host.tls.TlsSocket`: `recv` returns everything that it
can, and after a BlockingIOError of `sendmsg` the caller calls again with the same data.
"""

import logging
import socket
from collections.abc import Sequence
from typing import ClassVar

from groupcomm.errors import BadDatagram
from groupcomm.session.spread.session import HELD_BYTES, SpreadSession
from groupcomm.wire.packet import Raw
from groupcommd.bounded_log import BoundedLog


class SpreadBroken(ConnectionAbortedError):
    """A client of Spread breaks its protocol, or its protocol cannot express what it should get."""


class SpreadSocket:
    """One end of a connection of Spread.

    Args:
        socket_: the connected non-blocking socket; only the daemon's answer is missing from its
            handshake.
        session: translates between the protocols.
        log: bounds what clients add to the daemon's log.

    Attributes:
        skipped: messages that clients of Spread did not get as they were too large, of all sockets.
    """

    skipped: ClassVar[int] = 0

    def __init__(self, socket_: socket.socket, session: SpreadSession, log: BoundedLog) -> None:
        self._socket = socket_
        self._log = log
        self._session = session
        self._unsent = memoryview(b"")
        self._owed = 0  # the size of the frames in these bytes
        self._skipped = 0  # messages of this session

    def fileno(self) -> int:
        """Return the descriptor of the socket below."""
        return self._socket.fileno()

    def recv(self, size: int) -> bytes:
        """Return frames that the client asks for, of about `size` bytes; b"" at the end.

        Raises:
            BlockingIOError: no whole message has come.
            SpreadBroken: the client breaks the protocol.
            OSError: the connection is broken.
        """
        raw = self._socket.recv(size)
        if not raw:
            return b""
        try:
            frames = self._session.receive_untrusted(raw)
        except BadDatagram as error:
            raise SpreadBroken(str(error)) from None
        if not frames:
            raise BlockingIOError
        return frames

    def send(self, data: Raw) -> int:
        """Send all of the frames.

        Raises:
            BlockingIOError: call again with the same data.
            SpreadBroken: Spread's protocol cannot express the frame.
            OSError: the connection is broken.
        """
        return self.sendmsg((data,))

    def sendmsg(self, parts: Sequence[Raw]) -> int:
        """Send all of several parts; see `send`."""
        if not self._owed:
            data = b"".join(parts)
            try:
                self._unsent = memoryview(self._session.translate(data))
            except BadDatagram as error:
                raise SpreadBroken(str(error)) from None
            self._owed = len(data)
            if self._session.skipped > self._skipped:
                self._note_skipped()
        while self._unsent:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        sent, self._owed = self._owed, 0
        return sent

    def _note_skipped(self) -> None:
        """Count the messages that were skipped; log the first one of the session."""
        session = self._session
        if not self._skipped:
            name, sender = session.name.decode(errors="replace"), session.skipped_from
            self._log.line(
                "spread: skipped",
                logging.WARNING,
                "%s, a client of Spread, does not get a message of %s: clients of Spread get up to"
                " %d MiB, of all large messages that come at a time; send smaller ones. This is"
                " logged once for each client",
                name,
                sender,
                HELD_BYTES // 2**20,
                extra={"client": name, "sender": str(sender)},
            )
        SpreadSocket.skipped += session.skipped - self._skipped
        self._skipped = session.skipped

    def shutdown(self, how: int) -> None:
        """End the output."""
        self._socket.shutdown(how)

    def close(self) -> None:
        """Close the socket below."""
        self._socket.close()
