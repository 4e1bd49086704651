"""The catalogue of all message-ordering algorithms, and how each is run beside the others."""

from typing import Final

import attrs

from groupcomm_lessons.algorithms.acknowledged import AcknowledgedStamps
from groupcomm_lessons.algorithms.bus1.process import Bus1
from groupcomm_lessons.algorithms.fan_out import FanOut
from groupcomm_lessons.algorithms.global_id import GlobalId, GlobalIdOrError
from groupcomm_lessons.algorithms.lamport_clocks import LamportClocks
from groupcomm_lessons.algorithms.last_sender import LastSender, LastSenderSame
from groupcomm_lessons.algorithms.message_history import CompressedHistory, MessageHistory
from groupcomm_lessons.algorithms.pair_numbers import PairNumbers
from groupcomm_lessons.algorithms.process import Process
from groupcomm_lessons.algorithms.real_time import RealTime
from groupcomm_lessons.algorithms.schiper_eggli_sandoz import (
    SchiperEggliSandoz,
    SchiperEggliSandozSends,
)
from groupcomm_lessons.algorithms.sequencer import SenderSequencer, Sequencer
from groupcomm_lessons.algorithms.site_horizons import SiteHorizons
from groupcomm_lessons.algorithms.token_ring import TokenRing
from groupcomm_lessons.algorithms.vector import Vector
from groupcomm_lessons.algorithms.vector_choices import (
    VectorAdvancing,
    VectorNotUpdating,
    VectorOrError,
    VectorUpdating,
)
from groupcomm_lessons.algorithms.vector_paths import VectorPaths, VectorTree
from groupcomm_lessons.algorithms.vector_session import VectorSession


@attrs.frozen(kw_only=True)
class Entry:
    """An entry of the catalogue.

    Attributes:
        type: the class of the algorithm.
        in_turn: whether it refuses concurrent messages for good, so that a user sends only after
            delivering all earlier messages.
        loses: whether its rule leaves some messages undelivered where others are concurrent.
        note: a remark about the way it is run, if that is not obvious.
    """

    type: type[Process]
    in_turn: bool = False
    loses: bool = False
    note: str = ""

    @property
    def name(self) -> str:
        """Return the name on a command line: ``vector-or-error`` for `VectorOrError`."""
        name = self.type.__name__
        return "".join(f"-{each.lower()}" if each.isupper() else each for each in name)[1:]


_TURNS: Final = "users take turns: it refuses concurrent messages"

_ENTRIES: Final = (
    Entry(type=FanOut),
    Entry(type=PairNumbers, note="for unicast: a broadcast is a unicast to each"),
    Entry(type=RealTime, note="waits as long as a packet takes that is not lost"),
    Entry(type=MessageHistory),
    Entry(type=CompressedHistory),
    Entry(type=GlobalId),
    Entry(type=GlobalIdOrError, in_turn=True, note=_TURNS),
    Entry(type=LastSender),
    Entry(type=LastSenderSame, loses=True, note="never delivered: messages that others overtook"),
    Entry(type=Vector),
    Entry(type=VectorOrError, in_turn=True, note=_TURNS),
    Entry(
        type=VectorUpdating, loses=True, note="never delivered: messages that follow earlier ones"
    ),
    Entry(
        type=VectorNotUpdating,
        loses=True,
        note="never delivered: messages that follow concurrent ones",
    ),
    Entry(type=VectorAdvancing),
    Entry(type=VectorTree),
    Entry(type=VectorPaths),
    Entry(type=VectorSession, note="members stay"),
    Entry(type=SchiperEggliSandoz, note="for any destinations: here all of them"),
    Entry(type=SchiperEggliSandozSends, note="counts sends only, otherwise the same"),
    Entry(type=LamportClocks, note="clocks alone order no deliveries"),
    Entry(type=AcknowledgedStamps, note="over channels that keep their order"),
    Entry(type=Sequencer),
    Entry(type=SenderSequencer),
    Entry(type=TokenRing),
    Entry(type=SiteHorizons),
    Entry(type=Bus1),
)

ALGORITHMS: Final[dict[str, Entry]] = {entry.name: entry for entry in _ENTRIES}
"""The algorithms by name, from those that keep no order to those that keep all."""
