"""News: the events that an operator should know, as values; the shell words them. Pure."""

from typing import TypeAlias

import attrs

from groupcomm.config.view import View
from groupcomm.membership.states import GatherReason


@attrs.frozen(kw_only=True)
class ViewInstalled:
    """A view of the daemons has begun.

    Attributes:
        view: the view.
        came: names of daemons that were not in the view before, sorted.
        left: names of those that were, and are not any more, sorted.
        causes: the reasons to look for it that this daemon has seen.
        took_s: the time since the view before it had stopped, or since this daemon started.
        no_room: names of the daemons that are heard and left out, as a view has no more rings.
    """

    view: View
    came: tuple[str, ...]
    left: tuple[str, ...]
    causes: tuple[GatherReason, ...]
    took_s: float
    no_room: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class TokenLate:
    """Nothing was heard of the token for a while; without it the view ends.

    Attributes:
        silent_s: the seconds in which no datagram was heard.
        timeout_s: the time after which the view ends.
    """

    silent_s: float
    timeout_s: float


@attrs.frozen
class AccessNews:
    """The rules of this daemon forbid a member in a group; the text names both."""

    text: str


@attrs.frozen
class ProtocolNews:
    """Another daemon has broken the protocol; the text names it, the breach and the remedy."""

    text: str


@attrs.frozen
class MembershipNews:
    """Something about another daemon that an operator should know; the text names both."""

    text: str


@attrs.frozen(kw_only=True)
class DrainBegun:
    """This daemon is about to stop, and its programs are told so.

    Attributes:
        within_s: the seconds after which it leaves at the latest.
        programs: the number of its programs.
    """

    within_s: float
    programs: int


@attrs.frozen(kw_only=True)
class DrainOver:
    """The daemon leaves: all programs have gone, the time is up, or it was told to.

    Attributes:
        gone: the number of programs that have moved or ended.
        staying: the users whose sessions end now.
    """

    gone: int
    staying: tuple[str, ...]


@attrs.frozen(kw_only=True)
class ProgramSilent:
    """The session of a program was ended, as nothing has come from it.

    Attributes:
        user: the name of the session.
        principal: its owner.
        silent_s: the seconds in which nothing has come.
    """

    user: str
    principal: str
    silent_s: float


@attrs.frozen
class RosterNews:
    """The daemons that may be members have changed, or could not; the text says how."""

    text: str


News: TypeAlias = (
    ViewInstalled
    | TokenLate
    | AccessNews
    | ProtocolNews
    | MembershipNews
    | DrainBegun
    | DrainOver
    | ProgramSilent
    | RosterNews
)
