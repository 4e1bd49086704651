"""Leader election: the oldest member of a group leads.

::

    async with connect() as connection, stand(connection, "leaders") as election:
        async with election.leading():
            ...  # cancelled when this program leads no longer

No message is sent: a view of a group lists its members in the order in which they joined, the same
everywhere, so all agree on the first one as their leader (Birman and Joseph, "Exploiting virtual
synchrony in distributed systems", SOSP 1987).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from groupcomm.errors import GroupCommError
from groupcomm.events import Cause, GroupView, MemberId
from groupcomm_client.connection import Connection
from groupcomm_client.continuity import Continuity
from groupcomm_client.coordination.driving import Driver, Tenure, driving
from groupcomm_client.events import Received


class LeadershipLost(GroupCommError):
    """Raised if this program has lost leadership; its block was cancelled."""


class Election:
    """One candidate of an election; made by `stand`."""

    def __init__(self, connection: Connection, group: str, candidates: int | None) -> None:
        self.driver = Driver(connection, group, self._accept, self._changed)
        self._me = connection.member
        self._quorum = 1 if candidates is None else candidates // 2 + 1
        self._counts_daemons = candidates is None
        self._continuity = Continuity(connection.view)
        self._view: GroupView | None = None
        self._tenures: set[Tenure] = set()

    @property
    def leader(self) -> MemberId | None:
        """Return the member that leads; None while too few are together, or after the session."""
        view, daemons = self._view, self.driver.connection.view
        if view is None or self.driver.ended is not None or len(view.members) < self._quorum:
            return None
        # A part of the daemons with a majority may have a leader of its own.
        if daemons is not None and daemons.majority is False:
            return None
        return view.members[0]

    @property
    def leads(self) -> bool:
        """Return whether this program leads."""
        return self.leader == self._me

    async def until_leading(self) -> None:
        """Wait until this program leads.

        Raises:
            SessionEnded: the session is over.
        """
        await self.driver.until(lambda: self.leads)

    async def until_changed(self, known: MemberId | None) -> MemberId | None:
        """Wait until the leader is another one than `known`; return the leader.

        Raises:
            SessionEnded: the session is over.
        """
        await self.driver.until(lambda: self.leader != known)
        return self.leader

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """Wait until this program leads; cancel the block when it leads no longer.

        Raises:
            LeadershipLost: the block was cancelled.
            SessionEnded: the session is over before it leads.
        """
        await self.until_leading()
        tenure = Tenure(self.driver.loop.cancel_scope())
        await tenure.begin()
        with self.driver.thread_lock:
            self._tenures.add(tenure)
            if not self.leads:  # another thread may have noticed the loss in between
                tenure.lose()
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
        with self.driver.thread_lock:
            self._tenures.discard(tenure)
        silenced = await tenure.end(
            error,
            LeadershipLost(
                "the connection to the other candidates was lost: they may have another leader "
                "by now"
            ),
        )
        if error is not None and not silenced:
            raise error

    def _accept(self, event: Received) -> None:
        if isinstance(event, GroupView) and event.group == self.driver.group:
            self._view = event
        # The oldest may lead again at once, but the others may have had another leader meanwhile.
        if self._was_cut_off(event):
            self._lose()

    def _was_cut_off(self, event: Received) -> bool:
        """Return whether others may have led before this event, the end of a partition."""
        if self._counts_daemons:
            return self._continuity.is_broken_by(event)
        return (
            isinstance(event, GroupView)
            and event.group == self.driver.group
            and event.cause is Cause.NETWORK
            and len(event.vs_set) < self._quorum
        )

    def _changed(self) -> None:
        if not self.leads:
            self._lose()

    def _lose(self) -> None:
        for tenure in self._tenures:
            tenure.lose()


@asynccontextmanager
async def stand(
    connection: Connection, group: str, *, candidates: int | None = None
) -> AsyncIterator[Election]:
    """Be a candidate for the length of a block.

    Args:
        connection: a connection for this purpose alone; nothing else may receive from it.
        group: the group of the candidates.
        candidates: the number of candidates, absent ones included: then there is a leader only
            where more than half of them are together. None: there may be a leader wherever the
            daemons are not known to be less than half of all (see `expected_daemons` in the
            configuration).

    Raises:
        LocalProtocolError: the name of the group is invalid.
        SessionEnded: the session is over.
    """
    election = Election(connection, group, candidates)
    async with driving(election.driver):
        yield election
