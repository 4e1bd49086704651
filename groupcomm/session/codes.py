"""Why a session ended or a request was refused, by the numbers of Spread's interface."""

import enum


class Code(enum.IntEnum):
    """The `code` of `SessionError` and `Closed`; 0 is an orderly end."""

    OK = 0
    REJECT_QUOTA = -3  # its principal has too many connections
    REJECT_NAME = -5  # not a user's name, or one that its principal may not have
    REJECT_NOT_UNIQUE = -6  # the daemon has a session of this user
    REJECT_VERSION = -7
    CONNECTION_CLOSED = -8  # by the daemon, which tells why in words; or lost
    REJECT_AUTH = -9  # it does not prove who it is
    ILLEGAL_SESSION = -11  # a request at the wrong time
    ILLEGAL_SERVICE = -12  # the level does not allow it
    ILLEGAL_MESSAGE = -13
    ILLEGAL_GROUP = -14  # not allowed to do that with this group
    MESSAGE_TOO_LONG = -17
    NET_ERROR = -18  # the daemon sent what does not decode
