"""One daemon's membership, or several, over hosts that only note what they are told.

A `Stage` hands packets over at once and loses what a test wants to be lost; time is the test's.
Whatever a test is about, nobody may install a view before all its members are bound to it.
"""

from collections.abc import Mapping

import attrs
from msgspec import structs

from groupcomm.config.core import CoreConfig, Timing
from groupcomm.config.shared import shared_settings
from groupcomm.config.versions import DIGESTS, SPOKEN
from groupcomm.config.view import Incarnation, Start
from groupcomm.engine.probe import NoProbe
from groupcomm.membership.membership import Membership
from groupcomm.membership.reservation import Reservation
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.names import daemon_number
from groupcomm.wire.control import ControlPacket, cut_message, decode_control_untrusted
from groupcomm.wire.membership import (
    Beacon,
    ControlKind,
    ControlMessage,
    Join,
    decode_message_untrusted,
    encode_message,
)
from tests.groupcomm.membership.fake_context import FakeContext

NUMBERS = {name: daemon_number(name) for name in "abcdefghiz"}
NAMES = {number: name for name, number in NUMBERS.items()}


def row_of(names: str) -> tuple[tuple[int, int], ...]:
    """Return the row of a daemon that hears the daemons of these names, of one letter each."""
    return tuple(sorted((NUMBERS[name], ord(name)) for name in names))


HEARS_A = row_of("a")
"""The row of a daemon that hears the daemon a only."""

PLENTY = 10**18
"""A mark that no counter comes near to."""

OTHER_VIEW = bytes(range(16))
"""The key of a view that nobody here is in."""

ALIKE = bytes(16)
FIRST = (1, 1, 0)  # the versions that all speak
"""In what tests say, stands for the digests of everybody's settings."""

IN_FULL = attrs.evolve(SPOKEN, features=SPOKEN.features & ~DIGESTS)
"""The versions and features of daemons that use no short forms."""

Bound = set[tuple[str, bytes]]
"""(daemon, key of a view) of those that hold their union and have said so."""


class Watched(Membership):
    """A membership that notes through which states it goes.

    Attributes:
        states: the states, in order.
    """

    def __init__(
        self,
        config: CoreConfig,
        start: Start,
        context: FakeContext,
        reservation: Reservation,
        bound: Bound,
    ) -> None:
        self.states: list[MembershipState] = []
        self._bound = bound
        super().__init__(
            config,
            start,
            context,
            reservation,
            context.physical,
            probe=NoProbe(),
            forget=context.forget,
            on_roster=context.on_roster,
        )

    def __setattr__(self, name: str, value: object) -> None:
        if name == "state" and isinstance(value, MembershipState):
            self.states.append(value)
            if value is MembershipState.RECOVERED:
                assert self.coming is not None
                self._bound.add((self._start.name, self.coming.key))
            elif value is MembershipState.OPERATIONAL:
                assert self.coming is not None
                view = self.coming
                assert self._bound.issuperset((daemon.name, view.key) for daemon in view.daemons)
        super().__setattr__(name, value)


class Daemon:
    """A membership with its host."""

    def __init__(
        self, config: CoreConfig, name: str, incarnation: Incarnation, counter: int, bound: Bound
    ) -> None:
        start = Start(name=name, incarnation=incarnation)
        self.name = name
        self.start = start
        self.host = FakeContext()
        self.disk = Reservation(counter, PLENTY, self.host.physical.read, 0.0)
        self.machine = Watched(config, start, self.host, self.disk, bound)

    def taken(self) -> list[tuple[str | None, ControlPacket]]:
        """Return the packets that it wants to send."""
        out = [(target, decode_control_untrusted(raw)) for target, raw in self.machine.flood.out]
        self.machine.flood.out.clear()
        return out

    @property
    def members(self) -> str:
        """Return the members of its view while it stands."""
        view = self.machine.view
        if view is None or self.machine.state is not MembershipState.OPERATIONAL:
            return ""
        return "".join(daemon.name for daemon in view.daemons)


