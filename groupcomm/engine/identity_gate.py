"""The gate where daemons have identities: suite 2.

Hellos are signed, and carry what daemons give each other: security/identity.py says whose word
counts, security/exchange.py what is given, security/secret_sealing.py what is sealed with it.
"""

from typing import Final

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import Incarnation, Start, View
from groupcomm.engine.protection import SealedProtection
from groupcomm.errors import BadDatagram
from groupcomm.names import cluster_number, daemon_number
from groupcomm.security.exchange import Exchange
from groupcomm.security.hello import HelloReply, RateLimit
from groupcomm.security.identity import DaemonCredentials, Roll, Signer, StartId
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import Channel, Opened
from groupcomm.security.opening import Opener
from groupcomm.security.sealing import Sealer
from groupcomm.security.secret_sealing import DATAGRAM_BYTES, SecretOpener, SecretSealer
from groupcomm.wire.hello import Hello
from groupcomm.wire.introduction import SIGNED_BYTES, decode_introduction_untrusted

MAX_FORGED: Final = 256
FORGED_PER_S: Final = 256.0
"""Signatures that do not fit, of all daemons: each costs 0.1 ms to find out."""


class IdentityProtection(SealedProtection):
    """Suite 2: only daemons whose identities count get in, each as itself."""

    __slots__ = ("_exchange", "_forged", "_roll", "_signer")

    def __init__(
        self,
        config: CoreConfig,
        start: Start,
        keys: KeyRing | None,
        now: float,
        credentials: DaemonCredentials,
    ) -> None:
        """Raise ConfigError if the identity is not that of this daemon, or counts no more."""
        credentials.check(start.name, config.daemons)
        own, cluster = (start.daemon.number, start.incarnation), cluster_number(config.cluster)
        self._roll = credentials.roll
        self._exchange = Exchange(own, cluster, credentials.entropy)
        self._signer = Signer(credentials.private, credentials.roll, cluster, own)
        self._forged = RateLimit(MAX_FORGED, FORGED_PER_S, now)
        super().__init__(config, start, keys, now)
        self._hello_bytes = DATAGRAM_BYTES

    def _make_sealer(
        self, config: CoreConfig, start: Start, keys: KeyRing | None, cluster: int, now: float
    ) -> Sealer:
        own = start.daemon
        return SecretSealer(
            keys,
            cluster,
            own.number,
            own.incarnation,
            self._exchange,
            counter=config.starts.datagram,
            rekeying=config.rekeying,
            now=now,
        )

    def _make_opener(
        self, config: CoreConfig, start: Start, keys: KeyRing | None, cluster: int
    ) -> Opener:
        own = start.daemon.number, start.daemon.incarnation
        return SecretOpener(keys, cluster, own, self._exchange, config.rekeying)

    # ---- time and views ----

    def begin_step(self, now: float) -> None:
        """A step begins: secrets may be due to be told again, or to be drawn anew."""
        if now >= self._sealer.due:
            self._exchange.renew(now)
        super().begin_step(now)
        if now >= self._exchange.next_at:
            for start in self._exchange.due(now):
                self._send_hello(
                    start, self._with_counters(Hello(start=start[1])), self._sealer.key_id
                )
            self._update_sealer()  # somebody may not be waited for any more

    def begin_view(self, view: View) -> None:
        """A view is installed: its members give each other new secrets."""
        members = [(daemon.number, daemon.incarnation) for daemon in view.daemons]
        self._exchange.begin(view.key, members, self.now)
        self._update_sealer()

    def _update_sealer(self) -> None:
        if self._exchange.settle():
            assert isinstance(self._sealer, SecretSealer)
            self._sealer.change(self._exchange)

    def forget_start(self, sender: int, incarnation: Incarnation) -> None:
        """A start of a daemon is over; what it has given opens nothing any more."""
        super().forget_start(sender, incarnation)
        self._exchange.forget((sender, incarnation))
        self._update_sealer()

    # ---- identities ----

    @property
    def roll(self) -> Roll | None:
        """Whose identities count."""
        return self._roll

    def use_roll(self, roll: Roll) -> None:
        """Others' identities count from now on; whose does not is a stranger at once."""
        before, self._roll = self._roll, roll
        self._signer.use(roll)
        for name, public in before.daemons.items():
            if before.is_trusted(name) and not (
                roll.is_trusted(name) and roll.daemons[name] == public
            ):
                number = daemon_number(name)
                assert isinstance(self._opener, SecretOpener)
                self._opener.forget_daemon(number)
                self._exchange.evict(number, self.now)
        self._update_sealer()

    @property
    def awaited(self) -> list[str]:
        """Daemons of the view that cannot open yet what is to be sealed next; sorted."""
        return sorted(self._names[number] for number, _ in self._exchange.awaited)

    # ---- introductions ----

    def _on_stranger(self, opened: Opened, room: int) -> None:
        if not self._signer.trusts(opened.sender):
            raise BadDatagram("identity", f"daemon {opened.sender:x} has none that counts")
        super()._on_stranger(opened, room)

    def _on_hello(self, opened: Opened) -> None:
        told, signature = decode_introduction_untrusted(opened.packet)
        sender = opened.sender, opened.incarnation
        if told.hello.start != self._own:
            raise BadDatagram("hello", "for another start of this daemon")
        self._check(opened, signature)
        could = self._exchange.has(sender)
        known = opened.proven and not told.hello.asks
        reply = HelloReply(trust=False, say=None) if known else self._reply_to(opened, told.hello)
        news = (opened.proven or reply.trust) and self._exchange.receive(sender, told, self.now)
        self._update_sealer()
        if reply.say is not None or news:
            hello = reply.say or Hello(start=opened.incarnation)
            self._send_hello(sender, self._with_counters(hello), opened.key_id)
        self.met |= self._exchange.has(sender) and not could

    def _check(self, opened: Opened, signature: bytes) -> None:
        """Raise BadDatagram unless its sender has signed it; who forges many is not looked at."""
        if not self._forged.allows(self.now):
            raise BadDatagram("identity", "too many signatures did not fit")
        said = opened.packet[:SIGNED_BYTES]
        try:
            self._signer.check(said, signature, (opened.sender, opened.incarnation), opened.counter)
        except BadDatagram:
            self._forged.spend()
            raise
        self._opener.accept_signed()

    def _send_hello(self, receiver: StartId, hello: Hello, key_id: int) -> None:
        number, _ = receiver
        if not self._signer.trusts(number):
            return
        said = self._exchange.introduce(receiver, hello, self.now).encode()
        counter = self._sealer.counter(Channel.HELLO) + 1
        packet = said + self._signer.sign(said, number, counter)
        datagram = self._sealer.seal_hello(packet, number, key_id)
        self.hellos.append((self._names[number], datagram))
