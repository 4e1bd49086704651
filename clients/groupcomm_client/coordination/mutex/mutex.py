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
from groupcomm.events import DaemonView, MemberId
from groupcomm_client.connection import Connection
from groupcomm_client.coordination.driving import Driver, Tenure, driving
from groupcomm_client.coordination.mutex.acknowledged import AcknowledgedForm
from groupcomm_client.coordination.mutex.agreed import AgreedForm
from groupcomm_client.coordination.mutex.form import Form, Send
from groupcomm_client.coordination.mutex.lamport import LamportForm
from groupcomm_client.events import Received

FORMS: Final = ("agreed", "acknowledged", "lamport")


class MutexLost(GroupCommError):
    """Raised if the holder was cut off, so that others may hold the mutex; its block was
    cancelled."""


class Mutex:
    """One program's side of a mutex; made by `join_mutex`.

    Use it as ``async with mutex:``. Requests are granted in their order among all programs, and in
    the order of the calls among the tasks of this one. If this program is cut off while it holds
    the mutex, its block is cancelled, and MutexLost is raised. In a thread only calls to this
    library can be cancelled: the thread should check `holds` before critical steps.
    """

    def __init__(self, connection: Connection, group: str, form: Form) -> None:
        self.form = form
        self.driver = Driver(connection, group, self._accept, self._changed)
        self._turn = self.driver.loop.lock()  # among tasks of this program
        self._tenure: Tenure | None = None

    @property
    def queue(self) -> tuple[MemberId, ...]:
        """Return the members that have requested the mutex, in the order of the grants, the holder
        first."""
        return self.form.queue

    @property
    def holds(self) -> bool:
        """Return whether this program holds the mutex, and is not cut off."""
        view = self.driver.connection.view
        # A program that may hold it meanwhile has a majority; without one this program is not sure.
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
                error,
                MutexLost(
                    "this program was cut off while it held the mutex: another program may "
                    "have held it, too"
                ),
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
        self._changed()  # at once: it may hold the mutex anew before the batch is over

    def _changed(self) -> None:
        with self.driver.thread_lock:
            if self._tenure is not None and not self.holds:
                self._tenure.lose()


def carry_out(driver: Driver, sends: list[Send]) -> None:
    """Send the messages of a form."""
    for send in sends:
        driver.send(send.data, level=send.level, to=send.to)


def make_form(
    form: str,
    me: MemberId,
    group: str,
    programs: int | None = None,
    view: DaemonView | None = None,
) -> Form:
    """Return a member of one of the FORMS; see `join_mutex`.

    Args:
        form, group, programs: see `join_mutex`.
        me: the session of the member.
        view: the last view of daemons that the session was shown; None if there was none.

    Raises:
        ConfigError: there is no such form, or `programs` comes with another form than ``agreed``.
    """
    if form not in FORMS:
        raise ConfigError(f"form is {form!r}; it must be one of {', '.join(FORMS)}")
    if form == "agreed":
        return AgreedForm(me, group, replicas=programs, view=view)
    if programs is not None:
        raise ConfigError(
            f"programs is {programs}; it is for the form 'agreed' only: leave it out, or "
            "choose that form"
        )
    return (AcknowledgedForm if form == "acknowledged" else LamportForm)(me, group, view)


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
        connection: a connection for this alone; nothing else may receive from it.
        group: the group of the programs that compete.
        form: ``agreed``: requests and releases in agreed order, the quickest. ``acknowledged``: the
            same, and every member acknowledges requests. ``lamport``: Lamport's algorithm, over
            FIFO messages.
        programs: the number of programs that compete, absent ones included (``agreed`` only): then
            one gets the mutex only while more than half of them are together. None: one gets it
            while the daemons are not known to be less than half of all (see `expected_daemons` in
            the configuration).

    Raises:
        ConfigError: there is no such form, or `programs` comes with another form than ``agreed``.
        LocalProtocolError: the name of the group is invalid.
        SessionEnded: the session is over.
    """
    machine = make_form(form, connection.member, group, programs, connection.view)
    mutex = Mutex(connection, group, machine)
    async with driving(mutex.driver):
        yield mutex
