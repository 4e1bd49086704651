"""The slow judge: every property straight from its definition, over a whole trace at once.

It is what the oracles are compared with: simple loops, nothing remembered from event to event,
nothing shared with the oracles but the events. Traces of some hundred events take milliseconds,
longer ones soon take minutes.
"""

from groupcomm.sim.judge.daemons import Daemons
from groupcomm.sim.judge.deliveries import Deliveries
from groupcomm.sim.judge.facts import Facts
from groupcomm.sim.judge.groups import Groups
from groupcomm.sim.judge.order import Orders
from groupcomm.sim.trace import TraceEvent


def judge(events: list[TraceEvent]) -> set[str]:
    """The ids of all properties that a trace violates, as docs/properties.md defines them."""
    facts = Facts(events)
    deliveries = Deliveries(facts)
    return (
        deliveries.judge()
        | Orders(facts, deliveries).judge()
        | Daemons(facts).judge()
        | Groups(facts, deliveries).judge()
    )


__all__ = ["judge"]