class Stage:
    """Daemons by name, all of whom hear each other at first.

    They are few, and say all in full and at once, unless they are a `crowd`; a crowd says what it
    can in short if it is `short`, too. With `relays` two of each site speak with other sites.

    Attributes:
        mute: those who say only what a test says in their name, and hear nothing.
        configs: the configurations of daemons that start with other settings than the rest.
        cut: pairs (from, to) between which everything is lost.
        drop: messages by (whose, kind) that are lost to everybody.
        sent: (from, to, message) of all that was said by its origin.
        bound: the daemons that have announced each recovered set.
    """

    def __init__(
        self,
        *sites: str,
        timing: Timing | None = None,
        crowd: bool = False,
        short: bool = False,
        relays: bool = False,
    ) -> None:
        self.config = CoreConfig(
            sites=tuple(map(tuple, sites)),
            timing=timing or Timing(),
            few_daemons=0 if crowd else CoreConfig().few_daemons,
            many_daemons=0 if relays else CoreConfig().many_daemons,
            versions=SPOKEN if short else IN_FULL,
        )
        self.configs: dict[str, CoreConfig] = {}
        self.now = 0.0
        self.daemons: dict[str, Daemon] = {}
        self.mute: set[str] = set()
        self.bound: Bound = set()
        self.cut: set[tuple[str, str]] = set()
        self.sent: list[tuple[str, str, ControlMessage]] = []
        self.drop: set[tuple[str, ControlKind]] = set()

    def start(
        self,
        names: str,
        restarts: int = 1,
        random_id: int = 0,
        counters: Mapping[str, int] | None = None,
    ) -> None:
        """Start daemons, those that ran before anew; each begins to gather.

        Args:
            names: the names of the daemons.
            restarts: the restart count of each.
            random_id: the random id of each; 0 for one of its own.
            counters: the view counters known to have been used, for some of them.
        """
        for name in names:
            self.place(name, restarts, random_id, (counters or {}).get(name, 0))
        for name in names:
            self.daemons[name].machine.gather(GatherReason.STARTED, self.now)

    def place(self, name: str, restarts: int = 1, random_id: int = 0, counter: int = 0) -> Daemon:
        """A daemon that was not told to gather yet."""
        incarnation = Incarnation(restarts, random_id or ord(name))
        config = self.configs.get(name, self.config)
        daemon = Daemon(config, name, incarnation, counter, self.bound)
        self.daemons[name] = daemon
        self.mute.discard(name)
        return daemon

    def state(self, name: str) -> MembershipState:
        """Return the state of a daemon."""
        return self.daemons[name].machine.state

    @property
    def members(self) -> list[str]:
        """Return for each living daemon, by name, the members of its view; empty without one."""
        return [self.daemons[name].members for name in sorted(self.daemons.keys() - self.mute)]

    def isolate(self, *islands: str) -> None:
        """Only those of one word hear each other from now on."""
        names = self.config.daemons
        self.cut = {
            (one, two)
            for one in names
            for two in names
            if not any(one in island and two in island for island in islands)
        }

    def settle(self) -> None:
        """Step everybody and hand packets over, until nobody says anything now."""
        for _ in range(100):
            said = False
            for name in sorted(self.daemons.keys() - self.mute):
                daemon = self.daemons[name]
                daemon.machine.step(self.now)
                for target, packet in daemon.taken():
                    said = True
                    self._carry(name, target, packet)
            if not said:
                return
        raise AssertionError("they never come to rest")

    def _carry(self, name: str, target: str | None, packet: ControlPacket) -> None:
        site = next(site for site in self.config.sites if name in site)
        for other in (target,) if target is not None else site:
            if packet.parts == 1 and NAMES[packet.origin] == name:
                message = decode_message_untrusted(packet.kind, packet.payload)
                self.sent.append((name, other, message))
            hears = other in self.daemons and other not in self.mute and other != name
            heard = hears and (name, other) not in self.cut
            if heard and (NAMES[packet.origin], packet.kind) not in self.drop:
                self.hear(other, name, packet)

    def hear(self, name: str, sender: str, packet: ControlPacket) -> None:
        """One daemon gets a packet from another."""
        machine = self.daemons[name].machine
        if machine.on_datagram(NUMBERS[sender], self.daemons[sender].start.incarnation, self.now):
            machine.on_control(packet, NUMBERS[sender], self.now)

    def fill_in(self, message: ControlMessage) -> ControlMessage:
        """Return a message with the digests that all here have, if it has none of its own."""
        if isinstance(message, Beacon | Join) and message.digests == ALIKE:
            return structs.replace(message, digests=shared_settings(self.config).digests)
        return message

    def say(self, name: str, to: str, message: ControlMessage, sequence: int | None = None) -> None:
        """Send a message in a daemon's name, besides its own; as its next message by default."""
        daemon = self.daemons[name]
        if sequence is None:
            flood = daemon.machine.flood
            sequence = flood.sequence = flood.sequence + 1
        start = daemon.start.incarnation
        packet = packet_of(
            name,
            self.fill_in(message),
            sequence,
            restarts=start.restarts,
            random_id=start.random_id,
        )
        self.hear(to, name, packet)

    def run(self, seconds: float) -> None:
        """Let time pass, from deadline to deadline."""
        end = self.now + seconds
        while True:
            self.settle()
            living = self.daemons.keys() - self.mute
            at = min(self.daemons[name].machine.deadline for name in living)
            if at > end:
                self.now = end
                return
            self.now = max(at, self.now + 1e-4)

    def said(self, kind: type[ControlMessage], since: int = 0) -> list[tuple[str, str]]:
        """Return the senders and receivers of messages of a kind."""
        return [(a, b) for a, b, message in self.sent[since:] if isinstance(message, kind)]


def in_view(*sites: str, seconds: float = 3.0) -> Stage:
    """All of them in one view, that stands for some time already."""
    stage = Stage(*sites)
    everybody = "".join(sorted("".join(sites)))
    stage.start(everybody)
    stage.run(seconds)
    assert stage.members == [everybody] * len(everybody)
    return stage


def counter_of(daemon: Daemon) -> int:
    """Return the key of its view."""
    assert daemon.machine.view is not None
    return daemon.machine.view.id.counter


def join_of(name: str, attempt: int, hears: str = "abc") -> Join:
    """The join of a daemon that comes from no view."""
    heard = row_of(hears.replace(name, ""))
    return Join(
        attempt=attempt,
        name=name,
        digests=ALIKE,
        heard=heard,
        reading=1,
        clock=1,
        counter=1,
        mark=PLENTY,
        past=None,
        spoken=FIRST,
    )


def packet_of(
    name: str,
    message: ControlMessage,
    sequence: int = 2**12,
    *,
    restarts: int = 1,
    random_id: int = 0,
) -> ControlPacket:
    """A message as a daemon would send it; in one part."""
    kind, body = encode_message(message)
    start = Incarnation(restarts, random_id or ord(name))
    (raw,) = cut_message(NUMBERS[name], start, sequence, kind, body, 60_000)
    return decode_control_untrusted(raw)
