"""Spread's numbers: service types, membership bits, error codes, limits, and the tests on them."""

from typing import Final

from groupcomm.host.addresses import DEFAULT_PORT
from groupcomm.level import LEVELS, ServiceLevel

UNRELIABLE_MESS: Final = 0x01
RELIABLE_MESS: Final = 0x02
FIFO_MESS: Final = 0x04
CAUSAL_MESS: Final = 0x08
AGREED_MESS: Final = 0x10
SAFE_MESS: Final = 0x20
REGULAR_MESS: Final = 0x3F

SELF_DISCARD: Final = 0x40
DROP_RECV: Final = 0x01000000

CAUSED_BY_JOIN: Final = 0x0100
CAUSED_BY_LEAVE: Final = 0x0200
CAUSED_BY_DISCONNECT: Final = 0x0400
CAUSED_BY_NETWORK: Final = 0x0800
REG_MEMB_MESS: Final = 0x1000
TRANSITION_MESS: Final = 0x2000
MEMBERSHIP_MESS: Final = 0x3F00
REJECT_MESS: Final = 0x400000
RESERVED: Final = 0x3FC000
ENDIAN_RESERVED: Final = 0x80000080

LOW_PRIORITY: Final = 0
MEDIUM_PRIORITY: Final = 1
HIGH_PRIORITY: Final = 2

ACCEPT_SESSION: Final = 1
ILLEGAL_SPREAD: Final = -1
COULD_NOT_CONNECT: Final = -2
REJECT_QUOTA: Final = -3
REJECT_NO_NAME: Final = -4
REJECT_ILLEGAL_NAME: Final = -5
REJECT_NOT_UNIQUE: Final = -6
REJECT_VERSION: Final = -7
CONNECTION_CLOSED: Final = -8
REJECT_AUTH: Final = -9
ILLEGAL_SESSION: Final = -11
ILLEGAL_SERVICE: Final = -12
ILLEGAL_MESSAGE: Final = -13
ILLEGAL_GROUP: Final = -14
BUFFER_TOO_SHORT: Final = -15
GROUPS_TOO_SHORT: Final = -16
MESSAGE_TOO_LONG: Final = -17
NET_ERROR_ON_SESSION: Final = -18
SP_BUG: Final = -19
ILLEGAL_TIME: Final = -20

SPREAD_VERSION: Final = 5 << 24
"""The version of Spread whose interface this is, as the header of 5.0.1 has it."""

DEFAULT_SPREAD_PORT: Final = DEFAULT_PORT

MAX_PRIVATE_NAME: Final = 255
"""Spread's is 10; names here are longer."""

MAX_GROUP_NAME: Final = 255
"""Spread's is 32, with the byte that ends it."""

MAX_PROC_NAME: Final = 255
"""Spread's is 20, with the byte that ends it: the name of a daemon."""

MAX_CLIENT_SCATTER_ELEMENTS: Final = 100
"""Spread's limit of the pieces of a message; here there is none."""

ERRORS: Final = {
    ILLEGAL_SPREAD: "the daemon's name is not of the form port, port@host or a path",
    COULD_NOT_CONNECT: "no daemon could be reached",
    REJECT_QUOTA: "the daemon takes no more sessions",
    REJECT_NO_NAME: "the daemon wants a name",
    REJECT_ILLEGAL_NAME: "the private name is not allowed",
    REJECT_NOT_UNIQUE: "the private name is in use at this daemon",
    REJECT_VERSION: "client and daemon speak different versions",
    CONNECTION_CLOSED: "the connection was closed",
    REJECT_AUTH: "the daemon does not admit this client",
    ILLEGAL_SESSION: "there is no such mailbox",
    ILLEGAL_SERVICE: "the service type is not one of the six levels",
    ILLEGAL_MESSAGE: "the message or its type is not allowed",
    ILLEGAL_GROUP: "the name of a group is not allowed",
    BUFFER_TOO_SHORT: "the buffer is too short for the message",
    GROUPS_TOO_SHORT: "there is no room for all groups",
    MESSAGE_TOO_LONG: "the message is too long",
    NET_ERROR_ON_SESSION: "the daemon sent bytes that do not decode",
    SP_BUG: "a fault of the library",
    ILLEGAL_TIME: "the time is not allowed",
    # those of the flush layer, whose names are in flush.py
    -24: "an argument is not allowed",
    -25: "the call would have to wait",
    -26: "the flush layer has this type of messages for itself",
    -27: "the call is not allowed now",
    -28: "the receivers are not all members of the group",
}
"""The meanings of the negative numbers, as `SP_error` prints them."""

