"""The states of membership, and the reasons for leaving a view. docs/membership.md draws them."""

import enum


class MembershipState(enum.Enum):
    """The states of a daemon on the way from one view to the next."""

    GATHER = enum.auto()  # it finds out which daemons hear each other; the old view is frozen
    COMMIT = enum.auto()  # it has agreed to a view; missing packets of the old one are fetched
    RECOVERED = enum.auto()  # it has reported that it has all these packets: it has an obligation
    OPERATIONAL = enum.auto()  # the view is installed
    LEFT = enum.auto()  # it has left in order, and does nothing any more


class GatherReason(enum.Enum):
    """The reasons to gather; they are counted, and shown to operators."""

    STARTED = enum.auto()
    TOKEN_LOST = enum.auto()  # neither token nor rest notice for a token timeout
    PATH_LOST = enum.auto()  # a member of the ring, or the other end of a link, is silent
    NOT_RECEIVED = (
        enum.auto()
    )  # packets of a member do not arrive, or those to it, though short ones do
    MEMBER_GATHERS = enum.auto()  # a member of the view has joined anew
    MEMBER_MOVED = enum.auto()  # a member of the view is in a later one
    MEMBER_RESTARTED = enum.auto()
    MEMBER_LEFT = enum.auto()
    FOREIGN_HEARD = enum.auto()  # a daemon outside the view hears us, and we hear it
    MEMBER_BROKEN = enum.auto()  # a member breaks the protocol, and is left out from now on
    CONTRADICTED = enum.auto()  # statements of members contradict each other, or deliveries here
    ROSTER_CHANGED = enum.auto()  # the roster has changed since a join named the old one
    PAUSED = enum.auto()  # this daemon itself did not run for a while
    ATTEMPT_FAILED = enum.auto()  # the last attempt has failed
