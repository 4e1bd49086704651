"""Wrong ways to let groups pause where there is no quorum."""

from typing import Any

from msgspec.structs import replace

from groupcomm.engine.pauses import Pauses
from groupcomm.engine.sessions import LocalSessions
from groupcomm.groups.carried import CarriedGroups, OwnAnnouncement
from tests.verification.mutants.mutant import Right, minority_mutant


@minority_mutant((CarriedGroups, "announce"))
def pauses_are_not_announced(right: Right) -> Right:
    """Daemons that did not hear a join do not learn that its session needs a quorum."""

    def announce(self: CarriedGroups, *args: Any) -> OwnAnnouncement:
        made: OwnAnnouncement = right(self, *args)
        made._announcement = replace(made._announcement, pausing=())
        return made

    return announce


@minority_mutant((LocalSessions, "begin"))
def what_waits_already_is_let_through(right: Right) -> Right:
    """A view without a quorum holds back what programs send in it, and nothing older."""

    def begin(self: LocalSessions, *args: Any, **options: Any) -> None:
        older = self.backlog.clear()
        right(self, *args, **options)
        self.backlog.put_back(older)

    return begin


@minority_mutant((Pauses, "_must_wait"))
def joins_do_not_wait(right: Right) -> Right:
    """A join that needs a quorum is ordered without one, where others do not know it yet."""

    def must_wait(self: Pauses, bundle: Any) -> bool:
        return bool(bundle.kind <= 1 and right(self, bundle))

    return must_wait


BUGS = (
    joins_do_not_wait,
    pauses_are_not_announced,
    what_waits_already_is_let_through,
)
