"""Leader election: the oldest member of a group leads.

::

    async with connect() as connection, stand(connection, "leaders") as election:
        async with election.leading():
            ...  # cancelled when this program leads no longer

`candidate` is the machine behind it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from groupcomm.errors import GroupCommError, LocalProtocolError, SessionEnded
from groupcomm.events import MemberId
from groupcomm.level import ServiceLevel
from groupcomm_client.arguments import check_count
from groupcomm_client.basic_connection import BasicConnection
from groupcomm_client.connection import Connection
from groupcomm_client.coordination.candidate import Candidate
from groupcomm_client.coordination.driving import Driver, Tenure, driving
from groupcomm_client.events import Received


class LeadershipLost(GroupCommError):
    """Raised if this program has lost leadership; its block was cancelled."""


LOST: Final = (
    "this program was cut off from the other candidates, or its session ended, while it led: they"
    " may have another leader by now"
)


class _Term:
    """The block of one term."""

    def __init__(self, term: int, tenure: Tenure) -> None:
        self.term = term
        self.tenure = tenure


class Election:
    """One candidate of an election; made by `stand`."""

    def __init__(self, connection: Connection, group: str, candidates: int | None) -> None:
        self._group = group
        self._candidates = candidates
        self._blocks: set[_Term] = set()
        self._last_term: int | None = None
        self.driver = Driver(connection, group, self)

    @property
    def leader(self) -> MemberId | None:
        """Return the member that leads; None while too few are together, or without a session."""
        return self.candidate.leader if self.driver.is_live else None

    @property
    def leads(self) -> bool:
        """Return whether this program leads, as far as its host knows."""
        return self.candidate.term is not None and self.driver.is_live

    @property
    def term(self) -> int:
        """Return the fencing token of the present or last term of this program.

        It is 0 to ``2**126 - 1``, and rises with each term of any leader; see docs/coordination.md.

        Raises:
            LocalProtocolError: this program has not led yet.
        """
        if self._last_term is None:
            raise LocalProtocolError("a term is that of a leader: read it in the block of leading")
        return self._last_term

    async def until_leading(self) -> None:
        """Wait until this program leads.

        Raises:
            SessionEnded: the session is over, and no other follows.
        """
        await self.driver.until(lambda: self._leads)

    async def until_changed(self, known: MemberId | None) -> MemberId | None:
        """Wait until the leader is another one than `known`; return the leader.

        Raises:
            SessionEnded: the session is over, and no other follows.
        """
        await self.driver.until(lambda: self._leader != known)
        return self._leader

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """Wait until this program leads; cancel the block when it leads no longer.

        A block that ends without an error has led throughout: its end waits until every daemon
        knows of what it has sent, or raises LeadershipLost.

        Raises:
            LeadershipLost: the block was cancelled, or others have led before its end.
            SessionEnded: the session is over before it leads, and no other follows.
        """
        term = await self._until_term()
        tenure = Tenure(self.driver.loop.cancel_scope())
        block = _Term(term, tenure)
        await tenure.begin()
        with self.driver.thread_lock:
            self._blocks.add(block)
            self.changed()  # another thread may have noticed the loss in between
        error: BaseException | None = None
        try:
            yield
            await self._confirm(tenure)
        except BaseException as raised:
            error = raised
        with self.driver.thread_lock:
            self._blocks.discard(block)
        silenced = await tenure.end(error, LeadershipLost(LOST))
        if error is not None and not silenced:
            raise error

    async def _until_term(self) -> int:
        """Wait until this program leads; return the term."""
        found: list[int] = []

        def leads() -> bool:
            if self._leads and self.candidate.term is not None:
                found.append(self.candidate.term)
            return bool(found)

        await self.driver.until(leads)
        return found[0]

    async def _confirm(self, tenure: Tenure) -> None:
        """Wait until it is known whether this program has led so long."""
        with self.driver.thread_lock:
            candidate = self.candidate
            mark = candidate.confirmation.ask()
            self.driver.send(mark, level=ServiceLevel.SAFE, to=candidate.me)
        try:
            await self.driver.until(lambda: tenure.is_lost or candidate.confirmation.is_there)
        except SessionEnded:
            return  # the term is over

    @property
    def _leads(self) -> bool:
        return self.candidate.term is not None and self.driver.session is not None

    @property
    def _leader(self) -> MemberId | None:
        return None if self.driver.session is None else self.candidate.leader

    # ---- what the driver tells ----

    def begin(self, session: BasicConnection) -> None:
        """See `Participant`."""
        self.candidate = Candidate(session.member, self._group, self._candidates, session.view)

    def accept(self, event: Received) -> None:
        """See `Participant`."""
        self.candidate.handle(event)
        self.changed()  # at once: it may lead anew before the batch is over

    def lose(self) -> None:
        """See `Participant`."""
        self.candidate.term = None
        self.changed()

    def changed(self) -> None:
        """See `Participant`."""
        self._last_term = self.candidate.term or self._last_term
        for block in self._blocks:
            if block.term != self.candidate.term:
                block.tenure.lose()

    @property
    def is_busy(self) -> bool:
        """See `Participant`."""
        return bool(self._blocks)


@asynccontextmanager
async def stand(
    connection: Connection, group: str, *, candidates: int | None = None
) -> AsyncIterator[Election]:
    """Be a candidate for the length of a block.

    With ``reconnect=True`` the end of a session ends a term, and the next session is the youngest
    candidate.

    Args:
        connection: a connection for this purpose alone; nothing else may receive from it.
        group: the group of the candidates.
        candidates: the number of candidates, absent ones included: then there is a leader only
            where more than half of them are together. None: there may be a leader wherever the
            daemons are not known to be less than half of all (see `expected_daemons` in the
            configuration).

    Raises:
        LocalProtocolError: the name of the group is invalid, or `candidates` is no number from 1.
        AccessRefused: the daemon's rules do not allow to join it, or no longer.
        SessionEnded: the session is over, and no other follows.
    """
    if candidates is not None:
        check_count("candidates", candidates)
    election = Election(connection, group, candidates)
    async with driving(election.driver):
        yield election
