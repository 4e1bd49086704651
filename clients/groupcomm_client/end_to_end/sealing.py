"""The groups with secrets of one connection, between its filters and its session.

Without I/O. A message to such a group is sealed below all filters; an incoming one is opened before
any filter sees it, or is held, or reaches the program as `Unreadable`.
"""

import os
import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from groupcomm.errors import LocalProtocolError
from groupcomm.events import GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm.session.inbox import SEALED
from groupcomm_client.end_to_end.agreement import Action, Agreement, State, Tell, ToMember
from groupcomm_client.end_to_end.credentials import GroupSecret
from groupcomm_client.end_to_end.frames import (
    BadFrame,
    KeyFrame,
    Kind,
    Place,
    Ready,
    decode_frame_untrusted,
    decode_head_untrusted,
    kind_of,
    read_key_and_number_untrusted,
)
from groupcomm_client.end_to_end.held import HELD_S, Holding
from groupcomm_client.end_to_end.keys import NotGenuine, Random
from groupcomm_client.events import KeyChanged, Unreadable, Untrusted
from groupcomm_client.filters.chain import with_data
from groupcomm_client.filters.roles import Outgoing

_DATA: Final = int(Kind.DATA)
_LOOSE: Final = int(Kind.LOOSE)
_FIFO: Final = ServiceLevel.FIFO

PRIVATE_NUMBERS: Final = 1024
"""The own messages to single members that are remembered as not sent by the program."""


class Session(Protocol):
    """The session below, and the program and filters above."""

    member: MemberId

    @property
    def is_open(self) -> bool:
        """Return whether neither side has said goodbye."""

    def send_out(self, message: Outgoing, data: bytes) -> int:
        """Send a message with these data; return its number."""

    def pass_on(self, message: Message) -> None:
        """Pass on an incoming message, towards the program."""

    def give(self, event: Unreadable | KeyChanged | Untrusted) -> None:
        """Queue an event for the program."""


