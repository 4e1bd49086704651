"""Protection of datagrams: seals and opens them by the suite that is configured.

Only datagrams of daemons of the cluster are opened, and from suite 1 on only those sent now: an
unknown start of a daemon first has to prove that it is there (groupcomm/security/hello.py). Other
parts decide whether a start is over, and whether a packet is of the present view.

With suite 2 daemons have identities. Hellos are signed, and carry the secrets that daemons give
each other: security/identity.py has the identities, security/exchange.py the exchange of secrets,
and security/secret_sealing.py the seals.
"""

from collections.abc import Sequence
from math import inf
from typing import Final, Protocol

import attrs

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import Incarnation, Start, View
from groupcomm.errors import BadDatagram, ConfigError
from groupcomm.names import cluster_number, daemon_number
from groupcomm.security.exchange import Exchange
from groupcomm.security.hello import HelloReply, Introductions, RateLimit
from groupcomm.security.identity import DaemonCredentials, Roll, Signer, StartId
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import (
    CHANNEL_OF,
    HEAD_BYTES,
    SEAL_BYTES,
    SUITE_AES_GCM,
    SUITE_IDENTITIES,
    SUITE_NONE,
    Channel,
    Opened,
)
from groupcomm.security.opening import Opener
from groupcomm.security.plain import PlainOpener, PlainSealer
from groupcomm.security.sealing import Sealer
from groupcomm.security.secret_sealing import DATAGRAM_BYTES, SecretOpener, SecretSealer
from groupcomm.wire.eviction import EVICTION_BYTES, Eviction, decode_eviction_untrusted
from groupcomm.wire.hello import (
    HELLO_BYTES,
    SIGNED_BYTES,
    Hello,
    decode_hello_untrusted,
    decode_introduction_untrusted,
)

STALE: Final = frozenset(("replay", "own", "unproven", "hello", "epoch", "busy", "unlisted"))
"""Reasons for which even datagrams that a daemon of the cluster has sealed are dropped."""

ERASE_S: Final = 1.0
"""The time between two searches for keys that must be erased."""

_HELLO_BYTES: Final = HEAD_BYTES + HELLO_BYTES + SEAL_BYTES


Outgoing = tuple[str | None, bytes]


class DatagramProtection(Protocol):
    """Sealing and opening for one start of one daemon, with any suite.

    Attributes:
        now: seconds, of the present step; set at its beginning.
        due: the time at which `begin_step` has something to do.
        missing_key: the name of a daemon and the id of the key that it seals with, as it has
            proved, where this daemon does not have that key; None if there is none.
        hellos, met: the values that `pop_hellos` adds and returns, if any.
    """

    now: float
    due: float
    hellos: list[Outgoing]
    met: bool
    missing_key: tuple[str, int] | None

    @property
    def named_key(self) -> int | None:
        """Return the id of a missing key that a datagram has named; anybody can name one."""

    def use_keys(self, keys: KeyRing) -> None:
        """Seal and open with these keys from now on."""

    def use_daemons(
        self, names: Sequence[str], former: Sequence[str] = (), roster: int = 0
    ) -> None:
        """Accept datagrams of the daemons of these names from now on, and of no others.

        Args:
            names: the daemons of the roster.
            former: daemons that it does not have any more, which have to learn that.
            roster: its number.
        """

    def begin_step(self, now: float) -> None:
        """Begin a step at this time, if it is due."""

    def seal(self, destination: str | None, packet: bytes) -> bytes:
        """Return a sealed datagram for the named daemon, or with None for all that hear it."""

    def open_untrusted(self, datagram: bytes) -> Opened | None:
        """Open a datagram; return None for a hello. Raise BadDatagram, and nothing else."""

    def pop_hellos(self, out: list[Outgoing]) -> bool:
        """Add the hellos of this step; return whether this daemon and another one have met."""

    def forget_start(self, sender: int, incarnation: Incarnation) -> None:
        """Forget a start of a daemon that is over; its datagrams may still come."""

    def begin_view(self, view: View) -> None:
        """Note that a view is installed."""

    @property
    def roll(self) -> Roll | None:
        """Return the identities that are trusted; None where daemons have none."""

    def use_roll(self, roll: Roll) -> None:
        """Trust these identities from now on."""

    @property
    def awaited(self) -> list[str]:
        """Return the daemons of the view that cannot open the next datagram yet; sorted."""

    @property
    def eviction(self) -> tuple[str, Eviction] | None:
        """Return a trusted daemon's name and its notice that this one is evicted, or None.

        Whether it counts depends on the rosters of both.
        """


