"""Checks of decoded packets against the view: indices in range, rows for every daemon.

Decoders cannot know the view. What fails here was sealed by a daemon of the cluster, so it is a
breach of the protocol, counted apart from datagrams that are merely bad.
"""

from groupcomm.config.view import View
from groupcomm.errors import RemoteProtocolError
from groupcomm.wire.data import DataPacket
from groupcomm.wire.horizon import HorizonNotice
from groupcomm.wire.request import TokenRequest
from groupcomm.wire.resend import ResendRequest
from groupcomm.wire.rest import RestNotice
from groupcomm.wire.token import Token
from groupcomm.wire.unreliable import UnreliablePacket


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise RemoteProtocolError(what)


def check_data(packet: DataPacket, view: View, own_ring: int) -> None:
    """A data packet is of a ring of the view, by a daemon of that ring; whole in the own one."""
    ring_of = view.ring_of
    if packet.daemon >= len(ring_of) or ring_of[packet.daemon] != packet.ring:
        raise RemoteProtocolError(f"packet of daemon {packet.daemon}, ring {packet.ring}")
    if packet.vector is not None and len(packet.vector) != len(view.rings):
        raise RemoteProtocolError(f"vector of {len(packet.vector)} counts")
    if packet.withheld and packet.ring == own_ring:
        raise RemoteProtocolError(f"header of packet {packet.number} in its own ring")


def check_unreliable(packet: UnreliablePacket, view: View) -> None:
    """An UNRELIABLE datagram is of a daemon of the view."""
    _require(packet.daemon < len(view.daemons), f"datagram of daemon {packet.daemon}")


def check_token(token: Token, view: View, ring: int) -> None:
    """A token is of this ring, with a whole row for each daemon."""
    members = view.rings[ring]
    rings = len(view.rings)
    if token.ring != ring or token.last_sender not in members:
        raise RemoteProtocolError(f"token of ring {token.ring}, last sender {token.last_sender}")
    if len(token.rows) != len(members) or len(token.rows[0].held) != rings:
        raise RemoteProtocolError(f"token with {len(token.rows)} rows, or short ones")
    if token.wanted and not all(daemon in members for daemon in token.wanted):
        raise RemoteProtocolError(f"token wanted by {token.wanted}")
    if token.requests and any(request[0] >= rings for request in token.requests):
        raise RemoteProtocolError("a request in the token is of no ring")


def check_rest(notice: RestNotice, view: View, ring: int) -> None:
    """A rest notice is of this ring, with a frontier for each daemon."""
    members = view.rings[ring]
    _require(notice.ring == ring, f"rest notice of ring {notice.ring}")
    _require(notice.holder in members, f"rest notice of daemon {notice.holder}")
    _require(len(notice.frontiers) == len(members), f"{len(notice.frontiers)} frontiers")


def check_request(request: TokenRequest, view: View, ring: int) -> None:
    """A token request is of a daemon of this ring."""
    _require(request.ring == ring, f"token request of ring {request.ring}")
    _require(request.daemon in view.rings[ring], f"token request of daemon {request.daemon}")


def check_horizon(notice: HorizonNotice, view: View) -> None:
    """A horizon notice is of a ring of the view, and tells what it holds of such."""
    rings = len(view.rings)
    if notice.ring >= rings or (notice.held and notice.held[-1][0] >= rings):
        raise RemoteProtocolError(f"horizon notice of ring {notice.ring}, holding {notice.held}")


def check_resend(request: ResendRequest, view: View) -> None:
    """A resend request names a ring and a daemon of the view."""
    known = request.ring < len(view.rings) and request.asker < len(view.daemons)
    _require(known, f"resend request of daemon {request.asker} for ring {request.ring}")