class Sealing:
    """The groups with secrets of one connection.

    Args:
        session: both ends.
        clock: seconds of a clock that never falls.
        secrets: the secrets of the groups that were joined with one, by name; kept up to date, and
            passed to the program's next session.
        random: `os.urandom` except in tests.
    """

    def __init__(
        self,
        session: Session,
        clock: Callable[[], float],
        secrets: dict[str, GroupSecret],
        random: Random = os.urandom,
    ) -> None:
        self._session = session
        self._clock = clock
        self._random = random
        self._credentials = secrets
        self._agreements: dict[str, Agreement] = {}
        self._todo: deque[tuple[Agreement, Action]] = deque()
        self._unsealed: dict[str, list[tuple[Outgoing, bytes]]] = {}
        self._holding = Holding()
        self._private: deque[int] = deque(maxlen=PRIVATE_NUMBERS)

    # ---- requests of the program ----

    def join(self, group: str, credentials: GroupSecret | None) -> None:
        """Note that the session asks to join; without credentials the group is an ordinary one."""
        if credentials is None:
            self._credentials.pop(group, None)
        else:
            self._credentials[group] = credentials

    def concerns(self, groups: Iterable[str]) -> bool:
        """Return whether a message to these destinations is one to a group with a secret.

        Raises:
            LocalProtocolError: it goes to such a group and to other destinations.
        """
        groups = tuple(groups)
        if len(groups) == 1:
            return groups[0] in self._credentials
        secret = [group for group in groups if group in self._credentials]
        if secret:
            raise LocalProtocolError(
                f"{secret[0]!r} has a secret that only its members know: send the "
                "message to it alone, and once more to the others"
            )
        return False

    def may_send(self, groups: Iterable[str], asked: Iterable[str]) -> bool:
        """Return whether a message can be sent now; if not, it can once a key is there.

        Args:
            groups: its destinations.
            asked: the groups that the session is a member of, or has asked to join.

        Raises:
            LocalProtocolError: the message must not be sent.
        """
        groups = tuple(groups)
        for group in groups:
            if group in self._credentials and group not in asked:
                raise LocalProtocolError(
                    f"{group!r} was joined with a secret and left: join it again to send to it"
                )
        if not self.concerns(groups):
            return True
        agreement = self._agreements.get(groups[0])
        if agreement is None:
            return False
        if agreement.state is State.REFUSED:
            raise LocalProtocolError(
                "a member that this program does not trust can read messages to "
                f"{groups[0]!r}, so nothing can be sent to it: {agreement.why}"
            )
        return agreement.state is State.KEYED and groups[0] not in self._unsealed

    def rekey(self, group: str) -> Callable[[], bool]:
        """Request another key for a group; return a condition that holds once it is in use.

        Raises:
            LocalProtocolError: the session is not a member of the group with a secret.
        """
        agreement = self._agreements.get(group)
        if agreement is None:
            raise LocalProtocolError(f"this session has not joined {group!r} with a secret")
        before = agreement.keys.latest
        self._do(agreement, agreement.rekey(self._clock()))

        def has_come() -> bool:
            if self._agreements.get(group) is not agreement:
                return True  # the program has left the group meanwhile
            return agreement.keys.latest is not before and agreement.state is not State.WAITING

        return has_come

    # ---- out ----

    @property
    def has_unsealed(self) -> bool:
        """Return whether messages wait for the keys of their groups."""
        return bool(self._unsealed)

    def send(self, message: Outgoing, data: bytes) -> int:
        """Seal a message and send it; return its number, or 0 if it waits for a key."""
        group = message.groups[0]
        agreement = self._agreements.get(group)
        if agreement is None or agreement.state is not State.KEYED or group in self._unsealed:
            # A filter has sent it: programs do not send before they may.
            self._unsealed.setdefault(group, []).append((message, data))
            return 0
        return self._seal(agreement, message, data)

    def _seal(self, agreement: Agreement, message: Outgoing, data: bytes) -> int:
        key = agreement.keys.latest
        assert key is not None
        kind = _DATA if message.level >= _FIFO else _LOOSE
        beside = _beside(message.level, message.type)
        sealed = key.seal(self._session.member, kind, data, beside)
        return self._session.send_out(message, sealed)

    def _do(self, agreement: Agreement, actions: list[Action]) -> None:
        """Carry out the actions of an agreement, and then work that was not possible before."""
        for action in actions:
            if isinstance(action, Tell):
                self._session.give(action.event)
                continue
            if not self._session.is_open:
                continue  # other members continue without this message
            to = action.member.name if isinstance(action, ToMember) else agreement.group
            level = ServiceLevel.AGREED
            message = Outgoing(groups=(to,), data=action.data, level=level, self_discard=False)
            number = self._session.send_out(message, action.data)
            if isinstance(action, ToMember):
                self._private.append(number)
        if agreement.state is State.KEYED and self._session.is_open:
            for waiting, data in self._unsealed.pop(agreement.group, ()):
                self._seal(agreement, waiting, data)

    def is_own(self, number: int) -> bool:
        """Return whether a message was sent for keys, so that its fate is not the program's
        concern."""
        return number in self._private

    # ---- views ----

    def change_view(self, view: GroupView) -> None:
        """Accept a view: from now on nothing is sealed with the last key. `follow` is next."""
        agreement = self._agreements.get(view.group)
        if self._session.member not in view.members:
            self._agreements.pop(view.group, None)
            self._unsealed.pop(view.group, None)
            return
        if agreement is None:
            credentials = self._credentials.get(view.group)
            if credentials is None:
                return
            agreement = Agreement(view, self._session.member, credentials, self._random)
            self._agreements[view.group] = agreement
        for action in agreement.change_view(view, self._clock()):
            self._todo.append((agreement, action))

    def follow(self) -> None:
        """Do the work that the view requires, now that filters know of it, too."""
        while self._todo:
            agreement, action = self._todo.popleft()
            self._do(agreement, [action])
        self._release()

    # ---- in ----

    def receive(self, message: Message) -> None:
        """Process an incoming message."""
        if not self._holding:
            if not self._accept(message):
                self._hold(message)
            return
        behind = self._holding.is_behind(message) and not _is_about_keys(message)
        if behind or not self._accept(message):
            self._hold(message)
        else:
            self._release()

    def _hold(self, message: Message) -> None:
        if self._holding.is_full:
            self._give_up(message, "too many messages wait for keys that have not come")
        else:
            self._holding.add(message, self._clock())

    def _release(self) -> None:
        for held in self._holding.heads():
            if self._accept(held.message, held=True):
                self._holding.remove(held)

    def _give_up(self, message: Message, why: str) -> None:
        self._session.give(Unreadable(message=message, why=why))

    def _accept(self, message: Message, *, held: bool = False) -> bool:
        """Process a message; return False if its key may still come.

        Args:
            message: the incoming message.
            held: whether it has waited for its key.
        """
        try:
            if not message.data.startswith(SEALED):
                self._accept_plain(message)
                return True
            kind = kind_of(message.data)
            if kind <= _LOOSE:
                return self._accept_sealed(message, kind, held)
            if kind == Kind.KEY:
                self._accept_key(message)
            elif kind == Kind.READY:
                self._accept_ready(message)
            elif kind == Kind.REKEY:
                self._accept_rekey(message)
            else:
                return self._accept_sealed(message, kind, held)
        except (NotGenuine, BadFrame) as error:
            self._give_up(message, str(error))
        return True

    def _accept_plain(self, message: Message) -> None:
        secret = [group for group in message.groups if group in self._agreements]
        if secret:
            raise NotGenuine(
                f"it is not sealed, so anybody may have sent it: {message.sender.name} "
                f"must join {secret[0]!r} with its secret to send to it"
            )
        self._session.pass_on(message)

    def _agreement(self, message: Message, group: str) -> Agreement:
        agreement = self._agreements.get(group)
        if agreement is None or (group,) != message.groups:
            raise NotGenuine(NO_SECRET)
        return agreement

    def _accept_key(self, message: Message) -> None:
        agreement = self._agreement(message, message.groups[0])
        frame = decode_frame_untrusted(message.data, KeyFrame)
        self._do(agreement, agreement.key_received(message.sender, frame, self._clock()))

    def _accept_ready(self, message: Message) -> None:
        ready = decode_frame_untrusted(message.data, Ready)
        agreement = self._agreements.get(ready.group)
        if agreement is None:
            if ready.group not in self._credentials:  # otherwise it came too late
                raise NotGenuine(NO_SECRET)
            return
        self._do(agreement, agreement.ready_received(message.sender, ready, self._clock()))

    def _accept_rekey(self, message: Message) -> None:
        identifier, number = read_key_and_number_untrusted(message.data)
        for agreement in self._agreements.values():
            key = agreement.keys.get(identifier)
            if key is not None and key.can_open(message.sender):
                key.open(message.sender, Kind.REKEY, number, message.data, b"")
                self._do(agreement, agreement.rekey_received(key, self._clock()))
                return
        if not self._credentials:
            raise NotGenuine(NO_SECRET)

    def _accept_sealed(self, message: Message, kind: int, held: bool) -> bool:
        agreement = self._agreement(message, message.groups[0])
        identifier, number = read_key_and_number_untrusted(message.data)
        key = agreement.keys.get(identifier)
        if key is None or not key.can_open(message.sender):
            return self._accept_without_key(message, agreement)
        if kind == Kind.DONE:
            key.open(message.sender, kind, number, message.data, b"")
            agreement.done_received(key, message.sender, early=held)
            return True
        if kind != (_DATA if message.level >= _FIFO else _LOOSE):
            raise NotGenuine(
                "it comes with another level or type than it was sent with: it was changed"
            )
        beside = _beside(message.level, message.type)
        plain = key.open(message.sender, kind, number, message.data, beside)
        if key.doubts and message.sender in key.doubts:
            raise NotGenuine(key.doubts[message.sender])
        self._session.pass_on(with_data(message, plain))
        return True

    def _accept_without_key(self, message: Message, agreement: Agreement) -> bool:
        head = decode_head_untrusted(message.data)
        if head.place >= agreement.epoch.place:
            return False
        if head.kind == Kind.DONE:
            return True  # a message from an earlier view
        raise NotGenuine(_too_late(agreement, head.place))

    def finish(self) -> None:
        """Report all messages that wait for a key as unreadable: the session ends."""
        for held in self._holding.heads():
            self._holding.remove(held)
            self._give_up(held.message, "the session ended before its key came")

    # ---- time ----

    @property
    def deadline(self) -> float | None:
        """Return the time at which `wake` is to be called."""
        times = [one.deadline for one in self._agreements.values()]
        if self._holding:
            times.append(self._holding.deadline)
        return min((time for time in times if time is not None), default=None)

    def wake(self) -> None:
        """Do the work that is due."""
        now = self._clock()
        for agreement in list(self._agreements.values()):
            if agreement.deadline is not None and agreement.deadline <= now:
                self._do(agreement, agreement.wake(now))
        for held in self._holding.heads():
            if held.until <= now:
                # The message may have waited only for earlier messages.
                taken = self._accept(held.message, held=True)
                self._holding.remove(held)
                if not taken:
                    self._give_up(held.message, f"its key has not come in {HELD_S:g} s")
        self._release()


NO_SECRET: Final = (
    "it is sealed for the members of a group with a secret: leave the group, and join it "
    "again with secret=..., as docs/end-to-end.md says"
)


def _is_about_keys(message: Message) -> bool:
    """Return whether a message is about keys, and not a program's: waiting messages may need it."""
    data = message.data
    return data.startswith(SEALED) and kind_of(data) not in (Kind.DATA, Kind.LOOSE)


def _too_late(agreement: Agreement, place: Place) -> str:
    if place < agreement.first:
        return (
            "it was sent before this program became a member, and is for the members of that time"
        )
    return "its key was erased, or was lost with the members that had it"


_beside: Final = struct.Struct("!BH").pack
"""Packs the level and the type of a message, which are authenticated with it like its head."""