SERVICE_OF: Final = dict(zip(LEVELS, (1 << bit for bit in range(6)), strict=True))
"""Spread's service type by level."""

LEVEL_OF: Final = {service: level for level, service in SERVICE_OF.items()}


def level_of(service_type: int) -> ServiceLevel | None:
    """Return the level that a service type stands for; None if it is not exactly one."""
    return LEVEL_OF.get(service_type & REGULAR_MESS)


def Is_unreliable_mess(service_type: int) -> bool:
    """Return whether a message has this level."""
    return bool(service_type & UNRELIABLE_MESS)


def Is_reliable_mess(service_type: int) -> bool:
    """Return whether a message has this level."""
    return bool(service_type & RELIABLE_MESS)


def Is_fifo_mess(service_type: int) -> bool:
    """Return whether a message has this level."""
    return bool(service_type & FIFO_MESS)


def Is_causal_mess(service_type: int) -> bool:
    """Return whether a message has this level."""
    return bool(service_type & CAUSAL_MESS)


def Is_agreed_mess(service_type: int) -> bool:
    """Return whether a message has this level."""
    return bool(service_type & AGREED_MESS)


def Is_safe_mess(service_type: int) -> bool:
    """Return whether a message has this level."""
    return bool(service_type & SAFE_MESS)


def Is_regular_mess(service_type: int) -> bool:
    """Return whether it is a message of a program."""
    return bool(service_type & REGULAR_MESS) and not service_type & REJECT_MESS


def Is_membership_mess(service_type: int) -> bool:
    """Return whether it reports the members of a group."""
    return bool(service_type & MEMBERSHIP_MESS) and not service_type & REJECT_MESS


def Is_reg_memb_mess(service_type: int) -> bool:
    """Return whether it is a view of a group."""
    return bool(service_type & REG_MEMB_MESS)


def Is_transition_mess(service_type: int) -> bool:
    """Return whether the view of a group has come to its transitional part."""
    return bool(service_type & TRANSITION_MESS)


def Is_caused_join_mess(service_type: int) -> bool:
    """Return whether a member has joined."""
    return bool(service_type & CAUSED_BY_JOIN)


def Is_caused_leave_mess(service_type: int) -> bool:
    """Return whether a member has left."""
    return bool(service_type & CAUSED_BY_LEAVE)


def Is_caused_disconnect_mess(service_type: int) -> bool:
    """Return whether the session of a member has ended."""
    return bool(service_type & CAUSED_BY_DISCONNECT)


def Is_caused_network_mess(service_type: int) -> bool:
    """Return whether the view of the daemons has changed."""
    return bool(service_type & CAUSED_BY_NETWORK)


def Is_self_leave(service_type: int) -> bool:
    """Return whether the receiver itself has left."""
    others = REG_MEMB_MESS | TRANSITION_MESS
    return bool(service_type & CAUSED_BY_LEAVE) and not service_type & others


def Is_reject_mess(service_type: int) -> bool:
    """Return whether access control refused it."""
    return bool(service_type & REJECT_MESS)


def Is_self_discard(service_type: int) -> bool:
    """Return whether its sender asks not to receive it; what is received does not tell."""
    return bool(service_type & SELF_DISCARD)


def Flip_int16(number: int) -> int:
    """Return 16 bits with their bytes in the other order."""
    return int.from_bytes((number & 0xFFFF).to_bytes(2, "big"), "little")


def Flip_int32(number: int) -> int:
    """Return 32 bits with their bytes in the other order."""
    return int.from_bytes((number & 0xFFFFFFFF).to_bytes(4, "big"), "little")