class _Numbers(dict[str | None, int | None]):
    """The numbers of daemons, by their names; None for all that hear a datagram."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__({name: daemon_number(name) for name in names})
        self[None] = None

    def __missing__(self, name: str) -> int:
        number = self[name] = daemon_number(name)
        return number


class _WithoutIdentities:
    """The parts about identities, for suites without them."""

    __slots__ = ()

    def begin_view(self, view: View) -> None:
        """Do nothing: nothing depends on views."""

    @property
    def roll(self) -> Roll | None:
        """Do nothing: there are no identities."""
        return None

    def use_roll(self, roll: Roll) -> None:
        """Do nothing: there are no identities."""

    @property
    def awaited(self) -> list[str]:
        """Return no names: no secrets are exchanged."""
        return []

    @property
    def eviction(self) -> tuple[str, Eviction] | None:
        """Do nothing: there are no identities."""
        return None


class PlainProtection(_WithoutIdentities):
    """Suite 0: every sender is accepted; there are no hellos."""

    __slots__ = (
        "_numbers",
        "_sealer",
        "due",
        "forget_start",
        "hellos",
        "met",
        "missing_key",
        "now",
        "open_untrusted",
    )

    def __init__(self, config: CoreConfig, start: Start) -> None:
        own, cluster = start.daemon, cluster_number(config.cluster)
        self._sealer = PlainSealer(cluster, own.number, own.incarnation, config.starts.datagram)
        opener = PlainOpener(cluster, (own.number, own.incarnation))
        self.open_untrusted = opener.open_untrusted
        self.forget_start = opener.forget
        self._numbers = _Numbers(config.daemons)
        self.now = 0.0
        self.due = inf
        self.hellos: list[Outgoing] = []
        self.met = False
        self.missing_key: tuple[str, int] | None = None

    @property
    def named_key(self) -> int | None:
        """Do nothing: there are no keys."""
        return None

    def use_keys(self, keys: KeyRing) -> None:
        """Do nothing: there are no keys."""

    def begin_step(self, now: float) -> None:
        """Do nothing: nothing depends on time."""

    def use_daemons(
        self, names: Sequence[str], former: Sequence[str] = (), roster: int = 0
    ) -> None:
        """Do nothing: every sender is accepted."""

    def pop_hellos(self, out: list[Outgoing]) -> bool:
        """Do nothing: there are no hellos."""
        return False

    def seal(self, destination: str | None, packet: bytes) -> bytes:
        """Return a sealed datagram for the named daemon, or with None for all that hear it."""
        return self._sealer.seal(packet, self._numbers[destination])


class SealedProtection(_WithoutIdentities):
    """Suite 1: only datagrams of daemons with a key are accepted, and only those sent now."""

    __slots__ = (
        "_erase_at",
        "_hello_bytes",
        "_introductions",
        "_names",
        "_numbers",
        "_opener",
        "_own",
        "_own_name",
        "_sealer",
        "due",
        "hellos",
        "met",
        "missing_key",
        "now",
    )

    def __init__(self, config: CoreConfig, start: Start, keys: KeyRing | None, now: float) -> None:
        own, cluster = start.daemon, cluster_number(config.cluster)
        self._own = own.incarnation
        self._own_name = start.name
        self._hello_bytes = _HELLO_BYTES
        self._sealer = self._make_sealer(config, start, keys, cluster, now)
        self._opener = self._make_opener(config, start, keys, cluster)
        self._numbers = _Numbers(config.daemons)
        self._names = {daemon_number(name): name for name in (*config.daemons, start.name)}
        self._introductions = Introductions(own.incarnation, self._names, now)
        self.now = self.due = now
        self._erase_at = now
        self.hellos: list[Outgoing] = []
        self.met = False
        self.missing_key: tuple[str, int] | None = None

    def _make_sealer(
        self, config: CoreConfig, start: Start, keys: KeyRing | None, cluster: int, now: float
    ) -> Sealer:
        own = start.daemon
        return Sealer(
            keys,
            cluster,
            own.number,
            own.incarnation,
            counter=config.starts.datagram,
            rekeying=config.rekeying,
            now=now,
        )

    def _make_opener(
        self, config: CoreConfig, start: Start, keys: KeyRing | None, cluster: int
    ) -> Opener:
        me = start.daemon.number, start.daemon.incarnation
        return Opener(keys, cluster, me, rekeying=config.rekeying)

    def use_daemons(
        self, names: Sequence[str], former: Sequence[str] = (), roster: int = 0
    ) -> None:
        """Accept datagrams of these daemons from now on, and of no others."""
        found = {daemon_number(name): name for name in (*names, *former, self._own_name)}
        self._names.clear()
        self._names.update(found)

    @property
    def named_key(self) -> int | None:
        """Return the id of a missing key that a datagram has named; anybody can name one."""
        return self._opener.lacked

    def forget_start(self, sender: int, incarnation: Incarnation) -> None:
        """Forget a start of a daemon that is over; its datagrams may still come."""
        self._opener.forget(sender, incarnation)

    def use_keys(self, keys: KeyRing) -> None:
        """Seal and open with these keys from now on."""
        if self.missing_key is not None and self.missing_key[1] in keys.keys:
            self.missing_key = None
        self._opener.use(keys)
        self._sealer.use(keys)

    def begin_step(self, now: float) -> None:
        """Begin a step: epochs may be over."""
        self.now = self._opener.now = now
        if now >= self._sealer.due:
            self._sealer.tick(now)
        if now >= self._erase_at:
            self._erase_at = now + ERASE_S
            self._sealer.tick(now)
            self._opener.tick()
        self.due = min(self._sealer.due, self._erase_at)

    def pop_hellos(self, out: list[Outgoing]) -> bool:
        """Add the hellos of this step; return whether this daemon and another one have met.

        A challenge alone is no meeting: an attacker who replays old datagrams can cause it.
        """
        out += self.hellos
        self.hellos.clear()
        met, self.met = self.met, False
        return met

    def seal(self, destination: str | None, packet: bytes) -> bytes:
        """Return a sealed datagram for the named daemon, or with None for all that hear it."""
        return self._sealer.seal(packet, CHANNEL_OF[packet[0]], self._numbers[destination])

    def open_untrusted(self, datagram: bytes) -> Opened | None:
        """Open a datagram; None if it was a hello.

        Raises:
            BadDatagram: with a reason of Opener.open_untrusted, or channel, unproven, unlisted,
                hello. No other exception, whatever the bytes.
        """
        self._opener.now = self.now
        opened = self._opener.open_untrusted(datagram)
        packet = opened.packet
        if not packet or CHANNEL_OF.get(packet[0]) != opened.channel:
            raise BadDatagram(
                "channel", f"a packet of a kind that is not for channel {opened.channel}"
            )
        if opened.channel == Channel.HELLO:
            self._on_hello(opened)
            return None
        if not opened.proven:
            self._on_stranger(opened, len(datagram) - self._hello_bytes)
            raise BadDatagram("unproven", "its sender has not proved yet that it sends now")
        return opened

    def _on_stranger(self, opened: Opened, room: int) -> None:
        sender = opened.sender, opened.incarnation
        hello = self._introductions.on_unproven(sender, room, self.now)
        if hello is not None:
            self._send_hello(sender, self._with_counters(hello), opened.key_id)

    def _on_hello(self, opened: Opened) -> None:
        reply = self._reply_to(opened, decode_hello_untrusted(opened.packet))
        if reply.say is not None:
            sender = opened.sender, opened.incarnation
            self._send_hello(sender, self._with_counters(reply.say), opened.key_id)
        self.met |= reply.trust or reply.say is not None

    def _reply_to(self, opened: Opened, hello: Hello) -> HelloReply:
        """Return the reply to a hello; a hello that is a proof makes its sender trusted."""
        sender = opened.sender, opened.incarnation
        reply = self._introductions.on_hello(sender, hello, proven=opened.proven, now=self.now)
        if not self._opener.has(hello.seals):
            self.missing_key = self._names[opened.sender], hello.seals
        if reply.trust:
            ring, hop, control = hello.counters
            floors = {
                Channel.RING: ring,
                Channel.LINK: hop,
                Channel.CONTROL: control,
                Channel.HELLO: opened.counter,
            }
            self._introductions.forgot |= self._opener.trust(*sender, floors)
        return reply

    def _with_counters(self, hello: Hello) -> Hello:
        """Return a hello with the counters and the key of this daemon."""
        of = self._sealer.counter
        counters = (of(Channel.RING), of(Channel.LINK), of(Channel.CONTROL))
        return attrs.evolve(hello, counters=counters, seals=self._sealer.key_id)

    def _send_hello(self, receiver: tuple[int, Incarnation], hello: Hello, key_id: int) -> None:
        """Send a hello to a daemon's configured address, wherever its datagram came from."""
        number, _ = receiver
        datagram = self._sealer.seal_hello(hello.encode(), number, key_id)
        self.hellos.append((self._names[number], datagram))


