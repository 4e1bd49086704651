"""A liar: a daemon of the cluster that has the key and sends lies.

It runs the real core, but changes some of its packets: they have other fields, differ between
receivers, repeat earlier packets of this or another view under a fresh seal, or repeat changed
packets of other daemons in their names. Which daemons lie, and how, is drawn from the seed, swarm
style.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

import attrs
import msgspec

from groupcomm.engine import DaemonCore
from groupcomm.engine.protection import IdentityProtection, SealedProtection
from groupcomm.security.layout import CHANNEL_OF
from groupcomm.sim.virtual_time import SECOND, Loop
from groupcomm.wire.control import ControlPacket
from groupcomm.wire.membership import ControlKind
from groupcomm.wire.packet import PacketKind
from tests.verification.simulation.byzantine.lies import Forger, change, draw_number, lie, of_view


@attrs.frozen(kw_only=True)
class Lying:
    """The ways in which a daemon lies; a share of 0 switches one off.

    Attributes:
        share: the share of its packets that carry a lie, 0 to 1.
        ways: the forms of its lies: `change` fields, `contradict` itself, `replay` an earlier
            message of its own or another daemon, send a message in a `wrong state`, `withhold` a
            packet, `forge` one that fits.
        spells: whether it tells the truth at times.
    """

    share: float = 0.0
    ways: tuple[str, ...] = ()
    spells: bool = True


MOST_LIARS_AMONG: Final = 5
"""From this number of daemons on, two may lie."""

WAYS: Final = ("change", "contradict", "replay", "wrong state", "withhold", "forge")


def draw_lying(rng: Random) -> Lying:
    """Draw the ways in which a daemon of one run lies."""
    share = 10 ** rng.uniform(-2.0, -0.1)
    ways = tuple(way for way in WAYS if rng.random() < 0.6) or ("change",)
    return Lying(share=share, ways=ways, spells=rng.random() < 0.7)


def draw_liars(rng: Random, daemons: int) -> tuple[int, ...]:
    """Draw the daemons that lie: one, or now and then two where there are enough."""
    several = daemons >= MOST_LIARS_AMONG and rng.random() < 0.15
    return tuple(sorted(rng.sample(range(daemons), 2 if several else 1)))


REMEMBERED: Final = 300
"""The packets that are remembered, own and others'; a new one replaces a random earlier one."""

LONGEST_SPELL_US: Final = 3 * SECOND
"""The longest time for which it lies, and for which it then tells the truth."""

_CONTROL: Final = PacketKind.CONTROL


