"""The agreement on the keys of one group, from the view of one member.

Pure: ``now`` is in seconds of a clock that never falls, random bytes come from a function that is
passed in. States, messages and rules are in docs/end-to-end.md.

Source: the centralised key distribution (CKD) of Amir et al., "Secure Spread: An Integrated
Architecture for Secure Group Communication", IEEE TDSC 2(3), 2005. Unlike there no member waits
for the others before a view, and each wrap is for a public key that is used once.
"""

import enum
from typing import Final, TypeAlias

import attrs
import msgspec

from groupcomm.events import GroupView, MemberId
from groupcomm_client.end_to_end.credentials import GroupSecret
from groupcomm_client.end_to_end.frames import (
    Epoch,
    KeyFrame,
    Kind,
    Ready,
    encode_frame,
    epoch_of,
    ready_text,
)
from groupcomm_client.end_to_end.giving import Giving
from groupcomm_client.end_to_end.keyring import Keyring
from groupcomm_client.end_to_end.keys import GroupKey, NotGenuine, Random
from groupcomm_client.end_to_end.taking import Prekeys, Taking
from groupcomm_client.events import KeyChanged, Untrusted

AWAIT_S: Final = 1.0
"""The time for which a giver waits for members that have not shown that they may have the key."""

PATIENCE_S: Final = 2.0
"""The time for which the giver, and then members without a key, are awaited before a report."""

GATHER_S: Final = 0.01
"""The time for which a giver waits for further latecomers, to give them the key together."""

ASKS: Final = 3
"""The most requests of a member for the key of one view, if its wraps do not unwrap."""


class State(enum.Enum):
    """The state of a member: whether it can send."""

    WAITING = enum.auto()  # the view has no key yet, or this member has not got it
    KEYED = enum.auto()
    REFUSED = enum.auto()  # a member that is not trusted here has the key


class _Timer(enum.Enum):
    SERVE = enum.auto()  # the time to give the key to waiting members
    SILENT = enum.auto()  # the time after which a silent giver loses its turn
    DOUBT = enum.auto()  # the time to report members without a key


@attrs.frozen
class ToGroup:
    """An action: send this to the group, AGREED."""

    data: bytes


@attrs.frozen
class ToMember:
    """An action: send this to one member, AGREED."""

    member: MemberId
    data: bytes


@attrs.frozen
class Tell:
    """An action: report this event to the program."""

    event: KeyChanged | Untrusted


Action: TypeAlias = ToGroup | ToMember | Tell


