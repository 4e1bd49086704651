"""Spread's flush functions, by their names and in their order of arguments.

`flush_layer` says how the layer works, docs/spread-api.md how it is used.
"""

import sys
from collections.abc import Sequence
from typing import Final

from groupcomm_client.spread_api.constants import ILLEGAL_MESSAGE, MAX_CLIENT_SCATTER_ELEMENTS
from groupcomm_client.spread_api.flush_layer import (
    DONT_BLOCK,
    FL_MIN_LEGAL_MESS_TYPE,
    FLUSH_REQ_MESS,
    ILLEGAL_MESSAGE_TYPE,
    ILLEGAL_PARAM,
    ILLEGAL_RECEIVERS,
    ILLEGAL_STATE,
    SUBGROUP_CAST,
    WOULD_BLOCK,
    Flush,
)
from groupcomm_client.spread_api.functions import (
    SP_connect,
    SP_disconnect,
    SP_join,
    SP_strerror,
    SpreadError,
    joined,
)
from groupcomm_client.spread_api.mailbox import Received_message

__all__ = [
    "DONT_BLOCK",
    "FLUSH_REQ_MESS",
    "FL_MAX_SCATTER_ELEMENTS",
    "FL_MIN_LEGAL_MESS_TYPE",
    "ILLEGAL_MESSAGE_TYPE",
    "ILLEGAL_PARAM",
    "ILLEGAL_RECEIVERS",
    "ILLEGAL_STATE",
    "SUBGROUP_CAST",
    "WOULD_BLOCK",
    "FL_connect",
    "FL_disconnect",
    "FL_error",
    "FL_flush",
    "FL_get_gid_offset_memb_mess",
    "FL_get_num_vs_offset_memb_mess",
    "FL_get_vs_set_offset_memb_mess",
    "FL_join",
    "FL_leave",
    "FL_lib_init",
    "FL_more_msgs",
    "FL_multicast",
    "FL_poll",
    "FL_receive",
    "FL_scat_multicast",
    "FL_scat_receive",
    "FL_scat_subgroupcast",
    "FL_scat_unicast",
    "FL_subgroupcast",
    "FL_unicast",
    "FL_version",
    "Is_flush_req_mess",
    "Is_subgroup_mess",
]

FL_MAX_SCATTER_ELEMENTS: Final = MAX_CLIENT_SCATTER_ELEMENTS - 1
"""Spread's limit of the pieces of a message; here there is none."""

_layers: dict[int, Flush] = {}


def _layer(mbox: int) -> Flush:
    found = _layers.get(mbox) if isinstance(mbox, int) else None
    if found is None:
        raise SpreadError(ILLEGAL_PARAM, f"mailbox {mbox} has no flush layer")
    return found


def FL_lib_init() -> None:
    """Do nothing: the layer begins with `FL_connect`."""


def FL_version() -> tuple[int, int, int]:
    """Return the version of Spread's flush layer whose interface this is."""
    return (2, 0, 0)


def FL_error(error_code: int) -> None:
    """Write the meaning of a number, also of this layer, to standard error."""
    print(f"FL_error: ({error_code}) {SP_strerror(error_code)}", file=sys.stderr)


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


def FL_scat_multicast(
    mbox: int, service_type: int, group: str, mess_type: int, scat_mess: Sequence[bytes]
) -> int:
    """Send pieces as one message; see FL_multicast."""
    return FL_multicast(mbox, service_type, group, mess_type, joined(scat_mess))


def FL_scat_unicast(
    mbox: int,
    service_type: int,
    group: str,
    receiver: str,
    mess_type: int,
    scat_mess: Sequence[bytes],
) -> int:
    """Send pieces as one message; see FL_unicast."""
    return FL_unicast(mbox, service_type, group, receiver, mess_type, joined(scat_mess))


def FL_scat_subgroupcast(
    mbox: int,
    service_type: int,
    group: str,
    receivers: Sequence[str],
    mess_type: int,
    scat_mess: Sequence[bytes],
) -> int:
    """Send pieces as one message; see FL_subgroupcast."""
    return FL_subgroupcast(mbox, service_type, group, receivers, mess_type, joined(scat_mess))


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


def FL_scat_receive(
    mbox: int, sizes: Sequence[int], time_out: float | None = None
) -> tuple[Received_message, tuple[bytes, ...]] | None:
    """Receive a message as FL_receive does; cut the data into these sizes, and the rest."""
    found = FL_receive(mbox, time_out)
    return None if found is None else (found, found.pieces(sizes))


def FL_more_msgs(mbox: int) -> int:
    """Return the number of messages that FL_receive returns without waiting for the daemon."""
    return _layer(mbox).ready


def FL_poll(mbox: int) -> int:
    """Return about as many bytes as wait; 0 if nothing does. Some may be of the layer itself."""
    return _layer(mbox).poll()


def FL_get_gid_offset_memb_mess() -> int:
    """Return where C has the group id in the data of a membership message; here `info` has it."""
    return 0


def FL_get_num_vs_offset_memb_mess() -> int:
    """Return where C has the number of sets in the data of a membership message."""
    return 12


def FL_get_vs_set_offset_memb_mess() -> int:
    """Return where C has the sets in the data of a membership message."""
    return 16


def Is_flush_req_mess(service_type: int) -> bool:
    """Return whether a flush is asked for."""
    return bool(service_type & FLUSH_REQ_MESS)


def Is_subgroup_mess(service_type: int) -> bool:
    """Return whether it was sent to some members only."""
    return bool(service_type & SUBGROUP_CAST)
