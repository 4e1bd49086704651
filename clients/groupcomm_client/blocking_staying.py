"""`StayingConnection` without an event loop: calls wait, and threads may share it."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from groupcomm.errors import LocalProtocolError, SessionEnded
from groupcomm.events import DaemonView, GroupView, MemberId, Ordered
from groupcomm.level import ServiceLevel
from groupcomm.session.codes import Code
from groupcomm_client.blocking_loop import ThreadLoop, run
from groupcomm_client.connecting import ADMISSION_S
from groupcomm_client.conversation import Received
from groupcomm_client.credentials import Credentials, StrPath
from groupcomm_client.end_to_end.credentials import GroupSecret
from groupcomm_client.filters.factories import Factory
from groupcomm_client.patience import move_on_after
from groupcomm_client.sessions import Reconnected
from groupcomm_client.staying import StayingConnection


class BlockingStayingConnection:
    """Made by `stay_connected`. Calls wait for ever unless they are given a time."""

    def __init__(self, staying: StayingConnection) -> None:
        """Take over one that was opened, and waits as threads do."""
        self._staying = staying

    @property
    def member(self) -> MemberId:
        """The identity of the present session, or of the last one."""
        return self._staying.member

    @property
    def name(self) -> str:
        """The private name; the same in all sessions at one daemon."""
        return self._staying.name

    @property
    def view(self) -> DaemonView | None:
        """The daemons' view that the events given last belong to."""
        return self._staying.view

    @property
    def groups(self) -> dict[str, GroupView]:
        """The latest views of its groups, by name; of the last session while there is none."""
        return self._staying.groups

    def join(self, group: str, *, secret: GroupSecret | None = None) -> None:
        """Become a member, in this session and those that follow; see `StayingConnection`."""
        run(self._staying.join(group, secret=secret))

    def leave(self, group: str) -> None:
        """Be a member no longer; see `StayingConnection`."""
        run(self._staying.leave(group))

    @contextmanager
    def group(self, name: str, *, secret: GroupSecret | None = None) -> Iterator[None]:
        """Be a member for the length of a block."""
        self.join(name, secret=secret)
        try:
            yield
        finally:
            with suppress(LocalProtocolError):  # it had to leave already: the rules changed
                self.leave(name)

    def rekey(self, group: str) -> None:
        """Have the members of a group use another key; see `StayingConnection.rekey`."""
        run(self._staying.rekey(group))

    def set_filters(self, filters: Sequence[Factory]) -> None:
        """Have other filters in use; see `StayingConnection.set_filters`."""
        self._staying.set_filters(filters)

    def multicast(
        self,
        groups: str | Sequence[str],
        data: bytes,
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        type: int = 0,
        self_discard: bool = False,
        ordered: bool = False,
    ) -> Ordered | None:
        """Send one message, once there is a session; see `StayingConnection.multicast`."""
        return run(
            self._staying.multicast(
                groups, data, level=level, type=type, self_discard=self_discard, ordered=ordered
            )
        )

    def receive(self, timeout_s: float | None = None) -> Received | Reconnected | None:
        """The next event, or `Reconnected`; None if none comes in time.

        Raises:
            SessionEnded: no session follows; its code is 0 after an orderly end.
        """
        with move_on_after(math.inf if timeout_s is None else timeout_s):
            return run(self._staying.receive())
        return None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Received | Reconnected:
        try:
            return run(self._staying.receive())
        except SessionEnded as error:
            if error.code == Code.OK:
                raise StopIteration from None
            raise

    def close(self) -> None:
        """End the session, if there is one; no other follows."""
        run(self._staying.aclose())


@contextmanager
def stay_connected(
    address: str | None = None,
    *,
    user: str | None = None,
    timeout_s: float = ADMISSION_S,
    trace: Path | None = None,
    causes: bool = False,
    principals: bool = False,
    ca: StrPath | None = None,
    certificate: StrPath | None = None,
    key: StrPath | None = None,
    token: StrPath | None = None,
    filters: Sequence[Factory] | None = None,
) -> Iterator[BlockingStayingConnection]:
    """As `connect`, with a new session when one ends; see `groupcomm_client.stay_connected`.

    Raises:
        CannotConnect: there is no first session.
        SessionEnded: the daemon refuses it for good.
    """
    credentials = Credentials.of(ca, certificate, key, token)
    staying = StayingConnection(
        ThreadLoop(),
        address,
        user,
        trace,
        causes=causes,
        principals=principals,
        filters=filters,
        credentials=credentials,
    )
    run(staying.open(timeout_s))
    connection = BlockingStayingConnection(staying)
    try:
        yield connection
    finally:
        connection.close()
