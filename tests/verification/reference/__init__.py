"""The reference checker: every property straight from its definition, over a whole trace at once.

The checkers are compared with it: simple loops, no state kept from event to event, nothing shared
with the checkers but the events. Traces of some hundred events take milliseconds, longer ones soon
take minutes.
"""

from groupcomm.trace.events import TraceEvent
from tests.verification.reference.daemons import Daemons
from tests.verification.reference.deliveries import Deliveries
from tests.verification.reference.facts import Facts
from tests.verification.reference.groups import Groups
from tests.verification.reference.healing import check_healing
from tests.verification.reference.holes import Holes
from tests.verification.reference.missing import Missing
from tests.verification.reference.order import Orders
from tests.verification.reference.private import Private
from tests.verification.reference.stages import Stages
from tests.verification.reference.tables import Tables
from tests.verification.reference.together import Together


def reference_check(events: list[TraceEvent]) -> set[str]:
    """Return the ids of all properties that a trace violates, as docs/properties.md defines
    them."""
    facts = Facts(events)
    tables = Tables(facts)
    stages = Stages(facts, tables)
    deliveries = Deliveries(facts, tables, stages)
    daemons = Daemons(facts, stages)
    orders = Orders(facts, stages, deliveries, daemons.early)
    groups = Groups(facts, tables, stages)
    return (
        facts.found
        | stages.found
        | deliveries.check()
        | daemons.check()
        | check_healing(facts.views)
        | Missing(facts, tables, stages, deliveries).check()
        | Together(facts, stages, deliveries, daemons, tables).check()
        | orders.check()
        | groups.check()
        | Holes(facts, deliveries, orders, groups).check()
        | Private(facts, tables, deliveries).check()
    )


__all__ = ["reference_check"]
