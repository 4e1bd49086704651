"""A client of Corosync's closed process groups: libcpg by ctypes, as far as it is needed here."""

import ctypes
import select
import time
from collections.abc import Callable, Sequence
from ctypes import byref, c_char, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Final, Self

from groupcomm.errors import GroupCommError
from groupcomm_tools.bench.plan import GROUP, Plan
from tests.verification.campaigns.peers.peer import LISTEN_S, Client

LIBRARY: Final = "libcpg.so.4"
_OK, _TRY_AGAIN, _TIMED_OUT = 1, 6, 5
_AGREED: Final = 2
_DISPATCH_ONE_NONBLOCKING: Final = 4
_AT_ONCE: Final = 256
_WAIT_S: Final = 15.0
_FULL_MS: Final = 1


class _Name(ctypes.Structure):
    _fields_ = (("length", c_uint32), ("value", c_char * 128))


class _Vector(ctypes.Structure):
    _fields_ = (("base", c_char_p), ("length", c_size_t))


_Deliver = ctypes.CFUNCTYPE(None, c_uint64, c_void_p, c_uint32, c_uint32, c_void_p, c_size_t)
_Change = ctypes.CFUNCTYPE(None, c_uint64, c_void_p, *((c_void_p, c_size_t) * 3))


class _Callbacks(ctypes.Structure):
    _fields_ = (("deliver", _Deliver), ("change", _Change))


class CpgClient(Client):
    """A member of the group.

    A sender must be a member, too, and gets its own messages; libcpg drops them in C when there
    is no callback for them.
    """

    def __init__(self, *, sends: bool) -> None:
        self._cpg = ctypes.CDLL(LIBRARY)
        self._handle = c_uint64()
        self._batch: list[bytes] = []
        self._members = 0
        # They are kept here, as the library calls them while there is a connection.
        self._callbacks = _Callbacks(
            _Deliver() if sends else _Deliver(self._deliver), _Change(self._change)
        )
        self._check("cpg_initialize", byref(self._handle), byref(self._callbacks))
        number = c_int()
        self._check("cpg_fd_get", self._handle, byref(number))
        self._poll = select.poll()
        self._poll.register(number.value, select.POLLIN)

    @classmethod
    async def open(cls, address: str, plan: Plan, *, sends: bool) -> Self:
        client = cls(sends=sends)
        name = GROUP.encode()
        client._check("cpg_join", client._handle, byref(_Name(len(name), name)))
        client._until(lambda: client._members > (plan.receivers if sends else 0))
        return client

    async def send(self, messages: Sequence[bytes]) -> None:
        multicast, vector = self._cpg.cpg_mcast_joined, _Vector()
        handle, at = self._handle, byref(vector)
        for data in messages:
            vector.base, vector.length = data, len(data)
            while (status := multicast(handle, _AGREED, at, 1)) == _TRY_AGAIN:
                if not self._dispatch():
                    self._poll.poll(_FULL_MS)
            if status != _OK:
                raise GroupCommError(f"cpg_mcast_joined fails with status {status}")
        self._dispatch()

    async def receive(self) -> list[bytes]:
        if not self._dispatch():
            self._poll.poll(LISTEN_S * 1000)
            self._dispatch()
        batch, self._batch = self._batch, []
        return batch

    def _deliver(
        self, handle: int, group: int, node: int, process: int, data: int, size: int
    ) -> None:
        self._batch.append(ctypes.string_at(data, size))

    def _change(self, handle: int, group: int, members: int, count: int, *changed: int) -> None:
        self._members = count

    def _dispatch(self) -> int:
        """Pass arrivals to the callbacks, at most this number of bytes; return the number."""
        dispatch, handle = self._cpg.cpg_dispatch, self._handle
        for count in range(_AT_ONCE):
            status = dispatch(handle, _DISPATCH_ONE_NONBLOCKING)
            if status in (_TRY_AGAIN, _TIMED_OUT):
                return count
            if status != _OK:
                raise GroupCommError(f"cpg_dispatch fails with status {status}")
        return _AT_ONCE

    def _until(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _WAIT_S
        while not ready():
            if time.monotonic() > deadline:
                raise GroupCommError(f"{self._members} members of the group, and no more come")
            self._poll.poll(LISTEN_S * 1000)
            self._dispatch()

    def _check(self, function: str, *arguments: Any) -> None:
        """Call it, again and again while the daemon is not ready."""
        deadline = time.monotonic() + _WAIT_S
        while (status := getattr(self._cpg, function)(*arguments)) == _TRY_AGAIN:
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        if status != _OK:
            raise GroupCommError(f"{function} fails with status {status}; does corosync run?")


CLIENT = CpgClient
