"""The socket of a client of Spread, used like the socket of one of groupcomm's own clients.

It reads and writes frames of groupcomm's protocol, and translates them from and to the bytes of
Spread's. It keeps the rules of `groupcomm.host.tls.TlsSocket`: `recv` returns everything that it
can, and after a BlockingIOError of `sendmsg` the caller calls again with the same data.
"""

import logging
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar, Final

from groupcomm.errors import BadDatagram
from groupcomm.session.requests import Price
from groupcomm.session.spread.session import HELD_BYTES, SpreadSession
from groupcomm.wire.packet import Raw, parts_behind
from groupcommd.host.bounded_log import BoundedLog
from groupcommd.programs.half_messages import HalfMessages

MAX_PARTS: Final = 1024
"""The parts of one write: the system accepts no more (IOV_MAX)."""

TURN_BYTES: Final = 128 * 1024
"""Written to one client in one turn, and the piece that is more: frames may become much longer."""


class SpreadBroken(ConnectionAbortedError):
    """A client of Spread breaks its protocol, or its protocol cannot express what it should get."""


class SpreadSocket:
    """One end of a connection of Spread.

    Args:
        socket_: the connected non-blocking socket; only the daemon's answer is missing from its
            handshake.
        session: translates between the protocols.
        log: bounds what clients add to the daemon's log.
        principal: the owner of the session.
        halves: the half messages of all clients of the same listener.

    Attributes:
        skipped: messages that clients of Spread did not get as they were too large, of all sockets.
    """

    skipped: ClassVar[int] = 0

    def __init__(
        self,
        socket_: socket.socket,
        session: SpreadSession,
        log: BoundedLog,
        principal: str,
        halves: HalfMessages,
    ) -> None:
        self._socket = socket_
        self._principal = principal
        self._halves = halves
        self._must_go = False  # its half message is the oldest of too many
        self._counted = 0  # messages that had come whole when the half one was noted
        self._log = log
        self._session = session
        self._frames: deque[Raw] = deque()  # not translated yet
        self._unsent: Sequence[Raw] = ()
        self._unread = False  # whether the socket may have bytes of which the system has told
        self._owed = 0  # the size of the frames in these bytes
        self._skipped = 0  # messages of this session

    def fileno(self) -> int:
        """Return the descriptor of the socket below."""
        return self._socket.fileno()

    @property
    def more(self) -> bool:
        """Return whether the next call of `recv` may find something if nothing new comes."""
        return self._session.ahead or self._unread

    def pop_spent(self) -> Price:
        """Return the price of the messages that were translated since the last call."""
        return self._session.pop_spent()

    def recv(self, size: int) -> bytes:
        """Return frames that the client asks for, of about `size` bytes; b"" at the end.

        A call does a bounded amount of work; see `more`.

        Raises:
            BlockingIOError: no whole message has come.
            SpreadBroken: the client breaks the protocol.
            OSError: the connection is broken.
        """
        if self._must_go:
            raise SpreadBroken(
                "half messages of too many bytes wait for their rest, and its own is the oldest:"
                " send messages whole"
            )
        raw = b""
        if self._session.ahead:
            self._unread = True  # bytes may have come meanwhile
        else:
            self._unread = False
            raw = self._socket.recv(size)
            self._unread = len(raw) == size
            if not raw:
                return b""
        try:
            frames = self._session.receive_untrusted(raw)
        except BadDatagram as error:
            raise SpreadBroken(str(error)) from None
        self._note_half()
        if not frames:
            raise BlockingIOError
        return frames

    def _note_half(self) -> None:
        """Note the bytes of a message that has come in part; end the client that has to go."""
        session = self._session
        begins, self._counted = session.read > self._counted, session.read
        oldest = self._halves.note(self, self._principal, session.held_bytes, begins=begins)
        if isinstance(oldest, SpreadSocket):
            oldest.end()

    def end(self) -> None:
        """Drop the half message, and have the next read end the connection."""
        self._must_go = True
        HalfMessages.ended += 1
        self._halves.note(self, self._principal, 0)
        self._session.drop_input()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def send(self, data: Raw) -> int:
        """Send all of the frames.

        Raises:
            BlockingIOError: call again with the same data.
            SpreadBroken: Spread's protocol cannot express the frame.
            OSError: the connection is broken.
        """
        return self.sendmsg((data,))

    def sendmsg(self, parts: Sequence[Raw]) -> int:
        """Send all of several parts, TURN_BYTES in one call; see `send`."""
        if not self._owed:
            self._frames.extend(parts)
            self._owed = sum(map(len, parts))
        left = TURN_BYTES
        while self._unsent or self._frames:
            if left <= 0:
                raise BlockingIOError
            if not self._unsent:
                self._translate_piece()
                continue
            sent = self._socket.sendmsg(self._unsent[:MAX_PARTS])
            self._unsent = parts_behind(self._unsent, sent)
            left -= sent
        size, self._owed = self._owed, 0
        return size

    def _translate_piece(self) -> None:
        try:
            self._unsent = self._session.translate_piece(self._frames)
        except BadDatagram as error:
            raise SpreadBroken(str(error)) from None
        if self._session.skipped > self._skipped:
            self._note_skipped()

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
        """Close the socket below; its half message counts no more."""
        self._halves.note(self, self._principal, 0)
        self._socket.close()
