"""Wrong ways to keep messages in the site of their members."""

from typing import Any, cast

from groupcomm.engine.backlog import Subscriptions
from groupcomm.engine.delivery import Delivery
from groupcomm.groups.pruning import DeferredHeaders, Reach
from groupcomm.stream.packer import Packer, Source
from groupcomm.wire.bundle import Bundle, BundleKind
from groupcomm.wire.data import DataPacket
from tests.verification.mutants.mutant import Right, site_mutant


@site_mutant((DeferredHeaders, "pop_ready"))
def headers_before_the_packet_is_everywhere(right: Right) -> Right:
    """Headers go out at once, though members of the ring may lack their packets."""

    def take(self: DeferredHeaders, _everywhere: int) -> list[tuple[int, bytes]]:
        self.released_upto = self._stream.held
        out: list[tuple[int, bytes]] = right(self, self._stream.held)
        return out

    return take


@site_mutant((Delivery, "_receive_from_daemon"))
def pruned_by_the_senders_group_table(right: Right) -> Right:
    """Local-only packets are found by the members that the sender's daemon knows, not by
    subscriptions."""

    def note_subscription(self: Delivery, packet: DataPacket, bundle: Bundle) -> None:
        right(self, packet, bundle)
        self.wanted = _ByTable(self)

    return note_subscription


class _ByTable(Reach):
    """The local-only decision, by the group table as it stands."""

    def __init__(self, delivery: Delivery) -> None:
        self._table = delivery.groups.table
        right = delivery.wanted
        self._ring_daemons, self._elsewhere, self._remote_subscribers = (
            right._ring_daemons,
            right._elsewhere,
            {},
        )

    def leaves(self, group: str) -> bool:
        if group[0] == "#":
            return super().leaves(group)
        members = self._table.groups.get(group, {})
        return any(member.daemon not in self._ring_daemons for member in members)


@site_mutant((Subscriptions, "_must_wait"))
def join_before_all_know(right: Right) -> Right:
    """A join gets its number though others do not know yet that its daemon wants the group."""

    def must_wait(self: Subscriptions, bundle: Bundle) -> bool:
        return bundle.kind != BundleKind.JOIN and bool(right(self, bundle))

    return must_wait


@site_mutant((Packer, "_pop_bundles"))
def stays_if_its_first_bundle_does(right: Right) -> Right:
    """A packet stays in its ring if the first bundle in it does, whatever else it holds."""

    def pop_bundles(self: Packer, first: Bundle, far: bool, stays: bool) -> Any:
        source = self.source
        self.source = cast(Source, _Alike(source, stays))
        bundles = right(self, first, far, stays)
        self.source = source
        return bundles

    return pop_bundles


class _Alike:
    """A backlog whose bundles all stay in the ring, or none does, for every packer."""

    def __init__(self, source: Source, stays: bool) -> None:
        self.head, self.pop = source.head, source.pop
        self._stays = stays

    def is_local_only(self, _bundle: Bundle) -> bool:
        return self._stays


@site_mutant((Subscriptions, "on_unwanted"))
def unsubscribed_while_a_join_is_under_way(right: Right) -> Right:
    """A daemon's last member leaves, and it gives the group up though another is about to join."""

    def unwanted(self: Subscriptions, group: str) -> None:
        joins = self._joins[group]
        self._joins[group] = 0
        right(self, group)
        self._joins[group] = joins

    return unwanted


BUGS = (
    headers_before_the_packet_is_everywhere,
    join_before_all_know,
    pruned_by_the_senders_group_table,
    stays_if_its_first_bundle_does,
    unsubscribed_while_a_join_is_under_way,
)
