"""Spread's flush functions, by their names and in their order of arguments.

`flush_layer` says how the layer works, docs/spread-api.md how it is used.
"""

from collections.abc import Sequence

from groupcomm_client.spread_api.constants import ILLEGAL_MESSAGE
from groupcomm_client.spread_api.flush_layer import (
    FLUSH_REQ_MESS,
    ILLEGAL_PARAM,
    ILLEGAL_RECEIVERS,
    ILLEGAL_STATE,
    SUBGROUP_CAST,
    Flush,
)
from groupcomm_client.spread_api.functions import SP_connect, SP_disconnect, SP_join, SpreadError
from groupcomm_client.spread_api.mailbox import Received_message

__all__ = [
    "FLUSH_REQ_MESS",
    "ILLEGAL_PARAM",
    "ILLEGAL_RECEIVERS",
    "ILLEGAL_STATE",
    "SUBGROUP_CAST",
    "FL_connect",
    "FL_disconnect",
    "FL_flush",
    "FL_join",
    "FL_leave",
    "FL_multicast",
    "FL_receive",
    "FL_subgroupcast",
    "FL_unicast",
    "Is_flush_req_mess",
    "Is_subgroup_cast",
]

_layers: dict[int, Flush] = {}


def _layer(mbox: int) -> Flush:
    found = _layers.get(mbox) if isinstance(mbox, int) else None
    if found is None:
        raise SpreadError(ILLEGAL_PARAM, f"mailbox {mbox} has no flush layer")
    return found


def FL_connect(spread_name: str, private_name: str = "", priority: int = 0) -> tuple[int, str]:
    """Open a session with a flush layer; see SP_connect."""
    mbox, private_group = SP_connect(spread_name, private_name, priority, True)
    _layers[mbox] = Flush(mbox)
    return mbox, private_group


def FL_disconnect(mbox: int) -> None:
    """End a session in order."""
    _layer(mbox)
    del _layers[mbox]
    SP_disconnect(mbox)


def FL_join(mbox: int, group: str) -> None:
    """Ask to become a member of a group."""
    _layer(mbox)
    SP_join(mbox, group)


def FL_leave(mbox: int, group: str) -> None:
    """Ask to end the membership."""
    _layer(mbox).leave(group)


def FL_flush(mbox: int, group: str) -> None:
    """Answer a FLUSH_REQ_MESS: this member sends nothing more to the group before its next view."""
    _layer(mbox).flush(group)


def FL_multicast(mbox: int, service_type: int, group: str, mess_type: int, mess: bytes) -> int:
    """Send a message to all members of the present view; return the number of bytes."""
    return _layer(mbox).send(service_type, group, mess_type, mess)


def FL_unicast(
    mbox: int, service_type: int, group: str, receiver: str, mess_type: int, mess: bytes
) -> int:
    """Send a message to one member of the present view."""
    return _layer(mbox).send(service_type, group, mess_type, mess, (receiver,))


def FL_subgroupcast(
    mbox: int,
    service_type: int,
    group: str,
    receivers: Sequence[str],
    mess_type: int,
    mess: bytes,
) -> int:
    """Send a message to some members of the present view.

    Raises:
        SpreadError: no receiver is given, one is no member, or the group cannot be sent to now.
    """
    if not receivers:
        raise SpreadError(ILLEGAL_RECEIVERS, "nobody")
    if isinstance(receivers, str) or not isinstance(receivers, Sequence):
        raise SpreadError(ILLEGAL_RECEIVERS, f"{receivers!r} is no list of members")
    return _layer(mbox).send(service_type, group, mess_type, mess, tuple(receivers))


def FL_receive(mbox: int, time_out: float | None = None) -> Received_message | None:
    """Wait for the next message, membership message or request to flush.

    Raises:
        SpreadError: the session is over.
    """
    try:
        return _layer(mbox).receive(time_out)
    except SpreadError as error:
        if error.code != ILLEGAL_MESSAGE:
            _layers.pop(mbox, None)
        raise


def Is_flush_req_mess(service_type: int) -> bool:
    """Return whether a flush is asked for."""
    return bool(service_type & FLUSH_REQ_MESS)


def Is_subgroup_cast(service_type: int) -> bool:
    """Return whether it was sent to some members only."""
    return bool(service_type & SUBGROUP_CAST)
