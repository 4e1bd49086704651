"""The line of a sender in one of its sessions: what is sent in it, and what has its answer."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from groupcomm.errors import InDoubt
from groupcomm.events import LineGranted
from groupcomm.level import ServiceLevel
from groupcomm.session.client_session import ClientSession
from groupcomm_client.filters.roles import Outgoing
from groupcomm_client.line import Line, Sent
from groupcomm_client.requests import PendingOrder, Requests

if TYPE_CHECKING:
    from groupcomm.trace.recorders import SessionTrace


class Sending(Protocol):
    """What the protocol of a session does for its line; see `ClientProtocol`."""

    is_parting: bool
    needs_flush: bool

    @property
    def is_open(self) -> bool:
        """Return whether the session was admitted, and neither side has said goodbye."""

    def check_sending(self) -> None:
        """Raise SessionEnded if the session accepts no request of the program any more."""

    def put(self, message: Sent, data: bytes) -> int:
        """Pass a message with these data to the session as it is; return its number."""


class LineSession:
    """A line in one session, from the request to go on with it.

    Args:
        line: the line.
        protocol: the session's protocol.
        session, requests: its parts.
        trace: the trace of the session; None for no trace.

    Attributes:
        line: the line.
        began: whether it goes on in the session.
        lost: why it does not, and cannot in any other.
    """

    def __init__(
        self,
        line: Line,
        protocol: Sending,
        session: ClientSession,
        requests: Requests,
        trace: "SessionTrace | None",
    ) -> None:
        self.line, self._protocol = line, protocol
        self._session, self._requests, self._trace = session, requests, trace
        self.began = False
        self.lost: InDoubt | None = None
        session.go_on_with(line.id)
        self._record_request()

    def _record_request(self) -> None:
        if self._trace is not None:
            self._trace.requested("line", number=self._session.last_number)

    def is_decided(self) -> bool:
        """Return whether it goes on, or never will."""
        return self.began or self.lost is not None

    def begin(self, granted: LineGranted) -> None:
        """Send again what the daemons have not delivered."""
        if self.began:
            return
        try:
            again = self.line.begin(granted)
        except InDoubt as error:
            self.lost = error
            return
        self.began = True
        self.post(again)
        self._session.count_from(max(self.line.last, granted.last))

    def post(self, kept: Iterable[Sent]) -> None:
        """Send messages of the line that were not sent here, if the session is there for that."""
        protocol, session = self._protocol, self._session
        if not self.began or not protocol.is_open or protocol.is_parting:
            return
        for sent in kept:
            if sent.number > session.last_number:
                session.count_from(sent.number - 1)
                protocol.put(sent, sent.data)
                if sent.ordered:
                    self._requests.expect_order(sent.number)
        protocol.needs_flush = True

    def check(self, message: Outgoing) -> int:
        """Raise the errors of a message that is to be sent; return the number that it has then."""
        self._protocol.check_sending()
        size, options = len(memoryview(message.data)), {"ordered": message.ordered}
        self._session.check(message.groups, size, level=message.level, type=message.type, **options)
        return self._session.last_number + 1

    def order(self, number: int) -> PendingOrder | None:
        """Return the awaited place of a message that was sent here; None if nobody awaits it."""
        return self._requests.order(number)

    def keep(self, number: int, message: Outgoing) -> None:
        """Keep a message that was sent until it has its answer."""
        self.note_answers()
        if message.level == ServiceLevel.UNRELIABLE:
            self.line.last = number
            return
        data = message.data
        data = data if isinstance(data, bytes) else bytes(memoryview(data))
        options = (message.level, message.type, message.self_discard, message.ordered)
        self.line.add(Sent(number, message.groups, data, *options))

    def note_answers(self) -> bool:
        """Drop the messages that have their answers; return whether that is all of them."""
        if self.began:
            self.line.answer(self._session.accepted or 0)
        return not self.line.kept

    def has_room(self) -> bool:
        """Return whether another message may be sent."""
        self.note_answers()
        return self.line.has_room

    def give_up(self) -> None:
        """Say that the line is needed no more."""
        if self.began:
            self._session.give_up(self.line.id)
            self._record_request()
