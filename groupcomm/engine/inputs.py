"""Inputs of a daemon's core other than datagrams, and commands of an operator.

The shell passes inputs to the next step. They are processed in `DaemonCore.step`, in their order.

Commands concern keys, identities and the roster; `DaemonCore.command` carries one out. They are
not inputs, as each may be refused at once, and its operator learns the reason.
"""

from typing import TypeAlias

import attrs

from groupcomm.config.roster import RosterChange, RosterRecord
from groupcomm.security.access import Access
from groupcomm.security.identity import Roll
from groupcomm.security.keys import KeyRing
from groupcomm.security.quotas import Quotas
from groupcomm.session.daemon_session import SessionLimits
from groupcomm.session.requests import Price


@attrs.frozen
class PathMeasured:
    """The system knows the paths to the daemons of the site, or knows them anew.

    Attributes:
        datagram_bytes: the largest datagram that all of them are said to carry in one piece,
            without the heads of IP and UDP.
    """

    datagram_bytes: int


@attrs.frozen
class ClientOpened:
    """A client has connected; its number came from `DaemonCore.next_connection`.

    Attributes:
        principal: the owner of the session; "" if it is unknown.
    """

    connection: int
    principal: str = ""


@attrs.frozen
class ClientBytes:
    """A client has sent bytes of its stream."""

    connection: int
    data: bytes


@attrs.frozen
class ClientCharged:
    """The shell has done work for a client that its bytes do not show: it translates for it.

    Nothing is read from the connection until `Output.readable` names it, as after `ClientBytes`.
    """

    connection: int
    price: Price


@attrs.frozen
class ClientGone:
    """A client's stream has ended, from either side."""

    connection: int


@attrs.frozen
class ClientDismissed:
    """A client may not stay, for a reason that only the shell can know.

    Attributes:
        code: see `groupcomm.errors.Code`.
        reason: the sentence for the client.
    """

    connection: int
    code: int
    reason: str


@attrs.frozen
class QuestionAnswered:
    """The answer to a question of `Output.questions`; for a client that has gone it is dropped."""

    connection: int
    answer: bytes


@attrs.frozen(kw_only=True)
class ProgramSettings:
    """The settings for programs, from now on.

    Attributes:
        access: the rules, for all sessions from now on.
        quotas: the quotas of each principal, from now on.
        limits: caps on the sessions that begin from now on.
    """

    access: Access = attrs.field(factory=Access)
    quotas: Quotas = attrs.field(factory=Quotas)
    limits: SessionLimits = attrs.field(factory=SessionLimits)


@attrs.frozen
class MarkStored:
    """The disk holds a mark of `StoreMark`, file and folder synced.

    Attributes:
        mark: the mark.
        took_s: the seconds that the write took, without the time in which the daemon did not read
            this; None if that is unknown.
    """

    mark: int
    took_s: float | None = None


@attrs.frozen
class MarkNotStored:
    """The disk does not hold the mark that it was to store, or it is unknown whether it does."""

    reason: str


@attrs.frozen
class KeysStored:
    """The write of `StoreKeys` is over. If it failed, the operator must act, not the core."""

    keys: KeyRing


@attrs.frozen
class RollStored:
    """The write of `StoreRoll` is over, as with `KeysStored`."""

    roll: Roll


@attrs.frozen
class RosterStored:
    """The disk holds the record of `StoreRoster`, file and folder synced."""

    record: RosterRecord


@attrs.frozen
class RosterNotStored:
    """The disk does not hold the record that it was to store, or it is unknown whether it does."""

    reason: str


@attrs.frozen
class WallClockRead:
    """The wall clock showed this time, in seconds, when the monotonic clock showed another."""

    now: float
    wall: float


@attrs.frozen
class LeaveRequested:
    """The daemon must leave in order: end its sessions, wait until its packets are held, tell
    all."""


@attrs.frozen(kw_only=True)
class DrainRequested:
    """The daemon must stop soon: its programs shall move first; see drain.py.

    Attributes:
        within_s: seconds after which it leaves, whatever programs do; it leaves earlier once no
            program is left. At least 0.
        addresses: addresses of other daemons, for programs of other hosts.
        observer: the user of a session that asks for the progress, and is not waited for; "" for
            none.
    """

    within_s: float
    addresses: tuple[str, ...] = ()
    observer: str = ""


StorageAnswer: TypeAlias = (
    MarkStored | MarkNotStored | KeysStored | RollStored | RosterStored | RosterNotStored
)
"""The inputs that answer the writes of `Output.store`."""

ClientInput: TypeAlias = (
    ClientOpened
    | ClientBytes
    | ClientCharged
    | ClientGone
    | ClientDismissed
    | QuestionAnswered
    | ProgramSettings
)
"""The inputs that concern sessions."""

Input: TypeAlias = (
    ClientInput | StorageAnswer | WallClockRead | PathMeasured | DrainRequested | LeaveRequested
)


@attrs.frozen
class LoadKeys:
    """The files have changed: adopt all of them, or none.

    Attributes:
        keys: the keys of the key file.
        roll: the roll of the identities' file; None without one.
    """

    keys: KeyRing
    roll: Roll | None = None


@attrs.frozen
class PromoteKey:
    """All daemons shall seal with a key."""

    number: int


@attrs.frozen(kw_only=True)
class RetireKey:
    """All daemons shall erase a key.

    Attributes:
        number: the key's number.
        without_missing: also if configured daemons are not in the view; they need the newer key
            before they can come back.
    """

    number: int
    without_missing: bool = False


@attrs.frozen
class Evict:
    """No daemon shall trust the identity of the daemon of this name any more."""

    name: str


@attrs.frozen(kw_only=True)
class ChangeRoster:
    """The cluster shall have other daemons.

    Attributes:
        change: the change.
        forced: also without a majority of the daemons: the others are lost for good.
    """

    change: RosterChange
    forced: bool = False


KeyCommand: TypeAlias = LoadKeys | PromoteKey | RetireKey | Evict
Command: TypeAlias = KeyCommand | ChangeRoster
