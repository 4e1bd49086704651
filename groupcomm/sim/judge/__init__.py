"""The slow judge: every property straight from its definition, over a whole trace at once.

It is what the oracles are compared with: simple loops, nothing remembered from event to event,
nothing shared with the oracles but the events. Traces of some hundred events take milliseconds,
longer ones soon take minutes.
"""

from groupcomm.sim.judge.daemons import Daemons
from groupcomm.sim.judge.deliveries import Deliveries
from groupcomm.sim.judge.facts import Facts
from groupcomm.sim.judge.groups import Groups
from groupcomm.sim.judge.healing import judge_healing
from groupcomm.sim.judge.holes import Holes
from groupcomm.sim.judge.missing import Missing
from groupcomm.sim.judge.order import Orders
from groupcomm.sim.judge.private import Private
from groupcomm.sim.judge.stages import Stages
from groupcomm.sim.judge.tables import Tables
from groupcomm.sim.judge.together import Together
from groupcomm.trace.events import TraceEvent


def judge(events: list[TraceEvent]) -> set[str]:
    """The ids of all properties that a trace violates, as docs/properties.md defines them."""
    facts = Facts(events)
    tables = Tables(facts)
    stages = Stages(facts, tables)
    deliveries = Deliveries(facts, tables, stages)
    daemons = Daemons(facts, stages)
    orders = Orders(facts, stages, deliveries)
    groups = Groups(facts, tables, stages)
    return (
        facts.found
        | stages.found
        | deliveries.judge()
        | daemons.judge()
        | judge_healing(facts.views)
        | Missing(facts, tables, stages, deliveries).judge()
        | Together(facts, stages, deliveries, daemons).judge()
        | orders.judge()
        | groups.judge()
        | Holes(facts, deliveries, orders, groups).judge()
        | Private(facts, tables, deliveries).judge()
    )


__all__ = ["judge"]
