"""A connection that resumes: after a session has ended, it receives what it has missed."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeVar

from groupcomm.errors import LocalProtocolError
from groupcomm.events import GroupView
from groupcomm.session.client_session import Minority
from groupcomm_client.basic_connection import Session
from groupcomm_client.events import Received
from groupcomm_client.filters.factories import Factory
from groupcomm_client.first_number import first_number
from groupcomm_client.history.given import Given
from groupcomm_client.history.resumption import BEGUN_BITS, Resumption
from groupcomm_client.loops import Loop
from groupcomm_client.reconnecting import Opener, ReconnectingConnection

if TYPE_CHECKING:
    from groupcomm_client.end_to_end.credentials import GroupSecret

_Found = TypeVar("_Found")


class ResumingConnection(ReconnectingConnection):
    """A connection across all sessions of its program; made by ``connect(resume=True)``.

    Its events are those of the groups' line, in order and once, over all sessions, and everything
    else as it comes; see docs/history.md. Archives are asked while the program receives.
    """

    def __init__(
        self,
        session: Session,
        loop: Loop,
        opener: Opener,
        secrets: "dict[str, GroupSecret]",
        resume: Sequence[str] | None,
    ) -> None:
        """Take over the first session, which was admitted.

        Args:
            session, loop, opener, secrets: see `ReconnectingConnection`.
            resume: the groups to resume; None for all.
        """
        super().__init__(session, loop, opener, (), secrets)
        self._resume = None if resume is None else frozenset(resume)
        self._resumption = Resumption(
            self.member, self._resume, self.view, begun=first_number(BEGUN_BITS)
        )
        self._resuming = loop.lock()  # one task at a time passes events on, in their order
        self._given_lock = loop.thread_lock()

    async def join(
        self,
        group: str,
        *,
        secret: "GroupSecret | None" = None,
        views: bool = True,
        minority: Minority = "deliver",
    ) -> GroupView:
        """Become a member, in this session and those that follow; see `Connection.join`."""
        is_resumed = self._resume is None or group in self._resume
        if is_resumed and not views:
            raise LocalProtocolError(
                f"{group} cannot be resumed without views, which say where it begins and ends:"
                " connect with resume=[the names of the other groups]"
            )
        if secret is not None and is_resumed:
            raise LocalProtocolError(
                f"{group} cannot be resumed, as archives cannot read a group with a secret: connect"
                " with resume=[the names of the other groups]"
            )
        return await super().join(group, secret=secret, views=views, minority=minority)

    def set_filters(self, filters: Sequence[Factory]) -> None:
        """Raise LocalProtocolError: archives have messages as filters have made them."""
        raise LocalProtocolError("a connection that resumes has no filters: connect without resume")

    def subscribe(self, *_: object, **__: object) -> NoReturn:
        """Raise LocalProtocolError: this connection gives history itself."""
        raise LocalProtocolError("a connection that resumes has no subscriptions: open another one")

    def work(self, *_: object, **__: object) -> NoReturn:
        """Raise LocalProtocolError; see `present_session`."""
        self.present_session()

    def present_session(self) -> NoReturn:
        """Raise LocalProtocolError: coordination needs the events of each session alone."""
        raise LocalProtocolError(
            "a connection that resumes is not for coordination, whose parts get their state from"
            " the other programs: open another one, with reconnect=True and without resume"
        )

    async def receive(self, timeout_s: float | None = None) -> Given:  # type: ignore[override]
        """Return the next event, of this session or of the past; see `Connection.receive`."""
        if timeout_s is not None:
            return await self.in_time(timeout_s, self.receive)
        return await self._next_given(self._pop_one)

    async def receive_batch(  # type: ignore[override]
        self, timeout_s: float | None = None
    ) -> list[Given]:
        """Return all events that have come, at least one; see `Connection.receive_batch`."""
        if timeout_s is not None:
            return await self.in_time(timeout_s, self.receive_batch)
        return await self._next_given(self._pop_all)

    def pop_waiting(self) -> list[Given]:  # type: ignore[override]
        """Return the events that were read and not received yet, without waiting."""
        self._handle(super().pop_waiting())
        return self._pop_all() or []

    def _pop_one(self) -> Given | None:
        with self._given_lock:
            given = self._resumption.given
            return given.popleft() if given else None

    def _pop_all(self) -> list[Given] | None:
        with self._given_lock:
            given = self._resumption.given
            found = list(given)
            given.clear()
            return found or None

    async def _next_given(self, pop: Callable[[], _Found | None]) -> _Found:
        while True:
            found = pop()
            if found is not None:
                return found
            async with self._resuming:
                if not self._resumption.given:
                    await self._advance()

    async def _advance(self) -> None:
        """Send what archives are to be asked, and wait for events, or until more is to be sent."""
        resumption = self._resumption
        now = time.monotonic()
        with self._given_lock:
            resumption.taken(now)
        while (action := resumption.next_action()) is not None:
            await self.multicast(action.to, action.data, level=action.level)
            resumption.sent(action)
        deadline = resumption.deadline
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        receive = super().receive_batch
        try:
            events = await (receive() if left is None else self.in_time(left, receive))
        except TimeoutError:
            with self._given_lock:
                resumption.wake(time.monotonic())
        else:
            self._handle(events)

    def _handle(self, events: Sequence[Received]) -> None:
        with self._given_lock:
            self._resumption.handle_all(events, tuple(self._groups), time.monotonic())
