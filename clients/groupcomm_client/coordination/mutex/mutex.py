"""A mutex among programs.

::

    async with connect(user="ann") as connection, join_mutex(connection, "press") as mutex:
        async with mutex:
            ...  # nobody else is here
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final

from groupcomm.errors import ConfigError, GroupCommError
from groupcomm.events import MemberId
from groupcomm_client.connection import Connection
from groupcomm_client.coordination.driving import Driver, Tenure, driving
from groupcomm_client.coordination.mutex.acknowledged import AcknowledgedForm
from groupcomm_client.coordination.mutex.agreed import AgreedForm
from groupcomm_client.coordination.mutex.form import Form, Send
from groupcomm_client.coordination.mutex.lamport import LamportForm
from groupcomm_client.events import Received

FORMS: Final = ("agreed", "acknowledged", "lamport")


class MutexLost(GroupCommError):
    """The holder was cut off, so others may be in: its block was cancelled."""


class Mutex:
    """One program's side; made by `join_mutex`.

    Use it as ``async with mutex:``. Requests are granted in their order among all programs, and in
    the order of the calls among the tasks of this one. If this program is cut off while it is in,
    its block is cancelled, and MutexLost raised. Of a thread only what it waits for in this library
    can be cancelled: it looks at `holds` before what matters.
    """

    def __init__(self, connection: Connection, group: str, form: Form) -> None:
        self.form = form
        self.driver = Driver(connection, group, self._accept, self._changed)
        self._turn = self.driver.loop.lock()  # among tasks of this program
        self._tenure: Tenure | None = None

    @property
    def queue(self) -> tuple[MemberId, ...]:
        """The members that have asked, in the order of the grants; the first is the holder."""
        return self.form.queue

    @property
    def holds(self) -> bool:
        """Whether this program is in, and not cut off."""
        view = self.driver.connection.view
        # Those who may be in meanwhile have a majority; without one this program is not sure.
        has_majority = view is None or view.majority is not False
        return self.form.holds and has_majority and self.driver.ended is None

    async def __aenter__(self) -> None:
        """Wait for this program's turn.

        Raises:
            SessionEnded: the session is over.
        """
        await self._turn.__aenter__()
        try:
            with self.driver.thread_lock:
                self._send(self.form.request())
            await self.driver.until(lambda: self.holds)
        except BaseException:
            await self._give_back()
            raise
        tenure = Tenure(self.driver.loop.cancel_scope())
        await tenure.begin()
        with self.driver.thread_lock:
            self._tenure = tenure
        self._changed()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        with self.driver.thread_lock:
            tenure, self._tenure = self._tenure, None
        assert tenure is not None
        try:
            return await tenure.end(
                error, MutexLost("cut off while in: others may have gone in, too")
            )
        finally:
            await self._give_back()

    async def _give_back(self) -> None:
        with self.driver.thread_lock:
            if self.driver.ended is None:
                self._send(self.form.release())
        await self._turn.__aexit__(None, None, None)

    def _send(self, sends: list[Send]) -> None:
        carry_out(self.driver, sends)

    def _accept(self, event: Received) -> None:
        self._send(self.form.handle(event))

    def _changed(self) -> None:
        with self.driver.thread_lock:
            if self._tenure is not None and not self.holds:
                self._tenure.lose()


def carry_out(driver: Driver, sends: list[Send]) -> None:
    """Have the messages of a form sent."""
    for send in sends:
        driver.send(send.data, level=send.level, to=send.to)


def make_form(form: str, me: MemberId, group: str, programs: int | None = None) -> Form:
    """Return a member of one of the FORMS; see `join_mutex`.

    Raises:
        ConfigError: no such form, or `programs` with another form than ``agreed``.
    """
    if form not in FORMS:
        raise ConfigError(f"form is {form!r}; it must be one of {', '.join(FORMS)}")
    if form == "agreed":
        return AgreedForm(me, group, replicas=programs)
    if programs is not None:
        raise ConfigError(f"programs is {programs}; it goes with the form 'agreed' only")
    return AcknowledgedForm(me, group) if form == "acknowledged" else LamportForm(me, group)


@asynccontextmanager
async def join_mutex(
    connection: Connection,
    group: str,
    *,
    form: str = "agreed",
    programs: int | None = None,
) -> AsyncIterator[Mutex]:
    """Compete for a mutex for the length of a block.

    Args:
        connection: for this alone; nothing else may receive from it.
        group: of the programs that compete.
        form: ``agreed``: requests and releases in agreed order, the quickest. ``acknowledged``: the
            same, and everybody acknowledges requests. ``lamport``: Lamport's, over FIFO messages.
        programs: how many compete, absent ones included (``agreed`` only): then somebody gets in
            only while more than half of them are together. None: while the daemons are not known to
            be less than half of all (see `expected_daemons` in the configuration).

    Raises:
        ConfigError: no such form, or `programs` with another form than ``agreed``.
        LocalProtocolError: a bad name for a group.
        SessionEnded: the session is over.
    """
    machine = make_form(form, connection.member, group, programs)
    mutex = Mutex(connection, group, machine)
    async with driving(mutex.driver):
        yield mutex