class Agreement:
    """The keys of a group.

    Attributes:
        group: the name of the group.
        me: this member.
        state: whether this member can send.
        why: the reason if the state is REFUSED.
        first: the place of this member's first view; earlier messages are not for it.
        epoch: the epoch of the present view.
        keys: all keys with which it can still read, or that it may still be given.
    """

    def __init__(
        self, view: GroupView, me: MemberId, credentials: GroupSecret, random: Random
    ) -> None:
        """Become a member; `change_view` with the same view follows."""
        self.group: Final = view.group
        self.me: Final = me
        self.state = State.WAITING
        self.why = ""
        self.epoch: Epoch = epoch_of(view)
        self.first: Final = self.epoch.place
        self.keys: Final = Keyring()
        self._credentials = credentials
        self._view = view
        self._prekeys = Prekeys(random)
        self._taking = Taking(me, credentials, self.keys, self._prekeys)
        self._giving = Giving(view.group, me, credentials, random)
        self._ready_sent_to: MemberId | None = None  # the receiver of the last Ready
        self._silent: set[MemberId] = set()
        self._distrusted: set[MemberId] = set()  # members of which the program was notified
        self._times: dict[_Timer, float] = {}
        self._asks_left = ASKS
        self._done = b""  # the key to which all have moved, as this member has announced

    # ---- views ----

    def change_view(self, view: GroupView, now: float) -> list[Action]:
        """Begin with another view of the group, for which the keys of the last one are not
        valid."""
        members = frozenset(view.members)
        stayed = members & frozenset(view.vs_set)
        self._view, self.epoch = view, epoch_of(view)
        self._giving.change_view(stayed)
        if self._ready_sent_to not in stayed:
            self._ready_sent_to = None
        self._silent &= members
        self._distrusted &= members
        self._times.clear()
        self._asks_left = ASKS
        self.state = State.WAITING
        self.keys.retire(now)
        return self._begin(now)

    def _begin(self, now: float) -> list[Action]:
        """Give a key, or get ready for one."""
        if self.giver != self.me:
            self._times[_Timer.SILENT] = now + PATIENCE_S
            return self._ask(self.giver)
        return self._draw(now)

    @property
    def giver(self) -> MemberId:
        """Return the oldest member that does its part; all members with the same information return
        the same."""
        return next(one for one in self._view.members if one == self.me or one not in self._silent)

    # ---- the giver ----

    def _draw(self, now: float) -> list[Action]:
        self._giving.draw(self.epoch)
        return self._serve_soon(now)

    def _serve(self) -> list[Action]:
        self._times.pop(_Timer.SERVE, None)
        return [ToGroup(encode_frame(self._giving.serve(self._view.members)))]

    def ready_received(self, sender: MemberId, ready: Ready, now: float) -> list[Action]:
        """Accept the message of a member that it may have the key.

        Raises:
            NotGenuine: it is a repetition.
        """
        if sender not in self._view.members or sender == self.me:
            return []  # that member has left meanwhile
        why = self._giving.doubt(sender, ready)
        if why:
            return self._distrust(sender, why)
        if not self._giving.accept(sender, ready):
            raise NotGenuine("it asks for a key with an earlier number again: a repetition")
        self._silent.discard(sender)
        return self._serve_soon(now) + self._check_done(now)

    def _serve_soon(self, now: float) -> list[Action]:
        """Give the key once all may have it, so that no message is sent that a member cannot read.

        A late member is waited for during a bounded time; a member that is known not to be
        ready is not waited for.
        """
        offer = self._giving.offer
        if offer is None or (offer.sent and not self._giving.unserved(self._view.members)):
            return []
        known = self._giving.readies.keys() | self._distrusted | {self.me}
        if known >= set(self._view.members):
            return self._serve()
        self._times.setdefault(_Timer.SERVE, now + (GATHER_S if offer.sent else AWAIT_S))
        return []

    def _check_done(self, now: float) -> list[Action]:
        """Announce that all members have moved to the key, once they have: then old ones are
        obsolete.

        A member that was silent for too long is not awaited if it reads none of the remaining keys:
        only with those could it have sent messages that are still in flight.
        """
        key = self.keys.latest
        if key is None or key.giver != self.me or not key.secret or self._done == key.id:
            return []
        for member in self._view.members:
            ready = self._giving.readies.get(member)
            moved = member == self.me or (ready is not None and ready.moved == key.id)
            late = now >= self._times.get(_Timer.DOUBT, now)
            reads = any(member in one.salts for one in self.keys.all())
            outside = ready is None and late and not reads
            if not moved and not outside:
                return []
        self._done = key.id
        return [ToGroup(key.seal(self.me, Kind.DONE, b"", b""))]

    # ---- the readers ----

    def _ask(self, giver: MemberId) -> list[Action]:
        """Have a member give this one the key, unless this one lacks what a request needs."""
        if self._ready_sent_to == giver:
            return []
        return self._get_ready(giver)

    def _get_ready(
        self, giver: MemberId, moved: bytes = b"", *, again: bool = False
    ) -> list[Action]:
        """Send the giver the public key for which the next key is to be wrapped."""
        number, public = self._prekeys.make(giver)
        ready = Ready(self.group, self.epoch.place, number, again, moved, public)
        proof = self._credentials.prove(ready_text(ready, self.me, giver))
        self._ready_sent_to = giver
        return [ToMember(giver, encode_frame(msgspec.structs.replace(ready, proof=proof)))]

    def key_received(self, sender: MemberId, frame: KeyFrame, now: float) -> list[Action]:
        """Accept a key for members of a view.

        Raises:
            NotGenuine: the key is not for this view, or its sender may not give one.
        """
        place = frame.place
        if place < self.epoch.place:
            return []  # the view changed before the key came, so no member uses it
        key = self._taking.note(self._view, self.epoch, sender, frame, now)
        if key is not self.keys.latest:
            return []  # another key has come since: no member seals with this one any longer
        self._see_giver(key)
        self._times.pop(_Timer.SILENT, None)
        self._times.setdefault(_Timer.DOUBT, now + PATIENCE_S)
        actions = self._accept_secret(key, frame)
        self._settle()
        if key.secret is not None:
            actions.append(Tell(self._changed(key)))
        return actions + self._check_done(now)

    def _see_giver(self, key: GroupKey) -> None:
        """Turn to the giver of the key that is in use from now on."""
        self._giving.see_giver(key.giver, key.id, self.epoch.place)
        if self._ready_sent_to != key.giver:
            self._ready_sent_to = None  # the holder of this member's prekeys forgets them
        if self._giving.offer is None:
            self._times.pop(_Timer.SERVE, None)
        self._see_silence(key.giver, key)

    def _see_silence(self, giver: MemberId, key: GroupKey) -> None:
        """Note the members that are silent: older than the giver, and without a key."""
        self._silent -= key.salts.keys()
        for member in self._view.members:
            if member == giver:
                break
            if member not in key.salts:
                self._silent.add(member)

    def _accept_secret(self, key: GroupKey, frame: KeyFrame) -> list[Action]:
        """Use the key if it is wrapped for this member; if not, ask for it."""
        if key.secret is not None:
            return []
        if key.giver == self.me:
            key.secret = self._giving.secret_of(key.id)
            return []
        for entry in frame.entries:
            if self._view.members[entry.at] == self.me:
                key.secret = self._taking.unwrap(key, frame, entry)
                if key.secret is not None:
                    return self._get_ready(key.giver, key.id)
                if self._asks_left:
                    self._asks_left -= 1
                    return self._get_ready(key.giver, again=True)
        return self._ask(key.giver)

    def _settle(self) -> None:
        """Set the state by the latest key."""
        key = self.keys.latest
        if key is None or key.secret is None:
            self.state = State.WAITING
        elif key.doubts:
            self.state, self.why = State.REFUSED, " ".join(key.doubts.values())
        else:
            self.state = State.KEYED

    def _changed(self, key: GroupKey) -> KeyChanged:
        members = self._view.members
        return KeyChanged(
            group=self.group,
            view=self._view.id,
            giver=key.giver,
            readers=tuple(one for one in members if one in key.salts),
            others=tuple(one for one in members if one not in key.salts),
        )

    def done_received(self, key: GroupKey, sender: MemberId, *, early: bool) -> None:
        """Accept that all members have moved to a key: messages sealed with others came before.

        Args:
            key: the key that they have moved to.
            sender: the member that announces it.
            early: whether it came before this member had the key, so that the giver has not waited
                for this member, and may have an old prekey of it.

        Raises:
            NotGenuine: the sender is not the giver.
        """
        if sender != key.giver:
            raise NotGenuine(
                "it announces that all have moved to a key, and its sender is not the giver"
            )
        if key is self.keys.latest:
            self.keys.keep(key)
            if not early:
                self._prekeys.keep_latest()

    # ---- another key ----

    def rekey(self, now: float) -> list[Action]:
        """Draw another key in the same view; do nothing while a next one is in flight."""
        key = self.keys.latest
        if key is None or key.secret is None:
            return []
        if key.giver != self.me:
            return [ToMember(key.giver, key.seal(self.me, Kind.REKEY, b"", b""))]
        return self.rekey_received(key, now)

    def rekey_received(self, key: GroupKey, now: float) -> list[Action]:
        """Draw another key if a member asks for one in place of this one."""
        offer = self._giving.offer
        if key is self.keys.latest and offer is not None and offer.id == key.id:
            return self._draw(now)
        return []  # the view already has another key

    # ---- time ----

    @property
    def deadline(self) -> float | None:
        """Return the time at which `wake` is to be called."""
        times = [*self._times.values(), self.keys.deadline]
        return min((time for time in times if time is not None), default=None)

    def wake(self, now: float) -> list[Action]:
        """Do the work that is due."""
        due = [timer for timer, at in self._times.items() if at <= now]
        actions: list[Action] = []
        for timer in due:
            del self._times[timer]
            match timer:
                case _Timer.SERVE:
                    actions += self._serve()
                case _Timer.SILENT:
                    self._silent.add(self.giver)
                    actions += self._begin(now)
                case _Timer.DOUBT:
                    actions += self._doubt_the_rest() + self._check_done(now)
        self.keys.erase(now)
        return actions

    def _doubt_the_rest(self) -> list[Action]:
        key = self.keys.latest
        why = (
            f"it has not shown in {PATIENCE_S:g} s that it may have the key: let it join "
            "with the secret of the group, or find out which program it is"
        )
        late = [one for one in self._view.members if key is not None and one not in key.salts]
        return [action for one in late if one != self.me for action in self._distrust(one, why)]

    def _distrust(self, member: MemberId, why: str) -> list[Action]:
        if member in self._distrusted:
            return []
        self._distrusted.add(member)
        return [Tell(Untrusted(group=self.group, member=member, why=why))]
