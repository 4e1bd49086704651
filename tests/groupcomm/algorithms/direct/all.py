"""All algorithms that a group of fixed members can run over channels that lose nothing."""

from groupcomm.algorithms.acknowledged import AcknowledgedStamps
from groupcomm.algorithms.bus1.process import Bus1
from groupcomm.algorithms.fan_out import FanOut
from groupcomm.algorithms.global_id import GlobalId
from groupcomm.algorithms.lamport_clocks import LamportClocks
from groupcomm.algorithms.last_sender import LastSender
from groupcomm.algorithms.message_history import CompressedHistory, MessageHistory
from groupcomm.algorithms.pair_numbers import PairNumbers
from groupcomm.algorithms.process import Process
from groupcomm.algorithms.real_time import RealTime
from groupcomm.algorithms.schiper_eggli_sandoz import (
    SchiperEggliSandoz,
    SchiperEggliSandozSends,
)
from groupcomm.algorithms.sequencer import SenderSequencer, Sequencer
from groupcomm.algorithms.site_horizons import SiteHorizons
from groupcomm.algorithms.token_ring import TokenRing
from groupcomm.algorithms.vector import Vector
from groupcomm.algorithms.vector_choices import VectorAdvancing
from groupcomm.algorithms.vector_paths import VectorPaths, VectorTree
from groupcomm.algorithms.vector_session import VectorSession

ALGORITHMS: tuple[type[Process], ...] = (
    FanOut,
    PairNumbers,
    RealTime,
    MessageHistory,
    CompressedHistory,
    GlobalId,
    LastSender,
    Vector,
    VectorAdvancing,
    VectorTree,
    VectorPaths,
    VectorSession,
    SchiperEggliSandoz,
    SchiperEggliSandozSends,
    LamportClocks,
    AcknowledgedStamps,
    Sequencer,
    SenderSequencer,
    TokenRing,
    SiteHorizons,
    Bus1,
)
