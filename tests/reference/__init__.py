"""The reference checker: every property straight from its definition, over a whole trace at once.

The checkers are compared with it: simple loops, no state kept from event to event, nothing shared
with the checkers but the events. Traces of some hundred events take milliseconds, longer ones soon
take minutes.
"""

from groupcomm.trace.events import TraceEvent
from tests.reference.daemons import Daemons
from tests.reference.deliveries import Deliveries
from tests.reference.facts import Facts
from tests.reference.groups import Groups
from tests.reference.healing import check_healing
from tests.reference.holes import Holes
from tests.reference.missing import Missing
from tests.reference.order import Orders
from tests.reference.private import Private
from tests.reference.stages import Stages
from tests.reference.tables import Tables
from tests.reference.together import Together


def reference_check(events: list[TraceEvent]) -> set[str]:
    """Return the ids of all properties that a trace violates, as docs/properties.md defines
    them."""
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
        | deliveries.check()
        | daemons.check()
        | check_healing(facts.views)
        | Missing(facts, tables, stages, deliveries).check()
        | Together(facts, stages, deliveries, daemons).check()
        | orders.check()
        | groups.check()
        | Holes(facts, deliveries, orders, groups).check()
        | Private(facts, tables, deliveries).check()
    )


__all__ = ["reference_check"]
