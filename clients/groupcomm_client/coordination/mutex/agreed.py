"""The mutex over agreed order alone: a queue as a replicated state machine.

The agreed order already gives every member the same first request, so nothing needs to be
acknowledged: members send requests and releases only.
"""

import msgspec

from groupcomm.events import DaemonView, MemberId
from groupcomm.level import ServiceLevel
from groupcomm_client.continuity import Continuity
from groupcomm_client.coordination.mutex.form import Send
from groupcomm_client.coordination.replica import Done, Replica, Status, Unknown
from groupcomm_client.coordination.replica import Send as ReplicaSend
from groupcomm_client.events import Received

_REQUEST = b"+"
_RELEASE = b"-"

_decoder = msgspec.msgpack.Decoder(list[MemberId])


class Queue:
    """The state machine of the mutex: a queue of the members that have requested it, in order."""

    def __init__(self) -> None:
        """Begin with an empty queue."""
        self.members: list[MemberId] = []

    def apply(self, command: bytes, sender: MemberId) -> object:
        """Apply a request or a release; a repeated one changes nothing."""
        if sender in self.members:
            if command == _RELEASE:
                self.members.remove(sender)
        elif command == _REQUEST:
            self.members.append(sender)
        return None

    def members_changed(self, members: tuple[MemberId, ...]) -> None:
        """Drop the members that have gone, even the holder."""
        self.members = [member for member in self.members if member in members]

    def snapshot(self) -> bytes:
        """Return the queue."""
        return msgspec.msgpack.encode(self.members)

    def restore(self, state: bytes) -> None:
        """Adopt a queue."""
        self.members = _decoder.decode(state)


class AgreedForm:
    """One member of the mutex; see `Form`."""

    def __init__(
        self,
        me: MemberId,
        group: str,
        *,
        replicas: int | None = None,
        level: ServiceLevel = ServiceLevel.AGREED,
        view: DaemonView | None = None,
    ) -> None:
        """Begin before the first view of the group.

        Args:
            me: the session of this member.
            group: the group of the members that compete.
            replicas: the number of these members, absent ones included; see `Replica`.
            level: the service level of requests and releases.
            view: the last view of daemons that the session was shown; None if there was none.
        """
        self._me = me
        self._queue = Queue()
        self._replica = Replica(
            me, group, self._queue, replicas=replicas, needs_majority=replicas is None
        )
        if view is not None:
            self._replica.handle(view)
        self._level = level
        self._exclusive = replicas is not None
        self._wanted = False
        self._holds = False
        self._asked = 0  # the number of the command whose outcome is awaited; 0 for none
        self._sends: list[Send] = []
        self.breaks = 0
        self._continuity = Continuity(view)

    @property
    def queue(self) -> tuple[MemberId, ...]:
        """Return the members that have requested the mutex, in the order of the grants."""
        return tuple(self._queue.members)

    @property
    def holds(self) -> bool:
        """Return whether the request of this member is the first."""
        return self._holds

    def request(self) -> list[Send]:
        """Multicast a request."""
        self._wanted = True
        return self._look()

    def release(self) -> list[Send]:
        """Multicast that the request is over."""
        self._wanted = False
        return self._look()

    def handle(self, event: Received) -> list[Send]:
        """Handle one event of the connection."""
        was_current = self._replica.status is Status.CURRENT
        if self._continuity.is_broken_by(event) and not self._exclusive:
            self._holds = False  # the others may have let another one in
            self.breaks += 1
        for action in self._replica.handle(event):
            match action:
                case ReplicaSend(data):
                    self._sends.append(Send(data, ServiceLevel.AGREED))
                case Done(number) | Unknown(number):
                    if number == self._asked:
                        self._asked = 0
        if self._exclusive and was_current and self._replica.status is Status.SETTLING:
            self.breaks += 1
        return self._look()

    def _look(self) -> list[Send]:
        """Send the commands that are needed, and see whether the turn of this member has come."""
        replica, queue = self._replica, self._queue.members
        if replica.has_quorum:
            if not self._asked and self._wanted != (self._me in queue):
                self._asked, data = replica.command(_REQUEST if self._wanted else _RELEASE)
                self._sends.append(Send(data, self._level))
            # While a release is in flight, the place in the queue belongs to the earlier request.
            self._holds = self._wanted and not self._asked and queue[:1] == [self._me]
        elif not self._wanted or (self._exclusive and replica.status is Status.SETTLING):
            self._holds = False  # the others may continue without this member
        sends, self._sends = self._sends, []
        return sends
