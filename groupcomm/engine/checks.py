"""Checks of decoded packets against the view: what only a daemon that knows the view can tell.

Decoders bound what a packet can hold; these see to it that its indices lie in this view. A packet
that fails here was sent by a daemon of the cluster that does not keep to the protocol.
"""

from typing import Final

from groupcomm.config.view import View
from groupcomm.errors import ProtocolViolation
from groupcomm.names import MAX_NAME_BYTES, is_private
from groupcomm.wire.data import DataPacket
from groupcomm.wire.held import HeldNotice
from groupcomm.wire.horizon import HorizonNotice
from groupcomm.wire.request import TokenRequest
from groupcomm.wire.resend import ResendRequest
from groupcomm.wire.rest import RestNotice
from groupcomm.wire.token import Token
from groupcomm.wire.unreliable import UnreliablePacket

SHORT: Final = (MAX_NAME_BYTES - 2) // 4
"""Letters of a user's and a daemon's name that fit a private name, whatever they are."""


def _require(holds: bool, reason: str, what: str) -> None:
    if not holds:
        raise ProtocolViolation(reason, what)


def check_data(packet: DataPacket, view: View) -> None:
    """A data packet is of a ring of the view, by a daemon of that ring."""
    ring_of = view.ring_of
    if packet.daemon >= len(ring_of) or ring_of[packet.daemon] != packet.ring:
        raise ProtocolViolation("data", f"of daemon {packet.daemon}, ring {packet.ring}")
    if packet.vector is not None and len(packet.vector) != len(view.rings):
        raise ProtocolViolation("data", f"a vector of {len(packet.vector)} counts")
    _check_senders(packet, view)


def _check_senders(packet: DataPacket | UnreliablePacket, view: View) -> None:
    """The senders of all bundles can have private names."""
    name = view.daemons[packet.daemon].name
    for bundle in packet.bundles:
        if len(bundle.user) + len(name) > SHORT:
            _require(is_private(bundle.user, name), "data", f"of user {bundle.user!r} at {name}")


def check_unreliable(packet: UnreliablePacket, view: View) -> None:
    """An UNRELIABLE datagram is of a daemon of the view."""
    _require(packet.daemon < len(view.daemons), "unreliable", f"of daemon {packet.daemon}")
    _check_senders(packet, view)


def check_token(token: Token, view: View, ring: int) -> None:
    """A token is of this ring, with a whole row for each daemon."""
    members = view.rings[ring]
    rings = len(view.rings)
    if token.ring != ring or token.last_sender not in members:
        raise ProtocolViolation("token", f"of ring {token.ring}, last sender {token.last_sender}")
    if len(token.rows) != len(members) or len(token.rows[0].held) != rings:
        raise ProtocolViolation("token", f"{len(token.rows)} rows, or short ones")
    if token.wanted and not all(daemon in members for daemon in token.wanted):
        raise ProtocolViolation("token", f"wanted by {token.wanted}")
    if token.requests and any(request[0] >= rings for request in token.requests):
        raise ProtocolViolation("token", "a request of no ring")


def check_rest(notice: RestNotice, view: View) -> None:
    """A rest notice is of a ring, with its holder's place and a frontier for each daemon there."""
    _require(notice.ring < len(view.rings), "rest", f"of ring {notice.ring}")
    members = view.rings[notice.ring]
    _require(notice.holder in members, "rest", f"of daemon {notice.holder}")
    _require(len(notice.frontiers) == len(members), "rest", f"{len(notice.frontiers)} frontiers")


def check_held(notice: HeldNotice, view: View) -> None:
    """A held notice is of a daemon of its ring."""
    ring_of = view.ring_of
    if notice.daemon >= len(ring_of) or ring_of[notice.daemon] != notice.ring:
        raise ProtocolViolation("held", f"of daemon {notice.daemon}, ring {notice.ring}")


def check_request(request: TokenRequest, view: View) -> None:
    """A token request is of a daemon of its ring."""
    ring_of = view.ring_of
    if request.daemon >= len(ring_of) or ring_of[request.daemon] != request.ring:
        raise ProtocolViolation("request", f"of daemon {request.daemon}, ring {request.ring}")


def check_horizon(notice: HorizonNotice, view: View) -> None:
    """A horizon notice is of a ring of the view, and tells what it holds of such."""
    rings = len(view.rings)
    if notice.ring >= rings or (notice.held and notice.held[-1][0] >= rings):
        raise ProtocolViolation("horizon", f"of ring {notice.ring}, holding {notice.held}")


def check_resend(request: ResendRequest, view: View) -> None:
    """A resend request names a ring and a daemon of the view."""
    known = request.ring < len(view.rings) and request.asker < len(view.daemons)
    _require(known, "resend", f"of daemon {request.asker} for ring {request.ring}")
