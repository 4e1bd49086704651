"""Steps of a change of the roster, and rosters, as bytes.

A step is a daemon's own bundle in the agreed order (engine/roster.py)::

    step u8, flags u8, base 8 bytes, roster 8 bytes, ballot u64

A roster is a MessagePack array, as it can be long: it travels in control messages, which are cut
into parts, and stands in the file of a daemon's state.
"""

import enum
import struct
from collections import Counter
from typing import Annotated, Final

import attrs
import msgspec
from msgspec import Meta

from groupcomm.config.roster import (
    MAX_ADDRESSES,
    MAX_ANCESTORS,
    MAX_INVITATIONS,
    MAX_REMOVED,
    PUBLIC_BYTES,
    Invitation,
    Roster,
    RosterEntry,
)
from groupcomm.config.view import MAX_DAEMONS, check_size
from groupcomm.config.votes import MAX_VOTES, Policy, Share
from groupcomm.errors import BadDatagram, ConfigError, LocalProtocolError

_STEP = struct.Struct("!BB8s8sQ")
_FORCED: Final = 1


class StepKind(enum.IntEnum):
    """The kinds of steps."""

    PROPOSE = 1  # all daemons of the view shall store this roster
    STORED = 2  # the disk of this daemon holds it


@attrs.frozen(kw_only=True)
class RosterStep:
    """One step of a change.

    Attributes:
        kind: the kind of step.
        base: the id of the roster that is changed.
        roster: the id of the roster after the change.
        ballot: with PROPOSE, the counter of the last view in which the proposer has stored this
            roster; 0 if the change is new.
        forced: with PROPOSE, whether it needs no majority.
    """

    kind: StepKind
    base: bytes
    roster: bytes
    ballot: int = 0
    forced: bool = False

    def encode(self) -> bytes:
        """Return the payload of a bundle."""
        flags = _FORCED if self.forced else 0
        return _STEP.pack(self.kind, flags, self.base, self.roster, self.ballot)


def decode_step_untrusted(payload: bytes) -> RosterStep:
    """Decode a whole payload; raise only BadDatagram, whatever the bytes."""
    if len(payload) != _STEP.size:
        raise BadDatagram("short", f"a step of the roster of {len(payload)} bytes")
    kind, flags, base, roster, ballot = _STEP.unpack(payload)
    if kind not in (StepKind.PROPOSE, StepKind.STORED) or flags > _FORCED:
        raise BadDatagram("kind", f"a step of the roster of kind {kind}, flags {flags}")
    return RosterStep(
        kind=StepKind(kind), base=base, roster=roster, ballot=ballot, forced=bool(flags)
    )


_Text = Annotated[str, Meta(min_length=1, max_length=255)]
_Id = Annotated[bytes, Meta(min_length=8, max_length=8)]
_Public = Annotated[bytes, Meta(min_length=PUBLIC_BYTES, max_length=PUBLIC_BYTES)]
_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Votes = Annotated[int, Meta(ge=0, le=MAX_VOTES)]


