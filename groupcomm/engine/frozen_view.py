"""The frozen view of one daemon, with what ends with it. Pure."""

from collections.abc import Iterator

from groupcomm.config.view import View
from groupcomm.engine.delivery import Delivery
from groupcomm.engine.parts import Parts
from groupcomm.engine.view_change import ViewChange
from groupcomm.link.forwarding import Forwarding
from groupcomm.ring.reception import Reception


class FrozenView(ViewChange):
    """The end of a frozen view, in pieces of which each is as much as a step may do.

    Args:
        view, me, delivery, reception, forwarding: see ViewChange.
        parts: the parts of the daemon that are told of it.

    Attributes:
        ends: whether `end` has begun.
    """

    __slots__ = ("_parts", "_rest", "ends")

    def __init__(
        self,
        view: View,
        me: int,
        delivery: Delivery,
        reception: Reception,
        forwarding: Forwarding,
        parts: Parts,
    ) -> None:
        super().__init__(view, me, delivery, reception, forwarding)
        self._parts = parts
        self._rest: Iterator[None] = iter(())
        self.ends = False

    def end(self, following: View, transitional_members: frozenset[int], *, whole: bool) -> bool:
        """See OldView."""
        if not self.ends:
            self.ends, self._rest = True, self._deliver_rest(following, transitional_members)
        for _ in self._rest:
            if not whole:
                return False
            self._parts.sessions.allow_more()
        return True

    def _deliver_rest(
        self, following: View, transitional_members: frozenset[int]
    ) -> Iterator[None]:
        """Deliver the rest of the view, and end it; yield where a step has delivered enough."""
        parts, view, delivery = self._parts, self._view, self._delivery
        members = tuple(view.daemons[index] for index in sorted(transitional_members))
        was_complete = delivery.complete

        def turn() -> None:
            parts.roster_manager.end_regular()
            parts.probe.transitional(view.id, following.id, members)
            if delivery.complete:
                parts.sessions.end_regular([daemon.name for daemon in members])

        finished = yield from self.finish(turn)
        assert finished or not was_complete
        if finished:
            parts.carried_groups.replace(delivery.groups.table, view, self._me)
        parts.carried_groups.keep_members(members)
        parts.sessions.end()
