"""Rules: the treatment of chosen packets on chosen paths, besides cuts.

A rule names kinds of packets, the number of packets that it concerns, and their treatment: they are
lost, held until they are released, delayed, or delivered a second time. The first rule of a path
that concerns a packet decides.
"""

import enum
from collections.abc import Callable
from random import Random
from typing import Final

import attrs

from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.faults.paths import PathFaults
from groupcomm.sim.virtual_time import Loop
from groupcomm.wire.membership import ControlKind
from groupcomm.wire.packet import PacketKind
from groupcomm_tools.plan.kinds import kind_of

ANY: Final = "any"
KINDS: Final = tuple(
    kind.name.lower() for kind in (*PacketKind, *ControlKind) if kind is not PacketKind.CONTROL
)
"""Packets as scenarios call them; control packets by the message that they carry."""

ALL: Final = 0
ODD: Final = -1
"""Counts of a rule: every packet; every second one, beginning with the first."""


class Effect(enum.Enum):
    """The effect of a rule on a packet."""

    LOSE = "lose"
    HOLD = "hold"
    COPY = "copy"
    DELAY = "delay"


_DONE: Final = {
    Effect.LOSE: "lost",
    Effect.HOLD: "held",
    Effect.COPY: "copied",
    Effect.DELAY: "delayed",
}


@attrs.define
class Rule:
    """The treatment of some packets of one path.

    Attributes:
        effect: the effect on them.
        kinds: the kinds of packets, messages in their short forms among them; ANY stands for all.
        count: the number of packets, or ALL or ODD.
        later_us: the delay of a delayed packet or a copy, microseconds.
        spared: the number of packets that it lets pass first.
        seen: the number of packets of these kinds so far.
        done: the number of packets that it was applied to.
    """

    effect: Effect
    kinds: tuple[str, ...]
    count: int
    later_us: int = 0
    spared: int = 0
    seen: int = 0
    done: int = 0

    def concerns(self, kind: str) -> bool:
        """Return whether it concerns the packet that is sent now, of this kind."""
        if not {kind, kind.removeprefix("short_"), ANY}.intersection(self.kinds):
            return False
        self.seen += 1
        if self.seen <= self.spared:
            return False
        if self.count == ODD:
            concerned = self.seen % 2 == 1
        else:
            concerned = self.count == ALL or self.done < self.count
        self.done += concerned
        return concerned

    def report(self) -> str:
        """Return its effect so far; of rules without a number only whether it had any."""
        what = f"{','.join(self.kinds)} {_DONE[self.effect]}"
        if self.count > 0:
            return f"{self.done} of {self.count} {what}"
        return f"some {what}" if self.done else f"no {what}"


class RuledPath(PathFaults):
    """A path with rules.

    Attributes:
        rules: the rules; the first one that concerns a packet decides.
    """

    __slots__ = ("_held_here", "rules")

    def __init__(self, loop: Loop, transfer: Callable[[bytes, int, bool], int]) -> None:
        super().__init__(loop, Random(0), Faults(), transfer)
        self._held_here: list[bytes] = []
        self.rules: list[Rule] = []

    def send(self, datagram: bytes) -> bool:
        """Apply the first rule that concerns a datagram."""
        kind = kind_of(datagram)
        rule = next((rule for rule in self.rules if rule.concerns(kind)), None)
        if rule is None:
            self._transfer(datagram, 0, False)
        elif rule.effect is Effect.HOLD:
            self._held_here.append(datagram)
        elif rule.effect is Effect.DELAY:
            self._transfer(datagram, rule.later_us, True)
        elif rule.effect is Effect.COPY:
            self._transfer(datagram, 0, False)
            self._transfer(datagram, rule.later_us, True)
        return rule is None or rule.effect is not Effect.LOSE

    def flush(self) -> None:
        """Release the held packets, in order; nothing is held any more from now on."""
        self.rules = [rule for rule in self.rules if rule.effect is not Effect.HOLD]
        held, self._held_here = self._held_here, []
        for datagram in held:
            self._transfer(datagram, 0, True)

    def end(self) -> None:
        """End all rules except those that hold packets."""
        self.rules = [rule for rule in self.rules if rule.effect is Effect.HOLD]