class _Entry(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    name: _Text
    site: _Text
    addresses: Annotated[tuple[_Text, ...], Meta(max_length=MAX_ADDRESSES)]
    counts: bool


class _Invitation(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    id: _Id
    name: _Text
    site: _Text
    proof: _Public
    expires_s: _Count
    holder: Annotated[bytes, Meta(max_length=PUBLIC_BYTES)]


class _Voting(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The votes of the daemons, in their order, each (votes, held, away); and the policy."""

    shares: Annotated[tuple[tuple[_Votes, _Votes, bool], ...], Meta(max_length=MAX_DAEMONS)]
    orderly: bool
    tie_breaker: Annotated[str, Meta(max_length=255)]
    settled: bool


class _Roster(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Its last items are missing while they are empty, as in rosters of earlier releases."""

    number: _Count
    forced: _Count
    expected: Annotated[int, Meta(ge=1)] | None
    entries: Annotated[tuple[_Entry, ...], Meta(min_length=1, max_length=MAX_DAEMONS)]
    links: Annotated[tuple[tuple[_Text, _Text, _Count], ...], Meta(max_length=4096)]
    removed: Annotated[tuple[_Entry, ...], Meta(max_length=MAX_REMOVED)]
    ancestors: Annotated[tuple[_Id, ...], Meta(max_length=MAX_ANCESTORS)]
    invitations: Annotated[tuple[_Invitation, ...], Meta(max_length=MAX_INVITATIONS)] = ()
    forced_at: Annotated[tuple[_Count, ...], Meta(max_length=MAX_ANCESTORS + 1)] = ()
    voting: _Voting | None = None


_decoder = msgspec.msgpack.Decoder(_Roster)


def encode_roster(roster: Roster) -> bytes:
    """Return a roster as bytes."""
    plain = (
        roster.number,
        roster.forced,
        roster.expected,
        tuple(map(_encoded_entry, roster.entries)),
        roster.links,
        tuple(map(_encoded_entry, roster.removed)),
        roster.ancestors,
    )
    more: list[object] = [
        tuple(_Invitation(*attrs.astuple(each)) for each in roster.invitations),
        roster.forced_at,
        None if roster.is_plain else _encoded_voting(roster),
    ]
    while more and not more[-1]:
        del more[-1]
    return msgspec.msgpack.encode((*plain, *more))


def decode_roster_untrusted(data: bytes) -> Roster:
    """Decode a whole roster; raise only BadDatagram, whatever the bytes.

    Its reason is ``release`` if a roster of a later release has more fields than are known here.
    """
    try:
        found = _decoder.decode(data)
        check_size(Counter(entry.site for entry in found.entries).values())
        voting = found.voting or _Voting((), False, "", False)
        entries = tuple(map(_entry, found.entries))
        return Roster(
            entries=with_shares(entries, voting.shares),
            links=found.links,
            expected=found.expected,
            number=found.number,
            forced=found.forced,
            removed=tuple(map(_entry, found.removed)),
            ancestors=found.ancestors,
            invitations=tuple(
                Invitation(**msgspec.structs.asdict(each)) for each in found.invitations
            ),
            forced_at=found.forced_at,
            policy=Policy(orderly=voting.orderly, tie_breaker=voting.tie_breaker),
            settled=voting.settled,
        )
    except (
        msgspec.MsgspecError,
        UnicodeDecodeError,
        RecursionError,
        ConfigError,
        LocalProtocolError,
    ) as error:
        raise BadDatagram("release" if _is_longer(data) else "roster", str(error)) from None


def _is_longer(data: bytes) -> bool:
    try:
        found = msgspec.msgpack.decode(data, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError):
        return False
    return len(found) > len(_Roster.__struct_fields__)


def _encoded_entry(entry: RosterEntry) -> _Entry:
    return _Entry(entry.name, entry.site, entry.addresses, entry.counts)


def _entry(found: _Entry) -> RosterEntry:
    return RosterEntry(
        name=found.name,
        site=found.site,
        addresses=found.addresses,
        share=Share(held=int(found.counts)),
    )


def _encoded_voting(roster: Roster) -> _Voting:
    policy, shares = roster.policy, tuple(attrs.astuple(each.share) for each in roster.entries)
    return _Voting(shares, policy.orderly, policy.tie_breaker, roster.settled)


def with_shares(
    entries: tuple[RosterEntry, ...], shares: tuple[tuple[int, int, bool], ...]
) -> tuple[RosterEntry, ...]:
    """Return entries with these votes, each (votes, held, away); as they are if there are none.

    Raises:
        ConfigError: they are as many as the entries neither.
    """
    if not shares:
        return entries
    if len(shares) != len(entries):
        raise ConfigError(f"votes of {len(shares)} daemons, and there are {len(entries)}")
    return tuple(
        attrs.evolve(entry, share=Share(votes=votes, held=held, away=away))
        for entry, (votes, held, away) in zip(entries, shares, strict=True)
    )
