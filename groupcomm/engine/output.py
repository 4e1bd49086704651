"""Output of one step of a daemon's core: what its shell has to do, in the order of the fields.

`DaemonCore.step` fills in what may wait for nobody, `DaemonCore.deliver` the rest: so other daemons
have their datagrams before this one looks at what its own programs are to be told.
"""

import enum
from collections.abc import Collection, Sequence
from typing import TypeAlias

import attrs

from groupcomm.config.view import Adoption
from groupcomm.engine.news import News
from groupcomm.security.identity import Roll
from groupcomm.security.keys import KeyRing

Transmission = tuple[str | None, bytes]
"""A sealed datagram and where it goes: a daemon's name, or None for all others of the site."""


@attrs.frozen
class StoreMark:
    """Have the disk hold this mark of view counters; answer `MarkStored` or `MarkNotStored`."""

    mark: int


@attrs.frozen
class StoreKeys:
    """Have the key file hold these keys; answer `KeysStored`."""

    keys: KeyRing


@attrs.frozen
class StoreRoll:
    """Have the identities' file tell who was evicted; answer `RollStored`."""

    roll: Roll


Store: TypeAlias = StoreMark | StoreKeys | StoreRoll


class EndReason(enum.Enum):
    """How a start of a daemon ends."""

    LEFT = enum.auto()  # in order, as it was told to
    CUT_SHORT = enum.auto()  # as it was told to, but not in order: that took too long
    OUTDATED = enum.auto()  # others know of more starts than its disk


@attrs.frozen(kw_only=True)
class CoreOver:
    """A start of a daemon is over.

    Attributes:
        end: how.
        unfinished: what could not be done in time; "" unless it was CUT_SHORT.
        adopt: OUTDATED: what others know of its earlier starts. Start anew with it on disk.
        keys, roll: that count now, for the next start; None if there are none.
    """

    end: EndReason
    unfinished: str = ""
    adopt: Adoption | None = None
    keys: KeyRing | None = None
    roll: Roll | None = None


class Output:
    """What one step of a core asks of its shell.

    Attributes:
        store: writes to begin. Nothing waits for them here: the core itself waits for the answer,
            where it has to, and asks for no second write of a kind before it.
        datagrams: to be sent now.
        rejected: how many datagrams of this step were dropped for what they are.
        dropped: the first of these, each with the reason (`Counters.latest`).
        news: for the log.
        greeted: connections that have said who they are.
        ready: connections for which there is new output: see `DaemonCore.pop_output`.
        ended: connections to be closed, once what there is for them is written.
        readable: connections from which more may be read. After each `ClientBytes` nothing is read
            from the connection until it is named here.
        questions: of connections, about this daemon; answer each with `QuestionAnswered`.
        over: the daemon is over; None while it goes on. It is said once. After LEFT and CUT_SHORT
            clients may still be served for a while.
    """

    __slots__ = (
        "datagrams",
        "dropped",
        "ended",
        "greeted",
        "news",
        "over",
        "questions",
        "readable",
        "ready",
        "rejected",
        "store",
    )

    def __init__(self, datagrams: list[Transmission]) -> None:
        self.store: Sequence[Store] = ()
        self.datagrams = datagrams
        self.rejected = 0
        self.dropped: Sequence[tuple[bytes, str]] = ()
        self.news: Sequence[News] = ()
        self.greeted: Sequence[int] = ()
        self.ready: Collection[int] = ()
        self.ended: Sequence[int] = ()
        self.readable: Sequence[int] = ()
        self.questions: Sequence[tuple[int, str]] = ()
        self.over: CoreOver | None = None
