"""One member of a mutex in one session: its form, its tenure, and the token of each grant.

Pure: events of a connection in, messages out. A tenure is over when the member releases the mutex,
or is *lost* before, when others may have gone on without it. A member that has released it learns
whether it held it up to then: behind its release it sends a mark (`confirming`). So a program that
stood still does not leave its block as if nothing had happened.
"""

import enum

from groupcomm.events import DaemonView, MemberId
from groupcomm.level import ServiceLevel
from groupcomm_client.coordination.confirming import Confirmation
from groupcomm_client.coordination.mutex.form import Form, Send
from groupcomm_client.coordination.rules import Rules, RulesDiffer, SameRules
from groupcomm_client.coordination.tokens import Latest, token_of
from groupcomm_client.events import Received


class Phase(enum.Enum):
    """The phase of the present request."""

    OUT = enum.auto()  # there is none, or its release is confirmed
    ASKED = enum.auto()
    HELD = enum.auto()
    LOST = enum.auto()  # others may hold the mutex; until the release
    LEAVING = enum.auto()  # the release is not confirmed yet


class Contender:
    """One member: it calls `request`, at some time `holds` becomes true, and it calls `release`.

    Attributes:
        phase: the phase of its request.
        was_lost: whether the last tenure was lost before its release was confirmed.
        token: the fencing token of the present or last tenure (`tokens`); None before the first.
    """

    def __init__(
        self,
        form: Form,
        me: MemberId,
        group: str,
        rules: Rules,
        view: DaemonView | None = None,
    ) -> None:
        """Begin before the first view of the group.

        Args:
            form: the form of the mutex.
            me: the session of the member.
            group: the group of the members that compete.
            rules: the rules of this member, which are those of all.
            view: the last view of daemons that the session was shown; None if there was none.
        """
        self.phase = Phase.OUT
        self.was_lost = False
        self.token: int | None = None
        self._form = form
        self._me = me
        self._rules = SameRules(me, group, rules)
        self._daemons = view
        self._latest = Latest()
        self._confirmation = Confirmation(me, group)
        self._breaks = 0  # of the form when the tenure began

    @property
    def holds(self) -> bool:
        """Return whether this member holds the mutex, and has not released it."""
        return self.phase is Phase.HELD

    @property
    def queue(self) -> tuple[MemberId, ...]:
        """Return the members that have requested the mutex, in the order of the grants."""
        return self._form.queue

    @property
    def conflict(self) -> RulesDiffer | None:
        """Return the error if a member of the group has other rules."""
        return self._rules.error()

    def request(self) -> list[Send]:
        """Request the mutex."""
        self.phase, self.was_lost = Phase.ASKED, False
        sends = self._form.request()
        self._follow()
        return sends

    def release(self) -> list[Send]:
        """Release the mutex, or withdraw the request."""
        sends = self._form.release()
        if self.phase is Phase.HELD:
            self.phase = Phase.LEAVING
            sends.append(Send(self._confirmation.ask(), ServiceLevel.SAFE, self._me))
        elif self.phase is not Phase.LEAVING:
            self.phase = Phase.OUT
        return sends

    def handle(self, event: Received) -> list[Send]:
        """Handle one event of the connection."""
        self._latest.note(event)
        self._confirmation.handle(event)
        if isinstance(event, DaemonView):
            self._daemons = event
        sends = [Send(data, ServiceLevel.AGREED) for data in self._rules.handle(event)]
        sends += self._form.handle(event)
        self._follow()
        return sends

    def lose(self) -> None:
        """Note the end of the session."""
        if self.phase in (Phase.HELD, Phase.LEAVING):
            self.phase = Phase.LOST if self.phase is Phase.HELD else Phase.OUT
            self.was_lost = True

    def _follow(self) -> None:
        # Others that may hold it meanwhile have a majority; without one this member is not sure.
        is_minor = self._daemons is not None and self._daemons.majority is False
        match self.phase:
            case Phase.ASKED if self._form.holds and not is_minor:
                self.phase, self.token = Phase.HELD, token_of(self._latest.position)
                self._breaks = self._form.breaks
            case Phase.HELD if is_minor or not self._form.holds or self._has_broken:
                self.phase, self.was_lost = Phase.LOST, True
            case Phase.LEAVING if is_minor or self._has_broken:
                self.phase, self.was_lost = Phase.OUT, True
            case Phase.LEAVING if self._confirmation.is_there:
                self.phase = Phase.OUT

    @property
    def _has_broken(self) -> bool:
        """Return whether others may have gone on without this member since the grant."""
        return self._form.breaks != self._breaks
