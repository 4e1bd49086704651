"""Commands of an operator, about keys and identities; `DaemonCore.command` carries one out.

They are no inputs, as each may be refused at once, and its operator is told why.
"""

from typing import TypeAlias

import attrs

from groupcomm.security.identity import Roll
from groupcomm.security.keys import KeyRing


@attrs.frozen
class LoadKeys:
    """The files have changed: take over all of them, or nothing.

    Attributes:
        keys: of the key file.
        roll: of the identities' file; None without one.
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
        number: of the key.
        without_missing: also if configured daemons are not in the view; they need the newer key
            before they can come back.
    """

    number: int
    without_missing: bool = False


@attrs.frozen
class Evict:
    """No daemon shall trust the identity of the daemon of this name any more."""

    name: str


Command: TypeAlias = LoadKeys | PromoteKey | RetireKey | Evict