MAX_FORGED: Final = 256
FORGED_PER_S: Final = 256.0
"""The most wrong signatures of all daemons that are checked: each check takes 0.1 ms."""

NOTICES_BURST: Final = 16
NOTICES_PER_S: Final = 16.0
NOTICE_S: Final = 1.0
"""The most eviction notices to all daemons, and the time between two to one of them."""


class IdentityProtection(SealedProtection):
    """Suite 2: only datagrams of daemons with trusted identities are accepted, each as itself."""

    __slots__ = (
        "_eviction",
        "_exchange",
        "_forged",
        "_former",
        "_notices",
        "_notified_at",
        "_public",
        "_roll",
        "_roster",
        "_signer",
    )

    def __init__(
        self,
        config: CoreConfig,
        start: Start,
        keys: KeyRing | None,
        now: float,
        credentials: DaemonCredentials,
    ) -> None:
        """Raise ConfigError if the identity is not that of this daemon, or is evicted."""
        # A daemon of an agreed roster whose identity is missing here is only not trusted.
        credentials.check(start.name, config.daemons if config.agreed is None else ())
        own, cluster = (start.daemon.number, start.incarnation), cluster_number(config.cluster)
        self._roll = credentials.roll
        self._exchange = Exchange(own, cluster, credentials.entropy)
        self._signer = Signer(credentials.private, credentials.roll, cluster, own)
        self._forged = RateLimit(MAX_FORGED, FORGED_PER_S, now)
        self._public = credentials.roll.daemons[start.name]
        self._former: frozenset[str] = frozenset()
        self._roster = 0
        self._notices = RateLimit(NOTICES_BURST, NOTICES_PER_S, now)
        self._notified_at: dict[int, float] = {}  # by number: when a daemon was told last
        self._eviction: tuple[str, Eviction] | None = None
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
        """Begin a step: secrets may have to be sent again, or drawn anew."""
        if now >= self._sealer.due:
            self._exchange.renew(now)
        super().begin_step(now)
        if now >= self._exchange.next_at:
            for start in self._exchange.due(now):
                self._send_hello(
                    start, self._with_counters(Hello(start=start[1])), self._sealer.key_id
                )
            self._update_sealer()  # the sealer may wait for a member that has gone
        self.due = min(self._sealer.due, self._erase_at, self._exchange.next_at)

    def begin_view(self, view: View) -> None:
        """Begin a view: its members give each other new secrets."""
        members = [(daemon.number, daemon.incarnation) for daemon in view.daemons]
        self._exchange.begin(view.key, members, self.now)
        self.due = self.now
        self._update_sealer()

    def _update_sealer(self) -> None:
        if self._exchange.settle():
            assert isinstance(self._sealer, SecretSealer)
            self._sealer.change(self._exchange)

    def forget_start(self, sender: int, incarnation: Incarnation) -> None:
        """Forget a start of a daemon that is over; its secrets open nothing any more."""
        super().forget_start(sender, incarnation)
        self._exchange.forget((sender, incarnation))
        self._update_sealer()

    # ---- identities ----

    @property
    def roll(self) -> Roll | None:
        """Return the identities that are trusted."""
        return self._roll

    def use_roll(self, roll: Roll) -> None:
        """Trust these identities from now on; a daemon without one is a stranger at once."""
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
                self.due = self.now
        self._update_sealer()

    @property
    def awaited(self) -> list[str]:
        """Return the daemons of the view that cannot open the next datagram yet; sorted."""
        return sorted(self._names[number] for number, _ in self._exchange.awaited)

    # ---- evicted daemons ----

    def use_daemons(
        self, names: Sequence[str], former: Sequence[str] = (), roster: int = 0
    ) -> None:
        """Accept datagrams of these daemons from now on, and of no others."""
        super().use_daemons(names, former, roster)
        self._former, self._roster = frozenset(former), roster

    @property
    def eviction(self) -> tuple[str, Eviction] | None:
        """Return a trusted daemon's name and its notice that this one is evicted, or None."""
        return self._eviction

    def _notify_evicted(self, opened: Opened) -> None:
        """Tell the sender of a datagram that its identity is evicted, if it is."""
        number = opened.sender
        name = self._names.get(number, "")
        public = self._roll.daemons.get(name)
        if public is None or public not in self._roll.evicted:
            return
        again_at = self._notified_at.get(number, self.now - NOTICE_S) + NOTICE_S
        if self.now < again_at or not self._notices.allows(self.now):
            return
        self._notices.spend()
        self._notified_at[number] = self.now
        notice = Eviction(
            start=opened.incarnation,
            public=public,
            roster=self._roster,
            removed=name in self._former,
        )
        self._send_signed(number, notice.encode(), opened.key_id)

    def _on_eviction(self, opened: Opened) -> None:
        """Note a notice that this daemon's identity is evicted, if its sender is trusted."""
        notice, signature = decode_eviction_untrusted(opened.packet)
        if notice.start != self._own:
            raise BadDatagram("hello", "a notice for another start of this daemon")
        if notice.public != self._public:
            raise BadDatagram("identity", "a notice about another identity than this daemon's")
        name = self._names.get(opened.sender)
        if name is None:
            raise BadDatagram("unlisted", f"daemon {opened.sender:x} is not in the configuration")
        self._check(opened, notice.encode(), signature)
        known = self._eviction
        if known is None or notice.roster >= known[1].roster:
            self._eviction = name, notice

    # ---- introductions ----

    def _on_stranger(self, opened: Opened, room: int) -> None:
        if not self._signer.trusts(opened.sender):
            if room >= 0:  # a notice is shorter than an introduction
                self._notify_evicted(opened)
            raise BadDatagram(
                "identity", f"daemon {opened.sender:x} has no identity that is trusted here"
            )
        super()._on_stranger(opened, room)

    def _on_hello(self, opened: Opened) -> None:
        if len(opened.packet) == EVICTION_BYTES:
            self._on_eviction(opened)
            return
        if not self._signer.trusts(opened.sender):
            self._notify_evicted(opened)  # and nothing of it is accepted, as `_check` says
        told, signature = decode_introduction_untrusted(opened.packet)
        sender = opened.sender, opened.incarnation
        if told.hello.start != self._own:
            raise BadDatagram("hello", "a hello for another start of this daemon")
        self._check(opened, opened.packet[:SIGNED_BYTES], signature)
        could = self._exchange.has(sender)
        known = opened.proven and not told.hello.asks
        reply = HelloReply(trust=False, say=None) if known else self._reply_to(opened, told.hello)
        self.due = self.now  # so it is after introductions of others
        news = (opened.proven or reply.trust) and self._exchange.receive(sender, told, self.now)
        self._update_sealer()
        if reply.say is not None or news:
            hello = reply.say or Hello(start=opened.incarnation)
            self._send_hello(sender, self._with_counters(hello), opened.key_id)
        self.met |= self._exchange.has(sender) and not could

    def _check(self, opened: Opened, said: bytes, signature: bytes) -> None:
        """Raise BadDatagram unless its sender has signed it, or if too many were wrong lately."""
        if not self._forged.allows(self.now):
            raise BadDatagram("identity", "too many signatures were wrong lately")
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
        self.due = self.now  # the next introduction may be due sooner than it was
        self._send_signed(number, said, key_id)

    def _send_signed(self, number: int, said: bytes, key_id: int) -> None:
        counter = self._sealer.counter(Channel.HELLO) + 1
        packet = said + self._signer.sign(said, number, counter)
        datagram = self._sealer.seal_hello(packet, number, key_id)
        self.hellos.append((self._names[number], datagram))


def make_protection(
    config: CoreConfig,
    start: Start,
    keys: KeyRing | None,
    now: float,
    credentials: DaemonCredentials | None = None,
) -> DatagramProtection:
    """Return the protection for the suite that is configured.

    Raises:
        ConfigError: there is no such suite, or it lacks keys or an identity.
    """
    if config.suite == SUITE_NONE:
        return PlainProtection(config, start)
    if config.suite == SUITE_AES_GCM:
        return SealedProtection(config, start, keys, now)
    if config.suite == SUITE_IDENTITIES:
        if credentials is None:
            raise ConfigError(
                "suite 2 (identities) needs an identity: set identity and identities, or suite 1"
            )
        return IdentityProtection(config, start, keys, now, credentials)
    raise ConfigError(
        f"suite is {config.suite}; it must be 0 (CRC32C), 1 (AES-256-GCM) or 2 (identities)"
    )
