"""3.5 What a total order costs: packets a message, by the size of the group."""

from collections.abc import Iterable
from typing import Final

from examples.ordering.answers.answer import answer
from examples.ordering.answers.rotating import RotatingSequencer
from examples.ordering.answers.votes import Votes
from groupcomm_lessons.algorithms.acknowledged import AcknowledgedStamps
from groupcomm_lessons.algorithms.bus1.process import Bus1
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Order, Process
from groupcomm_lessons.algorithms.sequencer import Sequencer
from groupcomm_lessons.algorithms.token_ring import TokenRing

ALL: Final[tuple[type[Process], ...]] = (
    *(Sequencer, RotatingSequencer, TokenRing),
    *(AcknowledgedStamps, Votes, Bus1),
)


def packets_a_message(make: type[Process], names: str) -> float:
    """Return the packets of a message when each process sends in turn, with no others in flight."""
    network = Network(make(name, names) for name in names)
    for name in names:
        network.send(name, b"")
        network.bring_all()
    assert not network.history.missing
    assert not network.history.broken(Order.TOTAL)
    return network.packets / len(names)


@answer("3.5", "What a total order costs: packets a message, by the size of the group")
def tell() -> Iterable[str]:
    for make in ALL:
        found = (f"{packets_a_message(make, 'pqrstuvwxyz'[:size]):.1f}" for size in (3, 5, 10))
        yield f"{make.__name__}: {', '.join(found)} among 3, 5, 10"
