"""One candidate of an election, in one session: who leads, and in which term.

Pure: events of a connection in. To agree on a leader no message is sent: a view of a group lists
its members in the order in which they joined, the same everywhere, so all agree on the first one as
their leader (Birman and Joseph, "Exploiting virtual synchrony in distributed systems", SOSP 1987).
"""

from groupcomm.events import Cause, DaemonView, GroupView, MemberId
from groupcomm_client.continuity import Continuity
from groupcomm_client.coordination.confirming import Confirmation
from groupcomm_client.coordination.place import Place
from groupcomm_client.coordination.tokens import Latest, token_of
from groupcomm_client.events import Received


class Candidate:
    """One candidate: call `handle` for every event.

    Attributes:
        me: its session.
        confirmation: whether it was cut off from the others before some point.
        term: the fencing token of its present leadership (`tokens`); None if it does not lead.
    """

    def __init__(
        self, me: MemberId, group: str, candidates: int | None, view: DaemonView | None
    ) -> None:
        """Begin before the first view of the group.

        Args:
            me: its session.
            group: the group of the candidates.
            candidates: see `stand`.
            view: the last view of daemons that the session was shown; None if there was none.
        """
        self.term: int | None = None
        self.me = me
        self.confirmation = Confirmation(me, group)
        self._group = group
        self._quorum = 1 if candidates is None else candidates // 2 + 1
        self._counts_daemons = candidates is None
        self._continuity = Continuity(view)
        self._daemons = view
        self._view: GroupView | None = None
        self._place = Place(me, group)
        self._latest = Latest()

    @property
    def leader(self) -> MemberId | None:
        """Return the member that leads; None while too few are together."""
        view = self._view
        if view is None or len(view.members) < self._quorum:
            return None
        # A part of the daemons with a majority may have a leader of its own.
        if self._daemons is not None and self._daemons.majority is False:
            return None
        return view.members[0]

    def handle(self, event: Received) -> None:
        """Handle one event: a term ends, or begins, or none does."""
        self._latest.note(event)
        self.confirmation.handle(event)
        self._place.note(event)
        match event:
            case DaemonView():
                self._daemons = event
            case GroupView() if event.group == self._group:
                self._view = event
        # The oldest may lead again at once, but the others may have had another leader meanwhile.
        if self._was_cut_off(event) or self.leader != self.me:
            self.term = None
        if self.term is None and self.leader == self.me and not self._place.is_behind:
            self.term = token_of(self._latest.position)

    def _was_cut_off(self, event: Received) -> bool:
        """Return whether others may have led before this event, the end of a partition."""
        if self._counts_daemons:
            return self._continuity.is_broken_by(event)
        return (
            isinstance(event, GroupView)
            and event.group == self._group
            and event.cause is Cause.NETWORK
            and len(event.vs_set) < self._quorum
        )
