"""The bytes of one conversation on a socket, for threads: each call waits in the one that makes it.

One thread reads for all that wait; the others are told whenever it has read something.
"""

import math
import os
import select
import socket
import threading
from contextlib import suppress

from groupcomm.host.tls import AnySocket
from groupcomm_client.conversation import Conversation, Ready
from groupcomm_client.patience import (
    check_time,
    move_on_after,
    seconds_left,
    wait_for_files,
    wait_for_socket,
)
from groupcomm_client.stream import read_some, write_some


class BlockingStream:
    """A socket and the conversation on it.

    What waits raises TimeIsUp as `groupcomm_client.patience` says.

    Args:
        socket_: connected, non-blocking.
        conversation: not greeted yet.

    Attributes:
        lock: to be held by whoever uses the conversation.
    """

    def __init__(self, socket_: AnySocket, conversation: Conversation) -> None:
        self._socket = socket_
        self._conversation = conversation
        self.lock = threading.Condition(threading.Lock())
        self._reading = False  # a thread waits for the socket
        self._unsent = memoryview(b"")
        # Readable when the socket is, or when events were read from it and not taken yet.
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._rings = self._kept_back = False
        self._alarm = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._owes = False  # what filters have sent, and the socket did not take
        conversation.alarm = self._ring_alarm
        self._watched = select.epoll()
        self._watched.register(socket_, select.EPOLLIN)
        self._watched.register(self._bell, select.EPOLLIN)

    def fileno(self) -> int:
        """Readable when there are events, or will soon be."""
        return self._watched.fileno()

    def close(self) -> None:
        """Break the connection off; what was not written yet is lost."""
        with self.lock:
            if self._socket.fileno() >= 0:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads
                self._watched.close()
                os.close(self._bell)
                os.close(self._alarm)
                self._alarm = -1
                self._socket.close()
                self._conversation.broken_off()
                self._conversation.feed(b"")  # who still waits learns of it
                self.lock.notify_all()

    def ring_on(self, more: bool) -> None:
        """Whoever takes the events keeps some back: stay readable, or not any more."""
        with self.lock:
            self._kept_back = more
            self.set_bell()

    # ---- in ----

    def exchange(self, ready: Ready) -> None:
        """Write all that waits, then read until something is so; see `until`."""
        self.flush()
        self.until(ready)

    def until(self, ready: Ready) -> None:
        """Read until something is so; raises SessionEnded if nothing follows."""
        with self.lock:
            while not ready():
                self._conversation.check_open()
                if self._reading:
                    left_s = seconds_left()
                    self.lock.wait(None if left_s == math.inf else left_s)
                else:
                    self._read()
                if not ready():
                    check_time()

    def _read(self) -> None:
        """Wait for what comes, with the lock open meanwhile, and tell the other threads."""
        self._reading = True
        patience_s = self._conversation.patience_s
        self.lock.release()
        try:
            if patience_s is None:
                come = wait_for_socket(self._socket, select.POLLIN)
            else:
                come = self._wait_patiently(patience_s)
        finally:
            self.lock.acquire()
            self._reading = False
        if patience_s is not None:
            self._conversation.wake()
            self.set_bell()
        if come:
            self._feed()
        if self._alarm >= 0 and (patience_s is not None or self._conversation.unasked):
            self._write_unasked()
        self.lock.notify_all()

    def _wait_patiently(self, patience_s: float) -> int:
        """Wait for what comes, or for the time that filters wait for; what of both is there.

        A thread that sends may change that time: it rings the alarm.
        """
        events = select.POLLIN | (select.POLLOUT if self._owes else 0)
        with move_on_after(patience_s):
            return wait_for_files({self._socket.fileno(): events, self._alarm: select.POLLIN})
        return 0

    def _write_unasked(self) -> None:
        """Write what filters have sent of themselves."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._alarm)
        if self._conversation.unasked or self._owes:
            self._unsent, done = write_some(self._socket, self._conversation, self._unsent)
            self._owes = not done

    def _ring_alarm(self) -> None:
        if self._reading and self._alarm >= 0:
            os.eventfd_write(self._alarm, 1)

    def _feed(self) -> None:
        read_some(self._socket, self._conversation)
        self.set_bell()

    # ---- out ----

    def flush(self) -> None:
        """Write all that waits; read meanwhile, for the daemon may wait for that."""
        while True:
            with self.lock:
                self._unsent, done = write_some(self._socket, self._conversation, self._unsent)
                self.set_bell()
                if done or self._conversation.closed is not None:
                    self.lock.notify_all()
                    return
            check_time()
            if wait_for_socket(self._socket, select.POLLIN | select.POLLOUT) & ~select.POLLOUT:
                with self.lock:
                    self._feed()
                    self.lock.notify_all()

    def set_bell(self) -> None:
        """Ring while there are events, or an end to be told; the lock is held."""
        conversation = self._conversation
        wanted = bool(conversation.events) or conversation.closed is not None or self._kept_back
        if wanted != self._rings and self._socket.fileno() >= 0:
            self._rings = wanted
            if wanted:
                os.eventfd_write(self._bell, 1)
            else:
                os.eventfd_read(self._bell)
