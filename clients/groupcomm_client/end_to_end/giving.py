"""The giver of a group's keys: draws a key, and wraps it for the members that may have it."""

from collections.abc import Iterable

import attrs
import msgspec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from groupcomm.events import MemberId
from groupcomm_client.end_to_end.credentials import GroupSecret
from groupcomm_client.end_to_end.frames import (
    ID_BYTES,
    KEY_BYTES,
    Entry,
    Epoch,
    KeyFrame,
    Place,
    Ready,
    key_text,
    ready_text,
    wrap_text,
)
from groupcomm_client.end_to_end.keys import NotGenuine, Random, wrap


@attrs.define(kw_only=True)
class _Offer:
    """A key that was drawn here."""

    epoch: Epoch
    id: bytes
    secret: bytes = attrs.field(repr=False)
    sent: bool = False  # whether its first frame was made
    heard: bool = False  # whether that frame has come back in the agreed order
    served: dict[MemberId, int] = attrs.field(factory=dict)


class Giving:
    """The part of a member that gives keys.

    Attributes:
        readies: for each member the last Ready that it has sent here.
        offer: the key that was drawn for the present view; None if another member gives.
    """

    def __init__(self, group: str, me: MemberId, credentials: GroupSecret, random: Random) -> None:
        self._group = group
        self._me = me
        self._credentials = credentials
        self._random = random
        self.readies: dict[MemberId, Ready] = {}
        self.offer: _Offer | None = None
        self._other: Place | None = None

    def change_view(self, stayed: Iterable[MemberId]) -> None:
        """Begin with another view, and forget the prekeys of members that came another way."""
        self.readies = {one: self.readies[one] for one in stayed if one in self.readies}
        self.offer = None

    def see_giver(self, giver: MemberId, identifier: bytes, place: Place) -> None:
        """Note the giver of the key that is in use from now on.

        If it is another member, members make their prekeys for that one, and a key of this member
        is not given any more, unless it is still in flight and will be in use then.
        """
        offer = self.offer
        if giver == self._me:
            self._other = None
            if offer is not None and offer.id == identifier:
                offer.heard = True
        else:
            self.readies.clear()
            self._other = place
            if offer is not None and (offer.heard or not offer.sent):
                self.offer = None

    def doubt(self, sender: MemberId, ready: Ready) -> str:
        """Return the reason not to believe a Ready; "" if it is good."""
        proved = ready_text(ready, sender, self._me)
        return self._credentials.doubt(sender, proved, ready.proof)

    def accept(self, sender: MemberId, ready: Ready) -> bool:
        """Note a Ready that is believed; return False if one as new was there."""
        if self._other is not None and ready.place <= self._other:
            return True  # it was made before its sender knew of the other giver
        known = self.readies.get(sender)
        if known is not None and ready.number <= known.number:
            return False
        self.readies[sender] = ready
        if ready.again and self.offer is not None:
            self.offer.served.pop(sender, None)
        return True

    def draw(self, epoch: Epoch) -> None:
        """Draw a new key for a view, which no member has yet."""
        identifier, secret = self._random(ID_BYTES), self._random(KEY_BYTES)
        self.offer = _Offer(epoch=epoch, id=identifier, secret=secret)

    def secret_of(self, identifier: bytes) -> bytes:
        """Return the key with this id that this member gives.

        Raises:
            NotGenuine: it gives no key with this id.
        """
        if self.offer is None or self.offer.id != identifier:
            raise NotGenuine(
                "it gives a key that this member, whose name it bears, has not drawn: a forgery"
            )
        return self.offer.secret

    def unserved(self, members: Iterable[MemberId]) -> list[MemberId]:
        """Return the members that may have the key and were not given it."""
        assert self.offer is not None
        served = self.offer.served
        return [one for one in members if one in self.readies and one not in served]

    def serve(self, members: tuple[MemberId, ...]) -> KeyFrame:
        """Return the key, for the members that may have it and were not given it yet."""
        offer = self.offer
        assert offer is not None
        private = X25519PrivateKey.from_private_bytes(self._random(KEY_BYTES))  # forgotten here
        waiting = set(self.unserved(members))
        entries = [
            entry
            for at, member in enumerate(members)
            if member in waiting and (entry := self._entry(at, member, private)) is not None
        ]
        for entry in entries:
            offer.served[members[entry.at]] = entry.ready.number
        frame = KeyFrame(
            place=offer.epoch.place,
            digest=offer.epoch.digest,
            id=offer.id,
            first=not offer.sent,
            ephemeral=private.public_key().public_bytes_raw(),
            entries=tuple(entries),
        )
        offer.sent = True
        proof = self._credentials.prove(key_text(frame, self._me))
        return msgspec.structs.replace(frame, proof=proof)

    def _entry(self, at: int, member: MemberId, private: X25519PrivateKey) -> Entry | None:
        assert self.offer is not None
        offer, ready, mixed = self.offer, self.readies[member], self._credentials.mixed
        try:
            wrapped = wrap(
                offer.secret,
                private,
                ready.prekey,
                mixed,
                offer.epoch,
                wrap_text(offer.id, self._me, member, ready),
            )
        except NotGenuine:
            del self.readies[member]  # its prekey would reveal the key
            return None
        if not self._credentials.names_members:
            ready = msgspec.structs.replace(ready, proof=b"")
        return Entry(at, ready, wrapped)
