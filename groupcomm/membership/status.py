"""The status of membership: its facts about views and other daemons, as one frozen value."""

from collections.abc import Mapping
from types import MappingProxyType

import attrs

from groupcomm.config.versions import Versions
from groupcomm.config.view import View
from groupcomm.membership.comparison import SILENT_S, OtherConfiguration
from groupcomm.membership.peer import PeerDaemon, PeerStatus
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.membership.trust import BrokenStatus


@attrs.frozen(kw_only=True)
class ProtocolStatus:
    """The versions of the protocol of this daemon and of those that it knows.

    Attributes:
        own: the versions and features of this daemon.
        view: what all members of the view have in common, of which the highest version and all
            features are used; None without a view.
        members: the versions of each member of the view, by name.
        apart: the versions of each daemon that is heard and shares none with the view, by name.
    """

    own: Versions
    view: Versions | None
    members: Mapping[str, Versions]
    apart: Mapping[str, Versions]


@attrs.frozen(kw_only=True)
class MembershipStatus:
    """The facts of membership.

    Attributes:
        state: the state of membership.
        view: the regular view that was installed last; None before the first.
        reasons: the number of times that this daemon gathered, by reason.
        no_room: the daemons that are heard and not in the view, as it has no room, sorted.
        protocol: the versions of the protocol that are spoken and used.
        peers: the other daemons that are known, configured or not.
        differing: configurations that differ from this daemon's.
        broken: the daemons that have broken the protocol.
    """

    state: MembershipState
    view: View | None
    reasons: Mapping[GatherReason, int]
    no_room: tuple[str, ...]
    protocol: ProtocolStatus
    peers: tuple[PeerStatus, ...]
    differing: tuple[OtherConfiguration, ...]
    broken: tuple[BrokenStatus, ...]


def protocol_status(
    own: Versions, name: str, view: View | None, peers: Mapping[int, PeerDaemon], now: float
) -> ProtocolStatus:
    """Return the versions of the protocol of daemon `name`, and of those that it knows."""
    members: dict[str, Versions] = {name: own}
    for daemon in view.daemons if view is not None else ():
        peer = peers.get(daemon.number)
        if peer is not None and peer.versions is not None:
            members[daemon.name] = peer.versions
    used = own if view is None else view.versions
    apart = {
        peer.label: peer.versions
        for number, peer in peers.items()
        if peer.versions is not None
        and not (peer.left or peer.versions.meets(used))
        and (view is None or number not in view.numbers)
        and peer.heard_at >= now - SILENT_S
    }
    return ProtocolStatus(
        own=own,
        view=None if view is None else view.versions,
        members=MappingProxyType(dict(sorted(members.items()))),
        apart=MappingProxyType(dict(sorted(apart.items()))),
    )
