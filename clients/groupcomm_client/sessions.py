"""One session after another: the present one, and how the next is opened when it ends."""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final, Protocol

import attrs

from groupcomm.clocks.stamp import Position
from groupcomm.errors import AccessRefused, CannotConnect, SessionEnded
from groupcomm.events import DaemonView, GroupView, MemberId, Ordered
from groupcomm.level import ServiceLevel
from groupcomm.session.codes import Code
from groupcomm_client.connecting import ADMISSION_S, Greeter, open_connection
from groupcomm_client.conversation import Received, random_user
from groupcomm_client.credentials import Credentials
from groupcomm_client.end_to_end.credentials import GroupSecret
from groupcomm_client.filters.factories import Factory
from groupcomm_client.loops import Loop

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 5.0

FOR_GOOD: Final = frozenset(
    (Code.OK, Code.REJECT_NAME, Code.REJECT_VERSION, Code.REJECT_AUTH, Code.ILLEGAL_MESSAGE)
)
"""Ends that were asked for, and refusals that no further attempt changes."""


@attrs.frozen(kw_only=True)
class Reconnected:
    """The session had ended, and there is a new one; views of its groups follow.

    Attributes:
        member: the identity of the new session; to others it is somebody else.
        why: the session ended.
        last: the highest position of all that was received before; what was ordered after it, and
            before the views that follow, may have been missed. None: nothing was received.
        in_doubt: of at most so many messages, those that were sent last, the daemon has not shown
            that it had taken them: they may have been delivered, or not.
    """

    member: MemberId
    why: str
    last: Position | None
    in_doubt: int


class Session(Greeter, Protocol):
    """What is used of a connection; `groupcomm_client.Connection` says what each does."""

    @property
    def member(self) -> MemberId:
        """Its identity."""

    @property
    def view(self) -> DaemonView | None:
        """The daemons' view."""

    @property
    def groups(self) -> dict[str, GroupView]:
        """The views of its groups."""

    @property
    def in_doubt(self) -> int:
        """How many messages may not have reached the daemon."""

    async def join(self, group: str, *, secret: GroupSecret | None = None) -> GroupView:
        """Become a member."""

    async def leave(self, group: str) -> None:
        """Be a member no longer."""

    async def rekey(self, group: str) -> None:
        """Have another key for a group."""

    async def multicast(
        self,
        groups: str | Sequence[str],
        data: bytes,
        *,
        level: ServiceLevel = ...,
        type: int = ...,
        self_discard: bool = ...,
        ordered: bool,
    ) -> Ordered | None:
        """Send a message."""

    async def receive(self) -> Received:
        """The next event."""

    def set_filters(self, filters: Sequence[Factory]) -> None:
        """Have other filters in use from the next view on."""

    def take_waiting(self) -> list[Received]:
        """The events that are there."""

    async def aclose(self) -> None:
        """End it in order."""


class Sessions:
    """Sessions of one user, each opened when the one before has ended.

    Attributes:
        groups: that each session joins that is opened from now on, in this order.
        secrets: of groups that were joined with one last, by name, though perhaps they are joined
            no more; all sessions share them.
        told: events of sessions that have ended, and what stands between the sessions; to be given
            before those of the present one.
        closed: no other session is to follow.
        filters: of those that are opened from now on; None for the default ones.
    """

    def __init__(
        self,
        loop: Loop[Session],
        address: str | None,
        user: str | None,
        trace: Path | None,
        *,
        causes: bool = False,
        principals: bool = False,
        credentials: Credentials | None = None,
        filters: Sequence[Factory] | None = None,
    ) -> None:
        self.groups: dict[str, None] = {}
        self.secrets: dict[str, GroupSecret] = {}
        self.told: deque[Received | Reconnected] = deque()
        self._loop = loop
        self._address = address
        self._user = user or random_user()
        self._trace = trace
        self._causes = causes
        self._principals = principals
        self._credentials = credentials
        self.filters = filters
        self._session: Session | None = None
        self._renewing = loop.lock()
        self.closed = False
        self._random = Random()

    @property
    def current(self) -> Session:
        """The present session, or the last one while there is none."""
        assert self._session is not None, "it was opened"
        return self._session

    async def open(self, timeout_s: float) -> None:
        """Have the first one, in time."""
        self._session = await self._connect(timeout_s)

    async def aclose(self) -> None:
        """End the present one; no other follows."""
        self.closed = True
        await self.current.aclose()

    async def renew(self, old: Session, why: SessionEnded) -> Session:
        """Have a new session in place of `old`; whoever comes second finds it there.

        Raises:
            SessionEnded: no further attempt can succeed.
        """
        async with self._renewing:
            if self._session is not old:
                return self.current
            if why.code in FOR_GOOD:
                raise why
            self.told.extend(old.take_waiting())
            await old.aclose()
            filters = self.filters
            new = await self._try_until_there_is_one()
            self.told.append(
                Reconnected(member=new.member, why=str(why), last=None, in_doubt=old.in_doubt)
            )
            self._session = new  # last: other threads look at this first
            if self.filters is not None and self.filters is not filters:
                with suppress(SessionEnded):  # then the next one has them
                    new.set_filters(self.filters)  # the old one was given them meanwhile
            return new

    async def _try_until_there_is_one(self) -> Session:
        pause_s = FIRST_PAUSE_S
        while True:
            self._check_open()
            try:
                return await self._connect_and_join()
            except (CannotConnect, SessionEnded) as error:
                if error.code in FOR_GOOD:
                    raise
            # A random share, so that the programs of a daemon do not come all at once.
            await self._loop.sleep(pause_s * self._random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _connect_and_join(self) -> Session:
        new = await self._connect(ADMISSION_S)
        try:
            for group in list(self.groups):
                try:
                    await new.join(group, secret=self.secrets.get(group))
                except AccessRefused:  # not any more; its events tell so
                    self.groups.pop(group, None)  # the program may have left it meanwhile
            self._check_open()
        except BaseException:
            new.close_socket()
            raise
        return new

    def keep(self, group: str, secret: GroupSecret | None) -> None:
        """Have later sessions join a group, with a secret or without one."""
        self.groups[group] = None
        if secret is None:
            self.secrets.pop(group, None)
        else:
            self.secrets[group] = secret

    def _check_open(self) -> None:
        """Raise SessionEnded if a program has closed it, in another task or thread."""
        if self.closed:
            raise SessionEnded(Code.OK, "the connection was closed")

    async def _connect(self, timeout_s: float) -> Session:
        return await open_connection(
            self._loop,
            self._address,
            self._user,
            timeout_s,
            self._trace,
            causes=self._causes,
            principals=self._principals,
            credentials=self._credentials,
            filters=self.filters,
            secrets=self.secrets,
        )
