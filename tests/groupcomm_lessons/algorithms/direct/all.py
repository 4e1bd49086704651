"""All algorithms that a group of fixed members can run over channels that lose nothing."""

from groupcomm_lessons.algorithms.acknowledged import AcknowledgedStamps
from groupcomm_lessons.algorithms.bus1.process import Bus1
from groupcomm_lessons.algorithms.fan_out import FanOut
from groupcomm_lessons.algorithms.global_id import GlobalId
from groupcomm_lessons.algorithms.lamport_clocks import LamportClocks
from groupcomm_lessons.algorithms.last_sender import LastSender
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
from groupcomm_lessons.algorithms.vector_choices import VectorAdvancing
from groupcomm_lessons.algorithms.vector_paths import VectorPaths, VectorTree
from groupcomm_lessons.algorithms.vector_session import VectorSession

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
