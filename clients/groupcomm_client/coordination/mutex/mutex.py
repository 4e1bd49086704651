"""A mutex among programs.

::

    async with connect(user="ann") as connection, join_mutex(connection, "press") as mutex:
        async with mutex:
            ...  # nobody else is here
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from groupcomm.errors import ConfigError, GroupCommError, LocalProtocolError, SessionEnded
from groupcomm.events import DaemonView, MemberId
from groupcomm_client.arguments import check_count
from groupcomm_client.basic_connection import BasicConnection
from groupcomm_client.connection import Connection
from groupcomm_client.coordination.driving import Driver, Tenure, driving
from groupcomm_client.coordination.mutex.acknowledged import AcknowledgedForm
from groupcomm_client.coordination.mutex.agreed import AgreedForm
from groupcomm_client.coordination.mutex.contender import Contender, Phase
from groupcomm_client.coordination.mutex.form import Form, Send
from groupcomm_client.coordination.mutex.lamport import LamportForm
from groupcomm_client.coordination.rules import Rules
from groupcomm_client.events import Received

FORMS: Final = ("agreed", "acknowledged", "lamport")

DEFAULT_FORM: Final = "agreed"

LOST: Final = (
    "this program was cut off, or its session ended, while it held the mutex: another program may"
    " have held it, too"
)


class MutexLost(GroupCommError):
    """Raised if the holder was cut off or its session has ended, so that others may hold the mutex;
    its block was cancelled."""


class Mutex:
    """One program's side of a mutex; made by `join_mutex`.

    Use it as ``async with mutex:``. Requests are granted in their order among all programs, and in
    the order of the calls among the tasks of this one. If this program is cut off while it holds
    the mutex, or its session ends, its block is cancelled, and MutexLost is raised. In a thread
    only calls to this library can be cancelled: the thread should check `holds` before critical
    steps.

    A block that ends without an error has held the mutex throughout: its end waits until every
    daemon knows of the release, or raises MutexLost.
    """

    def __init__(
        self, connection: Connection, group: str, make: Callable[[BasicConnection], Contender]
    ) -> None:
        self._make = make
        self._wanted = False  # whether a task waits for its turn, or is in its block
        self._tenure: Tenure | None = None
        self._granted: Contender | None = None  # that of the last grant
        self._last_token: int | None = None  # of an earlier session
        self.driver = Driver(connection, group, self)
        self._turn = self.driver.loop.lock()  # among tasks of this program

    @property
    def queue(self) -> tuple[MemberId, ...]:
        """Return the members that have requested the mutex, in the order of the grants, the holder
        first."""
        return self.contender.queue

    @property
    def holds(self) -> bool:
        """Return whether this program holds the mutex, as far as its host knows."""
        return self.contender.holds and self.driver.is_live

    @property
    def token(self) -> int:
        """Return the fencing token of the present or last tenure: it rises with each grant.

        It is 0 to ``2**126 - 1``; see docs/coordination.md.

        Raises:
            LocalProtocolError: this program has not held the mutex yet.
        """
        token = self._last_token if self.contender.token is None else self.contender.token
        if token is None:
            raise LocalProtocolError("a token is that of a grant: read it in the mutex's block")
        return token

    def check_tenure(self) -> None:
        """Raise MutexLost if a task is in the block, and has lost the mutex since."""
        if self._tenure is not None and self._tenure.is_lost:
            raise MutexLost(LOST)

    async def __aenter__(self) -> None:
        """Wait for this program's turn.

        Raises:
            RulesDiffer: another program has joined with another form, or counts other programs.
            SessionEnded: the session is over, and no other follows.
        """
        self.driver.check_own()
        await self._turn.__aenter__()
        try:
            with self.driver.thread_lock:
                self._wanted = True
                self._send(self.contender.request())
            await self.driver.until(self._may_enter)
        except BaseException:
            await self._give_back()
            raise
        tenure = Tenure(self.driver.loop.cancel_scope())
        await tenure.begin()
        with self.driver.thread_lock:
            self._tenure = tenure
            if self.contender is not self._granted:
                tenure.lose()  # the session of the grant has ended in between
            self.changed()

    def _may_enter(self) -> bool:
        """Return whether this program holds the mutex; raise RulesDiffer if it never will."""
        if self.contender.phase is Phase.LOST:  # before this task has run
            self._send(self.contender.release())
            self._send(self.contender.request())
        conflict = self.contender.conflict
        if conflict is not None:
            raise conflict
        self._granted = self.contender
        return self.contender.holds

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> bool:
        tenure = self._tenure
        assert tenure is not None, "the block was entered"
        raised = error
        if error is None:
            raised = await self._confirm(tenure)
        with self.driver.thread_lock:
            self._tenure = None
        try:
            silenced = await tenure.end(raised, MutexLost(LOST))
        finally:
            await self._give_back()
        if error is None and raised is not None and not silenced:
            raise raised
        return silenced

    async def _confirm(self, tenure: Tenure) -> BaseException | None:
        """Release the mutex, and wait until it is known whether it was held so long; return what
        has ended the wait."""
        with self.driver.thread_lock:
            self._wanted = False
            if not tenure.is_lost:
                self._send(self.contender.release())
        try:
            await self.driver.until(
                lambda: tenure.is_lost or self.contender.phase is not Phase.LEAVING
            )
        except SessionEnded:
            return None  # the tenure is lost
        except BaseException as raised:
            return raised
        return None

    async def _give_back(self) -> None:
        with self.driver.thread_lock:
            self._wanted = False
            if self.contender.phase not in (Phase.OUT, Phase.LEAVING):
                self._send(self.contender.release())
        await self._turn.__aexit__(None, None, None)

    def _send(self, sends: list[Send]) -> None:
        carry_out(self.driver, sends)

    # ---- what the driver tells ----

    def begin(self, session: BasicConnection) -> None:
        """See `Participant`."""
        self.contender = self._make(session)
        if self._wanted and self._tenure is None:
            self._send(self.contender.request())

    def accept(self, event: Received) -> None:
        """See `Participant`."""
        self._send(self.contender.handle(event))
        self.changed()  # at once: it may hold the mutex anew before the batch is over

    def lose(self) -> None:
        """See `Participant`."""
        self.contender.lose()
        self._last_token = self.contender.token or self._last_token
        if self._tenure is not None:
            self._tenure.lose()

    def changed(self) -> None:
        """See `Participant`."""
        if self._tenure is not None and self.contender.was_lost:
            self._tenure.lose()

    @property
    def is_busy(self) -> bool:
        """See `Participant`."""
        return self._tenure is not None


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
        form, group, programs: see `join_mutex`; checked.
        me: the session of the member.
        view: the last view of daemons that the session was shown; None if there was none.
    """
    if form == "agreed":
        return AgreedForm(me, group, replicas=programs, view=view)
    return (AcknowledgedForm if form == "acknowledged" else LamportForm)(me, group, view)


