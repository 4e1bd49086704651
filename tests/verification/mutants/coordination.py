"""Wrong ways to hold a mutex through sessions, views and stops."""

from typing import Any

from groupcomm.clocks.stamp import Position
from groupcomm_client.coordination.confirming import Confirmation
from groupcomm_client.coordination.mutex import contender
from groupcomm_client.coordination.mutex.acknowledged import AcknowledgedForm, Kind, Word
from groupcomm_client.coordination.mutex.contender import Contender, Phase
from groupcomm_client.coordination.tokens import Latest
from groupcomm_client.events import Received
from tests.verification.mutants.mutant import Mutant, Right, mutant


@mutant((Contender, "lose"))
def tenure_outlasts_its_session(_right: Right) -> Right:
    """A member holds the mutex until its next session, whatever has become of the present one."""

    def lose(_self: Contender) -> None:
        """Nothing is lost."""

    return lose


@mutant((Contender, "release"))
def block_ends_without_confirmation(right: Right) -> Right:
    """Who releases the mutex counts as its holder up to then, whatever has happened meanwhile."""

    def release(self: Contender) -> Any:
        sends = right(self)
        self.phase = Phase.OUT
        return sends

    return release


@mutant((Confirmation, "is_there"))
def transitional_mark_confirms(_right: Right) -> Any:
    """A mark that comes in the transitional part of a view confirms what came before it."""
    return property(lambda self: self._seen == self._asked)


@mutant((contender, "token_of"))
def token_is_a_time(_right: Right) -> Right:
    """A token is the time of the grant in its view, whichever view that is."""

    def token_of(position: Position) -> int:
        return position.time

    return token_of


@mutant((Latest, "note"))
def token_is_that_of_the_first_view(right: Right) -> Right:
    """A token is the position of the view with which the session began."""

    def note(self: Any, event: Received) -> None:
        if self.position.time == 0:
            right(self, event)

    return note


@mutant((AcknowledgedForm, "_on_word"))
def requests_of_others_last_through_reports(right: Right) -> Right:
    """A request whose release came in another part of the network stays in the queue."""

    def on_word(self: AcknowledgedForm, sender: Any, word: Word, at: Position) -> None:
        kept = self._requests.get(sender)
        right(self, sender, word, at)
        if word.kind is Kind.STATE and word.place is None and kept is not None:
            self._requests[sender] = kept

    return on_word


BUGS: tuple[Mutant, ...] = (
    tenure_outlasts_its_session,
    block_ends_without_confirmation,
    transitional_mark_confirms,
    token_is_a_time,
    token_is_that_of_the_first_view,
    requests_of_others_last_through_reports,
)
