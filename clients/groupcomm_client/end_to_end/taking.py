"""The receiver of a group's keys: checks that they may be used, and unwraps them."""

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from groupcomm.events import GroupView, MemberId
from groupcomm_client.end_to_end.credentials import GroupSecret
from groupcomm_client.end_to_end.frames import (
    KEY_BYTES,
    Entry,
    Epoch,
    KeyFrame,
    key_text,
    ready_text,
    wrap_text,
)
from groupcomm_client.end_to_end.keyring import Keyring
from groupcomm_client.end_to_end.keys import GroupKey, NotGenuine, Random, unwrap


class Prekeys:
    """The private keys for which this member may be given the next key of the group.

    Each is for one wrap by one giver. It is kept until this giver has shown, by using a later one,
    that it no longer needs it, or until all members are known to have moved on: a view may change
    before the giver has heard of the later one, and another member may give a key meanwhile.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._number = 0
        self._private: dict[int, tuple[MemberId, X25519PrivateKey]] = {}  # giver and key, by number

    def make(self, giver: MemberId) -> tuple[int, bytes]:
        """Make a new prekey for a giver; return its number, and its public part."""
        self._number += 1
        private = X25519PrivateKey.from_private_bytes(self._random(KEY_BYTES))
        self._private[self._number] = giver, private
        return self._number, private.public_key().public_bytes_raw()

    def use(self, giver: MemberId, number: int, public: bytes) -> X25519PrivateKey | None:
        """Return the private part of a prekey, if this giver has it; erase its earlier ones."""
        owner, private = self._private.get(number, (None, None))
        if private is None or owner != giver or private.public_key().public_bytes_raw() != public:
            return None
        self._private = {
            n: entry for n, entry in self._private.items() if n >= number or entry[0] != giver
        }
        return private

    def keep_latest(self) -> None:
        """Erase all but the last prekey."""
        self._private = {n: one for n, one in self._private.items() if n == self._number}


class Taking:
    """The part of a member that receives keys."""

    def __init__(
        self, me: MemberId, credentials: GroupSecret, keys: Keyring, prekeys: Prekeys
    ) -> None:
        self._me = me
        self._credentials = credentials
        self._keys = keys
        self._prekeys = prekeys

    def note(
        self, view: GroupView, epoch: Epoch, giver: MemberId, frame: KeyFrame, now: float
    ) -> GroupKey:
        """Note which members get which key, even if this member is not among them.

        Raises:
            NotGenuine: the key is not for this view, its sender may not give one, or it has come
                before.
        """
        self._check(view, epoch, giver, frame)
        added = {view.members[one.at]: one.ready for one in frame.entries}
        key = self._keys.get(frame.id)
        if frame.first:
            if key is not None:
                raise NotGenuine("it gives a key that was given before: a repetition")
            key = GroupKey(frame.id, epoch, giver)
            key.salts[giver] = frame.ephemeral
            self._keys.add(key, now)
        elif key is None or key.giver != giver or key.epoch != epoch:
            raise NotGenuine("it gives a key to further members, and the first ones are not known")
        elif all(key.salts.get(one) == ready.prekey for one, ready in added.items()):
            raise NotGenuine("it gives a key only to members that have it: a repetition")
        for member, ready in added.items():
            key.let_in(member, ready.prekey)
            if self._credentials.names_members and member != self._me:
                proved = ready_text(ready, member, giver)
                why = self._credentials.doubt(member, proved, ready.proof)
                if why:
                    key.doubts[member] = why
        return key

    def _check(self, view: GroupView, epoch: Epoch, giver: MemberId, frame: KeyFrame) -> None:
        if (frame.place, frame.digest) != epoch:
            raise NotGenuine(
                "it is a key for other members than this program was told of: a daemon "
                "does not tell all programs the same"
            )
        if giver not in view.members:
            raise NotGenuine("it gives a key, and its sender is not a member")
        why = self._credentials.doubt(giver, key_text(frame, giver), frame.proof)
        if why:
            raise NotGenuine(why)
        if not all(0 <= one.at < len(view.members) for one in frame.entries):
            raise NotGenuine("it gives a key to members that are not in the view")

    def unwrap(self, key: GroupKey, frame: KeyFrame, entry: Entry) -> bytes | None:
        """Return the key that is wrapped for this member; None if it cannot be unwrapped."""
        ready = entry.ready
        private = self._prekeys.use(key.giver, ready.number, ready.prekey)
        if private is None:
            return None
        info = wrap_text(key.id, key.giver, self._me, ready)
        mixed = self._credentials.mixed
        try:
            return unwrap(entry.wrap, private, frame.ephemeral, mixed, key.epoch, info)
        except NotGenuine:
            return None