def make_contender(
    form: str, me: MemberId, group: str, programs: int | None, view: DaemonView | None
) -> Contender:
    """Return a member with a form; see `make_form`."""
    machine = make_form(form, me, group, programs, view)
    return Contender(machine, me, group, Rules(form, programs), view)


def check_form(form: str, programs: int | None) -> None:
    """Check the rules of a member.

    Raises:
        ConfigError: there is no such form, or `programs` comes with another one than ``agreed``.
        LocalProtocolError: `programs` is no number from 1.
    """
    if form not in FORMS:
        raise ConfigError(f"form is {form!r}; it must be one of {', '.join(FORMS)}")
    if programs is not None and form != "agreed":
        raise ConfigError(
            f"programs is {programs}; it is for the form 'agreed' only: leave it out, or "
            "choose that form"
        )
    if programs is not None:
        check_count("programs", programs)


@asynccontextmanager
async def join_mutex(
    connection: Connection,
    group: str,
    *,
    form: str = DEFAULT_FORM,
    programs: int | None = None,
) -> AsyncIterator[Mutex]:
    """Compete for a mutex for the length of a block.

    With ``reconnect=True`` the end of a session ends a tenure, and the next session competes again,
    behind those that wait.

    Args:
        connection: a connection for this alone; nothing else may receive from it.
        group: the group of the programs that compete, with the same form and `programs`.
        form: ``agreed``: requests and releases in agreed order, the quickest. ``acknowledged``: the
            same, and every member acknowledges requests. ``lamport``: Lamport's algorithm, over
            FIFO messages.
        programs: the number of programs in the group, absent ones and the resource included
            (``agreed`` only): then one gets the mutex only while more than half of them are
            together. None: one gets it while the daemons are not known to be less than half of all
            (see `expected_daemons` in the configuration).

    Raises:
        ConfigError: there is no such form, or `programs` comes with another form than ``agreed``.
        LocalProtocolError: the name of the group is invalid, or `programs` is no number from 1.
        AccessRefused: the daemon's rules do not allow to join it, or no longer.
        SessionEnded: the session is over, and no other follows.
    """
    check_form(form, programs)

    def make(session: BasicConnection) -> Contender:
        return make_contender(form, session.member, group, programs, session.view)

    mutex = Mutex(connection, group, make)
    async with driving(mutex.driver):
        yield mutex
