"""Suite 1: every datagram proves its sender, the sender's start, and its own integrity.

After the head (layout.py) comes ``channel u8, epoch u32``, in the clear and authenticated with it,
then the packet in AES-256-GCM (NIST SP 800-38D), whose nonce is the counter. Each channel counts
its own packets, rising by one, and has a key of its own in each epoch, so no nonce repeats.

An epoch ends after as many packets of one key as RFC 9001, section 6.6, allows, or after a time.
The sealer erases its key at once, and receivers do once no packet can be in flight any more.
"""

import struct
from collections.abc import Callable
from typing import ClassVar, Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from groupcomm.config.core import Rekeying
from groupcomm.config.view import Incarnation
from groupcomm.errors import ConfigError
from groupcomm.security.keys import KeyRing, derive_key
from groupcomm.security.layout import COUNTER, PURPOSE, SUITE_AES_GCM, Channel, fixed_heads

PLACE = struct.Struct("!BI")
"""Channel and epoch."""

NONCE_START: Final = bytes(4)
Encrypt = Callable[[bytes, bytes, bytes], bytes]


class _SendChannel:
    """One channel of a sealer: its counter, and its key in this epoch."""

    __slots__ = ("counter", "encrypt", "epoch", "limit", "place")

    def __init__(self, counter: int) -> None:
        self.counter = counter
        self.epoch = -1  # -1 before the first epoch
        self.limit = 0
        self.place = b""
        self.encrypt: Encrypt


class Sealer:
    """Seals the datagrams of one start of one daemon.

    Attributes:
        epoch: the present epoch, from 0; the same on all channels.
        key_id: the id of the ring's key that seals.
        due: the time at which the epoch ends; call `tick` then.
    """

    __slots__ = (
        "_for_all",
        "_for_one",
        "_keys",
        "_lanes",
        "_now",
        "_rekeying",
        "_who",
        "due",
        "epoch",
        "key_id",
    )
    SUITE: ClassVar[int] = SUITE_AES_GCM

    def __init__(
        self,
        keys: KeyRing | None,
        cluster: int,
        sender: int,
        incarnation: Incarnation,
        *,
        counter: int = 0,
        rekeying: Rekeying | None = None,
        now: float = 0.0,
    ) -> None:
        """Start after `counter`, which no datagram of this start has used.

        Raises:
            ConfigError: there are no keys.
        """
        if keys is None:
            raise ConfigError("suite 1 (AES-256-GCM) needs a key ring; give one, or suite 0")
        self._rekeying = rekeying or Rekeying()
        self._who = cluster, sender, incarnation
        self._lanes = {channel: _SendChannel(counter) for channel in Channel}
        self._now = now
        self.epoch = -1  # -1 before the first epoch
        self.key_id = keys.active
        self.use(keys)

    def use(self, keys: KeyRing) -> None:
        """Seal with the active one of these keys from now on."""
        self._keys = keys
        if self.epoch >= 0 and keys.active == self.key_id:
            return
        self.key_id = keys.active
        self._for_all, self._for_one = fixed_heads(self.SUITE, self.key_id, *self._who)
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        self.epoch += 1
        self.due = self._now + self._rekeying.epoch_s
        secret = self._keys.keys[self.key_id]
        for channel, lane in self._lanes.items():
            epoch = self._epoch_of(channel)
            if epoch != lane.epoch:
                lane.epoch = epoch
                lane.encrypt = self._encrypt(secret, channel, epoch)
                lane.place = PLACE.pack(channel, epoch)
                lane.limit = lane.counter + self._rekeying.epoch_packets

    def _epoch_of(self, channel: Channel) -> int:
        """Return the epoch of a channel: the same on all."""
        return self.epoch

    def _encrypt(self, secret: bytes, channel: Channel, epoch: int) -> Encrypt:
        """Return a function that seals on a channel in an epoch."""
        return AESGCM(derive_key(secret, *self._who, channel, epoch)).encrypt

    def tick(self, now: float) -> None:
        """Begin a new epoch if the present one is over."""
        self._now = now
        if now >= self.due:
            self._begin_epoch()

    def counter(self, channel: Channel) -> int:
        """Return the last counter that was used on a channel."""
        return self._lanes[channel].counter

    def seal(self, packet: bytes, channel: Channel, receiver: int | None = None) -> bytes:
        """Return a datagram with a packet and the next counter of its channel.

        Args:
            packet: the content.
            channel: the channel of the packet's kind.
            receiver: the number of the only daemon that may open it; None for all receivers.
        """
        lane = self._lanes[channel]
        if lane.counter >= lane.limit:
            self._begin_epoch()
        lane.counter += 1
        counter = COUNTER.pack(lane.counter)
        if receiver is None:
            head = b"%b%b%b" % (self._for_all, counter, lane.place)
            context = head + PURPOSE
        else:
            head = b"%b%b%b" % (self._for_one, counter, lane.place)
            context = b"%b%b%b" % (head, PURPOSE, COUNTER.pack(receiver))
        return head + lane.encrypt(NONCE_START + counter, packet, context)

    def seal_hello(self, packet: bytes, receiver: int, key_id: int) -> bytes:
        """Seal a hello with any key of the ring, as its receiver may have no other one."""
        if key_id == self.key_id:
            return self.seal(packet, Channel.HELLO, receiver)
        lane = self._lanes[Channel.HELLO]
        lane.counter += 1
        counter = COUNTER.pack(lane.counter)
        _, for_one = fixed_heads(self.SUITE, key_id, *self._who)
        head = b"%b%b%b" % (for_one, counter, lane.place)
        key = derive_key(self._keys.keys[key_id], *self._who, Channel.HELLO, lane.epoch)
        context = b"%b%b%b" % (head, PURPOSE, COUNTER.pack(receiver))
        return head + AESGCM(key).encrypt(NONCE_START + counter, packet, context)