class Liar:
    """A host whose daemons lie, from one start to the next.

    Args:
        loop: virtual time.
        rng: its random source.
        lying: the ways in which it lies.
        names: the names of all daemons.
        site_members: the other daemons of its own site.

    Attributes:
        lies_sent: the number of its packets with a lie.
        hello_lies: the number of its hellos with a lie.
    """

    def __init__(
        self,
        loop: Loop,
        rng: Random,
        lying: Lying,
        names: list[str],
        site_members: list[str],
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._lying = lying
        self._names = names
        self._site_members = site_members
        self._forger = Forger(rng)
        self._memory: list[bytes] = []
        self._seen = 0
        self._spell_until = 0
        self._lies_now = True
        self._running = True
        self.lies_sent = 0
        self.hello_lies = 0

    def stop(self) -> None:
        """Tell the truth from now on."""
        self._running = False

    def corrupt(self, core: DaemonCore) -> None:
        """Make a new core lie."""
        _LyingSender(self, core)

    # ---- choices ----

    def lies(self) -> bool:
        """Return whether the next packet carries a lie."""
        if not self._running:
            return False
        now, rng = self._loop.now, self._rng
        if self._lying.spells and now >= self._spell_until:
            self._spell_until = now + int(rng.random() * LONGEST_SPELL_US)
            self._lies_now = not self._lies_now
        return self._lies_now and rng.random() < self._lying.share

    def several(self) -> int:
        """Draw the number of lies in place of one packet."""
        return self._rng.choice((1, 1, 1, 2, 4))

    def remember(self, packet: bytes) -> None:
        """Note a packet that was sent, or heard; a sample of all is kept."""
        self._seen += 1
        if len(self._memory) < REMEMBERED:
            self._memory.append(packet)
        elif self._rng.random() < 0.2:
            self._memory[self._rng.randrange(REMEMBERED)] = packet

    def distort(self, core: DaemonCore, target: str | None, packet: bytes) -> list[Any]:
        """Return the lies in place of a packet, as (target, packet)."""
        self.lies_sent += 1
        way = self._rng.choice(self._lying.ways)
        if way == "change":
            return [(target, lie(self._rng, packet) or packet)]
        if way == "contradict":
            return self._contradict(target, packet)
        if way == "withhold":
            targets = self._site_members if target is None else []
            return [(name, packet) for name in targets if self._rng.random() < 0.5]
        if way == "forge":
            forged = self._forger.make(core, self._memory)
            return [(target, packet), (self._whom(), forged or packet)]
        if way == "replay":
            return [(target, packet), (self._whom(), self._again(core))]
        return [(target, packet), (self._whom(), self._make(core))]

    def _whom(self) -> str | None:
        """Draw a receiver: a daemon, or all of the site."""
        own = [*self._site_members, *self._names] or self._names
        return None if self._site_members and self._rng.random() < 0.3 else self._rng.choice(own)

    def _contradict(self, target: str | None, packet: bytes) -> list[Any]:
        rng = self._rng
        other = lie(rng, packet) or packet
        if target is not None:
            versions = [packet, other]
            rng.shuffle(versions)
            return [(target, version) for version in versions]
        return [(name, rng.choice((packet, other))) for name in self._site_members]

    def _again(self, core: DaemonCore) -> bytes:
        """Return an earlier packet, as if it was sent in the present view."""
        rng = self._rng
        packet = rng.choice(self._memory)
        if packet[0] != _CONTROL and core.view is not None and rng.random() < 0.7:
            packet = of_view(packet, core.view.key)
        if rng.random() < 0.5:
            packet = lie(rng, packet) or packet
        return packet

    def _make(self, core: DaemonCore) -> bytes:
        """Return a control message that does not fit the state."""
        rng = self._rng
        membership = core.membership
        peers = list(membership.peers.values())
        kind = rng.choice((ControlKind.LEAVE, ControlKind.LINKS))
        key = core.view.key if core.view is not None else bytes(16)
        body: list[Any] = []
        if kind == ControlKind.LINKS:
            body = [key, [sorted((rng.randrange(4), rng.randrange(4)))]]
        own = core.start.daemon
        origin, incarnation = own.number, own.incarnation
        if peers and rng.random() < 0.5:
            pretended = rng.choice(peers)
            origin, incarnation = pretended.number, pretended.incarnation
        sequence = draw_number(rng, membership.flood.sequence)
        return ControlPacket(
            origin=origin,
            incarnation=incarnation,
            sequence=min(sequence, 2**64 - 1),
            kind=kind,
            part=0,
            parts=1,
            payload=msgspec.msgpack.encode(body),
        ).encode()

    def distort_hello(self, packet: bytes) -> bytes:
        """Return a changed hello (suite 1)."""
        self.hello_lies += 1
        return lie(self._rng, packet) or packet

    def distort_introduction(self, introduction: Any) -> Any:
        """Return an introduction with a changed field (suite 2)."""
        self.hello_lies += 1
        return change(self._rng, introduction)


class _LyingSender:
    """The sender of a liar, between its core and its seals."""

    def __init__(self, liar: Liar, core: DaemonCore) -> None:
        self._liar = liar
        self._core = core
        self._seal: Callable[[str | None, bytes], None] = core.sender.send
        self._receive: Callable[[int, bytes], None] = core._receive_packet
        core.sender.send = self._send  # type: ignore[method-assign,assignment]
        core._receive_packet = self._on_received  # type: ignore[method-assign]
        protection = core._protection
        if isinstance(protection, IdentityProtection):
            protection._exchange = _LyingExchange(protection._exchange, liar)  # type: ignore[assignment]
        elif isinstance(protection, SealedProtection):
            protection._sealer = _LyingSealer(protection._sealer, liar)  # type: ignore[assignment]

    def _on_received(self, sender: int, packet: bytes) -> None:
        self._liar.remember(packet)
        self._receive(sender, packet)

    def _send(self, target: str | None, packet: bytes) -> None:
        liar = self._liar
        liar.remember(packet)
        if not liar.lies():
            self._seal(target, packet)
            return
        for _ in range(liar.several()):
            for name, said in liar.distort(self._core, target, packet):
                if said[0] in CHANNEL_OF and said[0] != PacketKind.HELLO:
                    self._seal(name, said)


class _LyingSealer:
    """A sealer whose hellos lie now and then (suite 1)."""

    def __init__(self, sealer: Any, liar: Liar) -> None:
        assert hasattr(sealer, "seal_hello"), "a lie would replace nothing"
        self._sealer = sealer
        self._liar = liar

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sealer, name)

    def seal_hello(self, packet: bytes, receiver: int, key_id: int) -> bytes:
        """Seal a hello, perhaps a changed one."""
        if self._liar.lies():
            packet = self._liar.distort_hello(packet)
        sealed: bytes = self._sealer.seal_hello(packet, receiver, key_id)
        return sealed


class _LyingExchange:
    """An exchange whose introductions, properly signed, lie now and then (suite 2)."""

    def __init__(self, exchange: Any, liar: Liar) -> None:
        assert hasattr(exchange, "introduce"), "a lie would replace nothing"
        self._exchange = exchange
        self._liar = liar

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exchange, name)

    def introduce(self, *arguments: Any) -> Any:
        """Return an introduction, maybe another one."""
        told = self._exchange.introduce(*arguments)
        return self._liar.distort_introduction(told) if self._liar.lies() else told
