"""The slow judge: every property straight from its definition, over a whole trace at once.

It is what the oracles are compared with: simple loops, nothing remembered from event to event,
nothing shared with the oracles but the events. Traces of some hundred events take milliseconds,
longer ones soon take minutes.
"""

from groupcomm.trace.events import TraceEvent
from tests.reference.daemons import Daemons
from tests.reference.deliveries import Deliveries
from tests.reference.facts import Facts
from tests.reference.groups import Groups
from tests.reference.healing import judge_healing
from tests.reference.holes import Holes
from tests.reference.missing import Missing
from tests.reference.order import Orders
from tests.reference.private import Private
from tests.reference.stages import Stages
from tests.reference.tables import Tables
from tests.reference.together import Together


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
