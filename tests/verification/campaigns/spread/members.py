"""Programs of three kinds in the same groups, with one interface: Spread's, ours, and SP_ ones.

What they receive has the names, ids and types of Spread's protocol, as `SpreadChecker` wants them.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

import trio

from groupcomm.events import Message
from groupcomm.level import LEVELS
from groupcomm.session.spread.names import encode_name
from groupcomm.session.spread.views import group_id
from groupcomm_client import Connection
from groupcomm_client import connect as connect_own
from groupcomm_client import spread_api as sp
from groupcomm_tools.local_cluster import LocalDaemon
from tests.groupcommd.spread_client import BY_LEAVE, SELF_DISCARD, TRANSITION, Received, connect
from tests.verification.campaigns.spread.checker import SERVICES, View

LISTEN_S: Final = 0.2


class Member(Protocol):
    """A session.

    Attributes:
        name: its private name, as Spread's programs see it.
    """

    name: str

    async def join(self, group: str) -> None:
        """Ask to become a member."""

    async def leave(self, group: str) -> None:
        """Ask to be a member no longer."""

    async def multicast(self, groups: list[str], data: bytes, service: int, tag: int) -> None:
        """Send a message."""

    async def receive(self, *, patient: bool) -> Received | View:
        """Wait for the next message or view."""


def shown(name: str) -> str:
    """Return a name as Spread's programs see it."""
    return encode_name(name).decode()


def _all_shown(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(shown, names))


class OwnMember:
    """A session of our own protocol; its views are left out."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.name = shown(connection.name)

    async def join(self, group: str) -> None:
        await self._connection.join(group)

    async def leave(self, group: str) -> None:
        await self._connection.leave(group)

    async def multicast(self, groups: list[str], data: bytes, service: int, tag: int) -> None:
        level = LEVELS[(service & SERVICES).bit_length() - 1]
        discard = bool(service & SELF_DISCARD)
        await self._connection.multicast(groups, data, level=level, type=tag, self_discard=discard)

    async def receive(self, *, patient: bool) -> Received:
        while not isinstance(event := await self._connection.receive(), Message):
            pass
        sender, groups = shown(event.sender.name), _all_shown(event.groups)
        return _plain(sender, groups, event.type, event.data)


class ApiMember:
    """A session of Spread's functions in Python, each call in a thread."""

    def __init__(self, mbox: int, name: str) -> None:
        self._mbox = mbox
        self._threads = trio.CapacityLimiter(2)  # one receives while another one sends
        self.name = name

    async def join(self, group: str) -> None:
        await trio.to_thread.run_sync(sp.SP_join, self._mbox, group, limiter=self._threads)

    async def leave(self, group: str) -> None:
        await trio.to_thread.run_sync(sp.SP_leave, self._mbox, group, limiter=self._threads)

    async def multicast(self, groups: list[str], data: bytes, service: int, tag: int) -> None:
        arguments = self._mbox, service, groups, tag, data
        await trio.to_thread.run_sync(sp.SP_multigroup_multicast, *arguments, limiter=self._threads)

    async def receive(self, *, patient: bool) -> Received | View:
        while True:
            found = await trio.to_thread.run_sync(
                sp.SP_receive, self._mbox, LISTEN_S, limiter=self._threads
            )
            if found is not None:
                return _as_spread(found)


def _as_spread(found: sp.Received_message) -> Received | View:
    group, info = found.sender, found.info
    if info is None:
        sender, groups = shown(found.sender), _all_shown(found.groups)
        return _plain(sender, groups, found.mess_type, found.message)
    key = group_id(group, info.gid.position)
    if sp.Is_reg_memb_mess(found.service_type):
        sets = tuple(_all_shown(names) for names in info.vs_sets)
        by_network = sp.Is_caused_network_mess(found.service_type)
        own = sets[info.my_vs_set_index]
        return View(key, group, _all_shown(found.groups), sets, own, by_network)
    type_ = TRANSITION if sp.Is_transition_mess(found.service_type) else BY_LEAVE
    return Received(type=type_, sender=group, groups=(), tag=0, mismatch=False, data=key)


def _plain(sender: str, groups: tuple[str, ...], tag: int, data: bytes) -> Received:
    return Received(type=0, sender=sender, groups=groups, tag=tag, mismatch=False, data=data)


@asynccontextmanager
async def open_member(kind: str, daemon: LocalDaemon, index: int) -> AsyncIterator[Member]:
    """Connect a program: of Spread (``spread``), of ours (``own``), or one of SP_ (``api``)."""
    if kind == "spread":
        async with await connect(daemon.spread, f"u{index}", big_endian=index % 2 == 0) as client:
            yield client
    elif kind == "own":
        user = f"u{index}-" + "x" * (40 if index % 2 else 1)
        async with connect_own(str(daemon.unix), user=user) as connection:
            yield OwnMember(connection)
    else:
        mbox, name = await trio.to_thread.run_sync(sp.SP_connect, str(daemon.unix), f"u{index}")
        try:
            yield ApiMember(mbox, name)
        finally:
            with suppress(sp.SpreadError):  # its daemon has ended it
                sp.SP_disconnect(mbox)
